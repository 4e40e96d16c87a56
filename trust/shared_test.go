// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// document writes shared parameters; each replacement is old, new.
func document(cert, hash string, replace ...string) string {
	doc := strings.NewReplacer("CERT", cert, "HASH", hash).Replace(`<?xml version="1.0" encoding="UTF-8"?>
<c:conf xmlns:c="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers">
  <instanceIdentifier>DEV</instanceIdentifier>
  <source><address>cs</address></source>
  <approvedCA>
    <name>CA</name>
    <authenticationOnly>true</authenticationOnly>
    <topCA>
      <cert>CERT</cert>
      <ocsp><url> http://ca.example/ocsp </url><cert>CERT</cert><costType>FREE</costType></ocsp>
      <ocsp><url>http://ca.example/other</url></ocsp>
    </topCA>
    <intermediateCA><cert>CERT</cert></intermediateCA>
    <certificateProfileInfo>ee.ria.xroad.common.certificateprofile.impl.FiVRKCertificateProfileInfoProvider</certificateProfileInfo>
    <defaultCsrFormat>PEM</defaultCsrFormat>
  </approvedCA>
  <approvedTSA><name>TSA</name><url>http://tsa.example/</url><cert>CERT</cert><costType>PAID</costType></approvedTSA>
  <approvedTSA><name>Other</name><url>file:///etc/passwd</url><cert>CERT</cert></approvedTSA>
  <member id="m1">
    <memberClass><code>GOV</code><description/></memberClass>
    <memberCode>1111</memberCode>
    <name>Väylä &amp; Oy</name>
    <subsystem id="s1"><subsystemCode>app</subsystemCode><subsystemName>App</subsystemName></subsystem>
    <subsystem id="s2"><subsystemCode>db</subsystemCode></subsystem>
  </member>
  <securityServer>
    <owner>m1</owner>
    <serverCode>ss1</serverCode>
    <address>127.0.0.1:6500</address>
    <authCertHash>HASH</authCertHash>
    <client>s1</client>
    <client>s2</client>
    <inMaintenanceMode><message>closed</message></inMaintenanceMode>
  </securityServer>
  <securityServer><owner>m1</owner><serverCode>ss2</serverCode><inMaintenanceMode/></securityServer>
  <globalGroup>
    <groupCode>all</groupCode>
    <description>All</description>
    <groupMember id:objectType="SUBSYSTEM"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>1111</id:memberCode><id:subsystemCode>app</id:subsystemCode></groupMember>
    <groupMember id:objectType="MEMBER"><id:xRoadInstance>EE</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>9</id:memberCode></groupMember>
  </globalGroup>
  <globalSettings><memberClass><code>GOV</code></memberClass><ocspFreshnessSeconds>3600</ocspFreshnessSeconds></globalSettings>
</c:conf>
`)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(doc, replace[i]) {
			panic("the document does not have " + replace[i])
		}
		doc = strings.Replace(doc, replace[i], replace[i+1], 1)
	}
	return doc
}

