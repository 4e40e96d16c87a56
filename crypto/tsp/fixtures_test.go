// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"archive/zip"
	"bytes"
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
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

// container reads the files of a container vector.
func container(t testing.TB, name string) map[string][]byte {
	t.Helper()
	octets := vector(t, name)
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// element returns the decoded base64 text of the first element of that name which has text.
func element(t testing.TB, doc []byte, name string) []byte {
	t.Helper()
	found := regexp.MustCompile(`<[a-z:]*` + name + `\b[^>]*>([A-Za-z0-9+/=\s&#;]+)</`).FindSubmatch(doc)
	if found == nil {
		t.Fatalf("there is no %s", name)
	}
	return decode(t, string(found[1]))
}

// decode reads base64, with the spelling of carriage returns that is usual in signature documents.
func decode(t testing.TB, text string) []byte {
	t.Helper()
	octets, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(strings.ReplaceAll(text, "&#13;", "")), ""))
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// certificateOf reads a certificate, DER or PEM.
func certificateOf(t testing.TB, octets []byte) *x509.Certificate {
	t.Helper()
	if block, _ := pem.Decode(octets); block != nil {
		octets = block.Bytes
	}
	c, err := x509.ParseCertificate(octets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// privateKey reads a private key in PEM.
func privateKey(t testing.TB, text []byte) stdcrypto.Signer {
	t.Helper()
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(stdcrypto.Signer)
}

// approved reads the certificates of the approved time-stamping authorities of shared parameters.
func approved(t testing.TB, shared string) (certs []*x509.Certificate) {
	t.Helper()
	for _, tsa := range regexp.MustCompile(`(?s)<approvedTSA>.*?</approvedTSA>`).FindAll(vector(t, shared), -1) {
		certs = append(certs, certificateOf(t, element(t, tsa, "cert")))
	}
	return certs
}

// timestamp1 is the authority of the vectors of 2012 to 2014.
func timestamp1(t testing.TB) []*x509.Certificate {
	t.Helper()
	return []*x509.Certificate{certificateOf(t, decode(t, string(vector(t, "certs/tsp.b64"))))}
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

// mustBe checks the causes of an error, and words in it.
func mustBe(t testing.TB, err error, want, words string) {
	t.Helper()
	if got := cause(err); got != want || (err == nil) != (want == "") {
		t.Errorf("got %q (%v), want %q", got, err, want)
	} else if err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want the words %q", err, words)
	}
}

// keys are generated once.
var keys = map[string]func() stdcrypto.Signer{
	"RSA-1024": sync.OnceValue(func() stdcrypto.Signer { return newRSA(1024) }),
	"RSA-2048": sync.OnceValue(func() stdcrypto.Signer { return newRSA(2048) }),
	"P-224":    sync.OnceValue(func() stdcrypto.Signer { return newECDSA(elliptic.P224()) }),
	"P-256":    sync.OnceValue(func() stdcrypto.Signer { return newECDSA(elliptic.P256()) }),
	"P-384":    sync.OnceValue(func() stdcrypto.Signer { return newECDSA(elliptic.P384()) }),
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

// now is the time of the tests.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// authority is a time-stamping authority of the tests.
type authority struct {
	key  stdcrypto.Signer
	cert *x509.Certificate
}

// newAuthority makes an authority with a certificate that it signed itself, changed where change is not nil.
func newAuthority(t testing.TB, key string, change func(*x509.Certificate)) *authority {
	t.Helper()
	a := &authority{key: keys[key]()}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(7),
		Subject:               pkix.Name{CommonName: "authority"},
		SubjectKeyId:          []byte("key of the authority"),
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		ExtraExtensions:       []pkix.Extension{extendedKeyUsage(t, timeStamping)},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert = certificateOf(t, der)
	return a
}

var (
	timeStamping = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}
	serverAuth   = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	anyPurpose   = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
)

func extendedKeyUsage(t testing.TB, purposes ...asn1.ObjectIdentifier) pkix.Extension {
	t.Helper()
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: marshal(t, purposes)}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	der, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (a *authority) certs() []*x509.Certificate { return []*x509.Certificate{a.cert} }

// respond answers a request.
func (a *authority) respond(t testing.TB, r Request, at time.Time) []byte {
	t.Helper()
	query, err := r.DER()
	if err != nil {
		t.Fatal(err)
	}
	response, err := Respond(query, a.key, a.cert, big.NewInt(42), at)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// token makes a token over data.
func (a *authority) token(t testing.TB, data string, at time.Time) *Token {
	t.Helper()
	token, err := readResponse(a.respond(t, over(data), at))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// over asks for a time-stamp as X-Road does.
func over(data string) Request {
	return Request{Digest: crypto.SHA512, Sum: crypto.SHA512.Sum([]byte(data))}
}

// made is what an authority of the tests may do otherwise than Respond.
type made struct {
	info       func(*tstInfo)
	content    *method // of the imprint
	method     *method // of the signature
	attributes func([]attribute) []attribute
	signer     func(*signerInfo)
	data       func(*signedData)
	outer      func(*contentInfo)
}

// make makes a token over data that is changed where it says so, and signed after that.
func (a *authority) make(t testing.TB, data string, at time.Time, m made) []byte {
	t.Helper()
	if m.content == nil {
		m.content = sha512Method
	}
	if m.method == nil {
		m.method = sha512Method
	}
	genTime, err := asn1.MarshalWithParams(at, "generalized")
	if err != nil {
		t.Fatal(err)
	}
	info := tstInfo{Version: 1, Policy: policy, Imprint: imprint{m.content.identifier(), m.content.sum([]byte(data))},
		Serial: big.NewInt(1), GenTime: asn1.RawValue{FullBytes: genTime}}
	if m.info != nil {
		m.info(&info)
	}
	content := marshal(t, info)
	s, err := sign(content, m.method, a.key, a.cert)
	if err != nil {
		t.Fatal(err)
	}
	if m.attributes != nil {
		var all []attribute
		if err := exact(append([]byte{0x31}, s.Attributes.FullBytes[1:]...), &all, "set"); err != nil {
			t.Fatal(err)
		}
		signed, err := asn1.MarshalWithParams(m.attributes(all), "set")
		if err != nil {
			t.Fatal(err)
		}
		s.Attributes.FullBytes = append([]byte{0xa0}, signed[1:]...)
		if s.Signature, err = a.key.Sign(rand.Reader, m.method.sum(signed), m.method.hash); err != nil {
			t.Fatal(err)
		}
	}
	if m.signer != nil {
		m.signer(&s)
	}
	signed := signedData{Version: 3, Digests: []pkix.AlgorithmIdentifier{s.Digest}, Content: encapsulated{tstInfoOID, content}, Signers: []signerInfo{s}}
	if m.data != nil {
		m.data(&signed)
	}
	outer := contentInfo{signedDataOID, signed}
	if m.outer != nil {
		m.outer(&outer)
	}
	return marshal(t, outer)
}

// value writes a signed attribute.
func value(t testing.TB, id asn1.ObjectIdentifier, values ...any) attribute {
	t.Helper()
	a := attribute{Type: id}
	for _, v := range values {
		a.Values = append(a.Values, asn1.RawValue{FullBytes: marshal(t, v)})
	}
	return a
}

// without returns the attributes but those of that type.
func without(all []attribute, id asn1.ObjectIdentifier) []attribute {
	var rest []attribute
	for _, a := range all {
		if !a.Type.Equal(id) {
			rest = append(rest, a)
		}
	}
	return rest
}

// indefinite rewrites DER as BER with indefinite lengths wherever an element is constructed, and octet strings in pieces.
func indefinite(t testing.TB, der []byte) []byte {
	t.Helper()
	var all []byte
	for rest := der; len(rest) > 0; {
		var v asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &v); err != nil {
			t.Fatal(err)
		}
		switch tag := v.FullBytes[0]; {
		case v.IsCompound:
			all = append(append(append(all, tag, 0x80), indefinite(t, v.Bytes)...), 0, 0)
		case tag == asn1.TagOctetString:
			half := len(v.Bytes) / 2
			all = append(all, tag|0x20, 0x80)
			all = append(append(all, marshal(t, v.Bytes[:half])...), marshal(t, v.Bytes[half:])...)
			all = append(all, 0, 0)
		default:
			all = append(all, v.FullBytes...)
		}
	}
	return all
}

// show prints a token for a failed test.
func show(t *Token) string {
	return fmt.Sprintf("%s, %s %x, serial %x, policy %v, nonce %x", t, t.Digest, t.Sum, t.Serial, t.Policy, t.Nonce)
}
