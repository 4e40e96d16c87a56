// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// Limits of what a stranger may send.
const (
	maxToken      = 64 << 10 // octets of a token
	maxAttributes = 32       // signed attributes
)

// Token is a time-stamp token. It is not changed once made.
type Token struct {
	// Raw is the ContentInfo, DER: the form in which tokens are kept.
	Raw []byte
	// GenTime is when the authority saw the stamped data.
	GenTime time.Time
	// Digest and Sum are the imprint, a digest of the stamped data. The method is 0 for SHA-1.
	Digest crypto.Digest
	Sum    []byte
	// Serial and Policy are the authority's own.
	Serial *big.Int
	Policy asn1.ObjectIdentifier
	// Nonce is that of the request, or nil.
	Nonce *big.Int
	// Signer is the SignerIdentifier, DER: issuer and serial number of the authority's certificate, or the identifier of
	// its key.
	Signer []byte

	content       []byte    // the TSTInfo
	imprint       *method   // of Sum
	method        *method   // of messageDigest and signature
	messageDigest []byte    // said to be that of content
	signingTime   time.Time // zero: not told
	certs         []certID  // of the signer, at least one
	signed        []byte    // the attributes, which are what the signature is over
	algorithm     x509.SignatureAlgorithm
	signature     []byte
}

// ParseToken reads a token: a ContentInfo in DER, or in BER with indefinite lengths, as some authorities write it. What
// it says is not proved yet. Causes: malformed_signature, mlog.timestamp_token_signer_info_not_found.
func ParseToken(ber []byte) (*Token, error) {
	if len(ber) > maxToken {
		return nil, failf(malformed, "reading a time-stamp token: it has %d octets; at most %d are read", len(ber), maxToken)
	}
	var info contentInfo
	der, err := read(ber, &info)
	if err != nil {
		return nil, failf(malformed, "reading a time-stamp token: %w", err)
	}
	data := &info.Data
	switch {
	case !info.Type.Equal(signedDataOID) || !data.Content.Type.Equal(tstInfoOID):
		return nil, failf(malformed, "reading a time-stamp token: it is signed data of another kind")
	case len(data.Signers) == 0:
		return nil, failf(signerMissing, "reading a time-stamp token: nobody signed it")
	case len(data.Signers) > 1:
		return nil, failf(malformed, "reading a time-stamp token: %d signed it, not one", len(data.Signers))
	}
	t := &Token{Raw: der, content: data.Content.Octets}
	if err := t.readContent(); err != nil {
		return nil, failf(malformed, "reading what a time-stamp token says: %w", err)
	}
	if err := t.readSigner(&data.Signers[0]); err != nil {
		return nil, failf(malformed, "reading who signed a time-stamp token: %w", err)
	}
	return t, nil
}

func (t *Token) readContent() error {
	var info tstInfo
	err := exact(t.content, &info, "")
	if err != nil {
		return err
	}
	if t.imprint, err = methodOf(info.Imprint.Digest); err != nil {
		return err
	}
	at := info.GenTime
	switch {
	case info.Version != 1:
		return fmt.Errorf("it is of version %d, not 1", info.Version)
	case len(info.Imprint.Sum) != t.imprint.hash.Size():
		return fmt.Errorf("its imprint has %d octets, not %d", len(info.Imprint.Sum), t.imprint.hash.Size())
	case at.Class != asn1.ClassUniversal || at.Tag != asn1.TagGeneralizedTime || !bytes.HasSuffix(at.Bytes, []byte("Z")):
		return errors.New("it tells no time")
	case slices.ContainsFunc(info.Extensions, func(e pkix.Extension) bool { return e.Critical }):
		return errors.New("it has a critical extension, and none is known")
	}
	t.Digest, t.Sum = t.imprint.Digest, info.Imprint.Sum
	t.Serial, t.Policy, t.Nonce = info.Serial, info.Policy, info.Nonce
	_, err = asn1.Unmarshal(at.FullBytes, &t.GenTime)
	return err
}

func (t *Token) readSigner(s *signerInfo) (err error) {
	if t.method, err = methodOf(s.Digest); err != nil {
		return err
	}
	if t.algorithm, err = t.method.signature(s.Algorithm); err != nil {
		return err
	}
	t.Signer, t.signature = s.ID.FullBytes, s.Signature
	// What is signed has the tag of a SET in place of [0]. (RFC 5652 section 5.4)
	const tagSet = 0x31
	t.signed = append([]byte{tagSet}, s.Attributes.FullBytes[1:]...)
	return t.readAttributes()
}

func (t *Token) readAttributes() error {
	var all []attribute
	if err := exact(t.signed, &all, "set"); err != nil {
		return err
	}
	if len(all) > maxAttributes {
		return fmt.Errorf("it has %d signed attributes; at most %d are read", len(all), maxAttributes)
	}
	values := make(map[string][]byte, len(all))
	for _, a := range all {
		id := a.Type.String()
		if values[id] != nil || len(a.Values) != 1 {
			return fmt.Errorf("it has more or less than one value of the signed attribute %s", id)
		}
		values[id] = a.Values[0].FullBytes
	}
	var contentType asn1.ObjectIdentifier
	if err := exact(values[contentTypeOID.String()], &contentType, ""); err != nil || !contentType.Equal(tstInfoOID) {
		return errors.New("it does not say that a time-stamp was signed (content type)")
	}
	if err := exact(values[messageDigestOID.String()], &t.messageDigest, ""); err != nil {
		return fmt.Errorf("reading its message digest: %w", err)
	}
	if v := values[signingTimeOID.String()]; v != nil {
		if _, err := asn1.Unmarshal(v, &t.signingTime); err != nil {
			return fmt.Errorf("reading its signing time: %w", err)
		}
	}
	if err := t.readCertID(values[signingCertificateOID.String()], sha1Method); err != nil {
		return err
	}
	if err := t.readCertID(values[signingCertificateV2OID.String()], sha256Method); err != nil {
		return err
	}
	if len(t.certs) == 0 {
		return errors.New("it does not say with which certificate (no signing certificate attribute)")
	}
	return nil
}

// readCertID reads a signing certificate attribute, if it is there. Its first entry is the signer's certificate.
func (t *Token) readCertID(der []byte, unstated *method) error {
	if der == nil {
		return nil
	}
	var certs signingCertificate
	if err := exact(der, &certs, ""); err != nil {
		return fmt.Errorf("reading its signing certificate attribute: %w", err)
	}
	if len(certs.Certs) == 0 {
		return errors.New("its signing certificate attribute names none")
	}
	first := certs.Certs[0]
	if len(first.Digest.Algorithm) == 0 {
		first.Digest = unstated.identifier()
	} else if unstated == sha1Method {
		return errors.New("its signing certificate attribute states a digest method, which version 1 does not")
	}
	t.certs = append(t.certs, first)
	return nil
}

// with returns the token with a certificate in front of those that it has.
func (t *Token) with(c *x509.Certificate) (*Token, error) {
	var info contentInfo
	if err := exact(t.Raw, &info, ""); err != nil {
		return nil, err
	}
	certs := slices.Clone(c.Raw)
	for rest := info.Data.Certificates.Bytes; len(rest) > 0; {
		var one asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &one); err != nil {
			return nil, err
		}
		if !bytes.Equal(one.FullBytes, c.Raw) {
			certs = append(certs, one.FullBytes...)
		}
	}
	info.Data.Certificates = tagged(0, certs)
	der, err := asn1.Marshal(info)
	if err != nil {
		return nil, err
	}
	return ParseToken(der)
}
