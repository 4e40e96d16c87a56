// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

// FiVRK is the certificate profile of the Finnish Population Register Centre, which development uses too.
const FiVRK = classes + "FiVRKCertificateProfileInfoProvider"

// profiles says how the subject of a signing certificate names its member, by the class name that the configuration
// gives for its CA (signature-and-evidence 12). The set is closed.
var profiles = map[string]func(s *subject, caller string) ident.Client{
	classes + "EjbcaCertificateProfileInfoProvider": plain,
	FiVRK: fivrk,
	classes + "IsCertificateProfileInfoProvider":        icelandic,
	classes + "FoCertificateProfileInfoProvider":        faroese,
	classes + "BasicCertificateProfileInfoProvider":     basic,
	classes + "BasicACMECertificateProfileInfoProvider": basicACME,
	classes + "SkKlass3CertificateProfileInfoProvider":  skKlass3,
	classes + "SkEsteIdCertificateProfileInfoProvider":  skEsteID,
}

const classes = "ee.ria.xroad.common.certificateprofile.impl."

// Attributes that name members.
var (
	country          = asn1.ObjectIdentifier{2, 5, 4, 6}
	organisation     = asn1.ObjectIdentifier{2, 5, 4, 10}
	unit             = asn1.ObjectIdentifier{2, 5, 4, 11}
	commonName       = asn1.ObjectIdentifier{2, 5, 4, 3}
	serialNumber     = asn1.ObjectIdentifier{2, 5, 4, 5}
	businessCategory = asn1.ObjectIdentifier{2, 5, 4, 15}
	organisationID   = asn1.ObjectIdentifier{2, 5, 4, 97}
)

// member reads the member that a signing certificate of the CA names. caller is the instance of whoever claims it.
// Causes: incorrect_certificate, for some profiles invalid_certificate or internal_error.
func (a *authority) member(cert *x509.Certificate, caller string) (ident.Client, error) {
	read := profiles[a.Profile]
	if read == nil {
		return ident.Client{}, refuse("internal_error", "the certificate profile %q of CA %q is not known", a.Profile, a.Name)
	}
	s := &subject{cert: cert, cause: "incorrect_certificate"}
	if rest, err := asn1.Unmarshal(cert.RawSubject, &s.names); err != nil || len(rest) > 0 {
		return ident.Client{}, refuse(s.cause, "the subject of certificate %s cannot be read", ocsp.Name(cert))
	}
	member := read(s, caller)
	if s.err == nil && (member.Instance == "" || member.Class == "" || member.Member == "") {
		s.refuse("does not tell all of instance, class and code")
	}
	if s.err != nil {
		return ident.Client{}, s.err
	}
	return member, nil
}

// subject reads the attributes of a subject name, and keeps the first error.
type subject struct {
	cert  *x509.Certificate
	names pkix.RDNSequence
	cause string
	err   error
}

func (s *subject) refuse(format string, args ...any) {
	if s.err == nil {
		s.err = refuse(s.cause, "the subject of certificate %s "+format, append([]any{ocsp.Name(s.cert)}, args...)...)
	}
}

// has returns an attribute, and whether it is there. Repeated ones are refused: others might read the other
// (signature-and-evidence 14.3, attack 16).
func (s *subject) has(attribute asn1.ObjectIdentifier) (value string, found bool) {
	for _, set := range s.names {
		for _, one := range set {
			if !one.Type.Equal(attribute) {
				continue
			}
			if found {
				s.refuse("has attribute %v twice", attribute)
			}
			text, ok := one.Value.(string)
			if !ok {
				s.refuse("has an attribute %v that is no text", attribute)
			}
			value, found = text, true
		}
	}
	return value, found
}

// must returns an attribute that must be there.
func (s *subject) must(attribute asn1.ObjectIdentifier) string {
	value, found := s.has(attribute)
	if !found {
		s.refuse("has no attribute %v", attribute)
	}
	return value
}

func (s *subject) mustBe(attribute asn1.ObjectIdentifier, want string) {
	if value := s.must(attribute); value != want {
		s.refuse("has %q, not %q, as attribute %v", value, want, attribute)
	}
}

func (s *subject) lacks(attributes ...asn1.ObjectIdentifier) bool {
	for _, a := range attributes {
		if _, found := s.has(a); found {
			return false
		}
	}
	return true
}

func plain(s *subject, _ string) ident.Client {
	return ident.Client{Instance: s.must(country), Class: s.must(organisation), Member: s.must(commonName)}
}

func fivrk(s *subject, _ string) ident.Client {
	if s.lacks(serialNumber, unit) {
		return plain(s, "")
	}
	s.mustBe(country, "FI")
	if s.lacks(serialNumber) {
		return units(s)
	}
	s.must(organisation)
	parts := strings.Split(s.must(serialNumber), "/")
	if len(parts) != 3 {
		s.refuse("has a serialNumber that is not instance/serverCode/memberClass")
		return ident.Client{}
	}
	return ident.Client{Instance: parts[0], Class: parts[2], Member: s.must(commonName)}
}

func icelandic(s *subject, _ string) ident.Client {
	if s.lacks(serialNumber, unit) {
		return plain(s, "")
	}
	s.mustBe(country, "IS")
	s.must(serialNumber)
	return units(s)
}

func faroese(s *subject, _ string) ident.Client {
	s.mustBe(country, "FO")
	s.must(serialNumber)
	return units(s)
}

func units(s *subject) ident.Client {
	return ident.Client{Instance: s.must(organisation), Class: s.must(unit), Member: s.must(commonName)}
}

func basic(s *subject, caller string) ident.Client {
	return ident.Client{Instance: caller, Class: s.must(businessCategory), Member: s.must(serialNumber)}
}

func basicACME(s *subject, caller string) ident.Client {
	s.cause = "invalid_certificate"
	return basic(s, caller)
}

func skKlass3(s *subject, caller string) ident.Client {
	s.cause = "invalid_certificate"
	member := ident.Client{Instance: caller}
	if id, found := s.has(organisationID); found {
		member.Class, member.Member = "NEE", id
		for prefix, class := range map[string]string{"NTREE-": "COM", "GO:EE-": "GOV", "NP:EE-": "NGO"} {
			if code, ok := strings.CutPrefix(id, prefix); ok {
				member.Class, member.Member = class, code
			}
		}
		return member
	}
	member.Member = s.must(serialNumber)
	if len(member.Member) != 8 || strings.Trim(member.Member, "0123456789") != "" {
		s.refuse("has a serialNumber that is not eight digits")
		return member
	}
	switch first := member.Member[0]; {
	case first == '0':
		s.cause = "internal_error"
		s.refuse("has a serialNumber that begins with 0")
	case first <= '6':
		member.Class = "COM"
	case first == '7':
		member.Class = "GOV"
	default:
		member.Class = "NGO"
	}
	return member
}

func skEsteID(s *subject, caller string) ident.Client {
	s.cause = "invalid_certificate"
	return ident.Client{Instance: caller, Class: "PERSON", Member: s.must(serialNumber)}
}
