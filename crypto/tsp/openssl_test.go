// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// openssl runs openssl in a folder.
func openssl(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// write writes a file, as PEM where kind is not "".
func write(t testing.TB, dir, name, kind string, octets []byte) {
	t.Helper()
	if kind != "" {
		octets = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: octets})
	}
	if err := os.WriteFile(filepath.Join(dir, name), octets, 0o600); err != nil {
		t.Fatal(err)
	}
}

// realAuthority makes an authority that is valid today, as openssl asks for, in a folder with its certificate and key.
func realAuthority(t testing.TB, key string) (*authority, string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	a := newAuthority(t, key, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	})
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "tsa.pem", "CERTIFICATE", a.cert.Raw)
	write(t, dir, "tsa.key", "PRIVATE KEY", der)
	return a, dir
}

// TestOpenSSLVerifies lets openssl verify our tokens and responses.
func TestOpenSSLVerifies(t *testing.T) {
	for _, key := range []string{"RSA-2048", "P-256", "P-384"} {
		t.Run(key, func(t *testing.T) {
			a, dir := realAuthority(t, key)
			verify := func(args ...string) {
				t.Helper()
				if out := openssl(t, dir, append([]string{"ts", "-verify", "-CAfile", "tsa.pem"}, args...)...); !strings.Contains(out, "Verification: OK") {
					t.Errorf("openssl says %s", out)
				}
			}
			write(t, dir, "data", "", []byte("data"))
			token, err := over("data").Accept(a.respond(t, over("data"), time.Now()), a.certs())
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "token", "", token.Raw)
			verify("-data", "data", "-in", "token", "-token_in") // it carries its certificate

			for n, args := range [][]string{{"-sha512", "-no_nonce"}, {"-sha256", "-cert"}, {"-sha384", "-cert", "-tspolicy", policy.String()}} {
				openssl(t, dir, append([]string{"ts", "-query", "-data", "data", "-out", "query"}, args...)...)
				query, err := os.ReadFile(filepath.Join(dir, "query"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := Respond(query, a.key, a.cert, big.NewInt(int64(n)), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				write(t, dir, "response", "", response)
				verify("-queryfile", "query", "-in", "response", "-untrusted", "tsa.pem")
			}
		})
	}
}

// opensslAuthority answers by openssl ts -reply.
type opensslAuthority struct {
	t   testing.TB
	dir string
	mu  sync.Mutex // openssl keeps its serial number in a file
}

func (a *opensslAuthority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	query, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != queryType {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	write(a.t, a.dir, "asked", "", query)
	openssl(a.t, a.dir, "ts", "-reply", "-config", "openssl.cnf", "-queryfile", "asked", "-out", "reply")
	reply, err := os.ReadFile(filepath.Join(a.dir, "reply"))
	if err != nil {
		a.t.Error(err)
	}
	w.Header().Set("Content-Type", replyType)
	w.Write(reply)
}

// TestOpenSSLAnswers fetches time-stamps from openssl.
func TestOpenSSLAnswers(t *testing.T) {
	const configuration = `
[tsa]
default_tsa = one
[one]
dir = .
serial = ./serial
crypto_device = builtin
signer_cert = ./tsa.pem
signer_key = ./tsa.key
signer_digest = %s
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1, millisecs:500, microsecs:100
clock_precision_digits = %d
ordering = yes
tsa_name = yes
ess_cert_id_chain = no
ess_cert_id_alg = %s
`
	for _, test := range []struct {
		key, digest, certID string
		precision           int
	}{
		{"RSA-2048", "sha256", "sha1", 0},
		{"RSA-2048", "sha512", "sha256", 3},
		{"P-256", "sha256", "sha512", 6},
		{"P-384", "sha384", "sha1", 0},
	} {
		t.Run(fmt.Sprintf("%s, %s, %s", test.key, test.digest, test.certID), func(t *testing.T) {
			a, dir := realAuthority(t, test.key)
			write(t, dir, "openssl.cnf", "", fmt.Appendf(nil, configuration, test.digest, test.precision, test.certID))
			write(t, dir, "serial", "", []byte("0A\n"))
			url := serve(t, &opensslAuthority{t: t, dir: dir})

			fetch := func(r Request) (*Token, error) {
				return Fetch(context.Background(), NewClient(), []string{"http://127.0.0.1:1/", url}, r, a.certs())
			}
			token, err := fetch(over("data"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = token.Verify([]byte("data"), a.certs(), Present)
			mustBe(t, err, "", "")
			if age := time.Since(token.GenTime); age < -time.Minute || age > time.Minute || token.Policy.String() != "1.2.3.4.1" {
				t.Error(show(token))
			}
			write(t, dir, "data", "", []byte("data"))
			write(t, dir, "token", "", token.Raw)
			if out := openssl(t, dir, "ts", "-verify", "-data", "data", "-in", "token", "-token_in", "-CAfile", "tsa.pem"); !strings.Contains(out, "Verification: OK") {
				t.Errorf("openssl says %s", out)
			}

			withNonce := Request{crypto.SHA256, crypto.SHA256.Sum([]byte("data")), new(big.Int).Lsh(big.NewInt(1), 63)}
			if token, err := fetch(withNonce); err != nil || token.Nonce.Cmp(withNonce.Nonce) != 0 {
				t.Error(err)
			}
			_, err = fetch(Request{crypto.SHA384, crypto.SHA384.Sum([]byte("data")), nil}) // not among its digests
			mustBe(t, err, notGranted, "failure 0")
		})
	}
}
