// SPDX-License-Identifier: Apache-2.0

package crypto

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestDigest(t *testing.T) {
	for _, test := range []struct {
		digest    Digest
		name, uri string
		empty     string // the beginning of the digest of nothing
		size      int
	}{
		{SHA256, "SHA-256", "http://www.w3.org/2001/04/xmlenc#sha256", "e3b0c442", 32},
		{SHA384, "SHA-384", "http://www.w3.org/2001/04/xmldsig-more#sha384", "38b060a7", 48},
		{SHA512, "SHA-512", "http://www.w3.org/2001/04/xmlenc#sha512", "cf83e135", 64},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.digest
			if !d.Known() || d.String() != test.name || d.URI() != test.uri || d.Size() != test.size {
				t.Errorf("known %t, name %s, URI %s, size %d", d.Known(), d, d.URI(), d.Size())
			}
			if DigestByName(test.name) != d || DigestByURI(test.uri) != d {
				t.Error("not found by its own name or URI")
			}
			sum := d.Sum(nil)
			if got := hex.EncodeToString(sum[:4]); got != test.empty || len(sum) != test.size {
				t.Errorf("digest of nothing is %s…, %d octets", got, len(sum))
			}
			h := d.New()
			h.Write([]byte("one"))
			if !bytes.Equal(h.Sum(nil), d.Sum([]byte("one"))) || !d.Hash().Available() || d.Hash().Size() != test.size {
				t.Error("New, Sum and Hash differ")
			}
		})
	}
}

func TestDigestUnknown(t *testing.T) {
	for _, name := range []string{"", "SHA-1", "SHA-224", "MD5", "sha-512", "SHA512", " SHA-512"} {
		if d := DigestByName(name); d != 0 {
			t.Errorf("%q is %s", name, d)
		}
	}
	for _, uri := range []string{
		"", "http://www.w3.org/2000/09/xmldsig#sha1", "http://www.w3.org/2001/04/xmldsig-more#sha224",
		"http://www.w3.org/2001/04/xmldsig-more#md5", "http://www.w3.org/2001/04/xmlenc#SHA512",
	} {
		if d := DigestByURI(uri); d != 0 {
			t.Errorf("%q is %s", uri, d)
		}
	}
	if Digest(0).Known() || Digest(SHA512+1).Known() || Digest(0).String() != "" {
		t.Error("a digest that is none is known")
	}
}

func TestNames(t *testing.T) {
	if got := Attachment(1) + Attachment(28); got != "/attachment1/attachment28" {
		t.Error(got)
	}
	if got := Direct.String() + " " + Chain.String(); got != "direct chain" {
		t.Error(got)
	}
}

func TestSignatureForm(t *testing.T) {
	if s := (&Signature{XML: []byte("x")}); s.Form() != Direct {
		t.Error("without a chain it is the direct form")
	}
	if s := (&Signature{XML: []byte("x"), HashChainResult: []byte("y"), HashChain: []byte("z")}); s.Form() != Chain {
		t.Error("with a chain it is the chain form")
	}
}

func TestCheckParts(t *testing.T) {
	part := func(name string) Part { return Part{name, SHA256, SHA256.Sum(nil)} }
	for _, test := range []struct {
		name  string
		parts []Part
		ok    bool
	}{
		{"message", []Part{part(Message)}, true},
		{"message and attachments", []Part{part(Message), part(Attachment(1)), part(Attachment(2))}, true},
		{"nothing", nil, false},
		{"attachment alone", []Part{part(Attachment(1))}, false},
		{"attachment first", []Part{part(Attachment(1)), part(Message)}, false},
		{"attachment left out", []Part{part(Message), part(Attachment(2))}, false},
		{"attachment twice", []Part{part(Message), part(Attachment(1)), part(Attachment(1))}, false},
		{"message twice", []Part{part(Message), part(Message)}, false},
		{"no method", []Part{{Message, 0, SHA256.Sum(nil)}}, false},
		{"unknown method", []Part{{Message, 9, SHA256.Sum(nil)}}, false},
		{"digest of another method", []Part{{Message, SHA512, SHA256.Sum(nil)}}, false},
		{"no digest", []Part{{Message, SHA512, nil}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := CheckParts(test.parts); (err == nil) != test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
