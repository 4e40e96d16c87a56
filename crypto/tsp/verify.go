// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// Verify proves that one of the authorities saw the data at t.GenTime, and returns the certificate of that authority
// (section 9.3, with the stricter rules). The authorities are those that the signer's own instance approves, and no
// others: one of another instance could date messages as its friends like.
// Causes: malformed_signature, where other data are stamped, and the mlog.… of section 9.3.
func (t *Token) Verify(data []byte, authorities []*x509.Certificate, e Era) (*x509.Certificate, error) {
	if !bytes.Equal(t.imprint.sum(data), t.Sum) {
		return nil, failf(malformed, "%s: it is over other data (hashes do not match)", t)
	}
	return t.authority(authorities, e)
}

// VerifySum is Verify where the data are known by their digest. It must have the method of the token.
func (t *Token) VerifySum(d crypto.Digest, sum []byte, authorities []*x509.Certificate, e Era) (*x509.Certificate, error) {
	if !t.stamps(d, sum) {
		return nil, failf(malformed, "%s: it is over other data (hashes do not match)", t)
	}
	return t.authority(authorities, e)
}

func (t *Token) stamps(d crypto.Digest, sum []byte) bool {
	return d.Known() && d == t.Digest && bytes.Equal(sum, t.Sum)
}

// String names the token in errors.
func (t *Token) String() string { return "the time-stamp of " + stamp(t.GenTime) }

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// authority proves that one of the authorities made the token. Where several fit its signer identifier, each is tried.
func (t *Token) authority(authorities []*x509.Certificate, e Era) (*x509.Certificate, error) {
	if len(authorities) == 0 {
		return nil, failf(noProvider, "%s: no time-stamping authority is approved", t)
	}
	var err error
	for _, c := range authorities {
		if !t.names(c) {
			continue
		}
		failed := t.signedBy(c, e)
		if failed == nil {
			return c, nil
		}
		err = failf(signerFailed, "%s: judging it by the certificate %q (serial %x): %w", t, c.Subject.String(), c.SerialNumber, failed)
	}
	if err == nil {
		err = failf(certificateMissing, "%s: it is not by an approved time-stamping authority, but with %s", t, t.signer())
	}
	return nil, err
}

// names reports whether the signer identifier is that of c.
func (t *Token) names(c *x509.Certificate) bool {
	name, err := asn1.Marshal(issuerAndSerial{asn1.RawValue{FullBytes: c.RawIssuer}, c.SerialNumber})
	if err == nil && bytes.Equal(name, t.Signer) {
		return true
	}
	key, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, Bytes: c.SubjectKeyId})
	return err == nil && len(c.SubjectKeyId) > 0 && bytes.Equal(key, t.Signer)
}

// signer tells a human which certificate the signer identifier means. A long one is not written out: names take a time that
// grows with the square of their attributes.
func (t *Token) signer() string {
	const most = 4 << 10
	if len(t.Signer) > most {
		return fmt.Sprintf("a signer identifier of %d octets", len(t.Signer))
	}
	var id struct {
		Issuer pkix.RDNSequence
		Serial asn1.RawValue
	}
	if _, err := asn1.Unmarshal(t.Signer, &id); err != nil {
		return fmt.Sprintf("the key %.40x", t.Signer)
	}
	return fmt.Sprintf("the certificate of serial number %.20x issued by %.200q", id.Serial.Bytes, id.Issuer.String())
}

// signedBy proves that the token was signed with c, and that c was good for it.
func (t *Token) signedBy(c *x509.Certificate, e Era) error {
	if e != Past && (t.imprint == sha1Method || t.method == sha1Method) {
		return errors.New("it is made with SHA-1")
	}
	if err := strong(c.PublicKey, e); err != nil {
		return err
	}
	if !bytes.Equal(t.method.sum(t.content), t.messageDigest) {
		return errors.New("it says something else than what was signed")
	}
	if err := c.CheckSignature(t.algorithm, t.signed, t.signature); err != nil {
		return err
	}
	for _, id := range t.certs {
		if err := id.is(c); err != nil {
			return err
		}
	}
	return t.wasGood(c)
}

// is tells whether id is that of c. Where it is a SHA-1 hash, that does: the certificate comes from the configuration,
// and another with the same hash would have to be approved too.
func (id *certID) is(c *x509.Certificate) error {
	m, err := methodOf(id.Digest)
	if err != nil {
		return err
	}
	if !bytes.Equal(m.sum(c.Raw), id.Sum) {
		return errors.New("its signing certificate attribute is about another certificate")
	}
	if id.Names.Serial == nil {
		return nil
	}
	const directoryName = 4
	issuer, err := asn1.Marshal([]asn1.RawValue{tagged(directoryName, c.RawIssuer)})
	if err != nil || !bytes.Equal(id.Names.Issuer.FullBytes, issuer) || id.Names.Serial.Cmp(c.SerialNumber) != 0 {
		return errors.New("its signing certificate attribute names another issuer or serial number")
	}
	return nil
}

// wasGood tells whether c was good for time-stamps when the token was made, and when it is said to have been signed.
func (t *Token) wasGood(c *x509.Certificate) error {
	purposes := len(c.ExtKeyUsage) + len(c.UnknownExtKeyUsage)
	if purposes > 0 && !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageTimeStamping) {
		return errors.New("the certificate is not for time-stamping (extended key usage)")
	}
	times := []time.Time{t.GenTime}
	if !t.signingTime.IsZero() {
		times = append(times, t.signingTime)
	}
	for _, at := range times {
		if at.Before(c.NotBefore) || at.After(c.NotAfter) {
			return fmt.Errorf("the certificate is valid from %s to %s, and was not at %s", stamp(c.NotBefore), stamp(c.NotAfter), stamp(at))
		}
	}
	return nil
}
