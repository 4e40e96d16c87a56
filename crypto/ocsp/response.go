// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"time"
)

// Limits of what a stranger may send.
const (
	maxResponse = 64 << 10 // octets of one response
	maxEnclosed = 8        // certificates inside a response that are looked at
	maxName     = 4 << 10  // octets of the name of a responder
)

// The structures of RFC 6960 section 4.2.1 and 4.1.1.
type (
	ocspResponse struct {
		Status asn1.Enumerated
		Bytes  struct {
			Type     asn1.ObjectIdentifier
			Response []byte
		} `asn1:"explicit,tag:0,optional"`
	}
	basicResponse struct {
		Data         responseData
		Algorithm    pkix.AlgorithmIdentifier
		Signature    asn1.BitString
		Certificates []asn1.RawValue `asn1:"explicit,tag:0,optional"`
	}
	responseData struct {
		Raw        asn1.RawContent
		Version    int `asn1:"optional,default:0,explicit,tag:0"`
		Responder  asn1.RawValue
		ProducedAt time.Time `asn1:"generalized"`
		Responses  []singleResponse
		Extensions []pkix.Extension `asn1:"explicit,tag:1,optional"`
	}
	singleResponse struct {
		ID         certID
		Status     asn1.RawValue
		ThisUpdate time.Time        `asn1:"generalized"`
		NextUpdate time.Time        `asn1:"generalized,explicit,tag:0,optional"`
		Extensions []pkix.Extension `asn1:"explicit,tag:1,optional"`
	}
	certID struct {
		Algorithm pkix.AlgorithmIdentifier
		NameHash  []byte
		KeyHash   []byte
		Serial    *big.Int
	}
	revokedInfo struct {
		At     time.Time       `asn1:"generalized"`
		Reason asn1.Enumerated `asn1:"explicit,tag:0,optional"`
	}
)

var (
	basicOID = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 1, 1}
	sha1OID  = asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26} // the hash of every CertID
	null     = []byte{asn1.TagNull, 0}
)

// response is a parsed response: its first SingleResponse and what proves it.
type response struct {
	basic     basicResponse
	single    singleResponse
	status    status
	algorithm algorithm
	name      []byte // of the responder, DER, or
	key       []byte // SHA-1 of its key
}

type status struct {
	good  bool
	words string
}

type algorithm struct {
	id   asn1.ObjectIdentifier
	x509 x509.SignatureAlgorithm
	hash crypto.Hash
	weak bool
}

// algorithms are the accepted signatures, and those made with SHA-1 before.
var algorithms = []algorithm{
	{id: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, x509: x509.SHA256WithRSA, hash: crypto.SHA256},
	{id: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 12}, x509: x509.SHA384WithRSA, hash: crypto.SHA384},
	{id: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 13}, x509: x509.SHA512WithRSA, hash: crypto.SHA512},
	{id: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}, x509: x509.ECDSAWithSHA256, hash: crypto.SHA256},
	{id: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}, x509: x509.ECDSAWithSHA384, hash: crypto.SHA384},
	{id: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 4}, x509: x509.ECDSAWithSHA512, hash: crypto.SHA512},
	{id: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 5}, x509: x509.SHA1WithRSA, weak: true},
	{id: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 1}, x509: x509.ECDSAWithSHA1, weak: true},
}

func algorithmOf(a x509.SignatureAlgorithm) algorithm {
	for _, known := range algorithms {
		if known.x509 == a {
			return known
		}
	}
	return algorithm{}
}

// parse reads a response of status successful and type basic, and of its SingleResponses the first.
func parse(der []byte) (*response, error) {
	if len(der) > maxResponse {
		return nil, fmt.Errorf("it has %d octets; at most %d are read", len(der), maxResponse)
	}
	var outer ocspResponse
	if err := unmarshal(der, &outer); err != nil {
		return nil, fmt.Errorf("reading its envelope: %w", err)
	}
	if outer.Status != 0 {
		return nil, fmt.Errorf("the responder did not answer: %s", refusalOf(int(outer.Status)))
	}
	if !outer.Bytes.Type.Equal(basicOID) {
		return nil, errors.New("it is not a basic response")
	}
	r := new(response)
	if err := unmarshal(outer.Bytes.Response, &r.basic); err != nil {
		return nil, fmt.Errorf("reading its content: %w", err)
	}
	data := &r.basic.Data
	if data.Version != 0 || len(data.Responses) == 0 {
		return nil, errors.New("it is of another version, or about no certificate")
	}
	r.single = data.Responses[0]
	if critical(data.Extensions) || critical(r.single.Extensions) {
		return nil, errors.New("it has a critical extension that is not known")
	}
	if err := r.readStatus(r.single.Status); err != nil {
		return nil, err
	}
	if err := r.readResponder(data.Responder); err != nil {
		return nil, err
	}
	for _, known := range algorithms {
		if known.id.Equal(r.basic.Algorithm.Algorithm) {
			r.algorithm = known
			return r, nil
		}
	}
	return nil, fmt.Errorf("its signature algorithm %v is not accepted", r.basic.Algorithm.Algorithm)
}

