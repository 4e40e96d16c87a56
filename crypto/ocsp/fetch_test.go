// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestFetchAttack38(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	leaf := issue(t, "leaf", ca, nil, nil)
	answer := good(t, leaf.cert, ca.cert, ca, now, time.Time{})
	request, err := requestFor(idOf(leaf.cert, ca.cert))
	if err != nil {
		t.Fatal(err)
	}
	serve := func(status int, body []byte) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked, _ := io.ReadAll(r.Body)
			if r.Method != "POST" || !bytes.Equal(asked, request) || r.Header.Get("Content-Type") != "application/ocsp-request" ||
				r.Header.Get("Accept") != "application/ocsp-response" {
				t.Errorf("asked by %s with %x, %v", r.Method, asked, r.Header)
			}
			w.WriteHeader(status)
			w.Write(body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	works, fails := serve(200, answer), serve(503, nil)
	busy, long, junk := serve(200, []byte{0x30, 3, 0x0a, 1, 3}), serve(200, make([]byte, maxResponse+1)), serve(200, []byte("junk"))
	for _, c := range []struct {
		name  string
		urls  []string
		words string
	}{
		{"first", []string{works, fails}, ""},
		{"last of many", []string{fails, busy, long, junk, "ftp://x/", "http://127.0.0.1:1/", works}, ""},
		{"none", nil, "no responder"},
		{"error", []string{fails}, "503"},
		{"busy", []string{busy}, "tryLater"},
		{"too long", []string{long}, "more than"},
		{"junk", []string{junk}, "envelope"},
		{"attack 38: another scheme", []string{"file:///etc/passwd"}, "only http"},
		{"no URL", []string{"::"}, "missing protocol scheme"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Fetch(context.Background(), http.DefaultClient, c.urls, leaf.cert, ca.cert)
			if c.words == "" && (err != nil || !bytes.Equal(got, answer)) {
				t.Errorf("got %x, %v", got, err)
			}
			if c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "CN=leaf")) {
				t.Errorf("got %v, want words %q, and the certificate named by the caller", err, c.words)
			}
		})
	}
}

// TestOpenSSL lets openssl verify our response and answer our request.
func TestOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	real := time.Now().Truncate(time.Second)
	dates := func(c *x509.Certificate) { c.NotBefore, c.NotAfter = real.Add(-time.Hour), real.Add(time.Hour) }
	ca := issue(t, "CA", nil, nil, func(c *x509.Certificate) { authority(c); dates(c) })
	leaf := issue(t, "leaf", ca, nil, dates)
	gone := issue(t, "gone", ca, nil, dates)
	delegate := issue(t, "delegate", ca, nil, func(c *x509.Certificate) { ocspSigning(c); dates(c) })

	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if kind != "" {
			der = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		}
		if err := os.WriteFile(file, der, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	caFile, leafFile := write("ca.pem", "CERTIFICATE", ca.cert.Raw), write("leaf.pem", "CERTIFICATE", leaf.cert.Raw)
	key, err := x509.MarshalPKCS8PrivateKey(delegate.key)
	if err != nil {
		t.Fatal(err)
	}
	signer, signerKey := write("delegate.pem", "CERTIFICATE", delegate.cert.Raw), write("delegate.key", "PRIVATE KEY", key)

	for _, c := range []struct {
		name     string
		response []byte
		says     string
	}{
		{"by the issuer", good(t, leaf.cert, ca.cert, ca, real, real.Add(time.Hour)), "leaf.pem: good"},
		{"by a delegate", good(t, leaf.cert, ca.cert, delegate, real, time.Time{}), "leaf.pem: good"},
		{"revoked", func() []byte {
			der, _ := Respond(leaf.cert, ca.cert, ca.cert, ca.key, real, time.Time{}, real.Add(-time.Minute))
			return der
		}(), "leaf.pem: revoked"},
	} {
		t.Run("verifies ours "+c.name, func(t *testing.T) {
			out, err := exec.Command("openssl", "ocsp", "-respin", write("response.der", "", c.response),
				"-issuer", caFile, "-cert", leafFile, "-CAfile", caFile, "-no_nonce").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Response verify OK") || !strings.Contains(string(out), c.says) {
				t.Errorf("openssl says %s, %v", out, err)
			}
		})
	}

	line := func(status, when string, c *x509.Certificate) string {
		return fmt.Sprintf("%s\t%s\t%s\t%X\tunknown\t/CN=x\n", status, c.NotAfter.UTC().Format("060102150405Z"), when, c.SerialNumber.FillBytes(make([]byte, 1)))
	}
	index := write("index.txt", "", []byte(line("V", "", leaf.cert)+line("R", real.Add(-time.Minute).UTC().Format("060102150405Z"), gone.cert)))
	responder := exec.Command("openssl", "ocsp", "-index", index, "-CA", caFile, "-rsigner", signer, "-rkey", signerKey,
		"-port", "0", "-nrequest", "3", "-nmin", "60")
	out, err := responder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	responder.Stderr = responder.Stdout
	if err := responder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { responder.Process.Kill(); responder.Wait() })
	port := ""
	for lines := bufio.NewScanner(out); port == "" && lines.Scan(); {
		if m := regexp.MustCompile(`ACCEPT .*:(\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			port = m[1]
		}
	}
	if port == "" {
		t.Fatal("openssl ocsp does not listen")
	}
	go io.Copy(io.Discard, out)
	for _, c := range []struct {
		cert  *x509.Certificate
		cause string
	}{{leaf.cert, ""}, {gone.cert, "cert_validation"}, {delegate.cert, "cert_validation"}} {
		der, err := Fetch(context.Background(), http.DefaultClient, []string{"http://127.0.0.1:" + port}, c.cert, ca.cert)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Verify(der, c.cert, ca.cert, Policy{Freshness: time.Hour, Ahead: 5 * time.Minute}, time.Now())
		if causeOf(err) != c.cause {
			t.Errorf("%s: got %v, want cause %q", c.cert.Subject, err, c.cause)
		}
	}
}
