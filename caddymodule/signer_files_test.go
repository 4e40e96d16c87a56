// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

// noon is the time of these tests.
var noon = time.Date(2031, 6, 1, 12, 0, 0, 0, time.UTC)

const (
	forSigning        = x509.KeyUsageContentCommitment
	forAuthentication = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
)

// writeKey writes a new key with a self-signed certificate of a common name. It is valid on days around noon.
func writeKey(t *testing.T, file, name string, usage x509.KeyUsage, fromDay, toDay int) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(noon.Unix() + int64(fromDay)),
		Subject:      pkix.Name{CommonName: name},
		KeyUsage:     usage,
		NotBefore:    noon.AddDate(0, 0, fromDay),
		NotAfter:     noon.AddDate(0, 0, toDay),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	data = append(data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// namingTrust takes the common name of a certificate for the member that it names.
type namingTrust struct{ trust.Store }

func (namingTrust) SignMember(cert *x509.Certificate) (ident.Client, error) {
	if cert.Subject.CommonName == "" {
		return ident.Client{}, errors.New("it names no member")
	}
	return ident.ParseClient(cert.Subject.CommonName)
}

func TestFileSigner(t *testing.T) {
	member := ident.Client{Instance: "DEV", Class: "GOV", Member: "0000"}
	other := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	type file struct {
		name, subject string
		usage         x509.KeyUsage
		fromDay       int
		toDay         int
	}
	auth := file{"auth.pem", "ss1", forAuthentication, -1, 1}
	sign := file{"sign.pem", member.String(), forSigning, -1, 1}
	tests := []struct {
		name    string
		files   []file
		members []ident.Client // besides the owner
		sign    string         // file of the signing key of member, "" for none
		auth    string         // file of the key for TLS
		err     string
	}{
		{name: "one of each", files: []file{auth, sign}, members: []ident.Client{member}, sign: "sign.pem", auth: "auth.pem"},
		{name: "no signing key of the owner", files: []file{auth}, auth: "auth.pem"},
		{name: "the first by name of two", files: []file{auth, {"s2.pem", member.String(), forSigning, -1, 1}, {"s1.pem", member.String(), forSigning, -1, 1}},
			sign: "s1.pem", auth: "auth.pem"},
		{name: "the first is over", files: []file{auth, {"s1.pem", member.String(), forSigning, -9, -1}, {"s2.pem", member.String(), forSigning, -1, 1}},
			sign: "s2.pem", auth: "auth.pem"},
		{name: "the first is not yet", files: []file{auth, {"s1.pem", member.String(), forSigning, 1, 9}, {"s2.pem", member.String(), forSigning, -1, 1}},
			sign: "s2.pem", auth: "auth.pem"},
		{name: "all are over", files: []file{{"a1.pem", "ss1", forAuthentication, -9, -1}, {"s1.pem", member.String(), forSigning, -9, -1}},
			members: []ident.Client{member}, auth: "a1.pem"},
		{name: "two for TLS", files: []file{{"a1.pem", "ss1", forAuthentication, -9, -1}, {"a2.pem", "ss1", forAuthentication, -1, 1}}, auth: "a2.pem"},
		{name: "a signing certificate that allows more", files: []file{{"a.pem", member.String(), forSigning | forAuthentication, -1, 1}, auth},
			members: []ident.Client{member}, sign: "a.pem", auth: "auth.pem"},
		{name: "none for TLS", files: []file{sign}, err: "no key for TLS"},
		{name: "none of a member", files: []file{auth, sign}, members: []ident.Client{other}, err: "no signing key of DEV/GOV/1111"},
		{name: "of nobody", files: []file{auth, {"who.pem", "", forSigning, -1, 1}}, err: "who.pem: whose signing key is it: it names no member"},
		{name: "for something else", files: []file{auth, {"ca.pem", "ca", x509.KeyUsageCertSign, -1, 1}}, err: "ca.pem: the certificate is neither for signing nor for authentication"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			certs := map[string]*x509.Certificate{"": nil}
			for _, f := range test.files {
				certs[f.name] = writeKey(t, filepath.Join(dir, f.name), f.subject, f.usage, f.fromDay, f.toDay)
			}
			keys, err := (&FileSigner{Dir: dir}).OpenKeys(context.Background(), Host{
				Members: append([]ident.Client{member}, test.members...),
				Clock:   func() time.Time { return noon },
				Trust:   namingTrust{},
			})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			subsystem := member
			subsystem.Subsystem = "registry"
			var signing *x509.Certificate
			if key := keys.Sign(subsystem); key != nil {
				signing = key.Certificate
				if public, ok := signing.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Key.Public()) {
					t.Error("key and certificate do not match")
				}
			}
			if want := certs[test.sign]; want == nil != (signing == nil) || want != nil && !want.Equal(signing) {
				t.Errorf("not the signing key of %q", test.sign)
			}
			if keys.Sign(ident.Client{Instance: "DEV", Class: "GOV", Member: "9999"}) != nil {
				t.Error("a stranger has a signing key")
			}
			if got := keys.Auth(); !got.Leaf.Equal(certs[test.auth]) || len(got.Certificate) != 1 {
				t.Errorf("not the key for TLS of %q", test.auth)
			}
		})
	}
}

func TestFileSignerVersion(t *testing.T) {
	dir := t.TempDir()
	signer := &FileSigner{Dir: dir}
	version := func() string {
		t.Helper()
		v, err := signer.Version()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	file := filepath.Join(dir, "auth.pem")
	writeKey(t, file, "ss1", forAuthentication, -1, 1)
	first := version()
	if first != version() {
		t.Error("the version changes by itself")
	}
	if err := os.Chtimes(file, noon, noon); err != nil {
		t.Fatal(err)
	}
	second := version()
	if first == second {
		t.Error("the version stays when a file is written")
	}
	writeKey(t, filepath.Join(dir, "sign.pem"), "DEV/GOV/0000", forSigning, -1, 1)
	if second == version() {
		t.Error("the version stays when a file is added")
	}
	if _, err := (&FileSigner{Dir: filepath.Join(dir, "absent")}).Version(); err == nil {
		t.Error("an absent folder has a version")
	}
}