// unmarshal accepts only what asn1.Marshal would write: encoding/asn1 itself overlooks some slack in lengths.
func unmarshal(der []byte, into any) error {
	if _, err := asn1.Unmarshal(der, into); err != nil {
		return err
	}
	again, err := asn1.Marshal(reflect.ValueOf(into).Elem().Interface())
	if err == nil && !bytes.Equal(again, der) {
		err = errors.New("it is not exact DER")
	}
	return err
}

func critical(extensions []pkix.Extension) bool {
	for _, e := range extensions {
		if e.Critical {
			return true
		}
	}
	return false
}

// readStatus reads the CHOICE good [0] NULL, revoked [1] RevokedInfo, unknown [2] NULL, all implicitly tagged.
func (r *response) readStatus(v asn1.RawValue) error {
	if v.Class != asn1.ClassContextSpecific {
		return errors.New("it tells no status")
	}
	switch {
	case v.Tag == 0 && len(v.Bytes) == 0 && !v.IsCompound:
		r.status = status{good: true}
	case v.Tag == 1 && v.IsCompound:
		var info revokedInfo
		if _, err := asn1.UnmarshalWithParams(v.FullBytes, &info, "tag:1"); err != nil {
			return fmt.Errorf("reading since when the certificate is revoked: %w", err)
		}
		r.status = status{words: "the certificate is revoked since " + stamp(info.At)}
	case v.Tag == 2:
		r.status = status{words: "the responder does not know the certificate (status unknown)"}
	default:
		return errors.New("it tells no status")
	}
	return nil
}

// readResponder reads the CHOICE byName [1] Name, byKey [2] OCTET STRING, both explicitly tagged.
func (r *response) readResponder(v asn1.RawValue) error {
	switch {
	case v.Class == asn1.ClassContextSpecific && v.Tag == 1 && v.IsCompound:
		if len(v.Bytes) > maxName {
			return fmt.Errorf("the name of its responder has %d octets; at most %d are read", len(v.Bytes), maxName)
		}
		r.name = v.Bytes
	case v.Class == asn1.ClassContextSpecific && v.Tag == 2 && v.IsCompound:
		if err := unmarshal(v.Bytes, &r.key); err != nil || len(r.key) != sha1.Size {
			return errors.New("the key of its responder is not a SHA-1 hash")
		}
	default:
		return errors.New("it names no responder")
	}
	return nil
}

// by reports whether the response names c as its responder.
func (r *response) by(c *x509.Certificate) bool {
	if r.key != nil {
		sum := keyHash(c)
		return sum != nil && bytes.Equal(r.key, sum)
	}
	return bytes.Equal(r.name, c.RawSubject) || sameAttributes(r.name, c.RawSubject)
}

// sameAttributes compares names without regard to order and kinds of strings, for some responders turn their name
// around. It only chooses whose key the signature is checked with.
func sameAttributes(a, b []byte) bool {
	attributes := func(der []byte) (all []string) {
		var names pkix.RDNSequence
		if _, err := asn1.Unmarshal(der, &names); err != nil {
			return nil
		}
		for _, set := range names {
			for _, one := range set {
				all = append(all, fmt.Sprintf("%v=%v", one.Type, one.Value))
			}
		}
		slices.Sort(all)
		return all
	}
	left := attributes(a)
	return left != nil && slices.Equal(left, attributes(b))
}

func (r *response) signedBy(c *x509.Certificate) error {
	err := c.CheckSignature(r.algorithm.x509, r.basic.Data.Raw, r.basic.Signature.RightAlign())
	if err != nil {
		return fmt.Errorf("its signature is not by its responder %s: %w", Name(c), err)
	}
	return nil
}

// enclosed returns those of the first maxEnclosed certificates inside the response that can be read.
func (r *response) enclosed() []*x509.Certificate {
	var certs []*x509.Certificate
	for _, raw := range r.basic.Certificates[:min(len(r.basic.Certificates), maxEnclosed)] {
		if c, err := x509.ParseCertificate(raw.FullBytes); err == nil {
			certs = append(certs, c)
		}
	}
	return certs
}

