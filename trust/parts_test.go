// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

const anchorDoc = `<?xml version="1.0" encoding="UTF-8"?>
<c:configurationAnchor xmlns:c="http://x-road.eu/xsd/xroad.xsd">
  <generatedAt>2023-02-15T09:26:34.235Z</generatedAt>
  <instanceIdentifier>EE</instanceIdentifier>
  <source><downloadURL> http://cs/internalconf </downloadURL><verificationCert>YmFy
    Cg==</verificationCert><verificationCert>Zm9v</verificationCert></source>
  <source><downloadURL>http://cs2/internalconf</downloadURL><verificationCert>YmFyCg==</verificationCert></source>
</c:configurationAnchor>`

func TestParseAnchor(t *testing.T) {
	a, err := ParseAnchor([]byte(anchorDoc))
	if err != nil || a.Instance != "EE" || len(a.Sources) != 2 || a.Sources[0].URL != "http://cs/internalconf" || len(a.Sources[0].Certificates) != 2 ||
		string(a.Sources[0].Certificates[0]) != "bar\n" || !a.Generated.Equal(time.Date(2023, 2, 15, 9, 26, 34, 235e6, time.UTC)) {
		t.Errorf("the anchor is %+v, %v", a, err)
	}
	for _, c := range []struct {
		name, old, new, words string
	}{
		{"a time without zone", "34.235Z", "34", ""},
		{"another zone", "34.235Z", "34+02:00", ""},
		{"no time", "2023-02-15T09:26:34.235Z", "yesterday", `"yesterday" is no time`},
		{"no instance", "<instanceIdentifier>EE</instanceIdentifier>", "", "should have instanceIdentifier and has source"},
		{"a source without address", "<downloadURL>http://cs2/internalconf</downloadURL>", "", "should have downloadURL"},
		{"a source without certificate", "<verificationCert>YmFyCg==</verificationCert></source>", "</source>", "should have verificationCert and has nothing more"},
		{"a certificate that is not base64", "Zm9v", "###", "not base64"},
		{"another root", "configurationAnchor", "anchor", "root element"},
		{"a root without namespace", "c:configurationAnchor", "configurationAnchor", "root element"},
		{"attack 22: a DOCTYPE", "<c:", "<!DOCTYPE x><c:", "reading XML"},
		{"too long", "<c:", "<!--" + strings.Repeat(" ", maxSmall) + "--><c:", "longer than"},
		{"no source", "source>", "sauce>", "should have source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := strings.ReplaceAll(anchorDoc, c.old, c.new)
			if doc == anchorDoc {
				t.Fatal("nothing is replaced")
			}
			_, err := ParseAnchor([]byte(doc))
			cause := ""
			if c.words != "" {
				cause = "malformed_anchor"
			}
			check(t, err, cause, c.words)
		})
	}
}

const privateDoc = `<c:conf xmlns:c="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers">
  <instanceIdentifier>DEV</instanceIdentifier>
  <configurationAnchor><instanceIdentifier>EE</instanceIdentifier><source><downloadURL>http://ee/externalconf</downloadURL><verificationCert>YmFyCg==</verificationCert></source></configurationAnchor>
  <managementService>
    <authCertRegServiceAddress>https://cs:4001/managementservice/</authCertRegServiceAddress>
    <authCertRegServiceCert>Zm9v</authCertRegServiceCert>
    <managementRequestServiceProviderId id:objectType="SUBSYSTEM"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>1111</id:memberCode><id:subsystemCode>manager</id:subsystemCode></managementRequestServiceProviderId>
  </managementService>
  <timeStampingIntervalSeconds>60</timeStampingIntervalSeconds>
  <somethingNew/>
</c:conf>`

