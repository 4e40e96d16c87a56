// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/crypto/xades"
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

const (
	messageText = `<?xml version="1.0" encoding="UTF-8"?><Envelope>vaylä</Envelope>`
	tokenText   = "\x30\x03tok"
)

var recorded = time.Date(2026, 2, 3, 6, 5, 6, 0, time.FixedZone("", 2*3600)) // 4:05:06 UTC

// signer is one for all tests.
var signer = sync.OnceValue(func() *xades.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(4711), Subject: pkix.Name{CommonName: "1111"}, KeyUsage: x509.KeyUsageContentCommitment,
		NotBefore: recorded.AddDate(-1, 0, 0), NotAfter: recorded.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &xades.Signer{
		Key: key, Certificate: cert, Clock: func() time.Time { return recorded },
		OCSP: func(context.Context) ([][]byte, error) { return [][]byte{[]byte("response")}, nil },
	}
})

// partsOf makes the parts of a message of those texts.
func partsOf(d crypto.Digest, texts ...string) []crypto.Part {
	parts := make([]crypto.Part, len(texts))
	for i, text := range texts {
		parts[i] = crypto.Part{Name: crypto.Message, Digest: d, Sum: d.Sum([]byte(text))}
		if i > 0 {
			parts[i].Name = crypto.Attachment(i)
		}
	}
	return parts
}

// of returns an Opener of a text.
func of(text string) Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// signed makes a container of a message with attachments, which are left out in the chain form.
func signed(t testing.TB, form crypto.Form, attachments ...string) *Container {
	t.Helper()
	return signedWith(t, form, crypto.SHA512, attachments...)
}

func signedWith(t testing.TB, form crypto.Form, d crypto.Digest, attachments ...string) *Container {
	t.Helper()
	sig, err := signer().Sign(context.Background(), partsOf(d, append([]string{messageText}, attachments...)...), form)
	if err != nil {
		t.Fatal(err)
	}
	c := &Container{Time: recorded, Message: of(messageText), Signature: *sig}
	if sig.Form() == crypto.Direct {
		for i, text := range attachments {
			if err := c.Attach(i+1, of(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// stamp gives a container the time-stamp of a batch.
func stamp(t testing.TB, c *Container) *Container {
	t.Helper()
	result, chains, err := hashchain.Build([][]crypto.Part{
		partsOf(crypto.SHA512, "another signature document"), partsOf(crypto.SHA512, string(c.Signature.XML)), partsOf(crypto.SHA512, "a third"),
	}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	c.Stamp = Stamp{
		HashChainResult: bytes.ReplaceAll(result, []byte(crypto.HashChain), []byte("/"+tsChainName)),
		HashChain:       bytes.ReplaceAll(chains[1], []byte(crypto.Message), []byte(stampedURI)),
		Token:           []byte(tokenText),
	}
	return c
}

// written returns the octets of a container.
func written(t testing.TB, c *Container) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// opened opens octets as a container.
func opened(octets []byte) (*Container, error) {
	return Open(bytes.NewReader(octets), int64(len(octets)))
}

func mustOpen(t testing.TB, octets []byte) *Container {
	t.Helper()
	c, err := opened(octets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// prove opens and verifies octets.
func prove(octets []byte) (*Proof, error) {
	c, err := opened(octets)
	if err != nil {
		return nil, err
	}
	return c.Verify()
}

// contents reads everything in a container, by the names of the entries.
func contents(c *Container) (map[string]string, error) {
	all := make(map[string]string)
	for _, d := range c.documents() {
		if len(*d.octets) > 0 {
			all[d.name] = string(*d.octets)
		}
	}
	openers := map[string]Opener{messageName: c.Message}
	for n, open := range c.Attachments {
		openers[attachmentName(n)] = open
	}
	for name, open := range openers {
		r, err := open()
		if err != nil {
			return nil, err
		}
		octets, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
		all[name] = string(octets)
	}
	return all, nil
}

func mustHave(t testing.TB, c *Container, want map[string]string) {
	t.Helper()
	got, err := contents(c)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the container has %q, want %q", got, want)
	}
}