func TestParseShared(t *testing.T) {
	ca := issue(t, named("CA"), nil, certifying)
	der := base64.StdEncoding.EncodeToString(ca.Raw)
	lines := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))
	lines = lines[:76] + "\n      " + lines[76:]
	sum := sha256.Sum256([]byte("a certificate"))
	hash := base64.StdEncoding.EncodeToString(sum[:])
	sha1 := base64.StdEncoding.EncodeToString(make([]byte, 20))
	key := base64.StdEncoding.EncodeToString([]byte("-----BEGIN X-----\n-----END X-----\n"))

	for name, cert := range map[string]string{"DER": der, "PEM text": lines} {
		p, err := ParseShared([]byte(document(cert, hash)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := p.CAs[0]
		if p.Instance != "DEV" || p.Freshness != time.Hour || len(p.CAs) != 1 || c.Name != "CA" || !c.AuthenticationOnly || c.Profile != FiVRK ||
			len(c.Authorities) != 2 || !c.Authorities[1].Certificate.Equal(ca.Certificate) || len(c.Authorities[0].Responders) != 2 ||
			c.Authorities[0].Responders[0].URL != "http://ca.example/ocsp" || c.Authorities[0].Responders[1].Certificate != nil {
			t.Errorf("%s: the CA is %+v", name, c)
		}
		if t1, t2 := p.TSAs[0], p.TSAs[1]; len(p.TSAs) != 2 || t1.Name != "TSA" || t1.URL != "http://tsa.example/" || !t1.Certificate.Equal(ca.Certificate) ||
			t2.Name != "Other" || t2.URL != "" || !t2.Certificate.Equal(ca.Certificate) {
			t.Errorf("%s: the time-stamping authorities are %+v", name, p.TSAs)
		}
		db := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "db"}
		if got := fmt.Sprint(p.Members); got != fmt.Sprint([]Member{{alice, "Väylä & Oy", ""}, {app, "Väylä & Oy", "App"}, {db, "Väylä & Oy", ""}}) {
			t.Errorf("%s: the members are %s", name, got)
		}
		if s := p.Servers[0]; len(p.Servers) != 2 || s.ID != ss1 || s.Address != "127.0.0.1:6500" || s.AuthCertHashes[0] != sum ||
			fmt.Sprint(s.Clients) != fmt.Sprint([]ident.Client{app, db}) || *s.Maintenance != "closed" || *p.Servers[1].Maintenance != "" {
			t.Errorf("%s: the servers are %+v", name, p.Servers)
		}
		if got := fmt.Sprint(p.Groups["all"]); got != "[DEV/GOV/1111/app EE/GOV/9]" {
			t.Errorf("%s: the group is %s", name, got)
		}
	}

	for _, c := range []struct {
		name    string
		replace []string
		words   string
	}{
		{"unknown elements at the ends", []string{"</c:conf>", "<new><x/></new></c:conf>", "</globalGroup>", "<new/></globalGroup>", "PEM</defaultCsrFormat>", "PEM</defaultCsrFormat><new/>"}, ""},
		{"not in maintenance, no message", []string{"<inMaintenanceMode><message>closed</message></inMaintenanceMode>", ""}, ""},
		{"another root", []string{"<c:conf ", "<c:config ", "</c:conf>", "</c:config>"}, "root element"},
		{"another namespace", []string{"x-road.eu/xsd/xroad.xsd", "x-road.eu/xsd/other.xsd"}, "root element"},
		{"no instance", []string{"<instanceIdentifier>DEV</instanceIdentifier>", ""}, "should have instanceIdentifier"},
		{"an empty instance", []string{">DEV</instanceIdentifier>", "></instanceIdentifier>"}, "empty or has white space"},
		{"white space around a code", []string{">1111<", "> 1111<"}, "white space"},
		{"a member that is known by another name", []string{"<memberCode>1111</memberCode>", "<memberCode><x/></memberCode>"}, "elements inside"},
		{"authenticationOnly misspelt", []string{"authenticationOnly>", "authenticationonly>", "authenticationOnly>", "authenticationonly>"}, "should have topCA and has authenticationonly"},
		{"authenticationOnly is no word", []string{">true<", ">yes<"}, "neither true nor false"},
		{"two names", []string{"<name>CA</name>", "<name>CA</name><name>CB</name>"}, "2 elements name"},
		{"a certificate that is none", []string{"<cert>" + der, "<cert>AAAA"}, "reading a certificate"},
		{"PEM text that is no certificate", []string{"<cert>" + der, "<cert>" + key}, "PEM text"},
		{"not base64", []string{"<cert>" + der, "<cert>###"}, "not base64"},
		{"text between", []string{"<source>", "text<source>"}, "text between"},
		{"an id twice", []string{`id="s2"`, `id="s1"`}, "used twice"},
		{"no id", []string{` id="s2"`, ""}, "empty or used twice"},
		{"an owner that is not there", []string{"<owner>m1", "<owner>m2"}, `nothing has the id "m2"`},
		{"an owner that is a subsystem", []string{"<owner>m1", "<owner>s1"}, "not a member"},
		{"a client that is not there", []string{"<client>s1", "<client>s9"}, `nothing has the id "s9"`},
		{"a client in the wrong place", []string{"<inMaintenanceMode/>", "<inMaintenanceMode/><client>s1</client>"}, "does not stand where it belongs"},
		{"a member after the servers", []string{"<globalGroup>", `<member id="x"/><globalGroup>`}, "should have globalSettings"},
		{"a hash of version 2", []string{hash, sha1}, "20 octets"},
		{"a group twice", []string{"<globalSettings>", "<globalGroup><groupCode>all</groupCode><description/></globalGroup><globalSettings>"}, "twice"},
		{"a server as group member", []string{`objectType="MEMBER"`, `objectType="SERVER"`}, "neither MEMBER nor SUBSYSTEM"},
		{"a subsystem without code", []string{`objectType="MEMBER"`, `objectType="SUBSYSTEM"`}, "without subsystemCode"},
		{"a member with a subsystem", []string{`objectType="SUBSYSTEM"`, `objectType="MEMBER"`}, ""},
		{"a group member with more", []string{"<id:subsystemCode>app</id:subsystemCode>", "<id:subsystemCode>app</id:subsystemCode><id:serviceCode>x</id:serviceCode>"}, "does not belong there"},
		{"a time-stamping authority without certificate", []string{"<cert>" + der + "</cert><costType>PAID", "<costType>PAID"}, "should have cert"},
		{"a group member without namespace", []string{`id:objectType="MEMBER"`, `objectType="MEMBER"`}, "neither MEMBER nor SUBSYSTEM"},
		{"no freshness", []string{"3600", ""}, "no number of seconds"},
		{"freshness of nothing", []string{"3600", "0"}, "no number of seconds"},
		{"freshness of ages", []string{"3600", "99999999999"}, "no number of seconds"},
		{"attack 22: a DOCTYPE", []string{"<c:conf ", "<!DOCTYPE x><c:conf "}, "reading XML"},
		{"cut off", []string{"</c:conf>", ""}, "reading XML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseShared([]byte(document(der, hash, c.replace...)))
			cause := ""
			if c.words != "" {
				cause = "malformed_global_conf"
			}
			check(t, err, cause, c.words)
		})
	}
}