func TestParsePrivate(t *testing.T) {
	p, err := parsePrivate([]byte(privateDoc))
	if err != nil || p.instance != "DEV" || len(p.anchors) != 1 || p.anchors[0].Instance != "EE" || p.interval != time.Minute ||
		p.management.address != "https://cs:4001/managementservice/" || string(p.management.certificate) != "foo" ||
		p.management.provider != (ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "manager"}) {
		t.Errorf("the private parameters are %+v, %v", p, err)
	}
	for _, c := range []struct {
		name, old, new, words string
	}{
		{"no federation", privateDoc[strings.Index(privateDoc, "<configurationAnchor>"):strings.Index(privateDoc, "<managementService>")], "", ""},
		{"no certificate", "<authCertRegServiceCert>Zm9v</authCertRegServiceCert>", "", ""},
		{"no instance", ">DEV</instanceIdentifier>", "></instanceIdentifier>", "empty or has white space"},
		{"an anchor without sources", "source>", "sauce>", "should have source and has sauce"},
		{"no interval", "<timeStampingIntervalSeconds>60</timeStampingIntervalSeconds>", "", "should have timeStampingIntervalSeconds"},
		{"an interval of nothing", ">60<", ">0<", "no number of seconds"},
		{"an interval of ages", ">60<", ">99999999999<", "no number of seconds"},
		{"a provider that is a server", "SUBSYSTEM", "SERVER", "neither MEMBER nor SUBSYSTEM"},
		{"the order", "<somethingNew/>", "<managementService/>", "does not stand where it belongs"},
		{"shared parameters", "managementService>", "globalSettings>", "should have managementService"},
		{"cut off", "</c:conf>", "", "reading XML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := strings.ReplaceAll(privateDoc, c.old, c.new)
			if doc == privateDoc {
				t.Fatal("nothing is replaced")
			}
			_, err := parsePrivate([]byte(doc))
			cause := ""
			if c.words != "" {
				cause = "malformed_global_conf"
			}
			check(t, err, cause, c.words)
		})
	}
}

func TestParseOptionalParts(t *testing.T) {
	conf := func(inside string) []byte {
		return []byte(`<x:conf xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers">` + inside + `</x:conf>`)
	}
	nextUpdate := func(doc []byte) error { _, err := parseNextUpdate(doc); return err }
	interval := func(doc []byte) error { _, err := parseFetchInterval(doc); return err }
	monitoring := func(doc []byte) error { _, err := parseMonitoring(doc); return err }
	const member = `<monitoringClientId id:objectType="MEMBER"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>1</id:memberCode></monitoringClientId>`
	for _, c := range []struct {
		name  string
		parse func([]byte) error
		doc   []byte
		words string
	}{
		{"check the next update", nextUpdate, conf(`<verifyNextUpdate>true</verifyNextUpdate>`), ""},
		{"check it, in figures", nextUpdate, conf(`<verifyNextUpdate> 1 </verifyNextUpdate>`), ""},
		{"perhaps", nextUpdate, conf(`<verifyNextUpdate>perhaps</verifyNextUpdate>`), "neither true nor false"},
		{"twice", nextUpdate, conf(`<verifyNextUpdate>true</verifyNextUpdate><verifyNextUpdate>false</verifyNextUpdate>`), "2 elements"},
		{"the wrong part", nextUpdate, conf(`<ocspFetchInterval>500</ocspFetchInterval>`), "should have verifyNextUpdate"},
		{"an interval", interval, conf(`<ocspFetchInterval>500</ocspFetchInterval>`), ""},
		{"no number", interval, conf(`<ocspFetchInterval>often</ocspFetchInterval>`), "no number of seconds"},
		{"a negative one", interval, conf(`<ocspFetchInterval>-1</ocspFetchInterval>`), "no number of seconds"},
		{"somebody", monitoring, conf(`<monitoringClient>` + member + `</monitoringClient>`), ""},
		{"nobody", monitoring, conf(`<monitoringClient/>`), ""},
		{"two", monitoring, conf(`<monitoringClient>` + member + member + `</monitoringClient>`), "2 elements"},
		{"nothing", monitoring, conf(``), "should have monitoringClient"},
		{"an unknown element", monitoring, conf(`<monitoringClient><x/></monitoringClient>`), "does not belong there"},
		{"no XML", monitoring, nil, "reading XML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cause := ""
			if c.words != "" {
				cause = "malformed_optional_parts_conf"
			}
			check(t, c.parse(c.doc), cause, c.words)
		})
	}
	if verify, err := parseNextUpdate(conf(`<verifyNextUpdate>0</verifyNextUpdate>`)); verify || err != nil {
		t.Errorf("%v, %v", verify, err)
	}
	if every, err := parseFetchInterval(conf(`<ocspFetchInterval>500</ocspFetchInterval>`)); every != 500*time.Second || err != nil {
		t.Errorf("%v, %v", every, err)
	}
}

