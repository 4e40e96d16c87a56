// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The attacks of signature-and-evidence 14.3 that come by the global configuration.

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
