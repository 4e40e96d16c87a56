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

// TestAttack33 lets a federated instance say things about the own one.
func TestAttack33(t *testing.T) {
	f := newFederation(t)
	dev, ee := f.dev, f.ee
	sum := sha256.Sum256(dev.auth.Raw)
	mallory := issue(t, named("mallory"), nil, nil)
	// EE approves the CA of DEV too, with a responder of its own choice, and registers our certificate for its server.
	approved := fmt.Sprintf("<approvedCA><name>DEV</name><topCA><cert>%s</cert><ocsp><url>http://mallory/</url><cert>%s</cert></ocsp></topCA><certificateProfileInfo>%s</certificateProfileInfo></approvedCA><approvedTSA>",
		encoded(dev.ca.Raw), encoded(mallory.Raw), FiVRK)
	lay(t, f.dir, map[string]string{
		"EE/shared-params.xml": ee.shared("<approvedTSA>", approved,
			"<securityServer><owner>m1</owner>", "<securityServer><owner>m1</owner><serverCode>ss3</serverCode><authCertHash>"+encoded(sum[:])+"</authCertHash></securityServer><securityServer><owner>m1</owner>",
			"<ocspFreshnessSeconds>3600", "<ocspFreshnessSeconds>360000"),
		"EE/private-params.xml":    ee.private(9),
		"EE/nextupdate-params.xml": nextUpdateOff,
	})
	store := f.open(t)
	if len(f.reports()) > 0 {
		t.Fatal(f.reports())
	}

	byEE := issue(t, subjectOf(dev.member, "ss1"), ee.ca, signing)
	check(t, store.VerifySign(byEE.Certificate, nil, [][]byte{good(t, byEE, ee.ca, ee.ca, now)}, dev.member, now), "internal_error", "no approved CA of instance DEV")
	check(t, store.VerifySign(byEE.Certificate, nil, [][]byte{good(t, byEE, ee.ca, ee.ca, now)}, ee.member, now), "incorrect_certificate", "that of member DEV")
	check(t, store.VerifySign(dev.sign.Certificate, nil, dev.signed(t, mallory), dev.member, now), "invalid_cert_path.incorrect_validation_info", "responder")
	check(t, store.VerifySign(dev.sign.Certificate, nil, dev.signed(t, ee.ca), dev.member, now), "invalid_cert_path.incorrect_validation_info", "")
	check(t, store.VerifySign(dev.sign.Certificate, nil, dev.signed(t, dev.ca), dev.member, now), "", "")
	check(t, store.VerifyAuth([]*x509.Certificate{dev.auth.Certificate}, [][]byte{good(t, dev.auth, dev.ca, mallory, now)}, dev.app, now),
		"ssl_authentication_failed.invalid_cert_path.incorrect_validation_info", "")
	if server, err := store.ServerOf(dev.auth.Certificate); server != dev.server || err != nil {
		t.Errorf("our certificate is that of %s, %v", server, err)
	}
	if store.Freshness() != time.Hour || store.StampInterval() != 5*time.Minute {
		t.Errorf("settings of another instance hold: %v, %v", store.Freshness(), store.StampInterval())
	}
	late := now.Add(2 * time.Hour)
	check(t, store.VerifySign(ee.sign.Certificate, nil, [][]byte{good(t, ee.sign, ee.ca, ee.ca, now)}, ee.member, now.Add(9*time.Minute)), "", "")
	lay(t, f.dir, map[string]string{"EE/shared-params.xml.metadata": until(late)})
	store = f.open(t)
	check(t, store.VerifySign(ee.sign.Certificate, nil, [][]byte{good(t, ee.sign, ee.ca, ee.ca, now)}, ee.member, late), "invalid_cert_path.incorrect_validation_info", "2h0m0s old")
	for _, tsa := range store.Authorities("DEV") {
		if !tsa.Certificate.Equal(dev.ca.Certificate) {
			t.Error("a time-stamping authority of another instance counts")
		}
	}

	// A folder of EE that claims to be DEV.
	lay(t, f.dir, map[string]string{"EE/shared-params.xml": dev.shared()})
	store = f.open(t)
	if told := f.reports(); len(told) != 1 || !strings.Contains(told[0], "instance EE is left out") || !strings.Contains(told[0], `those of instance "DEV"`) {
		t.Errorf("reported %q", told)
	}
	if e, err := store.Endpoints(dev.app, nil); err != nil || e[0].Server != dev.server {
		t.Errorf("%v, %v", e, err)
	}
	if _, err := store.Members("EE"); err == nil {
		t.Error("instance EE is there")
	}
}

