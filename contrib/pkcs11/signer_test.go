// SPDX-License-Identifier: Apache-2.0

package pkcs11

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/caddymodule"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/trust"
)

// namingTrust takes the common name of a certificate for the member that it names.
type namingTrust struct{ trust.Store }

func (namingTrust) SignMember(cert *x509.Certificate) (ident.Client, error) {
	return ident.ParseClient(cert.Subject.CommonName)
}

func (namingTrust) Extra(*x509.Certificate) []*x509.Certificate { return nil }

// writePEM writes a key file.
func writePEM(t testing.TB, file string, key crypto.Signer, cert *x509.Certificate) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	data = append(data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenKeys(t *testing.T) {
	tok := at(t)
	member, other := ident.Client{Instance: "DEV", Class: "GOV", Member: "0000"}, ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	keys := []crypto.Signer{newKey(t, "P-256"), newKey(t, "P-256")}
	later, now := certify(t, keys[0], member.String(), forSigning, 1), certify(t, keys[1], member.String(), forSigning, 0)
	write(t, tok, privateObject(t, 1, keys[0]), certificateObject(1, later), privateObject(t, 2, keys[1]), certificateObject(2, now))
	files := t.TempDir()
	forTLS := newKey(t, "P-256")
	writePEM(t, filepath.Join(files, "tls.pem"), forTLS, certify(t, forTLS, "ss1", forAuthentication, 0))
	clock := noon
	host := func(members ...ident.Client) caddymodule.Host {
		return caddymodule.Host{Members: append([]ident.Client{member}, members...), Trust: namingTrust{}, Clock: func() time.Time { return clock }}
	}

	s := &Signer{Library: tok.library, Token: tok.label, PINFile: tok.pinFile, Files: files}
	opened, err := s.OpenKeys(t.Context(), host())
	if err != nil {
		t.Fatal(err)
	}
	if got := opened.Sign(member); got == nil || !got.Certificate.Equal(now) || !got.Device {
		t.Errorf("today's key is %+v", got)
	} else {
		check(t, got.Key, crypto.SHA512)
	}
	clock = noon.AddDate(0, 0, 1)
	if got := opened.Sign(member); got == nil || !got.Certificate.Equal(later) {
		t.Errorf("tomorrow's key is %+v", got)
	}
	if got := opened.Auth(); got.Leaf.Subject.CommonName != "ss1" {
		t.Errorf("the key for TLS is that of %s", got.Leaf.Subject)
	}

	if _, err := s.OpenKeys(t.Context(), host(other)); err == nil || !strings.HasPrefix(err.Error(), tok.String()+" and "+files+" holds no signing key of DEV/GOV/1111") {
		t.Errorf("without a key of another member: %v", err)
	}
	s.Files = ""
	if _, err := s.OpenKeys(t.Context(), host()); err == nil || !strings.HasPrefix(err.Error(), tok.String()+" holds no key for TLS") {
		t.Errorf("without a key for TLS: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if _, err := s.OpenKeys(ended, host()); err == nil {
			t.Error("opened in no time")
		}
	}
}

func TestVersion(t *testing.T) {
	s := &Signer{PINFile: pinFile(t, pin), Files: t.TempDir()}
	seen := make(map[string]bool)
	version := func() {
		t.Helper()
		v, err := s.Version()
		if err != nil || seen[v] || strings.Contains(v, pin) {
			t.Errorf("version %q, %v", v, err)
		}
		seen[v] = true
	}
	version()
	if err := os.WriteFile(s.PINFile, []byte("another PIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	version()
	writePEM(t, filepath.Join(s.Files, "a.pem"), newKey(t, "P-256"), certify(t, newKey(t, "P-256"), "a", forSigning, 0))
	version()
	s.PINFile += ".absent"
	if _, err := s.Version(); err == nil {
		t.Error("a file that is not there has a version")
	}
}

func TestCaddyfile(t *testing.T) {
	const all = "pkcs11 {\n module /lib/module.so\n token \"My token\"\n pin_file /etc/pin\n"
	for name, test := range map[string]struct{ text, want, err string }{
		"all words":       {all + "files keys\n}", `{"library":"/lib/module.so","token":"My token","pin_file":"/etc/pin","files":"keys"}`, ""},
		"what is needed":  {all + "}", `{"library":"/lib/module.so","token":"My token","pin_file":"/etc/pin"}`, ""},
		"twice":           {all + "token two\n}", "", "'token' stands twice"},
		"two arguments":   {"pkcs11 {\n token a b\n}", "", "wrong argument count"},
		"no argument":     {"pkcs11 {\n token\n}", "", "wrong argument count"},
		"an argument":     {"pkcs11 token", "", "wrong argument count"},
		"an unknown word": {"pkcs11 {\n pin 1234\n}", "", "'pin' is unknown here"},
		"no module":       {"pkcs11 {\n token a\n pin_file b\n}", "", "the module is missing"},
		"no token":        {"pkcs11 {\n module a\n pin_file b\n}", "", "the token is missing"},
		"no PIN":          {"pkcs11 {\n module a\n token b\n}", "", "the file of the PIN is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			var s Signer
			err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.text))
			if err == nil {
				err = s.Validate()
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, not %s", err, test.err)
				}
				return
			}
			got, _ := json.Marshal(s)
			if err != nil || string(got) != test.want {
				t.Errorf("%v, %s", err, got)
			}
		})
	}
	if _, err := caddy.GetModule("xroad.signers.pkcs11"); err != nil {
		t.Error(err)
	}
}