// idOf names cert as X-Road does: with SHA-1 over the issuer's name and key.
func idOf(cert, issuer *x509.Certificate) certID {
	name := sha1.Sum(issuer.RawSubject)
	return certID{
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: sha1OID, Parameters: asn1.RawValue{FullBytes: null}},
		NameHash:  name[:],
		KeyHash:   keyHash(issuer),
		Serial:    cert.SerialNumber,
	}
}

// equal compares whole IDs. The parameters of SHA-1 may be NULL or absent.
func (id certID) equal(want certID) bool {
	parameters := id.Algorithm.Parameters.FullBytes
	return id.Algorithm.Algorithm.Equal(want.Algorithm.Algorithm) &&
		(len(parameters) == 0 || bytes.Equal(parameters, null)) &&
		bytes.Equal(id.NameHash, want.NameHash) &&
		len(want.KeyHash) > 0 && bytes.Equal(id.KeyHash, want.KeyHash) &&
		id.Serial != nil && want.Serial != nil && id.Serial.Cmp(want.Serial) == 0
}

// keyHash is the SHA-1 of a certificate's public key bits, without their tag, length and unused bits.
func keyHash(c *x509.Certificate) []byte {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if err := unmarshal(c.RawSubjectPublicKeyInfo, &info); err != nil {
		return nil
	}
	sum := sha1.Sum(info.Key.RightAlign())
	return sum[:]
}

// refusalOf names an OCSPResponseStatus other than successful.
func refusalOf(code int) string {
	names := map[int]string{1: "malformedRequest", 2: "internalError", 3: "tryLater", 5: "sigRequired", 6: "unauthorized"}
	if name := names[code]; name != "" {
		return name
	}
	return fmt.Sprintf("status %d", code)
}

// Respond makes a response of status good, or revoked since that time if it is not zero, signed by the responder.
// nextUpdate may be zero. The responder's certificate is enclosed unless it is the issuer.
func Respond(cert, issuer, responder *x509.Certificate, key crypto.Signer, thisUpdate, nextUpdate, revoked time.Time) ([]byte, error) {
	said := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0}
	if !revoked.IsZero() {
		at, err := asn1.MarshalWithParams(revoked.UTC().Truncate(time.Second), "generalized")
		if err != nil {
			return nil, fmt.Errorf("writing since when a certificate is revoked: %w", err)
		}
		said = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, IsCompound: true, Bytes: at}
	}
	return respond(idOf(cert, issuer), said, issuer, responder, key, thisUpdate, nextUpdate)
}

func respond(id certID, said asn1.RawValue, issuer, responder *x509.Certificate, key crypto.Signer, thisUpdate, nextUpdate time.Time) ([]byte, error) {
	a, err := algorithmFor(key.Public())
	if err != nil {
		return nil, err
	}
	single := singleResponse{ID: id, Status: said, ThisUpdate: thisUpdate.UTC().Truncate(time.Second)}
	if !nextUpdate.IsZero() {
		single.NextUpdate = nextUpdate.UTC().Truncate(time.Second)
	}
	data, err := asn1.Marshal(responseData{
		Responder:  asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, IsCompound: true, Bytes: responder.RawSubject},
		ProducedAt: single.ThisUpdate,
		Responses:  []singleResponse{single},
	})
	if err != nil {
		return nil, fmt.Errorf("writing an OCSP response: %w", err)
	}
	h := a.hash.New()
	h.Write(data)
	signature, err := key.Sign(rand.Reader, h.Sum(nil), a.hash)
	if err != nil {
		return nil, fmt.Errorf("signing an OCSP response: %w", err)
	}
	basic := basicResponse{
		Data:      responseData{Raw: data},
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: a.id},
		Signature: asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	}
	if _, isRSA := key.Public().(*rsa.PublicKey); isRSA {
		basic.Algorithm.Parameters = asn1.NullRawValue
	}
	if !responder.Equal(issuer) {
		basic.Certificates = []asn1.RawValue{{FullBytes: responder.Raw}}
	}
	var outer ocspResponse
	outer.Bytes.Type = basicOID
	if outer.Bytes.Response, err = asn1.Marshal(basic); err != nil {
		return nil, fmt.Errorf("writing an OCSP response: %w", err)
	}
	return asn1.Marshal(outer)
}

func algorithmFor(key crypto.PublicKey) (algorithm, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return algorithmOf(x509.SHA256WithRSA), nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return algorithmOf(x509.ECDSAWithSHA256), nil
		case elliptic.P384():
			return algorithmOf(x509.ECDSAWithSHA384), nil
		}
	}
	return algorithm{}, fmt.Errorf("signing an OCSP response with a key of type %T: only RSA, P-256 and P-384 can", key)
}
