// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/trust/dev"
)

// TestContainerForOtherTools exports a record with a time-stamp and has openssl judge its token and its OCSP response, and
// unzip and Python the container. xmlsec1 judges signatures in crypto/xades and crypto/asice.
func TestContainerForOtherTools(t *testing.T) {
	for _, tool := range []string{"openssl", "unzip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	a := newArchive(t)
	authority, err := dev.Open(t.Context(), &certmagic.FileStorage{Path: os.Getenv("XDG_DATA_HOME")}, demoSender.Instance, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	parameters, err := authority.Parameters(t.Context(), demoServers)
	if err != nil {
		t.Fatal(err)
	}
	timestamp(t, a.dir, authority)
	dir := t.TempDir()
	if e := fairway(t.Context(), "", "evidence", "export", "1", "--dir", a.dir, "--out", dir); e.err != nil {
		t.Fatal(e.err, e.stderr)
	}
	containers, _ := filepath.Glob(filepath.Join(dir, "*.asice"))
	if len(containers) != 1 {
		t.Fatal(containers)
	}
	run := func(want, name string, args ...string) {
		t.Helper()
		command := exec.Command(name, args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	file := func(name string, octets []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), octets, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate := func(name string, der []byte) {
		t.Helper()
		file(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	run("No errors detected", "unzip", "-t", containers[0])
	if _, err := exec.LookPath("python3"); err == nil {
		run("Done testing", "python3", "-m", "zipfile", "-t", containers[0])
	}
	run("inflating", "unzip", "-o", containers[0])

	ca := parameters.CAs[0].Authorities[0]
	certificate("ca.pem", ca.Certificate.Raw)
	certificate("tsa.pem", parameters.TSAs[0].Certificate.Raw)
	stamp := []string{"ts", "-verify", "-in", "META-INF/timestamp.tst", "-token_in", "-CAfile", "ca.pem", "-untrusted", "tsa.pem", "-data"}
	run("Verification: OK", "openssl", append(stamp, "ts-hashchainresult.xml")...)
	run("Verification: FAILED", "openssl", append(stamp, "message.xml")...)

	document, err := os.ReadFile(filepath.Join(dir, "META-INF", "signatures.xml"))
	if err != nil {
		t.Fatal(err)
	}
	inside := func(element string) []byte {
		t.Helper()
		found := regexp.MustCompile(`(?s)<` + element + `[^>]*>(.*?)</`).FindSubmatch(document)
		if found == nil {
			t.Fatalf("no %s", element)
		}
		der, err := base64.StdEncoding.DecodeString(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	certificate("signer.pem", inside("ds:X509Certificate"))
	file("response.der", inside("xades:EncapsulatedOCSPValue"))
	trusted := "ca.pem"
	if len(ca.Responders) > 0 && ca.Responders[0].Certificate != nil {
		certificate("responder.pem", ca.Responders[0].Certificate.Raw)
		trusted = "responder.pem"
	}
	response := []string{"ocsp", "-respin", "response.der", "-issuer", "ca.pem", "-cert", "signer.pem", "-VAfile", trusted, "-CAfile", "ca.pem", "-no_nonce"}
	run("Response verify OK", "openssl", response...)
	run("signer.pem: good", "openssl", response...)
}
