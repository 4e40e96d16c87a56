// SPDX-License-Identifier: Apache-2.0

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"log"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/pkcs11"
)

const (
	pin   = "0815-4711" // no error may tell it
	soPIN = "5678-1234"
)

// softHSM is the module, "" where it is not installed.
var softHSM string

// TestMain gives the tokens of these tests a folder of their own, before the module is loaded.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, file := range []string{
		os.Getenv("SOFTHSM2_MODULE"), "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so",
		"/usr/lib64/pkcs11/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so",
	} {
		if _, err := os.Stat(file); err == nil {
			softHSM = file
			break
		}
	}
	if softHSM == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "softhsm")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	config := filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "directories.tokendir = %s\nlog.level = ERROR\n", dir), 0o600); err != nil {
		log.Fatal(err)
	}
	os.Setenv("SOFTHSM2_CONF", config)
	return m.Run()
}

// made counts the tokens of this process.
var made atomic.Int64

// at makes a token and returns it, with its PIN in a file.
func at(t testing.TB) *token {
	t.Helper()
	label := fmt.Sprint("token ", made.Add(1))
	makeToken(t, label)
	return tokenAt(place{module(t), label, pinFile(t, pin+"\n")})
}

func makeToken(t testing.TB, label string) {
	t.Helper()
	module(t)
	out, err := exec.Command("softhsm2-util", "--init-token", "--free", "--label", label, "--pin", pin, "--so-pin", soPIN).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// SoftHSM sees new tokens when it is initialised again.
	if ctx := modules.of[softHSM]; ctx != nil {
		if err := ctx.Finalize(); err != nil && !is(err, pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED) {
			t.Fatal(err)
		}
	}
}

func module(t testing.TB) string {
	t.Helper()
	if softHSM == "" {
		t.Skip("SoftHSM is not installed")
	}
	return softHSM
}

func pinFile(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pin")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// write puts objects on a token.
func write(t testing.TB, tok *token, objects ...[]*pkcs11.Attribute) {
	t.Helper()
	err := operate(t.Context(), tok, func(s session) error {
		slot, err := tok.slot(s.Ctx)
		if err != nil {
			return err
		}
		writing, err := s.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
		if err != nil {
			return err
		}
		defer s.CloseSession(writing)
		for _, o := range objects {
			if _, err := s.CreateObject(writing, o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// certificateObject is a certificate on a token.
func certificateObject(id byte, cert *x509.Certificate) []*pkcs11.Attribute {
	return []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_CERTIFICATE),
		pkcs11.NewAttribute(pkcs11.CKA_CERTIFICATE_TYPE, pkcs11.CKC_X_509),
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true),
		pkcs11.NewAttribute(pkcs11.CKA_ID, []byte{id}),
		pkcs11.NewAttribute(pkcs11.CKA_SUBJECT, cert.RawSubject),
		pkcs11.NewAttribute(pkcs11.CKA_VALUE, cert.Raw),
	}
}

// privateObject is a private key on a token.
func privateObject(t testing.TB, id byte, key crypto.Signer, more ...*pkcs11.Attribute) []*pkcs11.Attribute {
	t.Helper()
	attributes := []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_PRIVATE_KEY),
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true),
		pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SIGN, true),
		pkcs11.NewAttribute(pkcs11.CKA_ID, []byte{id}),
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		attributes = append(attributes,
			pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_RSA),
			pkcs11.NewAttribute(pkcs11.CKA_MODULUS, key.N.Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_PUBLIC_EXPONENT, big.NewInt(int64(key.E)).Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_PRIVATE_EXPONENT, key.D.Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_PRIME_1, key.Primes[0].Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_PRIME_2, key.Primes[1].Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_EXPONENT_1, key.Precomputed.Dp.Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_EXPONENT_2, key.Precomputed.Dq.Bytes()),
			pkcs11.NewAttribute(pkcs11.CKA_COEFFICIENT, key.Precomputed.Qinv.Bytes()))
	case *ecdsa.PrivateKey:
		curve := asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}
		if key.Curve == elliptic.P384() {
			curve = asn1.ObjectIdentifier{1, 3, 132, 0, 34}
		}
		params, err := asn1.Marshal(curve)
		if err != nil {
			t.Fatal(err)
		}
		value, err := key.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		attributes = append(attributes,
			pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_EC),
			pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, params),
			pkcs11.NewAttribute(pkcs11.CKA_VALUE, value))
	default:
		t.Fatalf("a key of type %T", key)
	}
	return slices.Concat(attributes, more)
}

const (
	forSigning        = x509.KeyUsageContentCommitment
	forAuthentication = x509.KeyUsageDigitalSignature
)

// noon is in the middle of the days in which the certificates of these tests are valid.
var noon = time.Date(2031, 6, 1, 12, 0, 0, 0, time.UTC)

// certify makes a self-signed certificate that is valid for a day around noon of that day.
func certify(t testing.TB, key crypto.Signer, name string, usage x509.KeyUsage, day int) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(4711), Subject: pkix.Name{CommonName: name}, KeyUsage: usage,
		NotBefore: noon.AddDate(0, 0, day).Add(-12 * time.Hour), NotAfter: noon.AddDate(0, 0, day).Add(12 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "RSA":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "P-256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "P-384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	default:
		t.Fatal(kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}
