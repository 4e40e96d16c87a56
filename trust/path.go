// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
)

// Limits of what a stranger may show.
const (
	maxExtra = 16 // certificates beside the one that is judged
	maxPath  = 8  // certificates from that one to the anchor

	maxTried       = maxPath  // certificates that are tried as the issuer of another, which takes public-key arithmetic
	maxRSA         = 8192     // bits of their keys: the work grows with the square
	maxCertificate = 16 << 10 // octets of a certificate: honest ones have one or two thousand
)

// modest refuses certificates that it would cost much to read and to tell of.
func modest(certs ...*x509.Certificate) error {
	for _, c := range certs {
		if len(c.Raw) > maxCertificate {
			return refuse(invalidPath, "certificate %s has %d octets; at most %d are read", ocsp.Name(c), len(c.Raw), maxCertificate)
		}
	}
	return nil
}

// era says what was good enough when something was made.
type era struct {
	ahead time.Duration // how far OCSP responses may be dated ahead; 0: as far as they like
	sha1  bool          // SHA-1 signatures and short keys
}

// Messages are judged as they come, and evidence by what was good enough when it was made.
var (
	messages = era{ahead: 5 * time.Minute}
	past     = era{sha1: true}
)

// path returns the certificates from leaf up to the anchor, without it: leaf alone where the anchor issued it, or with
// some of extra between. All are valid at that time; the anchor's own time does not matter (signature-and-evidence 8.1).
// Causes: cannot_create_cert_path, invalid_cert_path.
func (s *instance) path(leaf *x509.Certificate, extra []*x509.Certificate, anchor *x509.Certificate, at time.Time, e era) ([]*x509.Certificate, error) {
	if len(extra) > maxExtra {
		return nil, refuse("cannot_create_cert_path", "%d certificates came with certificate %s; at most %d are looked at", len(extra), ocsp.Name(leaf), maxExtra)
	}
	if err := modest(extra...); err != nil {
		return nil, err
	}
	if err := sound(leaf, at, e); err != nil {
		return nil, err
	}
	if err := mayIssue(anchor); err != nil {
		return nil, err
	}
	// Each certificate is reached once, from the nearest that it issued: more paths to it would not lead anywhere else.
	below := map[*x509.Certificate]*x509.Certificate{leaf: nil}
	var unfit error
	tried := 0
	for open := []*x509.Certificate{leaf}; len(open) > 0; open = open[1:] {
		if s.issued(anchor, open[0], e) {
			var path []*x509.Certificate
			for c := open[0]; c != nil; c = below[c] {
				path = append(path, c)
			}
			slices.Reverse(path)
			if err := lengths(path, anchor); err != nil {
				return nil, err
			}
			return path, nil
		}
		for _, c := range extra {
			if _, reached := below[c]; reached || !bytes.Equal(c.RawSubject, open[0].RawIssuer) {
				continue
			}
			if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
				unfit = refuse(invalidPath, "CA certificate %s has an RSA key of %d bits; at most %d are accepted", ocsp.Name(c), key.N.BitLen(), maxRSA)
				continue
			}
			if tried++; tried > maxTried {
				return nil, refuse("cannot_create_cert_path", "too many of the certificates that came with certificate %s have one name", ocsp.Name(leaf))
			}
			if !s.issued(c, open[0], e) {
				continue
			}
			if err := intermediate(c, at, e); err != nil {
				unfit = err
				continue
			}
			below[c] = open[0]
			open = append(open, c)
		}
	}
	if unfit != nil {
		return nil, unfit
	}
	return nil, refuse("cannot_create_cert_path", "certificate %s names %s as its issuer, but is not signed by that approved CA (serial %x)",
		ocsp.Name(leaf), ocsp.Issuer(leaf), anchor.SerialNumber)
}

// issued reports whether c is signed by the key of issuer and names it.
func (s *instance) issued(issuer, c *x509.Certificate, e era) bool {
	if !bytes.Equal(c.RawIssuer, issuer.RawSubject) || weak(c.SignatureAlgorithm) && !e.sha1 {
		return false
	}
	_, err := s.proved.Get(func() (any, error) {
		return nil, issuer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	}, []byte("certificate"), c.Raw, issuer.Raw)
	return err == nil
}

// weak reports whether a signature is of the past. Weaker ones than SHA-1 crypto/x509 does not verify.
func weak(a x509.SignatureAlgorithm) bool { return a == x509.SHA1WithRSA || a == x509.ECDSAWithSHA1 }

const invalidPath = "invalid_cert_path"