// TestAttack34 names instances as paths.
func TestAttack34(t *testing.T) {
	for folder, want := range map[string]string{
		"EE": "EE", "a-b.c_d*": "a-b.c_d*", "a+b": "a b", "a%2Fb": "a/b", "%C3%84": "Ä", "%7E": "~", "...": "...", "..%2F..": "../..",
		"": "", ".": "", "..": "", "%2E": "", "%2e%2e": "", "%2E.": "", "%00": "", "a%00b": "", "a%0Ab": "", "%": "", "%4": "", "%ZZ": "",
		"a b": "", "~": "", "%c3%84": "", "%45E": "", "Ä": "", "%FF": "", "a\\b": "",
	} {
		got, err := instanceOf(folder)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("folder %q is that of %q, %v; want %q", folder, got, err, want)
		}
		if err == nil && (strings.ContainsAny(folderOf(got), "/\\\x00") || folderOf(got) != folder) {
			t.Errorf("instance %q would be in %q", got, folderOf(got))
		}
	}

	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	outside := newLand(t, "..")
	lay(t, dir, map[string]string{"shared-params.xml": outside.shared(), "inside/sub/x": "x"})
	for _, own := range []string{"..", ".", "", " ", "a\x00b", "a\nb", "\xff", strings.Repeat("x", 5000)} {
		if err := os.WriteFile(filepath.Join(inside, "instance-identifier"), []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenGlobalConf(inside, time.Now, nil)
		check(t, err, "malformed_global_conf", "instance-identifier")
	}

	// A name that is a path is a name: its folder is below the others, and nowhere else.
	path := newLand(t, "../..")
	lay(t, inside, map[string]string{
		"instance-identifier":                    "../..",
		"..%2F../shared-params.xml":              path.shared(),
		"..%2F../shared-params.xml.metadata":     until(now),
		"%2e%2e/shared-params.xml":               outside.shared(),
		"sub%2F..%2F..%2F../shared-params.xml":   path.shared(),
		"..data/something":                       "else",
		"lost+found/shared-params.xml/directory": "no file",
		"a%00b/shared-params.xml":                "x",
	})
	var told []string
	store, err := OpenGlobalConf(inside, func() time.Time { return now }, func(err error) { told = append(told, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if m, err := store.Members(""); err != nil || m[0].ID != path.member {
		t.Errorf("%v, %v", m, err)
	}
	if len(told) != 4 {
		t.Errorf("reported %q", told)
	}
	for _, name := range []string{"..", "sub/../../..", "lost found"} {
		if _, err := store.Members(name); err == nil {
			t.Errorf("instance %q is there", name)
		}
	}
}

// TestAttack36 lets configurations expire, by an injected clock.
func TestAttack36(t *testing.T) {
	f := newFederation(t)
	store := f.open(t)
	at := func(d time.Duration) time.Time { f.set(now.Add(d)); return now.Add(d) }
	status := [][]byte{good(t, f.ee.auth, f.ee.ca, f.ee.ca, now)}
	known := func(l *land, at time.Time) (known int) {
		if _, err := store.Endpoints(l.app, nil); err == nil {
			known++
		}
		if _, err := store.ServerOf(l.auth.Certificate); err == nil {
			known++
		}
		if _, err := store.Members(l.name); err == nil {
			known++
		}
		if len(store.Authorities(l.name)) > 0 {
			known++
		}
		if store.VerifySign(l.sign.Certificate, nil, l.signed(t, l.ca), l.app, at) == nil {
			known++
		}
		return known
	}
	const all = 5
	for _, c := range []struct {
		after    time.Duration
		cause    string
		dev, ees int
	}{
		{0, "", all, all},
		{10 * time.Minute, "", all, all},
		{10*time.Minute + time.Second, "global_conf_outdated", all, 0},
		{9 * time.Minute, "", all, all}, // a clock that was set back
	} {
		at := at(c.after)
		check(t, store.Valid(at), c.cause, "shared-params.xml of instance DEV expired at 2026-03-01T12:10:00Z; it is 2026-03-01T12:10:01Z now")
		if n := known(f.dev, at); n != c.dev {
			t.Errorf("after %v: %d of %d is known of the own instance", c.after, n, c.dev)
		}
		if n := known(f.ee, at); n != c.ees {
			t.Errorf("after %v: %d of %d is known of the federated instance", c.after, n, c.ees)
		}
	}
	late := at(11 * time.Minute)
	check(t, store.VerifySign(f.ee.sign.Certificate, nil, f.ee.signed(t, f.ee.ca), f.ee.app, late), "internal_error", "shared-params.xml of instance EE expired at")
	check(t, store.VerifyAuth([]*x509.Certificate{f.ee.auth.Certificate}, status, f.ee.app, late), "ssl_authentication_failed.internal_error", "expired")
	_, err := store.Endpoints(f.ee.app, &f.ee.server)
	check(t, err, "unknown_member", "expired")
	_, err = store.ServerOf(f.ee.auth.Certificate)
	check(t, err, "ssl_authentication_failed", "of 2 instances; instance EE has expired")

	// The private parameters alone; then none expire; what a Verification judges never does.
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml.metadata": until(now.Add(time.Hour)), "EE/shared-params.xml.metadata": `{"configurationVersion":"6","expirationDate":null}`})
	if err := store.read(false); err != nil {
		t.Fatal(err)
	}
	check(t, store.Valid(late), "global_conf_outdated", "private-params.xml of instance DEV expired at")
	if n := known(f.ee, late); n != all {
		t.Errorf("%d is known of the federated instance", n)
	}
	lay(t, f.dir, map[string]string{"DEV/private-params.xml.metadata": ""})
	if err := store.read(false); err != nil {
		t.Fatal(err)
	}
	check(t, store.Valid(late), "", "")

	lay(t, f.dir, map[string]string{"EE/shared-params.xml.metadata": until(now.AddDate(-1, 0, 0))})
	v, err := OpenVerification(f.dir, f.report)
	if err != nil {
		t.Fatal(err)
	}
	check(t, v.VerifySign(f.ee.sign.Certificate, nil, f.ee.signed(t, f.ee.ca), f.ee.app, now), "", "")
	if m, err := v.Members("EE"); err != nil || len(m) != 3 || len(v.Authorities("EE")) != 2 {
		t.Errorf("%v, %v", m, err)
	}
}

// TestAttack38 names code and places by the configuration.
func TestAttack38(t *testing.T) {
	f := newFederation(t)
	for _, class := range []string{"java.lang.Runtime", "", "FiVRKCertificateProfileInfoProvider", strings.ToLower(FiVRK), FiVRK + "2",
		classes + "AbstractCertificateProfileInfo", "../../" + FiVRK} {
		lay(t, f.dir, map[string]string{"DEV/shared-params.xml": f.dev.shared(FiVRK, class)})
		err := f.open(t).VerifySign(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.member, now)
		check(t, err, "internal_error", "is not known")
	}
	for _, url := range []string{"file:///etc/passwd", "ftp://ca.example/", "gopher://127.0.0.1:6379/_x", "unix:///run/docker.sock", "//ca.example/",
		"/etc/passwd", "javascript:x", "http:", "http://", "", "%"} {
		lay(t, f.dir, map[string]string{"DEV/shared-params.xml": f.dev.shared("<url> http://ca.example/ocsp </url>", "<url>"+url+"</url>",
			"<url>http://ca.example/other</url>", "<url/>", "http://tsa.example/", url)})
		store := f.open(t)
		if _, err := store.Status(t.Context(), f.dev.sign.Certificate); err == nil || strings.Contains(err.Error(), "dial") {
			t.Errorf("%q as responder: %v", url, err)
		}
		if got := store.Authorities("")[0].URL; got != "" {
			t.Errorf("%q as time-stamping authority: %q", url, got)
		}
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
