// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
)

func TestProfilesAttack16And38(t *testing.T) {
	const incorrect, invalid = "incorrect_certificate", "invalid_certificate"
	type name = []pkix.AttributeTypeAndValue
	c := func(v string) pkix.AttributeTypeAndValue { return attribute(country, v) }
	o := func(v string) pkix.AttributeTypeAndValue { return attribute(organisation, v) }
	ou := func(v string) pkix.AttributeTypeAndValue { return attribute(unit, v) }
	cn := func(v string) pkix.AttributeTypeAndValue { return attribute(commonName, v) }
	sn := func(v string) pkix.AttributeTypeAndValue { return attribute(serialNumber, v) }
	bc := func(v string) pkix.AttributeTypeAndValue { return attribute(businessCategory, v) }
	id := func(v string) pkix.AttributeTypeAndValue { return attribute(organisationID, v) }

	for _, p := range []struct {
		class   string
		name    string
		subject name
		member  string // or
		cause   string
	}{
		{"Ejbca", "example", name{c("XX"), o("Foo"), cn("bar")}, "XX/Foo/bar", ""},
		{"Ejbca", "units do not matter", name{c("XX"), o("Foo"), ou("a"), ou("b"), cn("bar")}, "XX/Foo/bar", ""},
		{"Ejbca", "no C", name{o("Foo"), cn("bar")}, "", incorrect},
		{"Ejbca", "no O", name{c("XX"), cn("bar")}, "", incorrect},
		{"Ejbca", "no CN", name{c("XX"), o("Foo")}, "", incorrect},
		{"Ejbca", "empty CN", name{c("XX"), o("Foo"), cn("")}, "", incorrect},
		{"Ejbca", "attack 16: two CN", name{c("XX"), o("Foo"), cn("bar"), cn("baz")}, "", incorrect},
		{"Ejbca", "attack 16: two CN alike", name{c("XX"), o("Foo"), cn("bar"), cn("bar")}, "", incorrect},
		{"Ejbca", "attack 16: two C", name{c("XX"), c("YY"), o("Foo"), cn("bar")}, "", incorrect},
		{"Ejbca", "attack 16: case and space are kept", name{c("xx"), o("Foo "), cn(" bar")}, "xx/Foo / bar", ""},

		{"FiVRK", "example", name{sn("DEV/SS1/COM"), cn("4321"), o("Test client"), c("FI")}, "DEV/COM/4321", ""},
		{"FiVRK", "another country", name{sn("DEV/SS1/COM"), cn("4321"), o("Test client"), c("SE")}, "", incorrect},
		{"FiVRK", "country in lower case", name{sn("DEV/SS1/COM"), cn("4321"), o("Test client"), c("fi")}, "", incorrect},
		{"FiVRK", "no O", name{sn("DEV/SS1/COM"), cn("4321"), c("FI")}, "", incorrect},
		{"FiVRK", "two parts", name{sn("DEV/COM"), cn("4321"), o("Test client"), c("FI")}, "", incorrect},
		{"FiVRK", "four parts", name{sn("DEV/SS1/COM/x"), cn("4321"), o("Test client"), c("FI")}, "", incorrect},
		{"FiVRK", "an empty part", name{sn("DEV/SS1/"), cn("4321"), o("Test client"), c("FI")}, "", incorrect},
		{"FiVRK", "empty serialNumber", name{sn(""), cn("4321"), o("Test client"), ou("COM"), c("FI")}, "", incorrect},
		{"FiVRK", "no CN", name{sn("DEV/SS1/COM"), o("Test client"), c("FI")}, "", incorrect},
		{"FiVRK", "attack 16: two serialNumbers", name{sn("DEV/SS1/COM"), sn("DEV/SS1/GOV"), cn("4321"), o("x"), c("FI")}, "", incorrect},
		{"FiVRK", "by unit", name{c("FI"), o("DEV"), ou("COM"), cn("4321")}, "DEV/COM/4321", ""},
		{"FiVRK", "by unit, another country", name{c("XX"), o("DEV"), ou("COM"), cn("4321")}, "", incorrect},
		{"FiVRK", "attack 16: two units", name{c("FI"), o("DEV"), ou("COM"), ou("GOV"), cn("4321")}, "", incorrect},
		{"FiVRK", "with neither", name{c("XX"), o("Foo"), cn("bar")}, "XX/Foo/bar", ""},

		{"Is", "full", name{c("IS"), o("XX"), ou("Foo"), cn("bar"), sn("qux")}, "XX/Foo/bar", ""},
		{"Is", "another country", name{c("FO"), o("XX"), ou("Foo"), cn("bar"), sn("qux")}, "", incorrect},
		{"Is", "no serialNumber", name{c("IS"), o("XX"), ou("Foo"), cn("bar")}, "", incorrect},
		{"Is", "no unit", name{c("IS"), o("XX"), cn("bar"), sn("qux")}, "", incorrect},
		{"Is", "with neither", name{c("XX"), o("Foo"), cn("bar")}, "XX/Foo/bar", ""},

		{"Fo", "example", name{c("FO"), o("XX"), ou("Foo"), cn("bar"), sn("qux")}, "XX/Foo/bar", ""},
		{"Fo", "another country", name{c("IS"), o("XX"), ou("Foo"), cn("bar"), sn("qux")}, "", incorrect},
		{"Fo", "no serialNumber", name{c("FO"), o("XX"), ou("Foo"), cn("bar")}, "", incorrect},
		{"Fo", "with neither", name{c("FO"), o("XX"), cn("bar")}, "", incorrect},

		{"Basic", "full", name{cn("x"), bc("GOV"), sn("1111")}, "CALLER/GOV/1111", ""},
		{"Basic", "no category", name{cn("x"), sn("1111")}, "", incorrect},
		{"Basic", "no serialNumber", name{cn("x"), bc("GOV")}, "", incorrect},
		{"BasicACME", "full", name{cn("x"), bc("GOV"), sn("1111")}, "CALLER/GOV/1111", ""},
		{"BasicACME", "no category", name{cn("x"), sn("1111")}, "", invalid},
		{"BasicACME", "attack 16: two categories", name{bc("GOV"), bc("COM"), sn("1111")}, "", invalid},

		{"SkKlass3", "company", name{sn("12345678")}, "CALLER/COM/12345678", ""},
		{"SkKlass3", "last of the companies", name{sn("62345678")}, "CALLER/COM/62345678", ""},
		{"SkKlass3", "government", name{sn("72345678")}, "CALLER/GOV/72345678", ""},
		{"SkKlass3", "association", name{sn("82345678")}, "CALLER/NGO/82345678", ""},
		{"SkKlass3", "last of the associations", name{sn("92345678")}, "CALLER/NGO/92345678", ""},
		{"SkKlass3", "begins with 0", name{sn("02345678")}, "", "internal_error"},
		{"SkKlass3", "seven digits", name{sn("1234567")}, "", invalid},
		{"SkKlass3", "a letter", name{sn("1234567x")}, "", invalid},
		{"SkKlass3", "digits of another script", name{sn("١٢٣٤")}, "", invalid},
		{"SkKlass3", "nothing", name{cn("x")}, "", invalid},
		{"SkKlass3", "company by identifier", name{id("NTREE-12345678"), sn("9")}, "CALLER/COM/12345678", ""},
		{"SkKlass3", "government by identifier", name{id("GO:EE-12345678")}, "CALLER/GOV/12345678", ""},
		{"SkKlass3", "association by identifier", name{id("NP:EE-12345678")}, "CALLER/NGO/12345678", ""},
		{"SkKlass3", "foreign by identifier", name{id("NTRFI-12345678")}, "CALLER/NEE/NTRFI-12345678", ""},
		{"SkKlass3", "nothing after the prefix", name{id("NTREE-")}, "", invalid},

		{"SkEsteId", "full", name{sn("38001010000")}, "CALLER/PERSON/38001010000", ""},
		{"SkEsteId", "nothing", name{cn("x")}, "", invalid},

		{"com.example.Other", "attack 38: a class that is not known", name{cn("x")}, "", "internal_error"},
	} {
		t.Run(p.class+" "+p.name, func(t *testing.T) {
			cert := issue(t, pkix.Name{ExtraNames: p.subject}, nil, func(c *x509.Certificate) { c.NotAfter = now })
			a := &authority{CA: &CA{Profile: classes + p.class + "CertificateProfileInfoProvider"}}
			member, err := a.member(cert.Certificate, "CALLER")
			check(t, err, p.cause, "")
			if err == nil && member.String() != p.member {
				t.Errorf("the member is %s, want %s", member, p.member)
			}
		})
	}
}

func TestVectorMembers(t *testing.T) {
	a := &authority{CA: &CA{Profile: FiVRK}}
	for name, want := range map[string]string{"04": "CS/GOV/0245437-2", "06": "CS/ORG/2908758-4"} {
		member, err := a.member(vectorCert(t, "testca/issued/"+name), "")
		if err != nil || member.String() != want {
			t.Errorf("%s.pem is of %s, %v; want %s", name, member, err, want)
		}
	}
}
