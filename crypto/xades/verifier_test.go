// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"context"
	stdcrypto "crypto"
	"crypto/x509"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// counted is a key that counts what it signs.
type counted struct {
	stdcrypto.Signer
	operations *int
}

func (c counted) Sign(random io.Reader, sum []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	*c.operations++
	return c.Signer.Sign(random, sum, o)
}

// known counts what a Verifier remembers.
func (v *Verifier) known() (values, certificates int) { return v.values.Len(), v.certificates.Len() }

// TestBatchIsSignedAndVerifiedOnce has 64 messages take one operation of the private key and one of the public key.
func TestBatchIsSignedAndVerifiedOnce(t *testing.T) {
	for _, kind := range []string{"RSA-2048", "P-256"} {
		t.Run(kind, func(t *testing.T) {
			s := signer(t, kind, 1)
			operations := 0
			s.Key = counted{s.Key, &operations}
			var messages [][]crypto.Part
			for i := range 64 {
				messages = append(messages, message(crypto.SHA512, fmt.Sprint("<m>", i, "</m>")))
			}
			signatures, err := s.SignBatch(context.Background(), messages)
			if err != nil || operations != 1 {
				t.Fatalf("%d operations, %v", operations, err)
			}
			var v Verifier
			first, err := v.Verify(signatures[0], messages[0])
			if err != nil {
				t.Fatal(err)
			}
			// With another key in the certificate that is remembered, a second operation would fail.
			first.Certificate.PublicKey = keys["P-384"]().Public()
			for i, sig := range signatures {
				if _, err := v.Verify(sig, messages[i]); err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
				if _, err := v.Verify(sig, messages[(i+1)%64]); !strings.HasPrefix(cause(err), malformed) {
					t.Errorf("the signature of message %d is good for another: %v", i, err)
				}
			}
			if values, certificates := v.known(); values != 1 || certificates != 1 {
				t.Errorf("%d values and %d certificates are remembered", values, certificates)
			}
		})
	}
}

// TestKnownValueProvesNothingElse changes all that a remembered fact depends on, and all that does not.
func TestKnownValueProvesNothingElse(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 2)
	sig := mustSign(t, s, parts, crypto.Direct)
	other := signer(t, "P-256", 0) // another certificate of the same key
	text := string(sig.XML)
	value := func(xml string) string { return signatureValue.FindString(xml) }
	for _, test := range []struct{ name, xml, want string }{
		{"nothing", text, ""},
		{"the value", strings.Replace(text, value(text), value(string(mustSign(t, s, attached(crypto.SHA512, 1), crypto.Direct).XML)), 1), invalidSignature},
		{"SignedInfo", change(t, sig.XML, encode(parts[1].Sum), encode(parts[2].Sum)), invalidSignature},
		{"a space in SignedInfo", change(t, sig.XML, "<ds:SignedInfo>", "<ds:SignedInfo> "), invalidSignature},
		{"the certificate", change(t, sig.XML, encode(s.Certificate.Raw), encode(other.Certificate.Raw)), malformed},
		{"the signed properties", change(t, sig.XML, "2026-02-03", "2026-02-04"), invalidSignature},
		{"the OCSP response, which trust judges", change(t, sig.XML, encode([]byte("response 0")), encode([]byte("response 1"))), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var v Verifier
			for range 2 {
				if _, err := v.Verify(sig, parts); err != nil {
					t.Fatal(err)
				}
				_, err := v.Verify(&crypto.Signature{XML: []byte(test.xml)}, parts)
				mustBe(t, err, test.want)
			}
		})
	}
}

// TestStrangersFillNothing has refused signatures and huge certificates leave no trace.
func TestStrangersFillNothing(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 0)
	var v Verifier
	wrong := change(t, mustSign(t, s, parts, crypto.Direct).XML, "<ds:SignedInfo>", "<ds:SignedInfo> ")
	for range 3 {
		_, err := v.Verify(&crypto.Signature{XML: []byte(wrong)}, parts)
		mustBe(t, err, invalidSignature)
	}
	if values, _ := v.known(); values != 0 {
		t.Errorf("%d refused values are remembered", values)
	}
	s.Certificate = certify(t, s.Key, func(c *x509.Certificate) { c.Subject.Organization = []string{strings.Repeat("x", maxKnown/2)} })
	before := v.certificates.Len()
	if _, err := v.Verify(mustSign(t, s, parts, crypto.Direct), parts); err != nil {
		t.Fatal(err)
	}
	if n := v.certificates.Len(); n != before {
		t.Errorf("%d certificates are remembered, one of them huge", n)
	}
}
