// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// land is an instance with one member, who has a subsystem and a security server.
type land struct {
	name           string
	ca, auth, sign *pair
	member, app    ident.Client
	server         ident.Server
}

func newLand(t testing.TB, name string) *land {
	t.Helper()
	l := &land{name: name, ca: issue(t, named(name+" CA"), nil, certifying)}
	l.member = ident.Client{Instance: name, Class: "GOV", Member: "1111"}
	l.app = l.member
	l.app.Subsystem = "app"
	l.server = ident.Server{Instance: name, Class: "GOV", Member: "1111", Code: "ss1"}
	l.auth = issue(t, named("ss1."+name), l.ca, authentication)
	l.sign = issue(t, subjectOf(l.member, "ss1"), l.ca, signing)
	return l
}

func encoded(octets []byte) string { return base64.StdEncoding.EncodeToString(octets) }

// shared writes the shared parameters; each replacement is old, new.
func (l *land) shared(replace ...string) string {
	sum := sha256.Sum256(l.auth.Raw)
	usual := []string{">DEV</instanceIdentifier>", ">" + l.name + "</instanceIdentifier>", "<authenticationOnly>true", "<authenticationOnly>false"}
	return document(encoded(l.ca.Raw), encoded(sum[:]), append(usual, replace...)...)
}

func (l *land) private(seconds int) string {
	return fmt.Sprintf(`<c:conf xmlns:c="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers">
  <instanceIdentifier>%s</instanceIdentifier>
  <managementService><authCertRegServiceAddress>https://cs:4001/</authCertRegServiceAddress>
    <managementRequestServiceProviderId id:objectType="MEMBER"><id:xRoadInstance>%[1]s</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>1111</id:memberCode></managementRequestServiceProviderId>
  </managementService>
  <timeStampingIntervalSeconds>%d</timeStampingIntervalSeconds>
</c:conf>`, l.name, seconds)
}

const nextUpdateOff = `<c:conf xmlns:c="http://x-road.eu/xsd/xroad.xsd"><verifyNextUpdate>false</verifyNextUpdate></c:conf>`

// until writes metadata of version 6.
func until(t time.Time) string {
	return fmt.Sprintf(`{"contentIdentifier":"SHARED-PARAMETERS","expirationDate":%q,"configurationVersion":"6"}`, t.Format(time.RFC3339))
}

// lay writes files below dir, each at once as X-Road's configuration client does; an empty text removes what was there.
func lay(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if text == "" {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
	}
}

// federation are two instances, DEV the own one, in a folder.
type federation struct {
	dir     string
	dev, ee *land
	at      atomic.Pointer[time.Time]
	mu      sync.Mutex
	told    []string
}

func newFederation(t testing.TB) *federation {
	t.Helper()
	f := &federation{dir: t.TempDir(), dev: newLand(t, "DEV"), ee: newLand(t, "EE")}
	f.set(now)
	lay(t, f.dir, map[string]string{
		"instance-identifier":             "DEV",
		"DEV/shared-params.xml":           f.dev.shared(),
		"DEV/shared-params.xml.metadata":  until(now.Add(10 * time.Minute)),
		"DEV/private-params.xml":          f.dev.private(300),
		"DEV/private-params.xml.metadata": until(now.Add(10 * time.Minute)),
		"EE/shared-params.xml":            f.ee.shared(),
		"EE/shared-params.xml.metadata":   until(now.Add(10 * time.Minute)),
	})
	return f
}

func (f *federation) set(t time.Time)  { f.at.Store(&t) }
func (f *federation) clock() time.Time { return *f.at.Load() }

func (f *federation) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, err.Error())
}