func TestOpenStatic(t *testing.T) {
	ca := issue(t, named("CA"), nil, certifying)
	cert, hash := base64.StdEncoding.EncodeToString(ca.Raw), base64.StdEncoding.EncodeToString(make([]byte, 32))
	file := filepath.Join(t.TempDir(), "shared-params.xml")
	write := func(doc string) {
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(document(cert, hash))
	s, err := OpenStatic(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Endpoints(app, nil)
	if err != nil || len(got) != 1 || got[0].Address != "127.0.0.1:6500" || got[0].Maintenance == nil {
		t.Errorf("got %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	write(document(cert, hash, "<serverCode>ss2", "<serverCode>ss1"))
	_, err = OpenStatic(file)
	check(t, err, "malformed_global_conf", "registered twice")
	write(strings.Repeat(" ", maxShared+1))
	_, err = OpenStatic(file)
	check(t, err, "malformed_global_conf", "longer than")
	if _, err = OpenStatic(file + ".absent"); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("got %v", err)
	}
}

// TestVectorShared checks what X-Road's tests say of instance EE.
func TestVectorShared(t *testing.T) {
	vector(t, "INDEX.md")
	open, err := OpenStatic(filepath.Join(vectors, "globalconf/good_v6/EE/shared-params.xml"))
	if err != nil {
		t.Fatal(err)
	}
	s := open.(*instance)
	member := func(code string) ident.Client {
		return ident.Client{Instance: "EE", Class: "BUSINESS", Member: code}
	}
	foosub := member("foo")
	foosub.Subsystem = "foosubsystem"

	members, _ := s.Members("")
	var names []string
	for _, m := range members {
		names = append(names, m.ID.String())
	}
	if got := strings.Join(names[:4], " "); got != "EE/BUSINESS/producer EE/BUSINESS/consumer EE/BUSINESS/foo EE/BUSINESS/foo/foosubsystem" || members[3].Sub != "FOO Subsystem" {
		t.Errorf("the members are %s", got)
	}
	for provider, want := range map[ident.Client]string{
		member("consumer"): "127.0.0.1 https://www.foo.com/bar",
		member("producer"): "127.0.0.1",
		foosub:             "127.0.0.1",
		member("foo"):      "127.0.0.1 https://foo.bar.baz",
	} {
		endpoints, err := s.Endpoints(provider, nil)
		var addresses []string
		for _, e := range endpoints {
			addresses = append(addresses, e.Address)
		}
		sort.Strings(addresses)
		if got := strings.Join(addresses, " "); got != want || err != nil {
			t.Errorf("addresses of %s are %s, %v; want %s", provider, got, err, want)
		}
	}
	var codes []string
	for _, server := range s.p.Servers {
		codes = append(codes, server.ID.Member+"/"+server.ID.Code)
	}
	if got := strings.Join(codes, " "); got != "producer/producerServerCode consumer/consumerServerCode foo/fooServerCode foo/FooBarServerCode" {
		t.Errorf("the servers are %s", got)
	}
	if m := s.p.Servers[3].Maintenance; m == nil || *m != "Test maintenance mode" || s.p.Servers[0].Maintenance != nil {
		t.Error("the maintenance mode is not as it is")
	}
	sub := ident.Client{Instance: "EE", Class: "BUSINESS", Member: "member1", Subsystem: "subsys"}
	sub2 := ident.Client{Instance: "EE", Class: "BUSINESS", Member: "member2", Subsystem: "subsys"}
	if !s.InGroup("Test group", sub) || !s.InGroup("Test group", member("member2")) || s.InGroup("Test group", sub2) {
		t.Error("the group is not as it is")
	}
	if s.Freshness() != 42*time.Second {
		t.Errorf("freshness is %v", s.Freshness())
	}

	var above []string
	for _, c := range s.Extra(vectorCert(t, "certs/test_chain/user_3")) {
		above = append(above, c.Subject.OrganizationalUnit[0])
	}
	if got := strings.Join(above, ", "); got != "CA 3, CA 2, CA 1" {
		t.Errorf("between user_3 and its root are %s", got)
	}
	issuers, err := s.issuers(vectorCert(t, "certs/test_chain/user_1"), era{sha1: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(issuers[0].urls); got != "[http://127.0.0.1:8082/ocsp http://www.example.net/ocsp http://www.example.net/ocsp2 http://www.example.net/ocsp3 http://www.example.net/ocsp4]" {
		t.Errorf("the responders are %s", got)
	}
	root := vectorCert(t, "certs/root-ca")
	responders := s.policy(root, messages).Responders
	if len(responders) != 5 || responders[0].Subject.CommonName != "consumer" || responders[0].Equal(root) {
		t.Errorf("the configured responders are %d", len(responders))
	}
	_, err = s.SignMember(vectorCert(t, "certs/consumer"))
	check(t, err, "internal_error", "TestCertificateProfileInfoProvider")
}

// TestVectorInstances opens stored parameters of many versions.
func TestVectorInstances(t *testing.T) {
	for file, words := range map[string]string{
		"globalconf/good2_v3/DEV":                                "",
		"globalconf/good_v3/EE":                                  "",
		"globalconf/good_v4/EE":                                  "",
		"globalconf/good_v6/quux_v5":                             "",
		"globalconf-download/server/V6/20251110170000548026000":  "",
		"globalconf-download/rotated/V6/20251110170100462771000": "",
		"globalconf-download/server/V3/20240408142911166434000":  "",
		"globalconf/good_v2/EE":                                  "20 octets", // SHA-1
		"globalconf/malformed/foo":                               "reading XML",
		"globalconf/good_v6/bar":                                 "",
	} {
		p, err := ParseShared(vector(t, file+"/shared-params.xml"))
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%s: %v", file, err)
		}
		if err == nil {
			if _, err := New(p, nil); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func FuzzParseShared(f *testing.F) {
	ca := issue(f, named("CA"), nil, certifying)
	cert, hash := base64.StdEncoding.EncodeToString(ca.Raw), base64.StdEncoding.EncodeToString(make([]byte, 32))
	f.Add([]byte(document(cert, hash)))
	f.Add([]byte(document(cert, hash, "<client>s1", "<client>s9")))
	f.Add([]byte(document(cert, base64.StdEncoding.EncodeToString(make([]byte, 20)))))
	f.Fuzz(func(t *testing.T, doc []byte) {
		_, current := ParseShared(doc)
		p, err := parseShared(doc, firstVersion)
		if err != nil {
			if current == nil {
				t.Errorf("it is read, but not as the first version: %v", err)
			}
			return
		}
		if p.Instance == "" || p.Freshness <= 0 {
			t.Errorf("accepted %+v", p)
		}
		if s, err := New(p, nil); err == nil {
			s.Close()
		}
	})
}
