// SPDX-License-Identifier: Apache-2.0

// Package ocsp makes, fetches and judges OCSP responses the way X-Road does. (signature-and-evidence section 8)
package ocsp

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"
)

// Policy says which responses are acceptable (section 8.3).
type Policy struct {
	Responders     []*x509.Certificate // configured for the issuer
	Freshness      time.Duration
	SkipNextUpdate bool
	Ahead          time.Duration // how far thisUpdate may be after the time of judgement; 0: no check (containers)
	SHA1           bool          // accept SHA-1 signatures: for evidence of the past, never for messages
}

// Verdict is what a response says about one certificate, given by a responder who may say so. It is not changed once made.
type Verdict struct {
	Responder  *x509.Certificate
	ProducedAt time.Time // informative: how old the response is, ThisUpdate tells
	ThisUpdate time.Time
	NextUpdate time.Time // zero: none

	status status
	about  *x509.Certificate
}

// For returns the first response that is about cert (section 8.2), or nil.
func For(responses [][]byte, cert, issuer *x509.Certificate) []byte {
	want := idOf(cert, issuer)
	for _, der := range responses {
		if r, err := parse(der); err == nil && r.single.ID.equal(want) {
			return der
		}
	}
	return nil
}

// Times tells, without asking who signed it, when a response was true and when the next one is due; zero: it does not say.
func Times(response []byte) (thisUpdate, nextUpdate time.Time, err error) {
	r, err := parse(response)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("reading an OCSP response: %w", err)
	}
	return r.single.ThisUpdate, r.single.NextUpdate, nil
}

// Verify judges one response for cert at that time. Causes: incorrect_validation_info, cert_validation.
func Verify(response []byte, cert, issuer *x509.Certificate, p Policy, at time.Time) (*Verdict, error) {
	v, err := Authenticate(response, cert, issuer, p)
	if err != nil {
		return nil, err
	}
	return v, v.Judge(p, at)
}

// Authenticate does the part of Verify that no time changes (section 8.3 steps 1 to 4): the response is about cert, and
// its signature is by a responder of the issuer. The verdict still needs to be judged. Of the policy it reads Responders
// and SHA1 alone. Cause: incorrect_validation_info.
func Authenticate(response []byte, cert, issuer *x509.Certificate, p Policy) (*Verdict, error) {
	r, err := parse(response)
	if err != nil {
		return nil, refuse(incorrect, cert, err)
	}
	if !r.single.ID.equal(idOf(cert, issuer)) {
		return nil, refuse(incorrect, cert, errors.New("it is about another certificate"))
	}
	responder, err := r.responder(issuer, p)
	if err != nil {
		return nil, refuse(incorrect, cert, err)
	}
	return &Verdict{
		Responder:  responder,
		ProducedAt: r.basic.Data.ProducedAt,
		ThisUpdate: r.single.ThisUpdate,
		NextUpdate: r.single.NextUpdate,
		status:     r.status,
		about:      cert,
	}, nil
}

// Judge does the rest of Verify at that time (section 8.3 steps 5 to 7). Causes: incorrect_validation_info, cert_validation.
func (v *Verdict) Judge(p Policy, at time.Time) error {
	if age := at.Sub(v.ThisUpdate); age > p.Freshness {
		return refuse(incorrect, v.about, fmt.Errorf("it is %v old, of %s, and at %s may be at most %v old",
			age.Round(time.Millisecond), stamp(v.ThisUpdate), stamp(at), p.Freshness))
	}
	if ahead := v.ThisUpdate.Sub(at); p.Ahead > 0 && ahead > p.Ahead {
		return refuse(incorrect, v.about, fmt.Errorf("it is dated %v ahead of the clock, %s, and at %s may be at most %v ahead",
			ahead.Round(time.Millisecond), stamp(v.ThisUpdate), stamp(at), p.Ahead))
	}
	if !p.SkipNextUpdate && !v.NextUpdate.IsZero() && v.NextUpdate.Before(at) {
		return refuse(incorrect, v.about, fmt.Errorf("its next update was due %v ago, at %s; it is %s now",
			at.Sub(v.NextUpdate).Round(time.Millisecond), stamp(v.NextUpdate), stamp(at)))
	}
	if !v.status.good {
		return refuse("cert_validation", v.about, errors.New(v.status.words))
	}
	return nil
}

