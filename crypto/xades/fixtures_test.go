// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"archive/zip"
	"bytes"
	"context"
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// vector reads a test vector.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "vectors", "xroad")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// container reads a container vector as a message: the signature, the hash chain it may have, and the parts.
func container(t testing.TB, name string) (sig *crypto.Signature, parts []crypto.Part, files map[string][]byte) {
	t.Helper()
	octets := vector(t, name)
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		t.Fatal(err)
	}
	files = make(map[string][]byte)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	sig = &crypto.Signature{XML: files["META-INF/signatures.xml"],
		HashChainResult: files["sig-hashchainresult.xml"], HashChain: files["sig-hashchain.xml"]}
	parts = message(crypto.SHA512, string(files["message.xml"]))
	for n := 1; ; n++ {
		attachment, ok := files[fmt.Sprint("attachment", n)]
		if !ok {
			return sig, parts, files
		}
		parts = append(parts, crypto.Part{Name: crypto.Attachment(n), Digest: crypto.SHA512, Sum: crypto.SHA512.Sum(attachment)})
	}
}

// message makes the parts of a message whose octets are the texts.
func message(d crypto.Digest, texts ...string) []crypto.Part {
	parts := make([]crypto.Part, len(texts))
	for i, text := range texts {
		parts[i] = crypto.Part{Name: crypto.Message, Digest: d, Sum: d.Sum([]byte(text))}
		if i > 0 {
			parts[i].Name = crypto.Attachment(i)
		}
	}
	return parts
}

// attached makes a message with n attachments.
func attached(d crypto.Digest, n int) []crypto.Part {
	texts := []string{"<message/>"}
	for i := range n {
		texts = append(texts, fmt.Sprint("attachment ", i+1))
	}
	return message(d, texts...)
}

// cause joins the causes of an error as they go into a fault, "" for none.
func cause(err error) string {
	var all []string
	for ; err != nil; err = errors.Unwrap(err) {
		if c, ok := err.(interface{ Cause() string }); ok {
			all = append(all, c.Cause())
		}
	}
	return strings.Join(all, ".")
}

// mustBe checks the causes of an error.
func mustBe(t testing.TB, err error, want string) {
	t.Helper()
	if got := cause(err); got != want || (err == nil) != (want == "") {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

// keys are generated once.
var keys = map[string]func() stdcrypto.Signer{
	"RSA-1024": sync.OnceValue(func() stdcrypto.Signer { return newRSA(1024) }),
	"RSA-2048": sync.OnceValue(func() stdcrypto.Signer { return newRSA(2048) }),
	"RSA-3072": sync.OnceValue(func() stdcrypto.Signer { return newRSA(3072) }),
	"P-256":    sync.OnceValue(func() stdcrypto.Signer { return newECDSA(elliptic.P256()) }),
	"P-384":    sync.OnceValue(func() stdcrypto.Signer { return newECDSA(elliptic.P384()) }),
	"P-521":    sync.OnceValue(func() stdcrypto.Signer { return newECDSA(elliptic.P521()) }),
}

func newRSA(bits int) stdcrypto.Signer {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

func newECDSA(curve elliptic.Curve) stdcrypto.Signer {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// certify makes a self-signed certificate.
func certify(t testing.TB, key stdcrypto.Signer, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(4711),
		Subject:      pkix.Name{CommonName: "1111", Organization: []string{"A & B <test>, \"x\""}},
		NotBefore:    time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2044, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:     x509.KeyUsageContentCommitment,
	}
	if change != nil {
		change(template)
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

// signer makes a signer with a fresh certificate and that many extra certificates.
func signer(t testing.TB, kind string, extra int) *Signer {
	t.Helper()
	s := &Signer{
		Key:   keys[kind](),
		Clock: func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 78e6, time.UTC) },
	}
	s.Certificate = certify(t, s.Key, nil)
	responses := [][]byte{[]byte("response 0")}
	for i := range extra {
		s.Extra = append(s.Extra, certify(t, keys["P-256"](), func(c *x509.Certificate) { c.SerialNumber = big.NewInt(int64(i + 1)) }))
		responses = append(responses, fmt.Append(nil, "response ", i+1))
	}
	s.OCSP = func(context.Context) ([][]byte, error) { return responses, nil }
	return s
}

// mustSign signs, or the test ends.
func mustSign(t testing.TB, s *Signer, parts []crypto.Part, form crypto.Form) *crypto.Signature {
	t.Helper()
	sig, err := s.Sign(context.Background(), parts, form)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// find returns the first element with that local name, in document order.
func find(e *c14n.Element, local string) *c14n.Element {
	if e.Local == local {
		return e
	}
	for _, c := range e.Children() {
		if f := find(c, local); f != nil {
			return f
		}
	}
	return nil
}

func parse(t testing.TB, xml string) *c14n.Element {
	t.Helper()
	root, err := c14n.Parse([]byte(xml), c14n.Limits{})
	if err != nil {
		t.Fatalf("%v in %s", err, xml)
	}
	return root
}

func canonicalForm(t testing.TB, e *c14n.Element, algorithm string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := e.Canonicalize(&b, algorithm); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var (
	propertiesDigest = regexp.MustCompile(`(?s)(URI="#signed-properties">.*?<ds:DigestValue>)[^<]*`)
	signatureValue   = regexp.MustCompile(`(?s)(<ds:SignatureValue[^>]*>)[^<]*`)
)

// resign makes the digest of the signed properties and the signature value right again after a document was changed: what
// a signer could do who wants to deceive.
func resign(t testing.TB, s *Signer, xml string) []byte {
	t.Helper()
	if properties := find(parse(t, xml), "SignedProperties"); properties != nil {
		sum := crypto.SHA512.Sum(canonicalForm(t, properties, c14n.Inclusive))
		xml = propertiesDigest.ReplaceAllString(xml, "${1}"+encode(sum))
	}
	value, err := sign(s.Key, crypto.SHA512.Sum(canonicalForm(t, find(parse(t, xml), "SignedInfo"), c14n.Inclusive)))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(signatureValue.ReplaceAllString(xml, "${1}"+encode(value)))
}

// change replaces one piece of a document that has it.
func change(t testing.TB, xml []byte, old, new string) string {
	t.Helper()
	if !strings.Contains(string(xml), old) {
		t.Fatalf("the document has no %s", old)
	}
	return strings.Replace(string(xml), old, new, 1)
}