// sound judges what every certificate below the anchor must be.
func sound(c *x509.Certificate, at time.Time, e era) error {
	switch {
	case at.Before(c.NotBefore):
		return refuse(invalidPath, "certificate %s is valid from %s; at %s it is not yet", ocsp.Name(c), stamp(c.NotBefore), stamp(at))
	case at.After(c.NotAfter):
		return refuse(invalidPath, "certificate %s was valid until %s; at %s it has expired", ocsp.Name(c), stamp(c.NotAfter), stamp(at))
	case len(c.UnhandledCriticalExtensions) > 0:
		return refuse(invalidPath, "certificate %s has the critical extension %v, which is not known", ocsp.Name(c), c.UnhandledCriticalExtensions[0])
	case weak(c.SignatureAlgorithm) && !e.sha1:
		return refuse(invalidPath, "certificate %s is signed with SHA-1", ocsp.Name(c))
	case !e.sha1:
		return strong(c)
	}
	return nil
}

// strong refuses keys that are too short (signature-and-evidence 7.5).
func strong(c *x509.Certificate) error {
	const minRSA, minEC = 2048, 256
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		if n := key.N.BitLen(); n < minRSA {
			return refuse(invalidPath, "certificate %s has an RSA key of %d bits; at least %d are needed", ocsp.Name(c), n, minRSA)
		}
		return nil
	case *ecdsa.PublicKey:
		if n := key.Curve.Params().BitSize; n < minEC {
			return refuse(invalidPath, "certificate %s has an EC key of %d bits; at least %d are needed", ocsp.Name(c), n, minEC)
		}
		return nil
	}
	return refuse(invalidPath, "certificate %s has a key of a kind that is not accepted, %T", ocsp.Name(c), c.PublicKey)
}

var intermediateExtensions = []asn1.ObjectIdentifier{
	{2, 5, 29, 15}, // keyUsage
	{2, 5, 29, 19}, // basicConstraints
}

// intermediate judges a CA between the leaf and the anchor. One that wants to be read with care (constraints on names
// or policies) is refused: X-Road's CAs have none.
func intermediate(c *x509.Certificate, at time.Time, e era) error {
	if err := sound(c, at, e); err != nil {
		return err
	}
	for _, extension := range c.Extensions {
		if extension.Critical && !slices.ContainsFunc(intermediateExtensions, extension.Id.Equal) {
			return refuse(invalidPath, "CA certificate %s has the critical extension %v, which is not known", ocsp.Name(c), extension.Id)
		}
	}
	return mayIssue(c)
}

// mayIssue tells whether a certificate is that of a CA.
func mayIssue(c *x509.Certificate) error {
	const first = 1 // version of certificates that have no extensions
	switch {
	case c.Version > first && !(c.BasicConstraintsValid && c.IsCA):
		return refuse(invalidPath, "certificate %s is not that of a CA (basicConstraints)", ocsp.Name(c))
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return refuse(invalidPath, "certificate %s may not sign certificates (keyUsage)", ocsp.Name(c))
	}
	return nil
}

// lengths judges the path lengths that the CAs of a path, leaf first, and its anchor allow below themselves.
func lengths(path []*x509.Certificate, anchor *x509.Certificate) error {
	if len(path) > maxPath {
		return refuse(invalidPath, "the path of certificate %s has %d certificates; at most %d are allowed", ocsp.Name(path[0]), len(path), maxPath)
	}
	between := 0 // CAs passed so far that count: not those of the same name as their issuer
	for _, c := range append(path[1:len(path):len(path)], anchor) {
		if allowed := c.MaxPathLen; c.BasicConstraintsValid && (allowed > 0 || allowed == 0 && c.MaxPathLenZero) && between > allowed {
			return refuse(invalidPath, "CA certificate %s allows %d CAs below itself; the path of certificate %s has %d",
				ocsp.Name(c), allowed, ocsp.Name(path[0]), between)
		}
		if !bytes.Equal(c.RawSubject, c.RawIssuer) {
			between++
		}
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// issuers returns the approved CAs of the name that cert gives as its issuer, those first whose key signed it.
// Where there is none the error has the cause internal_error.
func (s *instance) issuers(cert *x509.Certificate, e era) ([]*authority, error) {
	named := s.authorities[string(cert.RawIssuer)]
	if len(named) == 0 {
		return nil, refuse("internal_error", "no approved CA of instance %s issued certificate %s: its issuer is %s",
			s.p.Instance, ocsp.Name(cert), ocsp.Issuer(cert))
	}
	if len(named) == 1 {
		return named, nil
	}
	var signed, others []*authority
	for _, a := range named {
		if s.issued(a.Certificate, cert, e) {
			signed = append(signed, a)
		} else {
			others = append(others, a)
		}
	}
	return append(signed, others...), nil
}

// Extra implements Store.
func (s *instance) Extra(cert *x509.Certificate) []*x509.Certificate {
	var above []*x509.Certificate
	for c := cert; len(above) < maxPath && !bytes.Equal(c.RawSubject, c.RawIssuer); {
		issuers, err := s.issuers(c, era{sha1: true})
		if err != nil {
			break
		}
		c = issuers[0].Certificate
		above = append(above, c)
	}
	if len(above) == 0 {
		return nil
	}
	return above[:len(above)-1]
}
