// SPDX-License-Identifier: Apache-2.0

package trust

import (
	stdcrypto "crypto"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
)

// TestVectorChains are the cases of X-Road's CertChainTest: chains with the OCSP responses of all their certificates, and
// with one of them missing or revoked.
func TestVectorChains(t *testing.T) {
	load := func(name string) *pair {
		p := &pair{Certificate: vectorCert(t, "certs/test_chain/"+name)}
		if strings.Contains(name, "ca") {
			block, _ := pem.Decode(vector(t, "certs/test_chain/"+name+".key"))
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			p.key = key.(stdcrypto.Signer)
		}
		return p
	}
	root, ca1, ca2, ca3 := load("root_ca"), load("ca_1"), load("ca_2"), load("ca_3")
	invalid := &pair{Certificate: fromPKCS12(t, "certs/test_chain/user_invalid_sig.p12")}
	at := root.NotBefore.AddDate(0, 0, 5)
	respond := func(c, issuer *pair, revoked time.Time) []byte {
		der, err := ocsp.Respond(c.Certificate, issuer.Certificate, issuer.Certificate, issuer.key, at, time.Time{}, revoked)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	store, err := New(Parameters{Instance: "EE", Freshness: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	anchor := &authority{CA: &CA{Name: "root"}, Certificate: root.Certificate}
	for _, c := range []struct {
		leaf  string
		chain []*pair // the issuers, nearest first, the root last
		left  int     // certificate without a response, counted from the leaf; -1: none
		gone  int     // certificate that is revoked
		want  string
	}{
		{"user_0", []*pair{root}, -1, -1, ""},
		{"user_0", []*pair{root}, 0, -1, "invalid_cert_path.cert_validation"},
		{"user_0", []*pair{root}, -1, 0, "invalid_cert_path.cert_validation"},
		{"user_1", []*pair{ca1, root}, -1, -1, ""},
		{"user_3", []*pair{ca3, ca2, ca1, root}, -1, -1, ""},
		{"user_3", []*pair{ca3, ca2, ca1, root}, 0, -1, "invalid_cert_path.cert_validation"},
		{"user_3", []*pair{ca3, ca2, ca1, root}, 1, -1, "invalid_cert_path.cert_validation"},
		{"user_3", []*pair{ca3, ca2, ca1, root}, 3, -1, "invalid_cert_path.cert_validation"},
		{"user_3", []*pair{ca3, ca2, ca1, root}, -1, 0, "invalid_cert_path.cert_validation"},
		{"user_3", []*pair{ca3, ca2, ca1, root}, -1, 3, "invalid_cert_path.cert_validation"},
		{"user_3", []*pair{ca3, ca1, root}, -1, -1, notCreated},
		{"user_invalid_sig", []*pair{ca3, ca2, ca1, root}, -1, -1, notCreated},
	} {
		leaf := invalid
		if c.leaf != "user_invalid_sig" {
			leaf = load(c.leaf)
		}
		var extra []*x509.Certificate
		var responses [][]byte
		below := leaf
		for i, issuer := range c.chain {
			if i != c.left {
				var revoked time.Time
				if i == c.gone {
					revoked = at.Add(-time.Minute)
				}
				responses = append(responses, respond(below, issuer, revoked))
			}
			if issuer != root {
				extra = append(extra, issuer.Certificate)
			}
			below = issuer
		}
		_, err := store.(*instance).good(leaf.Certificate, extra, responses, anchor, at, past)
		if causes(err) != c.want {
			t.Errorf("%s through %d CAs, without response of %d, %d revoked: got %v, want %q", c.leaf, len(c.chain), c.left, c.gone, err, c.want)
		}
	}
}

// fromPKCS12 takes the certificate out of a key file.
func fromPKCS12(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.p12")
	for name, data := range map[string][]byte{file: vector(t, name), strings.TrimSuffix(file, ".p12") + ".pass": []byte("test")} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := softkey.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return key.Chain[0]
}

// TestVectorDownloads reads all parameters of the vectors that central servers and tests have written.
func TestVectorDownloads(t *testing.T) {
	vector(t, "INDEX.md")
	shared, private := 0, 0
	err := filepath.WalkDir(filepath.Join(vectors, "globalconf-download"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		doc, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		version := lastVersion
		for v := firstVersion; v < lastVersion; v++ {
			if strings.Contains(path, "/V"+string(rune('0'+v))+"/") {
				version = v
			}
		}
		if strings.Contains(path, "large-v2") || strings.Contains(path, "test-conf-simple/") {
			version = firstVersion
		}
		switch d.Name() {
		case sharedFile:
			shared++
			p, err := parseShared(doc, version)
			if err == nil {
				_, err = New(p, nil)
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		case privateFile:
			private++
			if _, err := parsePrivate(doc); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || shared < 9 || private < 6 {
		t.Errorf("%d shared and %d private parameters, %v", shared, private, err)
	}
}

// TestVectorBatchSignature judges the signer of batch-sig.xml, as SignatureVerifierTest does.
func TestVectorBatchSignature(t *testing.T) {
	stub(t)
	cert, extra, responses := signer(t, vector(t, "signatures/batch-sig.xml"))
	v, err := OpenVerification(filepath.Join(vectors, "globalconf/good_v4"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2014, 10, 30, 0, 0, 0, 0, time.UTC)
	for client, want := range map[ident.Client]string{
		business("consumer"): "", business("consumer", "sub"): "", business("producer"): "incorrect_certificate", business("Consumer"): "incorrect_certificate",
	} {
		check(t, v.VerifySign(cert, extra, responses, client, at), want, "")
	}
}
