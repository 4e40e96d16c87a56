// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// seeds adds the vectors, where they are, and tokens of our own.
func seeds(f *testing.F, form func([]byte) []byte) {
	add := func(token []byte) {
		f.Add(form(token))
		f.Add(form(indefinite(f, token)))
	}
	for _, key := range []string{"RSA-1024", "P-256"} {
		a := newAuthority(f, key, nil)
		add(a.token(f, "data", now).Raw)
		add(a.make(f, "data", now, made{data: func(d *signedData) { d.Certificates = tagged(0, a.cert.Raw) }}))
		add(a.make(f, "data", now, made{info: func(i *tstInfo) { i.Accuracy.Raw, i.Ordering, i.Nonce = []byte{0x30, 0}, true, big.NewInt(1) }}))
	}
	if octets, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "vectors", "xroad", "timestamps", "valid.tst")); err == nil {
		f.Add(form(octets))
	}
}

// checkToken checks what must hold for every token: it is kept as DER that reads, and writes, as the same.
func checkToken(t *testing.T, token *Token, authorities []*x509.Certificate) {
	again, err := ParseToken(token.Raw)
	if err != nil || !bytes.Equal(again.Raw, token.Raw) {
		t.Fatalf("what was read is not read again: %v", err)
	}
	var info contentInfo
	if err := exact(token.Raw, &info, ""); err != nil {
		t.Fatalf("what was read is not written again: %v", err)
	}
	if !again.GenTime.Equal(token.GenTime) || !bytes.Equal(again.Sum, token.Sum) || !bytes.Equal(again.Signer, token.Signer) {
		t.Fatal("it reads otherwise the second time")
	}
	for _, e := range []Era{Present, Past} {
		if _, err := token.Verify([]byte("other data"), authorities, e); err == nil {
			t.Fatal("it verifies over other data")
		}
		token.authority(authorities, e)
	}
	if with, err := token.with(authorities[0]); err == nil && (!bytes.Equal(with.content, token.content) || !bytes.Equal(with.signed, token.signed)) {
		t.Fatal("a certificate changed what is signed")
	}
}

func FuzzParseToken(f *testing.F) {
	seeds(f, func(token []byte) []byte { return token })
	authorities := newAuthority(f, "P-256", nil).certs()
	f.Fuzz(func(t *testing.T, ber []byte) {
		if token, err := ParseToken(ber); err == nil {
			checkToken(t, token, authorities)
		} else if c := cause(err); c != malformed && c != signerMissing {
			t.Fatalf("%v has the cause %q", err, c)
		}
	})
}

func FuzzReadResponse(f *testing.F) {
	// Outer lengths are left indefinite, so that they stay right when a token grows.
	seeds(f, func(token []byte) []byte {
		return append(append([]byte("\x30\x80\x30\x03\x02\x01\x00"), token...), 0, 0)
	})
	f.Add(must(reject(unacceptedExtension)))
	f.Add([]byte("\x30\x0c\x30\x0a\x02\x01\x02\x30\x05\x0c\x03not"))
	authorities := newAuthority(f, "P-256", nil).certs()
	f.Fuzz(func(t *testing.T, ber []byte) {
		if token, err := readResponse(ber); err == nil {
			checkToken(t, token, authorities)
		} else if c := cause(err); c != responseInvalid && c != notGranted {
			t.Fatalf("%v has the cause %q", err, c)
		}
	})
}

func FuzzRespond(f *testing.F) {
	f.Add(must(over("data").DER()))
	f.Add(must(Request{over("").Digest, over("").Sum, big.NewInt(-1)}.DER()))
	a := newAuthority(f, "P-256", nil)
	f.Fuzz(func(t *testing.T, query []byte) {
		response, err := Respond(query, a.key, a.cert, big.NewInt(1), now)
		if err != nil {
			t.Fatal(err)
		}
		token, err := readResponse(response)
		if err != nil {
			if cause(err) != notGranted {
				t.Fatal(err)
			}
			return
		}
		if _, err := token.VerifySum(token.Digest, token.Sum, a.certs(), Present); err != nil {
			t.Fatal(err)
		}
	})
}
