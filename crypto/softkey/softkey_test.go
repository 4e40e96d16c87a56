// SPDX-License-Identifier: Apache-2.0

package softkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial int64

func issue(t testing.TB, name string, issuer *pair, key crypto.Signer, usage x509.KeyUsage) *pair {
	t.Helper()
	serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, KeyUsage: usage,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		IsCA: usage&x509.KeyUsageCertSign != 0, BasicConstraintsValid: true,
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{cert, key}
}

func ec(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func block(kind string, der []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func certPEM(p *pair) string { return block("CERTIFICATE", p.cert.Raw, nil) }

func pkcs8(key crypto.Signer) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return block("PRIVATE KEY", der, err)
}

func sec1(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalECPrivateKey(key)
	return block("EC PRIVATE KEY", der, err)
}

const (
	sign = x509.KeyUsageContentCommitment
	auth = x509.KeyUsageDigitalSignature
	ca   = x509.KeyUsageCertSign
)

func TestParsePEM(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	root := issue(t, "root", nil, ec(t, elliptic.P256()), ca)
	middle := issue(t, "middle", root, ec(t, elliptic.P256()), ca)
	p256, p384, p521 := ec(t, elliptic.P256()), ec(t, elliptic.P384()), ec(t, elliptic.P521())
	leaf := issue(t, "leaf", middle, p256, sign)
	stranger := issue(t, "stranger", root, ec(t, elliptic.P256()), sign)
	long, short := rsaKey(t, 2048), rsaKey(t, 1024)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	encrypted := "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"

	for _, c := range []struct {
		name, pem string
		chain     int
		words     string
	}{
		{"key first", pkcs8(p256) + certPEM(leaf), 1, ""},
		{"certificates in disorder", certPEM(root) + certPEM(leaf) + pkcs8(p256) + certPEM(middle), 3, ""},
		{"root left out", certPEM(middle) + certPEM(leaf) + pkcs8(p256), 2, ""},
		{"a certificate twice", certPEM(leaf) + certPEM(leaf) + pkcs8(p256), 1, ""},
		{"words between", "subject=x\n" + certPEM(leaf) + "\nkey:\n" + pkcs8(p256) + "end", 1, ""},
		{"SEC 1, with parameters", block("EC PARAMETERS", []byte{6, 1, 1}, nil) + sec1(p256) + certPEM(leaf), 1, ""},
		{"PKCS#1", block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(long), nil) + certPEM(issue(t, "rsa", root, long, sign)), 1, ""},
		{"P-384", pkcs8(p384) + certPEM(issue(t, "p384", root, p384, sign)), 1, ""},
		{"P-521 for TLS", pkcs8(p521) + certPEM(issue(t, "p521", root, p521, auth)), 1, ""},
		{"P-521 for signing", pkcs8(p521) + certPEM(issue(t, "p521", root, p521, sign)), 0, "P-256 or P-384"},
		{"Ed25519 for signing", pkcs8(ed) + certPEM(issue(t, "ed", root, ed, sign)), 0, "P-256 or P-384"},
		{"RSA of 1024 bits", pkcs8(short) + certPEM(issue(t, "short", root, short, auth)), 0, "1024 bits"},
		{"no key", certPEM(leaf), 0, "must hold"},
		{"no certificate", pkcs8(p256), 0, "must hold"},
		{"empty", "", 0, "must hold"},
		{"two keys", pkcs8(p256) + pkcs8(p384) + certPEM(leaf), 0, "two private keys"},
		{"certificate of another key", pkcs8(p384) + certPEM(leaf), 0, "none of its 1 certificates"},
		{"a stranger's certificate", pkcs8(p256) + certPEM(leaf) + certPEM(stranger), 0, `"CN=stranger"`},
		{"encrypted as of old", encrypted + certPEM(leaf), 0, "encrypted"},
		{"encrypted", block("ENCRYPTED PRIVATE KEY", []byte("x"), nil) + certPEM(leaf), 0, "encrypted"},
		{"a request", block("CERTIFICATE REQUEST", []byte("x"), nil) + certPEM(leaf) + pkcs8(p256), 0, "CERTIFICATE REQUEST"},
		{"broken certificate", block("CERTIFICATE", []byte("x"), nil) + pkcs8(p256), 0, `reading its "CERTIFICATE"`},
		{"broken key", block("PRIVATE KEY", []byte("x"), nil) + certPEM(leaf), 0, `reading its "PRIVATE KEY"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, err := ParsePEM([]byte(c.pem))
			if c.words != "" {
				if key != nil || err == nil || !strings.Contains(err.Error(), c.words) {
					t.Errorf("got %v, %v; want words %q", key, err, c.words)
				}
				return
			}
			if err != nil || len(key.Chain) != c.chain {
				t.Fatalf("got %+v, %v; want a chain of %d", key, err, c.chain)
			}
			for i, above := range key.Chain[1:] {
				if err := key.Chain[i].CheckSignatureFrom(above); err != nil {
					t.Errorf("certificate %d is not by the next: %v", i, err)
				}
			}
		})
	}
}

func write(t *testing.T, file string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	root := issue(t, "root", nil, ec(t, elliptic.P256()), ca)
	leaf := issue(t, "leaf", root, ec(t, elliptic.P256()), sign)
	text := []byte(pkcs8(leaf.key) + certPEM(leaf))
	encode := func(e *pkcs12.Encoder, password string) []byte {
		der, err := e.Encode(leaf.key, leaf.cert, []*x509.Certificate{root.cert}, password)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"a.pem":      text,
		"b.p12":      encode(pkcs12.Modern, "right"),
		"b.pass":     []byte("right\r\nsecond line\n"),
		"c.p12":      encode(pkcs12.LegacyRC2, "right"),
		"c.pass":     []byte("right"),
		"d.p12":      encode(pkcs12.LegacyDES, ""),
		"wrong.pfx":  encode(pkcs12.Modern, "right"),
		"wrong.pass": []byte("wrong"),
		"none.pfx":   encode(pkcs12.Modern, "right"),
		"ber.pfx":    {0x30, 0x80, 0, 0},
		"long.text":  bytes.Repeat([]byte("\n"), maxFile+1),
		"notes.txt":  []byte("not a key"),
	} {
		write(t, filepath.Join(dir, name), data, 0o600)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.pem"), 0o700); err != nil {
		t.Fatal(err)
	}

	keys, err := LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range keys {
		names = append(names, filepath.Base(k.File))
		if !k.Chain[0].Equal(leaf.cert) {
			t.Errorf("%s: the leaf is %s", k.File, k.Chain[0].Subject)
		}
	}
	if got := strings.Join(names, " "); got != "a.pem b.p12 c.p12 d.p12" {
		t.Errorf("loaded %s", got)
	}

	for name, words := range map[string]string{
		"wrong.pfx":  "password incorrect",
		"none.pfx":   "password incorrect",
		"ber.pfx":    "openssl rewrites it",
		"long.text":  "more than",
		"notes.txt":  "must hold",
		"absent.pem": "no such file",
		"folder.pem": "not a regular file",
	} {
		if _, err := Load(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want words %q", name, err, words)
		}
	}
	if _, err := LoadDir(filepath.Join(dir, "absent")); err == nil {
		t.Error("a folder that is not there")
	}
}

func TestFilesOfOthersAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system has no permission bits")
	}
	root := issue(t, "root", nil, ec(t, elliptic.P256()), ca)
	text := []byte(pkcs8(root.key) + certPEM(root))
	der, err := pkcs12.Modern.Encode(root.key, root.cert, nil, "right")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644, 0o666} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "key.pem"), text, mode)
		if _, err := LoadDir(dir); err == nil || !strings.Contains(err.Error(), "chmod 600 key.pem") {
			t.Errorf("mode %04o: got %v", mode, err)
		}
		dir = t.TempDir()
		write(t, filepath.Join(dir, "key.p12"), der, 0o400)
		write(t, filepath.Join(dir, "key.pass"), []byte("right"), mode)
		if _, err := LoadDir(dir); err == nil || !strings.Contains(err.Error(), "chmod 600 key.pass") {
			t.Errorf("password of mode %04o: got %v", mode, err)
		}
	}
}

const vectors = "../../../shared/vectors/xroad"

func vector(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestVectorsAttack17(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name       string // without .p12
		chain      int
		sign, auth bool
	}{
		{"certs/root-ca", 1, false, false},
		{"certs/consumer", 1, true, true},
		{"certs/producer", 1, true, true},
		{"certs/client", 1, false, true},
		{"certs/internal", 2, false, true},
		{"certs/test_chain/root_ca", 1, false, false},
		{"certs/test_chain/ca_1", 1, false, false},
		{"certs/test_chain/ca_2", 1, false, false},
		{"certs/test_chain/ca_3", 1, false, false},
		{"certs/test_chain/user_0", 1, false, false},
		{"certs/test_chain/user_1", 1, false, false},
		{"certs/test_chain/user_3", 1, false, false},
		{"certs/test_chain/user_invalid_sig", 1, false, false},
		{"softtoken/DF9242D3CBDE6DAC8058D2878340C3B527041FD0", 1, false, false},
		{"softtoken/1342B84B4829BB79226AB268B4D8E70B01068613", 1, false, false},
		{"softtoken/FA73509F9E9DFB7A3D92B3D34DA6BD20374A24B0", 1, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(dir, filepath.Base(c.name))
			password := "test"
			if strings.HasPrefix(c.name, "softtoken/") {
				password = "Secret1234"
			}
			write(t, file+".p12", vector(t, c.name+".p12"), 0o600)
			write(t, file+".pass", []byte(password), 0o600)
			key, err := Load(file + ".p12")
			if err != nil {
				t.Fatal(err)
			}
			if len(key.Chain) != c.chain {
				t.Errorf("a chain of %d, want %d", len(key.Chain), c.chain)
			}
			if s, a := CanSign(key.Chain[0]), CanAuthenticate(key.Chain[0]); s != c.sign || a != c.auth {
				t.Errorf("sign %v, auth %v; want %v, %v", s, a, c.sign, c.auth)
			}
		})
	}
	for _, c := range []struct {
		name       string
		sign, auth bool
	}{
		{"testca/issued/03.pem", false, true},
		{"testca/issued/04.pem", true, false},
		{"testca/issued/05.pem", false, true},
		{"testca/issued/06.pem", true, false},
	} {
		t.Run("attack 17: "+c.name, func(t *testing.T) {
			b, _ := pem.Decode(vector(t, c.name))
			cert, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if s, a := CanSign(cert), CanAuthenticate(cert); s != c.sign || a != c.auth {
				t.Errorf("sign %v, auth %v; want %v, %v", s, a, c.sign, c.auth)
			}
		})
	}
	for _, name := range []string{"consumer", "client", "int-ca"} {
		key, err := ParsePEM(append(vector(t, "certs/"+name+".key"), vector(t, "certs/"+name+".pem")...))
		if err != nil || len(key.Chain) != 1 {
			t.Errorf("%s.key with %s.pem: %v", name, name, err)
		}
	}
}

func FuzzParsePEM(f *testing.F) {
	key := ec(f, elliptic.P256())
	leaf := issue(f, "leaf", nil, key, sign)
	f.Add([]byte(pkcs8(key) + certPEM(leaf)))
	f.Add([]byte(sec1(key) + certPEM(leaf) + certPEM(leaf)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if key, err := ParsePEM(data); err == nil && (key.Private == nil || len(key.Chain) == 0) {
			t.Error("a key without its parts")
		}
	})
}

func FuzzParsePKCS12(f *testing.F) {
	key := ec(f, elliptic.P256())
	leaf := issue(f, "leaf", nil, key, sign)
	for _, e := range []*pkcs12.Encoder{pkcs12.LegacyRC2, pkcs12.LegacyDES, pkcs12.Modern} {
		der, err := e.WithIterations(1).Encode(key, leaf.cert, nil, "test")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// The work that the owner's own file asks for is the owner's business; here it would only take time.
		var pfx struct {
			Version  int
			AuthSafe asn1.RawValue
			Mac      struct {
				Mac        asn1.RawValue
				Salt       []byte
				Iterations int `asn1:"optional,default:1"`
			} `asn1:"optional"`
		}
		pbmac1 := []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0e}
		if _, err := asn1.Unmarshal(data, &pfx); err == nil && pfx.Mac.Iterations > 1000 || bytes.Contains(data, pbmac1) {
			t.Skip()
		}
		if key, err := parsePKCS12(data, "test"); err == nil && (key.Private == nil || len(key.Chain) == 0) {
			t.Error("a key without its parts")
		}
	})
}
