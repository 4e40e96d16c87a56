// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
)

// stub lets the profile of X-Road's tests be known until the test ends.
func stub(t testing.TB) {
	const name = classes + "TestCertificateProfileInfoProvider"
	profiles[name] = func(s *subject, caller string) ident.Client {
		return ident.Client{Instance: caller, Class: "BUSINESS", Member: s.must(commonName)}
	}
	t.Cleanup(func() { delete(profiles, name) })
}

// loaded reads a folder of the vectors once.
func loaded(t testing.TB, name string) (*folder, *snapshot, []error) {
	t.Helper()
	vector(t, "INDEX.md")
	f := &folder{dir: filepath.Join(vectors, "globalconf", name)}
	s, problems := f.read(true)
	return f, s, problems
}

func business(code string, sub ...string) ident.Client {
	return ident.Client{Instance: "EE", Class: "BUSINESS", Member: code, Subsystem: strings.Join(sub, "")}
}

// TestVectorFolders reads the stored configurations of section 5 of the vectors' index.
func TestVectorFolders(t *testing.T) {
	beyond := time.Date(2124, 5, 20, 17, 42, 56, 0, time.UTC)
	for _, c := range []struct {
		name, own string
		instances map[string]int // with the seconds that OCSP responses may be old
		expires   bool
	}{
		{"good_v2", "EE", map[string]int{"EE": 42, "bar": 420, "foo": 4200}, true},
		{"good_v3", "EE", map[string]int{"EE": 42, "bar": 420, "foo_v2": 4200}, true},
		{"good_v4", "EE", map[string]int{"EE": 42, "bar": 420, "foo_v2": 4200, "baz_v3": 42}, true},
		{"good_v6", "EE", map[string]int{"EE": 42, "bar": 420, "foo_v2": 4200, "baz_v3": 42, "qux_v4": 42, "quux_v5": 42}, true},
		{"good2_v3", "DEV", map[string]int{"DEV": 3600}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, s, problems := loaded(t, c.name)
			if s == nil || len(problems) > 0 {
				t.Fatal(problems)
			}
			if s.own.Instance() != c.own || len(s.instances) != len(c.instances) {
				t.Errorf("there are %v, and %s is the own one", s.names, s.own.Instance())
			}
			for name, seconds := range c.instances {
				i := s.instances[name]
				if i == nil {
					t.Errorf("instance %s is not there", name)
					continue
				}
				if got := f.parts[name].shared.p.Freshness; got != time.Duration(seconds)*time.Second {
					t.Errorf("instance %s wants OCSP responses of %v", name, got)
				}
				if i.Freshness() != s.own.Freshness() {
					t.Errorf("the own instance does not say what holds for %s", name)
				}
				if i.Valid(beyond.Add(-time.Second)) != nil {
					t.Errorf("instance %s: %v", name, i.Valid(now))
				}
				if (i.Valid(beyond) != nil) != c.expires {
					t.Errorf("instance %s after its time: %v", name, i.Valid(beyond))
				}
			}
		})
	}

	f, s, problems := loaded(t, "malformed")
	if s != nil || f.own != "EE" || len(problems) != 2 {
		t.Fatalf("%v, %v", s, problems)
	}
	check(t, problems[0], "malformed_global_conf", "instance foo is left out: reading shared-params.xml: reading XML")
	check(t, problems[1], "malformed_global_conf", "no shared parameters of instance EE")

	f, s, problems = loaded(t, "empty")
	if s != nil || f.own != "EE" || len(f.parts) != 0 || len(problems) != 1 {
		t.Fatalf("%v, %v", s, problems)
	}
	check(t, problems[0], "malformed_global_conf", "no shared parameters of instance EE")
}