func (f *federation) reports() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// open opens the folder without following it.
func (f *federation) open(t testing.TB) *globalConf {
	t.Helper()
	g, err := openGlobalConf(f.dir, f.clock, f.report)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (l *land) signed(t testing.TB, responder *pair) [][]byte {
	return [][]byte{good(t, l.sign, l.ca, responder, now)}
}

func TestGlobalConf(t *testing.T) {
	f := newFederation(t)
	store, err := OpenGlobalConf(f.dir, f.clock, f.report)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if store.Instance() != "DEV" || store.Freshness() != time.Hour || store.StampInterval() != 5*time.Minute || len(f.reports()) != 0 {
		t.Errorf("%s, %v, %v, %q", store.Instance(), store.Freshness(), store.StampInterval(), f.reports())
	}
	check(t, store.Valid(now), "", "")
	for _, l := range []*land{f.dev, f.ee} {
		t.Run(l.name, func(t *testing.T) {
			if e, err := store.Endpoints(l.app, nil); err != nil || len(e) != 1 || e[0].Server != l.server {
				t.Errorf("the endpoints are %v, %v", e, err)
			}
			if e, err := store.Endpoints(l.app, &l.server); err != nil || len(e) != 1 {
				t.Errorf("the endpoints are %v, %v", e, err)
			}
			if server, err := store.ServerOf(l.auth.Certificate); server != l.server || err != nil {
				t.Errorf("the server is %s, %v", server, err)
			}
			if m, err := store.Members(l.name); err != nil || len(m) != 3 || m[0].ID != l.member {
				t.Errorf("the members are %v, %v", m, err)
			}
			if tsas := store.Authorities(l.name); len(tsas) != 2 || !tsas[0].Certificate.Equal(l.ca.Certificate) {
				t.Errorf("the time-stamping authorities are %v", tsas)
			}
			status := [][]byte{good(t, l.auth, l.ca, l.ca, now)}
			check(t, store.VerifyAuth([]*x509.Certificate{l.auth.Certificate}, status, l.app, now), "", "")
			check(t, store.VerifySign(l.sign.Certificate, nil, l.signed(t, l.ca), l.app, now), "", "")
		})
	}
	if m, err := store.Members(""); err != nil || m[0].ID != f.dev.member {
		t.Errorf("the own members are %v, %v", m, err)
	}
	if member, err := store.SignMember(f.dev.sign.Certificate); member != f.dev.member || err != nil {
		t.Errorf("the member is %s, %v", member, err)
	}
	if _, err := store.SignMember(f.ee.sign.Certificate); err == nil {
		t.Error("a certificate of another instance names a member of ours")
	}
	if !store.InGroup("all", f.dev.app) {
		t.Error("the group is not there")
	}

	nowhere := ident.Client{Instance: "NOWHERE", Class: "GOV", Member: "1111"}
	_, err = store.Endpoints(nowhere, nil)
	check(t, err, "unknown_member", "nothing is known")
	_, err = store.Members("NOWHERE")
	check(t, err, "internal_error", "nothing is known")
	check(t, store.VerifySign(f.dev.sign.Certificate, nil, nil, nowhere, now), "internal_error", "nothing is known")
	check(t, store.VerifySign(f.dev.sign.Certificate, nil, nil, ident.Client{}, now), "internal_error", "nothing is known")
	check(t, store.VerifyAuth([]*x509.Certificate{f.dev.auth.Certificate}, nil, nowhere, now), "ssl_authentication_failed.internal_error", "nothing is known")
	_, err = store.ServerOf(f.dev.sign.Certificate)
	check(t, err, "ssl_authentication_failed", "not registered")
	if store.Authorities("NOWHERE") != nil {
		t.Error("there are time-stamping authorities of nobody")
	}
}

// TestVersions decides per instance by which hash certificates are known, by the version beside its file.
func TestVersions(t *testing.T) {
	f := newFederation(t)
	sum := sha1.Sum(f.ee.auth.Raw)
	strong := sha256.Sum256(f.ee.auth.Raw)
	old := f.ee.shared(encoded(strong[:]), encoded(sum[:]))
	status := [][]byte{good(t, f.ee.auth, f.ee.ca, f.ee.ca, now)}
	for metadata, cause := range map[string]string{
		"":                              "",
		`{}`:                            "",
		`{"configurationVersion":"2"}`:  "",
		`{"configurationVersion":2}`:    "",
		`{"configurationVersion":null}`: "",
		`{"configurationVersion":"3"}`:  "ssl_authentication_failed.internal_error",
		`{"configurationVersion":"6"}`:  "ssl_authentication_failed.internal_error",
	} {
		lay(t, f.dir, map[string]string{"EE/shared-params.xml": old, "EE/shared-params.xml.metadata": metadata})
		store := f.open(t)
		check(t, store.VerifyAuth([]*x509.Certificate{f.ee.auth.Certificate}, status, f.ee.app, now), cause, "nothing is known")
		if server, err := store.ServerOf(f.dev.auth.Certificate); server != f.dev.server || err != nil {
			t.Errorf("the own server is %s, %v", server, err)
		}
	}
	if told := f.reports(); len(told) != 2 || !strings.Contains(told[0], "20 octets") {
		t.Errorf("reported %q", told)
	}
}

func TestOptionalPartsInTheFolder(t *testing.T) {
	f := newFederation(t)
	overdue := func(store Store) error { // its next update was due
		return store.VerifySign(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.member, now.Add(time.Hour))
	}
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml": f.dev.shared("<ocspFreshnessSeconds>3600", "<ocspFreshnessSeconds>7200")})
	g := f.open(t)
	late := func() error {
		return g.VerifySign(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.member, now.Add(time.Hour+time.Second))
	}
	check(t, overdue(g), "", "")
	check(t, late(), "invalid_cert_path.incorrect_validation_info", "next update was due")

	lay(t, f.dir, map[string]string{"DEV/nextupdate-params.xml": nextUpdateOff})
	g.read(false)
	check(t, late(), "", "")

	lay(t, f.dir, map[string]string{
		"DEV/nextupdate-params.xml":    strings.Replace(nextUpdateOff, "false", "maybe", 1),
		"DEV/fetchinterval-params.xml": "<x/>",
		"DEV/monitoring-params.xml":    `<c:conf xmlns:c="http://x-road.eu/xsd/xroad.xsd"><monitoringClient/></c:conf>`,
	})
	g.read(false)
	check(t, late(), "invalid_cert_path.incorrect_validation_info", "next update was due")
	told := f.reports()
	if len(told) != 1 || !strings.Contains(told[0], "nextupdate-params.xml of instance DEV is not taken") || !strings.Contains(told[0], "fetchinterval-params.xml of instance DEV is not taken") ||
		strings.Contains(told[0], "monitoring") {
		t.Errorf("reported %q", told)
	}
}

// TestFollow changes a folder below a Store that many use.
func TestFollow(t *testing.T) {
	f := newFederation(t)
	g := f.open(t)
	go g.follow(time.NewTicker(time.Millisecond))

	done := make(chan struct{})
	var readers sync.WaitGroup
	status := f.dev.signed(t, f.dev.ca)
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := g.VerifySign(f.dev.sign.Certificate, nil, status, f.dev.member, now); err != nil {
					t.Error(err)
				}
				if e, err := g.Endpoints(f.dev.app, nil); err != nil || len(e) != 1 {
					t.Errorf("%v, %v", e, err)
				}
				g.ServerOf(f.ee.auth.Certificate)
				g.Members("EE")
				g.Valid(f.clock())
			}
		})
	}
	address := func(want string) func() bool {
		return func() bool {
			e, err := g.Endpoints(f.dev.app, nil)
			return err == nil && e[0].Address == want
		}
	}
	told := func(words string) func() bool {
		return func() bool {
			return slices.ContainsFunc(f.reports(), func(s string) bool { return strings.Contains(s, words) })
		}
	}
	foreign := func(there bool) func() bool {
		return func() bool { _, err := g.Members("EE"); return (err == nil) == there }
	}
	eventually := func(what string, happened func() bool) {
		t.Helper()
		for range 20_000 {
			if happened() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("never: %s; reported were %q", what, f.reports())
	}
	changed := func(to string) map[string]string {
		return map[string]string{"DEV/shared-params.xml": f.dev.shared("127.0.0.1:6500", to)}
	}

	lay(t, f.dir, changed("127.0.0.2:6500"))
	eventually("a new version is seen", address("127.0.0.2:6500"))
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml": "<garbage"})
	eventually("garbage is reported", told("instance DEV stays as it was: reading shared-params.xml"))
	if !address("127.0.0.2:6500")() {
		t.Error("garbage changed the address")
	}
	lay(t, f.dir, changed("127.0.0.3:6500"))
	eventually("what comes after garbage is seen", address("127.0.0.3:6500"))
	lay(t, f.dir, map[string]string{"DEV/private-params.xml": "<garbage"})
	eventually("garbage in the private parameters is reported", told("instance DEV stays as it was: reading private-params.xml"))
	lay(t, f.dir, map[string]string{"DEV/private-params.xml": f.ee.private(60)})
	eventually("private parameters of others are reported", told(`private-params.xml are those of instance "EE"`))
	lay(t, f.dir, map[string]string{"DEV/private-params.xml": f.dev.private(600)})
	eventually("new private parameters are seen", func() bool { return g.StampInterval() == 10*time.Minute })
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml.metadata": "{"})
	eventually("garbage in metadata is reported", told("reading shared-params.xml.metadata"))
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml.metadata": until(now.Add(time.Minute))})
	eventually("a new expiry is seen", func() bool { return g.Valid(now.Add(2*time.Minute)) != nil })
	f.set(now.Add(2 * time.Minute))
	check(t, g.Valid(f.clock()), "global_conf_outdated", "expired")
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml.metadata": until(now.Add(5 * time.Minute))})
	eventually("it is valid again", func() bool { return g.Valid(f.clock()) == nil })

	lay(t, f.dir, map[string]string{"EE/shared-params.xml": f.dev.shared()})
	eventually("a folder of others is reported", told("instance EE stays as it was"))
	if !foreign(true)() {
		t.Error("the federated instance is no longer there")
	}
	f.set(now.Add(11 * time.Minute))
	if !foreign(false)() {
		t.Error("the federated instance is there after its time")
	}
	f.set(now)
	lay(t, f.dir, map[string]string{"EE": ""})
	eventually("the federated instance is gone", foreign(false))
	lay(t, f.dir, map[string]string{"EE/shared-params.xml": f.ee.shared(), "EE/shared-params.xml.metadata": until(now.Add(time.Hour))})
	eventually("the federated instance is back", foreign(true))

	lay(t, f.dir, map[string]string{"instance-identifier": "EE"})
	eventually("another own instance is reported", told(`names instance "EE"`))
	lay(t, f.dir, map[string]string{"instance-identifier": "DEV", "DEV": ""})
	eventually("the loss of the own instance is reported", told("instance DEV, the own one, is no longer there"))
	if g.Instance() != "DEV" || !address("127.0.0.3:6500")() {
		t.Error("the own instance is not as it was")
	}
	lay(t, f.dir, map[string]string{"instance-identifier": ""})
	eventually("the loss of the identifier is reported", told("no such file"))
	lay(t, f.dir, map[string]string{"instance-identifier": "DEV"})
	lay(t, f.dir, changed("127.0.0.4:6500"))
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml.metadata": until(now.Add(time.Hour))})
	eventually("the own instance is back", address("127.0.0.4:6500"))

	close(done)
	readers.Wait()
	for range 2 {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	lay(t, f.dir, changed("127.0.0.5:6500"))
	if !address("127.0.0.4:6500")() {
		t.Error("the folder is followed after Close")
	}
}

// TestRefresh counts what is read and told when little or nothing changes.
func TestRefresh(t *testing.T) {
	f := newFederation(t)
	lay(t, f.dir, map[string]string{"bad/shared-params.xml": "x"})
	g := f.open(t)
	first := g.folder.parts["DEV"].shared
	for _, all := range []bool{false, true} {
		g.read(all)
		if g.folder.parts["DEV"].shared != first || len(f.reports()) != 1 {
			t.Errorf("what did not change is read anew; reported were %q", f.reports())
		}
	}
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml.metadata": until(now.Add(time.Hour))})
	g.read(false)
	if g.folder.parts["DEV"].shared != first || g.now.Load().own.proved != first.proved {
		t.Error("a new expiry makes proofs forgotten")
	}
	if g.folder.parts["DEV"].expiries[0].at != now.Add(time.Hour) {
		t.Error("the new expiry is not seen")
	}

	// A change that cannot be seen from outside is seen when all is read.
	file := filepath.Join(f.dir, "DEV/shared-params.xml")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(f.dev.shared("127.0.0.1:6500", "127.0.0.9:6500")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	g.read(false)
	if g.folder.parts["DEV"].shared != first {
		t.Error("the test does not hide its change")
	}
	g.read(true)
	if e, err := g.Endpoints(f.dev.app, nil); err != nil || e[0].Address != "127.0.0.9:6500" {
		t.Errorf("%v, %v", e, err)
	}

	// What is mended and breaks again is told again.
	lay(t, f.dir, map[string]string{"bad": ""})
	g.read(false)
	lay(t, f.dir, map[string]string{"bad/shared-params.xml": "x"})
	g.read(false)
	if n := len(f.reports()); n != 2 {
		t.Errorf("reported were %q", f.reports())
	}
}

func TestOpenGlobalConfRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		words string
	}{
		{"no identifier", map[string]string{"instance-identifier": ""}, "no such file"},
		{"no folder of the own instance", map[string]string{"DEV": ""}, "no shared parameters of instance DEV"},
		{"no shared parameters", map[string]string{"DEV/shared-params.xml": ""}, "instance DEV is left out: stat"},
		{"garbage", map[string]string{"DEV/shared-params.xml": "x"}, "instance DEV is left out: reading shared-params.xml"},
		{"garbage in private parameters", map[string]string{"DEV/private-params.xml": "x"}, "reading private-params.xml"},
		{"a version to come", map[string]string{"DEV/shared-params.xml.metadata": `{"configurationVersion":"7"}`}, `"7" is none of 2 to 6`},
		{"a version that was", map[string]string{"DEV/shared-params.xml.metadata": `{"configurationVersion":1}`}, `"1" is none of 2 to 6`},
		{"the version is no number", map[string]string{"DEV/shared-params.xml.metadata": `{"configurationVersion":"x"}`}, "reading shared-params.xml.metadata"},
		{"the expiry is no time", map[string]string{"DEV/shared-params.xml.metadata": `{"expirationDate":"soon"}`}, `"soon" is no time`},
		{"metadata too long", map[string]string{"DEV/shared-params.xml.metadata": strings.Repeat(" ", maxSmall+1)}, "longer than"},
		{"a server twice", map[string]string{"DEV/shared-params.xml": newLand(t, "DEV").shared("<serverCode>ss2", "<serverCode>ss1")}, "registered twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFederation(t)
			lay(t, f.dir, c.files)
			_, err := OpenGlobalConf(f.dir, f.clock, nil)
			check(t, err, "malformed_global_conf", c.words)
			_, err = OpenVerification(f.dir, nil)
			check(t, err, "malformed_global_conf", c.words)
		})
	}
	if _, err := OpenGlobalConf(filepath.Join(t.TempDir(), "absent"), time.Now, nil); err == nil {
		t.Error("a folder that is not there is opened")
	}
}