// ring puts the signing key of the development authority on a token and opens it there.
type ring struct {
	exchange.Keys // of the token
	auth          *tls.Certificate
}

func (r ring) Auth() *tls.Certificate { return r.auth }

// TestExchange has a security server sign with a token what comes at once: all arrive, and share signatures.
func TestExchange(t *testing.T) {
	tok := at(t)
	const messages = 32
	member := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	bed := testbed.New(t, testbed.Options{Sender: func(s *exchange.SecurityServer) {
		issued := s.Keys.Sign(member)
		write(t, tok, privateObject(t, 1, issued.Key), certificateObject(1, issued.Certificate))
		files := t.TempDir()
		auth := s.Keys.Auth()
		writePEM(t, filepath.Join(files, "tls.pem"), auth.PrivateKey.(crypto.Signer), auth.Leaf)
		keys, err := (&Signer{Library: tok.library, Token: tok.label, PINFile: tok.pinFile, Files: files}).OpenKeys(t.Context(),
			caddymodule.Host{Members: []ident.Client{member}, Trust: s.Trust, Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := keys.Sign(member).Key.(*key); !ok {
			t.Fatal("the key is not that of the token")
		}
		s.Keys = ring{keys, auth}
	}})
	var all sync.WaitGroup
	for i := range messages {
		all.Go(func() {
			h := &soap.Header{
				Client: ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"},
				Service: ident.Service{Client: ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"},
					Code: "echo", Version: "v1"},
				ID: fmt.Sprint("message ", i), ProtocolVersion: "4.0",
			}
			response, err := http.Post(bed.URL, "text/xml", bytes.NewReader(testbed.Envelope(h, "echo", "")))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			var answer bytes.Buffer
			if _, err := answer.ReadFrom(response.Body); err != nil || bytes.Contains(answer.Bytes(), []byte("Fault>")) {
				t.Errorf("%v: %s", err, answer.Bytes())
			}
		})
	}
	all.Wait()
	requests, signatures := 0, make(map[string]bool)
	for r, err := range bed.Receiver.Evidence.Find(t.Context(), evidence.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !r.Response {
			requests++
			signatures[string(r.Signature.XML)] = true
		}
	}
	if requests != messages {
		t.Errorf("%d of %d messages arrived", requests, messages)
	}
	t.Logf("%d signatures for %d messages", len(signatures), messages)
	bed.CheckClean()
}