// responder finds who signed the response, and checks that it may (section 8.3 steps 2 to 4). Where several candidates
// have the name or the key that the response tells, each is tried. Approved CAs other than the issuer are no candidates
// of their own: only as delegates of the issuer could they answer, and a delegate's certificate comes with the response.
func (r *response) responder(issuer *x509.Certificate, p Policy) (*x509.Certificate, error) {
	if r.algorithm.weak && !p.SHA1 {
		return nil, errors.New("its signature is made with SHA-1")
	}
	err := errors.New("its responder is not known: neither configured for the issuer, nor the issuer, nor enclosed")
	for _, c := range p.Responders {
		if r.by(c) {
			if err = r.signedBy(c); err == nil {
				return c, nil
			}
		}
	}
	if r.by(issuer) {
		if err = r.signedBy(issuer); err == nil {
			return issuer, nil
		}
	}
	for _, c := range r.enclosed() {
		if r.by(c) {
			if err = r.delegated(c, issuer, p); err == nil {
				err = r.signedBy(c)
			}
			if err == nil {
				return c, nil
			}
		}
	}
	return nil, err
}

// delegated tells whether the issuer lets c answer in its name. c is judged at the time that it claims for its answer,
// which Judge keeps within the freshness.
func (r *response) delegated(c, issuer *x509.Certificate, p Policy) error {
	switch err := signedBy(c, issuer, p.SHA1); {
	case err != nil:
		return fmt.Errorf("its responder %s is neither configured for the issuer nor authorised by it: %w", Name(c), err)
	case !hasUsage(c, x509.ExtKeyUsageOCSPSigning):
		return fmt.Errorf("its responder %s may not sign OCSP responses (extended key usage)", Name(c))
	case len(c.UnhandledCriticalExtensions) > 0:
		return fmt.Errorf("its responder %s has a critical extension that is not known", Name(c))
	case r.single.ThisUpdate.Before(c.NotBefore) || r.single.ThisUpdate.After(c.NotAfter):
		return fmt.Errorf("its responder %s was not valid at %s", Name(c), stamp(r.single.ThisUpdate))
	}
	return nil
}

func signedBy(c, issuer *x509.Certificate, sha1 bool) error {
	if !bytes.Equal(c.RawIssuer, issuer.RawSubject) {
		return errors.New("another issuer made its certificate")
	}
	if !sha1 && (c.SignatureAlgorithm == x509.SHA1WithRSA || c.SignatureAlgorithm == x509.ECDSAWithSHA1) {
		return errors.New("its certificate is signed with SHA-1")
	}
	return issuer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
}

func hasUsage(c *x509.Certificate, usage x509.ExtKeyUsage) bool {
	for _, u := range c.ExtKeyUsage {
		if u == usage {
			return true
		}
	}
	return false
}

// Name is how errors name a certificate: by subject and serial number. Both are cut, for they may be a stranger's.
func Name(c *x509.Certificate) string {
	const longest = 20 // octets of a serial number
	serial := c.SerialNumber.Bytes()
	more := ""
	if len(serial) > longest {
		serial, more = serial[:longest], "…"
	}
	return fmt.Sprintf("%q (serial %x%s)", words(c.RawSubject, c.Subject), serial, more)
}

// Issuer is how errors name the issuer of a certificate.
func Issuer(c *x509.Certificate) string { return fmt.Sprintf("%q", words(c.RawIssuer, c.Issuer)) }

// words writes a name, cut. To write out a name of very many attributes would take a time that grows with their square.
func words(der []byte, name pkix.Name) string {
	const most = 200
	if len(der) > maxName {
		return fmt.Sprintf("a name of %d octets", len(der))
	}
	text := name.String()
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

const incorrect = "incorrect_validation_info"

// refusal is an error with X-Road's cause.
type refusal struct {
	cause string
	cert  *x509.Certificate
	err   error
}

func refuse(cause string, cert *x509.Certificate, err error) error {
	return &refusal{cause, cert, err}
}

func (r *refusal) Error() string {
	return fmt.Sprintf("OCSP response for certificate %s: %v", Name(r.cert), r.err)
}
func (r *refusal) Unwrap() error { return r.err }
func (r *refusal) Cause() string { return r.cause }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