func TestParseMetadata(t *testing.T) {
	end := time.Date(2014, 11, 12, 13, 58, 7, 0, time.UTC)
	for _, c := range []struct {
		name, doc string
		want      metadata
		words     string
	}{
		{"as it is written now", `{"contentIdentifier":"SHARED-PARAMETERS","instanceIdentifier":"EE","expirationDate":"2014-11-12T13:58:07Z", "configurationVersion": "6"}`, metadata{end, 6}, ""},
		{"as it was once", `{"contentFileName":null,"contentLocation":"/x","expirationDate":"2014-11-12T15:58:07.000+02:00"}`, metadata{end, 2}, ""},
		{"a full minute", `{"expirationDate":"2014-11-12T13:58Z"}`, metadata{end.Truncate(time.Minute), 2}, ""},
		{"nothing", `{}`, metadata{version: 2}, ""},
		{"nulls", `{"expirationDate":null,"configurationVersion":null}`, metadata{version: 2}, ""},
		{"no JSON", ``, metadata{}, "JSON"},
		{"an array", `[]`, metadata{}, "array"},
		{"more", `{} {}`, metadata{}, "after top-level"},
		{"a time that is a number", `{"expirationDate":1}`, metadata{}, "number"},
		{"a day", `{"expirationDate":"2014-11-12"}`, metadata{}, "no time"},
		{"the first of all times", `{"expirationDate":"0001-01-01T00:00:00Z"}`, metadata{}, "no time"},
		{"an empty version", `{"configurationVersion":""}`, metadata{}, "invalid number"},
		{"a broken version", `{"configurationVersion":"2.5"}`, metadata{}, "none of 2 to 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseMetadata([]byte(c.doc))
			cause := ""
			if c.words != "" {
				cause = "malformed_global_conf"
			}
			check(t, err, cause, c.words)
			if err == nil && (!got.expires.Equal(c.want.expires) || got.version != c.want.version) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func FuzzParseAnchor(f *testing.F) {
	f.Add([]byte(anchorDoc))
	f.Fuzz(func(t *testing.T, doc []byte) {
		a, err := ParseAnchor(doc)
		if err == nil && (a.Instance == "" || len(a.Sources) == 0 || len(a.Sources[0].Certificates) == 0) {
			t.Errorf("accepted %+v", a)
		}
	})
}

func FuzzParsePrivate(f *testing.F) {
	f.Add([]byte(privateDoc))
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := parsePrivate(doc)
		if err == nil && (p.instance == "" || p.interval <= 0 || p.management.provider.Member == "") {
			t.Errorf("accepted %+v", p)
		}
	})
}

func FuzzParseOptionalParts(f *testing.F) {
	f.Add([]byte(nextUpdateOff))
	f.Add([]byte(strings.NewReplacer("verifyNextUpdate", "ocspFetchInterval", "false", "500").Replace(nextUpdateOff)))
	f.Add([]byte(strings.NewReplacer("verifyNextUpdate", "monitoringClient", "false", " ").Replace(nextUpdateOff)))
	f.Fuzz(func(t *testing.T, doc []byte) {
		_, next := parseNextUpdate(doc)
		every, fetch := parseFetchInterval(doc)
		_, monitoring := parseMonitoring(doc)
		if next == nil && (fetch == nil || monitoring == nil) || fetch == nil && (monitoring == nil || every <= 0) {
			t.Error("one part is read as two")
		}
	})
}

func FuzzParseMetadata(f *testing.F) {
	f.Add([]byte(`{"contentIdentifier":"SHARED-PARAMETERS","expirationDate":"2124-05-20T17:42:55Z", "configurationVersion": "6"}`))
	f.Add([]byte(`{"expirationDate":"2014-11-12T15:58:07.000+02:00","configurationVersion":2}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := parseMetadata(doc)
		if err == nil && (m.version < firstVersion || m.version > lastVersion) {
			t.Errorf("accepted %+v", m)
		}
	})
}

func FuzzInstanceOf(f *testing.F) {
	for _, folder := range []string{"EE", "a%2Fb+c*", "%C3%84", "..", "%2E", "%00"} {
		f.Add(folder)
	}
	f.Fuzz(func(t *testing.T, folder string) {
		instance, err := instanceOf(folder)
		if err == nil && (folderOf(instance) != folder || strings.ContainsAny(folder, "/\\:\x00") || folder == "" || folder == "." || folder == "..") {
			t.Errorf("folder %q is that of %q", folder, instance)
		}
		if checkInstance(folder) == nil { // any name of an instance comes back from that of its folder
			if again, err := instanceOf(folderOf(folder)); again != folder || err != nil {
				t.Errorf("instance %q comes back as %q, %v", folder, again, err)
			}
		}
	})
}
