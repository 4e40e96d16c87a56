// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net/http"
	"time"
)

// maxQuery is the size of the largest request that is answered, in octets.
const maxQuery = 4 << 10

// policy is what our authorities promise: nothing. 2.999 is the arc for examples.
var policy = asn1.ObjectIdentifier{2, 999, 1}

// Values of PKIFailureInfo. (RFC 3161 section 2.4.2)
const (
	badAlgorithm        = 0
	badDataFormat       = 5
	unacceptedPolicy    = 15
	unacceptedExtension = 16
)

// Authority is a time-stamping authority for development, as an http.Handler. It is safe for concurrent use.
type Authority struct {
	Key         stdcrypto.Signer
	Certificate *x509.Certificate // see Respond
	Now         func() time.Time
}

// ServeHTTP answers requests by the protocol of RFC 3161 section 3.4. Serial numbers are random.
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != queryType {
		http.Error(w, "a time-stamping authority answers POST requests of type "+queryType, http.StatusUnsupportedMediaType)
		return
	}
	query, err := readLimited(r.Body, maxQuery)
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	response, err := Respond(query, a.Key, a.Certificate, serial, a.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", replyType)
	w.Write(response)
}

// Respond makes the response to a request, as an authority that has this key, RSA or ECDSA, and certificate. A request
// that is wrong, or wants what we do not have, is answered by a rejection; an error is one of signing. The certificate
// should have time-stamping as its only extended key usage, critical: X-Road does not look at it, other verifiers do.
func Respond(request []byte, key stdcrypto.Signer, cert *x509.Certificate, serial *big.Int, at time.Time) ([]byte, error) {
	var q timeStampReq
	if err := exact(request, &q, ""); err != nil || q.Version != 1 {
		return reject(badDataFormat)
	}
	m, err := methodOf(q.Imprint.Digest)
	switch {
	case err != nil || m == sha1Method:
		return reject(badAlgorithm)
	case len(q.Imprint.Sum) != m.hash.Size():
		return reject(badDataFormat)
	case len(q.Policy) > 0 && !q.Policy.Equal(policy):
		return reject(unacceptedPolicy)
	case len(q.Extensions) > 0:
		return reject(unacceptedExtension)
	}
	token, err := grant(q, key, cert, serial, at)
	if err != nil {
		return nil, fmt.Errorf("making a time-stamp: %w", err)
	}
	return asn1.Marshal(timeStampResp{Token: asn1.RawValue{FullBytes: token}})
}

func reject(failure int) ([]byte, error) {
	bits := asn1.BitString{Bytes: make([]byte, failure/8+1), BitLength: failure + 1}
	bits.Bytes[failure/8] = 0x80 >> (failure % 8)
	return asn1.Marshal(timeStampResp{Status: statusInfo{Status: rejection, Failure: bits}})
}

// grant makes a token. Its certificate hash is SHA-256, its other digests are SHA-512.
func grant(q timeStampReq, key stdcrypto.Signer, cert *x509.Certificate, serial *big.Int, at time.Time) ([]byte, error) {
	info := tstInfo{Version: 1, Policy: policy, Imprint: q.Imprint, Serial: serial, Nonce: q.Nonce}
	var err error
	if info.GenTime.FullBytes, err = asn1.MarshalWithParams(at.UTC().Truncate(time.Second), "generalized"); err != nil {
		return nil, err
	}
	content, err := asn1.Marshal(info)
	if err != nil {
		return nil, err
	}
	signer, err := sign(content, sha512Method, key, cert)
	if err != nil {
		return nil, err
	}
	data := signedData{
		Version: 3,
		Digests: []pkix.AlgorithmIdentifier{signer.Digest},
		Content: encapsulated{tstInfoOID, content},
		Signers: []signerInfo{signer},
	}
	if q.Certificates {
		data.Certificates = tagged(0, cert.Raw)
	}
	return asn1.Marshal(contentInfo{signedDataOID, data})
}

func sign(content []byte, m *method, key stdcrypto.Signer, cert *x509.Certificate) (signerInfo, error) {
	s := signerInfo{Version: 1, Digest: m.identifier()}
	switch key.Public().(type) {
	case *rsa.PublicKey:
		s.Algorithm = pkix.AlgorithmIdentifier{Algorithm: m.rsaID, Parameters: asn1.NullRawValue}
	case *ecdsa.PublicKey:
		s.Algorithm = pkix.AlgorithmIdentifier{Algorithm: m.ecdsaID}
	default:
		return s, fmt.Errorf("a key of type %T cannot; only RSA and ECDSA can", key.Public())
	}
	var err error
	if s.ID.FullBytes, err = asn1.Marshal(issuerAndSerial{asn1.RawValue{FullBytes: cert.RawIssuer}, cert.SerialNumber}); err != nil {
		return s, err
	}
	var attributes []attribute
	for _, a := range []struct {
		id    asn1.ObjectIdentifier
		value any
	}{
		{contentTypeOID, tstInfoOID},
		{messageDigestOID, m.sum(content)},
		{signingCertificateV2OID, signingCertificate{Certs: []certID{{Sum: sha256Method.sum(cert.Raw)}}}},
	} {
		value, err := asn1.Marshal(a.value)
		if err != nil {
			return s, err
		}
		attributes = append(attributes, attribute{a.id, []asn1.RawValue{{FullBytes: value}}})
	}
	signed, err := asn1.MarshalWithParams(attributes, "set")
	if err != nil {
		return s, err
	}
	const tag0 = 0xa0 // in place of that of the SET
	s.Attributes.FullBytes = append([]byte{tag0}, signed[1:]...)
	s.Signature, err = key.Sign(rand.Reader, m.sum(signed), m.hash)
	return s, err
}
