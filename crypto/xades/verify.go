// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"crypto/x509"
	"errors"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// covers resolves the references and checks that they cover exactly the parts: each by name, or all through the hash chain
// that came along (section 7.5 rules 3 and 4). It computes nothing.
func (d *document) covers(sig *crypto.Signature, parts []crypto.Part) (crypto.Form, error) {
	unseen := make(map[string]*crypto.Part, len(parts))
	for i := range parts {
		unseen[parts[i].Name] = &parts[i]
	}
	properties, chains, data := 0, 0, 0
	for i := range d.references {
		ref := &d.references[i]
		part := unseen[ref.uri]
		switch {
		case d.propertiesID != "" && ref.uri == "#"+d.propertiesID:
			properties++
			if ref.typ != propertiesType {
				return 0, failf(malformed, "the reference to the signed properties has type %.128q", ref.typ)
			}
			continue
		case ref.uri == crypto.HashChainResult:
			chains++
		case part != nil:
			data++
			delete(unseen, ref.uri)
			if ref.digest != part.Digest {
				return 0, failf(malformed, "the digest of %s is %s, not %s", ref.uri, ref.digest, part.Digest)
			}
			ref.part = part
		default:
			return 0, failf(malformed, "reference to %.128q, which is no part of the message or was referenced before", ref.uri)
		}
		if ref.transform != nil || ref.typ != "" {
			return 0, failf(malformed, "the reference to %s has a transform or a type", ref.uri)
		}
	}
	switch {
	case properties != 1:
		return 0, failf(malformed, "%d references to the signed properties", properties)
	case chains == 0 && data == len(parts):
		if len(sig.HashChainResult) > 0 || len(sig.HashChain) > 0 {
			return 0, failf(malformed, "a hash chain came along that the signature does not reference")
		}
		return crypto.Direct, nil
	case chains == 1 && data == 0:
		if len(sig.HashChainResult) == 0 || len(sig.HashChain) == 0 {
			return 0, failf(malformed, "the hash chain that the signature references did not come along")
		}
		return crypto.Chain, nil
	default:
		return 0, failf(malformed, "the signature references %d of %d parts and %d hash chain results", data, len(parts), chains)
	}
}

// verify checks everything but what the references mean, which covers has found: certificate, value and digests. sum returns
// the digest of the part that a reference names.
func (v *Verifier) verify(d *document, form crypto.Form, hashChainResult []byte, sum func(*reference) ([]byte, error)) (*Verified, error) {
	cert, err := v.signer(d.certificate)
	if err != nil {
		return nil, err
	}
	if err := v.verifyValue(d, cert); err != nil {
		return nil, err
	}
	if err := d.verifyReferences(hashChainResult, sum); err != nil {
		return nil, err
	}
	if err := d.verifySigner(cert); err != nil {
		return nil, err
	}
	extra, err := d.verifyExtra()
	if err != nil {
		return nil, err
	}
	return &Verified{cert, extra, d.ocsp, d.signingTime(), form}, nil
}

// maxKnown is how many octets a certificate may have to be remembered. It bounds what strangers can fill.
const maxKnown = 8 << 10

// signer returns the certificate of the signature, if such a certificate may sign (section 7.2 step 4).
func (v *Verifier) signer(der []byte) (*x509.Certificate, error) {
	if len(der) > maxKnown {
		return fitToSign(der)
	}
	cert, err := v.certificates.Get(func() (any, error) { return fitToSign(der) }, der)
	if err != nil {
		return nil, err
	}
	return cert.(*x509.Certificate), nil
}

// fitToSign reads a certificate and judges what it says of itself.
func fitToSign(der []byte) (*x509.Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, failf(malformed, "reading the signing certificate: %w", err)
	}
	if err := checkKey(cert.PublicKey); err != nil {
		return nil, &Error{malformed, err}
	}
	if err := checkUsage(cert); errors.Is(err, errNoKeyUsage) {
		return nil, &Error{internalError, err}
	} else if err != nil {
		return nil, &Error{malformed, err}
	}
	return cert, nil
}

// verifyValue verifies the signature value over the canonical SignedInfo, which names the method.
func (v *Verifier) verifyValue(d *document, cert *x509.Certificate) error {
	sum, err := canonicalDigest(d.signedInfo, &d.form, d.method.digest)
	if err != nil {
		return &Error{malformed, err}
	}
	_, err = v.values.Get(func() (any, error) {
		return nil, d.method.verify(cert.PublicKey, sum, d.value)
	}, d.value, sum, cert.Raw)
	if err != nil {
		return &Error{invalidSignature, err}
	}
	return nil
}

// verifyReferences compares the digests, in document order. The references have passed covers.
func (d *document) verifyReferences(hashChainResult []byte, partSum func(*reference) ([]byte, error)) error {
	for i := range d.references {
		ref := &d.references[i]
		var sum []byte
		var err error
		switch {
		case ref.part != nil:
			sum, err = partSum(ref)
		case ref.uri == crypto.HashChainResult:
			sum = ref.digest.Sum(hashChainResult)
		default:
			if sum, err = canonicalDigest(d.properties, ref.transform, ref.digest); err != nil {
				err = &Error{malformed, err}
			}
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(sum, ref.sum) {
			return failf(invalidSignature, "the digest of %.128q is wrong", ref.uri)
		}
	}
	return nil
}

// verifySigner checks that the signed properties mean the certificate that verified the signature (section 7.5 rule 6).
func (d *document) verifySigner(cert *x509.Certificate) error {
	for _, c := range d.signedCerts {
		if !bytes.Equal(c.digest.Sum(cert.Raw), c.sum) {
			return failf(malformed, "the signed properties are of another certificate")
		}
	}
	return nil
}

// verifyExtra checks the certificates that came along against their references, and reads them.
func (d *document) verifyExtra() ([]*x509.Certificate, error) {
	var extra []*x509.Certificate
	for _, x := range d.extra {
		if !bytes.Equal(x.ref.digest.Sum(x.der), x.ref.sum) {
			return nil, failf(malformed, "the digest of the certificate %.64q is wrong", x.id)
		}
		cert, err := x509.ParseCertificate(x.der)
		if err != nil {
			return nil, failf(malformed, "reading the certificate %.64q: %w", x.id, err)
		}
		extra = append(extra, cert)
	}
	return extra, nil
}

// signingTime reads what the signer says, of which nothing depends.
func (d *document) signingTime() time.Time {
	t, err := time.Parse(time.RFC3339Nano, d.time)
	if err != nil {
		return time.Time{}
	}
	return t
}