// TestVectorFacts checks what X-Road's GlobalConfTest says of instance EE, in every version.
func TestVectorFacts(t *testing.T) {
	stub(t)
	for _, name := range []string{"good_v2", "good_v3", "good_v4", "good_v6"} {
		t.Run(name, func(t *testing.T) {
			_, s, problems := loaded(t, name)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			members, err := s.members("", now)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, m := range members {
				ids = append(ids, m.ID.String())
			}
			if got := strings.Join(ids[:4], " "); got != "EE/BUSINESS/producer EE/BUSINESS/consumer EE/BUSINESS/foo EE/BUSINESS/foo/foosubsystem" {
				t.Errorf("the members are %s", got)
			}
			for provider, want := range map[ident.Client]string{
				business("consumer"): "127.0.0.1 https://www.foo.com/bar",
				business("producer"): "127.0.0.1",
				business("foo"):      "127.0.0.1 https://foo.bar.baz",
			} {
				endpoints, err := s.endpoints(provider, nil, now)
				var addresses []string
				for _, e := range endpoints {
					addresses = append(addresses, e.Address)
				}
				slices.Sort(addresses)
				if got := strings.Join(addresses, " "); got != want || err != nil {
					t.Errorf("addresses of %s are %s, %v; want %s", provider, got, err, want)
				}
			}
			var codes []string
			for _, server := range s.own.p.Servers {
				codes = append(codes, server.ID.String())
			}
			if got := strings.Join(codes, " "); got != "EE/BUSINESS/producer/producerServerCode EE/BUSINESS/consumer/consumerServerCode "+
				"EE/BUSINESS/foo/fooServerCode EE/BUSINESS/foo/FooBarServerCode" {
				t.Errorf("the servers are %s", got)
			}
			for _, client := range []ident.Client{business("consumer"), business("producer"), business("foo", "foosubsystem")} {
				if !s.own.p.Servers[0].serves(client, s.own) {
					t.Errorf("%s is not on the server of the producer", client)
				}
			}
			codes = nil
			for _, server := range s.own.serving[business("foo")] {
				codes = append(codes, server.ID.Code)
			}
			if got := strings.Join(codes, " "); got != "producerServerCode fooServerCode FooBarServerCode" {
				t.Errorf("foo is on %s", got)
			}

			var above []string
			for _, c := range s.own.Extra(vectorCert(t, "certs/test_chain/user_3")) {
				above = append(above, c.Subject.OrganizationalUnit[0])
			}
			if got := strings.Join(above, ", "); got != "CA 3, CA 2, CA 1" {
				t.Errorf("between user_3 and its root are %s", got)
			}

			root := vectorCert(t, "certs/root-ca")
			signer := responderKey(t)
			responders := s.own.policy(root, messages).Responders
			if !slices.ContainsFunc(responders, signer.Chain[0].Equal) || slices.ContainsFunc(responders, root.Equal) {
				t.Error("the responders of the root are not those configured")
			}
			issuers, err := s.own.issuers(signer.Chain[0], past)
			if err != nil {
				t.Fatal(err)
			}
			if urls := strings.Join(issuers[0].urls, " "); !strings.Contains(urls, "http://127.0.0.1:8082/ocsp") || !strings.Contains(urls, "http://www.example.net/ocsp") {
				t.Errorf("the responders of the root are asked at %s", urls)
			}
			if !s.own.InGroup("Test group", business("member1", "subsys")) || !s.own.InGroup("Test group", business("member2")) ||
				s.own.InGroup("Test group", business("member2", "subsys")) {
				t.Error("the group is not as it is")
			}
			if s.own.Freshness() != 42*time.Second || s.own.StampInterval() != 123*time.Second || s.own.p.SkipNextUpdate {
				t.Errorf("the settings are %v, %v, %v", s.own.Freshness(), s.own.StampInterval(), s.own.p.SkipNextUpdate)
			}
			p, err := parsePrivate(vector(t, "globalconf/"+name+"/EE/private-params.xml"))
			if err != nil || p.management.address != "http://mgmt.com:1234" || p.management.provider != business("servicemember2") ||
				len(p.anchors) != 1 || p.anchors[0].Instance != "bar" || p.anchors[0].Sources[0].URL != "http://www.bar.com/conf" ||
				string(p.anchors[0].Sources[0].Certificates[0]) != "bar\n" {
				t.Errorf("the private parameters are %+v, %v", p, err)
			}
			if tsas := s.authorities("", now); len(tsas) != 1 || tsas[0].Name != "Test TSP" || tsas[0].URL != "http://www.foo.bar" ||
				tsas[0].Certificate.Subject.CommonName != "timestamp1" {
				t.Errorf("the time-stamping authorities are %+v", tsas)
			}
		})
	}

	// In later versions of these files the hashes are those of PEM text, which match nothing.
	t.Run("authentication certificates in good_v2", func(t *testing.T) {
		_, s, _ := loaded(t, "good_v2")
		producer, consumer := vectorCert(t, "certs/producer"), vectorCert(t, "certs/consumer")
		if s.own.servedBy(producer, business("producer")) != nil || s.own.servedBy(producer, business("consumer")) == nil ||
			s.own.servedBy(consumer, business("consumer")) != nil || s.own.servedBy(consumer, business("producer")) == nil {
			t.Error("the authentication certificates are not those of their members")
		}
		if server, err := s.serverOf(producer, now); server.String() != "EE/BUSINESS/foo/fooServerCode" || err != nil {
			t.Errorf("the certificate of the producer is that of %s, %v", server, err)
		}
	})
	t.Run("how many of each in good_v2", func(t *testing.T) {
		_, s, _ := loaded(t, "good_v2")
		if n := len(s.own.p.CAs); n != 5 {
			t.Errorf("EE approves %d CAs", n)
		}
		responders, tsas, signing := 0, 0, 0
		for _, i := range s.instances {
			tsas += len(i.p.TSAs)
			for _, ca := range i.p.CAs {
				for _, a := range ca.Authorities {
					responders += len(a.Responders)
				}
				if !ca.AuthenticationOnly {
					signing += len(ca.Authorities)
				}
			}
		}
		if got := fmt.Sprint(responders, tsas, signing); got != "12 3 4" {
			t.Errorf("responders, time-stamping authorities, CAs for signatures: %s", got)
		}
	})
	t.Run("the responders of user_1 in good_v6, in their order", func(t *testing.T) {
		_, s, _ := loaded(t, "good_v6")
		issuers, err := s.own.issuers(vectorCert(t, "certs/test_chain/user_1"), past)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(issuers[0].urls, " "); got != "http://127.0.0.1:8082/ocsp http://www.example.net/ocsp "+
			"http://www.example.net/ocsp2 http://www.example.net/ocsp3 http://www.example.net/ocsp4" {
			t.Errorf("they are %s", got)
		}
	})
	t.Run("maintenance and names of subsystems in good_v6", func(t *testing.T) {
		_, s, _ := loaded(t, "good_v6")
		if m := s.own.p.Servers[3].Maintenance; m == nil || *m != "Test maintenance mode" || s.own.p.Members[3].Sub != "FOO Subsystem" {
			t.Error("they are not as they are")
		}
	})
}

func responderKey(t *testing.T) *softkey.Key {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "ocspsigner.p12")
	for name, data := range map[string][]byte{file: vector(t, "certs/ocspsigner.p12"), strings.TrimSuffix(file, ".p12") + ".pass": []byte("test")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := softkey.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestVectorVersions decides by the version of each instance by which hash certificates are known.
func TestVectorVersions(t *testing.T) {
	_, s, _ := loaded(t, "good_v6")
	for name, sha1 := range map[string]bool{"EE": false, "foo_v2": true, "baz_v3": false, "qux_v4": false, "quux_v5": false, "bar": false} {
		i := s.instances[name]
		if (len(i.bySHA1) > 0) != sha1 {
			t.Errorf("instance %s knows %d certificates by SHA-1", name, len(i.bySHA1))
		}
	}
}

// TestVectorLarge reads stored parameters of the size of a real instance, which have expired.
func TestVectorLarge(t *testing.T) {
	vector(t, "INDEX.md")
	f := &folder{dir: filepath.Join(vectors, "globalconf-download/large-v2")}
	s, problems := f.read(true)
	if s == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	if n := len(s.own.p.Members); n < 1463 {
		t.Errorf("there are %d members", n)
	}
	check(t, s.own.Valid(now), "global_conf_outdated", "shared-params.xml of instance EE expired at 2014-11-12T13:58:07Z")
	if err := s.own.Valid(time.Date(2014, 11, 12, 13, 58, 7, 0, time.UTC)); err != nil {
		t.Error(err)
	}
}

// TestVectorAnchors checks what X-Road's ConfigurationAnchorTest says.
func TestVectorAnchors(t *testing.T) {
	a, err := ParseAnchor(vector(t, "globalconf/configuration-anchor1.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Instance != "EE" || len(a.Sources) != 3 || a.Sources[0].URL != "http://www.bar.com/conf" || len(a.Sources[0].Certificates) != 2 || !a.Generated.IsZero() {
		t.Errorf("the anchor is %+v", a)
	}
	var sums []string
	for _, c := range a.Sources[0].Certificates {
		sum := sha1.Sum(c)
		sums = append(sums, base64.StdEncoding.EncodeToString(sum[:]))
	}
	if got := strings.Join(sums, " "); got != "t7+jfR1wnsN1EBtBpCt/q8JIasg= 4HCV0OGOaz4mJauIZvrt7A3RdfM=" {
		t.Errorf("the certificates are %s", got)
	}
	for file, cause := range map[string]string{
		"configuration-anchor1.xml":                           "",
		"anchor/configuration_anchor_CS_internal.xml":         "",
		"anchor/trusted-anchor.xml":                           "",
		"anchor/trusted-anchor-invalid-1.xml":                 "malformed_anchor",
		"server/V6/20251110170000548026000/shared-params.xml": "malformed_anchor",
	} {
		_, err := ParseAnchor(vector(t, "globalconf-download/"+file))
		check(t, err, cause, "")
	}
}

// TestVectorPrivate reads the private parameters that central servers wrote.
func TestVectorPrivate(t *testing.T) {
	for file, cause := range map[string]string{
		"globalconf-download/large-v2/EE":                        "",
		"globalconf-download/server/V3/20240408142911166434000":  "",
		"globalconf-download/server/V5/20250303143911136407000":  "",
		"globalconf-download/server/V6/20251110170000548026000":  "",
		"globalconf-download/rotated/V4/20240529203852897410000": "",
		"globalconf-download/rotated/V6/20251110170100462771000": "",
		"globalconf-download/test-conf-simple/EE":                "",
		"globalconf/malformed/foo":                               "malformed_global_conf",
	} {
		_, err := parsePrivate(vector(t, file+"/private-params.xml"))
		if causes(err) != cause {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestVectorOptionalParts reads the optional parts as X-Road's schema validators do.
func TestVectorOptionalParts(t *testing.T) {
	verify, err := parseNextUpdate(vector(t, "globalconf/params/valid-nextupdate-params.xml"))
	if verify || err != nil {
		t.Errorf("%v, %v", verify, err)
	}
	const malformed = "malformed_optional_parts_conf"
	_, err = parseNextUpdate(vector(t, "globalconf/params/invalid-nextupdate-params.xml"))
	check(t, err, malformed, "harazoo")
	_, err = parseFetchInterval(vector(t, "globalconf/params/empty-fetchinterval-params.xml"))
	check(t, err, malformed, "ocspFetchInterval")
	_, err = parseFetchInterval(vector(t, "globalconf/params/invalid-fetchinterval-params.xml"))
	check(t, err, malformed, "foobar")
	who, err := parseMonitoring(vector(t, "globalconf/params/valid-monitoring-params.xml"))
	if who != (ident.Client{Instance: "fdev", Class: "GOV", Member: "66655666"}) || err != nil {
		t.Errorf("%v, %v", who, err)
	}
	who, err = parseMonitoring(vector(t, "globalconf/params/empty-monitoring-params.xml"))
	if who != (ident.Client{}) || err != nil {
		t.Errorf("%v, %v", who, err)
	}
}

// TestVectorVerification judges the signer of sign-0.xml by the folder good_v4, as SignatureVerifierTest does.
func TestVectorVerification(t *testing.T) {
	stub(t)
	cert, extra, responses := signer(t, vector(t, "signatures/sign-0.xml"))
	v, err := OpenVerification(filepath.Join(vectors, "globalconf/good_v4"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2014, 10, 30, 0, 0, 0, 0, time.UTC)
	check(t, v.VerifySign(cert, extra, responses, business("consumer"), at), "", "")
	check(t, v.VerifySign(cert, extra, responses, business("FOORBAR"), at), "incorrect_certificate", "FOORBAR")
	foreign := ident.Client{Instance: "baz_v3", Class: "BUSINESS", Member: "consumer"}
	check(t, v.VerifySign(cert, extra, responses, foreign, at), "", "") // its CA is approved there too
	foreign.Instance = "bar"
	check(t, v.VerifySign(cert, extra, responses, foreign, at), "internal_error", "no approved CA of instance bar")
	foreign.Instance = "nowhere"
	check(t, v.VerifySign(cert, extra, responses, foreign, at), "internal_error", "nothing is known of instance")
	if tsas := v.Authorities("EE"); len(tsas) != 1 || v.Authorities("nowhere") != nil || v.Instance() != "EE" {
		t.Errorf("the time-stamping authorities are %v", tsas)
	}

	live, err := OpenGlobalConf(filepath.Join(vectors, "globalconf/good_v4"), func() time.Time { return at }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	check(t, live.VerifySign(cert, extra, responses, business("consumer"), at), invalidPath, "SHA-1")
}
