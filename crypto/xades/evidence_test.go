// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
)

// files are what a Resolver finds.
type files map[string]string

func (f files) resolve(uri string) (io.ReadCloser, error) {
	text, ok := f[uri]
	if !ok {
		return nil, hashchain.ErrDeclined
	}
	return io.NopCloser(iotest.HalfReader(strings.NewReader(text))), nil
}

// without leaves files out.
func (f files) without(names ...string) files {
	rest := maps.Clone(f)
	for _, name := range names {
		delete(rest, name)
	}
	return rest
}

// attachedFiles are what attached makes the parts of.
func attachedFiles(n int) files {
	f := files{crypto.Message: "<message/>"}
	for i := range n {
		f[crypto.Attachment(i+1)] = fmt.Sprint("attachment ", i+1)
	}
	return f
}

func names(parts []crypto.Part) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.Name)
	}
	return all
}

func TestEvidence(t *testing.T) {
	s := signer(t, "P-256", 1)
	all := attachedFiles(2)
	direct := mustSign(t, s, attached(crypto.SHA512, 2), crypto.Direct)
	fast := mustSign(t, s, attached(crypto.SHA256, 2), crypto.Direct)
	chain := mustSign(t, s, attached(crypto.SHA512, 2), crypto.Chain)
	single := mustSign(t, s, attached(crypto.SHA512, 0), crypto.Direct)
	batch, err := s.SignBatch(context.Background(), [][]crypto.Part{attached(crypto.SHA512, 0), message(crypto.SHA512, "other")})
	if err != nil {
		t.Fatal(err)
	}
	with := func(sig *crypto.Signature, from *crypto.Signature) *crypto.Signature {
		return &crypto.Signature{XML: sig.XML, HashChainResult: from.HashChainResult, HashChain: from.HashChain}
	}
	for _, test := range []struct {
		name            string
		sig             *crypto.Signature
		files           files
		proved, missing string
		want            string
		batch, warned   bool
	}{
		{name: "message", sig: single, files: all.without("/attachment1", "/attachment2"), proved: "/message.xml"},
		{name: "message, files of which nothing is signed", sig: single, files: all, proved: "/message.xml"},
		{name: "direct", sig: direct, files: all, proved: "/message.xml /attachment1 /attachment2"},
		{name: "direct, SHA-256", sig: fast, files: all, proved: "/message.xml /attachment1 /attachment2"},
		{name: "direct, attachment missing", sig: direct, files: all.without("/attachment1"), proved: "/message.xml /attachment2",
			missing: "/attachment1", want: invalidURI},
		{name: "direct, message missing", sig: direct, files: all.without("/message.xml"), proved: "/attachment1 /attachment2",
			missing: "/message.xml", want: invalidURI},
		{name: "direct, everything missing", sig: direct, missing: "/message.xml /attachment1 /attachment2", want: invalidURI},
		{name: "direct, other message", sig: direct, files: files{"/message.xml": "x"}, want: invalidSignature},
		{name: "direct, other attachment", sig: direct, files: files{"/attachment2": "x"}, want: invalidSignature},
		{name: "direct, chain beside", sig: with(direct, chain), files: all, proved: "/message.xml /attachment1 /attachment2", warned: true},
		{name: "direct, half a chain beside", sig: &crypto.Signature{XML: single.XML, HashChain: []byte("x")}, files: all, proved: "/message.xml", warned: true},
		{name: "chain", sig: chain, files: all, proved: "/message.xml /attachment1 /attachment2"},
		{name: "chain, attachments missing", sig: chain, files: all.without("/attachment1", "/attachment2"), proved: "/message.xml",
			missing: "/attachment1 /attachment2"},
		{name: "chain, one attachment missing", sig: chain, files: all.without("/attachment1"), proved: "/message.xml /attachment2", missing: "/attachment1"},
		{name: "chain, message missing", sig: chain, files: all.without("/message.xml"), proved: "/attachment1 /attachment2",
			missing: "/message.xml", want: invalidURI},
		{name: "chain, other message", sig: chain, files: files{"/message.xml": "x"}, want: "malformed_signature.invalid_hash_chain_ref"},
		{name: "chain, other attachment", sig: chain, files: files{"/message.xml": "<message/>", "/attachment2": "x"}, want: "malformed_signature.invalid_hash_chain_ref"},
		{name: "chain, of another", sig: with(chain, batch[0]), files: all, want: invalidSignature},
		{name: "chain, result of another", sig: &crypto.Signature{XML: chain.XML, HashChainResult: batch[0].HashChainResult, HashChain: chain.HashChain},
			files: all, want: "malformed_signature.invalid_hash_chain"},
		{name: "chain, not there", sig: &crypto.Signature{XML: chain.XML}, files: all, want: malformed},
		{name: "chain, result alone", sig: &crypto.Signature{XML: chain.XML, HashChainResult: chain.HashChainResult}, files: all, want: malformed},
		{name: "batch", sig: batch[0], files: all, proved: "/message.xml", batch: true},
		{name: "batch, chain of another", sig: with(batch[0], batch[1]), files: all, want: "malformed_signature.invalid_hash_chain_ref"},
		{name: "batch, message missing", sig: batch[0], missing: "/message.xml", want: invalidURI, batch: true},
		{name: "no signature", sig: &crypto.Signature{}, files: all, want: invalidXML},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := VerifyEvidence(test.sig, test.files.resolve)
			mustBe(t, err, test.want)
			var needs *NeedsFilesError
			if (e != nil) != (err == nil || errors.As(err, &needs)) {
				t.Fatalf("%+v and %v", e, err)
			}
			if e == nil {
				return
			}
			if strings.Join(e.Proved, " ") != test.proved || strings.Join(names(e.Missing), " ") != test.missing ||
				e.Batch != test.batch || e.Unreferenced != test.warned {
				t.Errorf("%+v", e)
			}
			if !e.Certificate.Equal(s.Certificate) || len(e.Extra) != 1 || len(e.OCSP) != 2 || e.SigningTime.IsZero() || len(e.Value) != 64 || e.Stamps != nil {
				t.Errorf("verified %+v", e)
			}
			for _, p := range e.Missing {
				if text := attachedFiles(2)[p.Name]; !bytes.Equal(p.Sum, p.Digest.Sum([]byte(text))) {
					t.Errorf("the digest of %s is %x", p.Name, p.Sum)
				}
			}
		})
	}
}

// TestAttack02And03And04AsEvidence: the names are those of one message, each once (section 7.5 rule 4).
func TestAttack02And03And04AsEvidence(t *testing.T) {
	s := signer(t, "P-256", 0)
	sig := mustSign(t, s, attached(crypto.SHA512, 2), crypto.Direct)
	chain := mustSign(t, s, attached(crypto.SHA512, 2), crypto.Chain)
	everywhere := func(string) (io.ReadCloser, error) {
		t.Error("it resolves before it knows what is covered")
		return nil, io.EOF
	}
	for _, test := range []struct {
		name, old, new string
		sig            *crypto.Signature
	}{
		{"no message", `URI="/message.xml"`, `URI="/attachment3"`, sig},
		{"other message", `URI="/message.xml"`, `URI="/foobar.xml"`, sig},
		{"gap", `URI="/attachment1"`, `URI="/attachment3"`, sig},
		{"twice", `URI="/attachment1"`, `URI="/attachment2"`, sig},
		{"message twice", `URI="/attachment1"`, `URI="/message.xml"`, sig},
		{"attachment 0", `URI="/attachment1"`, `URI="/attachment0"`, sig},
		{"attachment 01", `URI="/attachment1"`, `URI="/attachment01"`, sig},
		{"attachment of a folder", `URI="/attachment1"`, `URI="/attachment1/x"`, sig},
		{"chain beside the message", `URI="/attachment1"`, `URI="/sig-hashchainresult.xml"`, sig},
		{"only the properties", `URI="/sig-hashchainresult.xml"`, `URI="#signed-properties"`, chain},
		{"signature document", `URI="/sig-hashchainresult.xml"`, `URI="/META-INF/signatures.xml"`, chain},
		{"transform", `URI="/message.xml">`, `URI="/message.xml"><ds:Transforms><ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/></ds:Transforms>`, sig},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := *test.sig
			changed.XML = resign(t, s, change(t, test.sig.XML, test.old, test.new))
			_, err := VerifyEvidence(&changed, everywhere)
			mustBe(t, err, malformed)
		})
	}
	t.Run("any order", func(t *testing.T) {
		swap := strings.NewReplacer("/attachment1", "/attachment2", "/attachment2", "/attachment1")
		f := attachedFiles(2)
		f["/attachment1"], f["/attachment2"] = f["/attachment2"], f["/attachment1"]
		e, err := VerifyEvidence(&crypto.Signature{XML: resign(t, s, swap.Replace(string(sig.XML)))}, f.resolve)
		if mustBe(t, err, ""); err == nil && !slices.Equal(e.Proved, []string{"/message.xml", "/attachment2", "/attachment1"}) {
			t.Errorf("proved %q", e.Proved)
		}
	})
}

// TestEvidenceResolver: what goes wrong with the octets is told, and dishonest chains do not make anyone read twice.
func TestEvidenceResolver(t *testing.T) {
	s := signer(t, "P-256", 0)
	broken := errors.New("broken")
	for _, form := range []crypto.Form{crypto.Direct, crypto.Chain} {
		sig := mustSign(t, s, attached(crypto.SHA512, 2), form)
		want := invalidURI
		if form == crypto.Chain {
			want = "malformed_signature.invalid_reference"
		}
		for name, resolve := range map[string]hashchain.Resolver{
			"opening": func(string) (io.ReadCloser, error) { return nil, broken },
			"reading": func(string) (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(broken)), nil },
		} {
			e, err := VerifyEvidence(sig, resolve)
			if mustBe(t, err, want); !errors.Is(err, broken) || e != nil {
				t.Errorf("%s, %s: %v", form, name, err)
			}
		}
		opened := make(map[string]int)
		_, err := VerifyEvidence(sig, func(uri string) (io.ReadCloser, error) {
			opened[uri]++
			return attachedFiles(2).resolve(uri)
		})
		if mustBe(t, err, ""); !maps.Equal(opened, map[string]int{"/message.xml": 1, "/attachment1": 1, "/attachment2": 1}) {
			t.Errorf("%s: opened %v", form, opened)
		}
	}
}

// TestAttack10References: a document with very many references is handled, or refused before any of them is resolved.
func TestAttack10References(t *testing.T) {
	s := signer(t, "P-256", 0)
	for _, test := range []struct {
		references int
		want       string
	}{{3000, ""}, {10000, invalidXML}} {
		var data strings.Builder
		f := attachedFiles(test.references)
		for i, p := range attached(crypto.SHA256, test.references) {
			writeReference(&data, i+2, "", p)
		}
		sig := mustSign(t, s, attached(crypto.SHA256, 0), crypto.Direct)
		xml := dataReference.ReplaceAllString(string(sig.XML), "")
		xml = strings.Replace(xml, "</ds:SignedInfo>", data.String()+"</ds:SignedInfo>", 1)
		if test.want == "" {
			xml = string(resign(t, s, xml))
		}
		_, err := VerifyEvidence(&crypto.Signature{XML: []byte(xml)}, f.resolve)
		mustBe(t, err, test.want)
	}
}

func TestNeedsFilesError(t *testing.T) {
	for n, want := range map[int]string{
		1: "/message.xml", 2: "/message.xml, /attachment1", 4: "/message.xml, /attachment1, /attachment2, /attachment3",
		5: "/message.xml, /attachment1, /attachment2, 2 more", 29: "/message.xml, /attachment1, /attachment2, 26 more",
	} {
		got := (&NeedsFilesError{attached(crypto.SHA512, n-1)}).Error()
		if got != "verifying the signature: it also covers "+want+", of which only digests are there" {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestEvidenceVectors are the signature samples as evidence: the octets are resolved, so that some codes are others than in
// the message exchange.
func TestEvidenceVectors(t *testing.T) {
	file := func(name string) []byte { return vector(t, "signatures/"+name+".xml") }
	msg0 := files{crypto.Message: string(file("message-0"))}
	msg1 := files{crypto.Message: string(file("message-1")), "/attachment1": "blaah"}
	for _, test := range []struct {
		name, xml, chain string
		files            files
		want             string
	}{
		{"sign-0", "sign-0", "", msg0, ""},
		{"sign-0, other message", "sign-0", "", files{crypto.Message: "foo"}, "invalid_signature_value"},
		{"batch-sig", "batch-sig", "hash-chain-1", msg1, ""},
		{"batch-sig, attachment missing", "batch-sig", "hash-chain-1", msg1.without("/attachment1"), ""},
		{"batch-sig, other attachment", "batch-sig", "hash-chain-1", files{crypto.Message: msg1[crypto.Message], "/attachment1": "x"}, "malformed_signature.invalid_hash_chain_ref"},
		{"batch-sig, chain of another batch", "batch-sig", "hash-chain-2", msg1, "malformed_signature.invalid_hash_chain_ref"},
		{"signature value altered", "sign-0-invalid-signature-value", "", msg0, "invalid_signature_value"},
		{"no CanonicalizationMethod", "sign-0-schema-fail", "", msg0, "malformed_signature"},
		{"no ds:Signature", "sign-0-no-signature", "", msg0, "malformed_signature"},
		{"no OCSP responses", "sign-0-ocsp-no-responses", "", msg0, "malformed_signature"},
		{"empty document", "empty", "", msg0, "invalid_xml"},
		{"extra certificate with a wrong digest", "extra-certs-digest-invalid", "", msg0, "malformed_signature"},
		{"extra certificate without reference", "extra-certs-missing-id", "", msg0, "malformed_signature"},
		{"manifest of 2012", "xades.signature.ts", "", msg0, "malformed_signature"},
		{"message log of 2014, without its message", "messagelog-signature", "", nil, "invalid_reference"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sig := &crypto.Signature{XML: file(test.xml)}
			if test.chain != "" {
				sig.HashChainResult, sig.HashChain = file("hash-chain-result"), file(test.chain)
			}
			_, err := VerifyEvidence(sig, test.files.resolve)
			mustBe(t, err, test.want)
		})
	}
}

func TestTimestamps(t *testing.T) {
	e, err := VerifyEvidence(&crypto.Signature{XML: vector(t, "signatures/messagelog-signature.xml")}, files{}.resolve)
	if e == nil || len(e.Stamps) != 1 || len(e.Stamps[0]) < 1000 {
		t.Errorf("the old form: %+v (%v)", e, err)
	}
	s := signer(t, "P-256", 0)
	sig := mustSign(t, s, attached(crypto.SHA512, 0), crypto.Direct)
	value, err := Value(sig.XML)
	if err != nil {
		t.Fatal(err)
	}
	token := []byte("token")
	stamped, err := AddTimestamp(sig.XML, token)
	if err != nil {
		t.Fatal(err)
	}
	e, err = VerifyEvidence(&crypto.Signature{XML: stamped}, attachedFiles(0).resolve)
	if err != nil || len(e.Stamps) != 1 || !bytes.Equal(e.Stamps[0], token) || !bytes.Equal(e.Value, value) {
		t.Errorf("stamped: %+v (%v)", e, err)
	}
	if strings.Replace(string(stamped), "<xades:SignatureTimeStamp><xades:EncapsulatedTimeStamp>"+encode(token)+
		"</xades:EncapsulatedTimeStamp></xades:SignatureTimeStamp>", "", 1) != string(sig.XML) {
		t.Error("the rest of the document is another")
	}
	_, theirs, _ := container(t, "asic/valid-signed-message.asice")
	if !bytes.Contains(stamped, []byte("<xades:UnsignedSignatureProperties><xades:SignatureTimeStamp>")) || theirs == nil {
		t.Error("the time-stamp is not where X-Road has it")
	}

	for name, xml := range map[string][]byte{
		"stamped before":   stamped,
		"no signature":     []byte("<x/>"),
		"no document":      nil,
		"another prefix":   []byte(strings.NewReplacer("<xades:", "<x:", "</xades:", "</x:", "xmlns:xades", "xmlns:x").Replace(string(sig.XML))),
		"place in comment": []byte(change(t, sig.XML, "</xades:UnsignedSignatureProperties>", "<!--<xades:UnsignedSignatureProperties>--></xades:UnsignedSignatureProperties>")),
	} {
		if got, err := AddTimestamp(xml, token); err == nil || got != nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got, err := AddTimestamp(sig.XML, nil); err == nil {
		t.Errorf("no token: %s", got)
	}
	if _, err := Value([]byte("<x/>")); err == nil {
		t.Error("the value of no signature")
	}

	const place = "<xades:UnsignedSignatureProperties>"
	b := func(text string) string { return encode([]byte(text)) }
	for _, test := range []struct {
		name, stamps string
		want         []string
		cause        string
	}{
		{"old form", "<xades:SignatureTimeStamp>\n" + b("one") + "\n</xades:SignatureTimeStamp>", []string{"one"}, ""},
		{"canonicalisation named", `<xades:SignatureTimeStamp Id="t"><ds:CanonicalizationMethod Algorithm="x"/><xades:EncapsulatedTimeStamp Id="u">` +
			b("one") + "</xades:EncapsulatedTimeStamp></xades:SignatureTimeStamp>", []string{"one"}, ""},
		{"two", strings.Repeat("<xades:SignatureTimeStamp>"+b("one")+"</xades:SignatureTimeStamp>", 2), []string{"one", "one"}, ""},
		{"not base64", "<xades:SignatureTimeStamp>-</xades:SignatureTimeStamp>", nil, malformed},
		{"empty", "<xades:SignatureTimeStamp/>", nil, malformed},
		{"empty inside", "<xades:SignatureTimeStamp><xades:EncapsulatedTimeStamp/></xades:SignatureTimeStamp>", nil, malformed},
		{"two inside one", "<xades:SignatureTimeStamp>" + strings.Repeat("<xades:EncapsulatedTimeStamp>"+b("x")+"</xades:EncapsulatedTimeStamp>", 2) +
			"</xades:SignatureTimeStamp>", nil, malformed},
		{"something else", "<xades:SignatureTimeStamp><xades:Include/></xades:SignatureTimeStamp>", nil, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			xml := []byte(change(t, sig.XML, place, place+test.stamps))
			mustBe(t, attempt(xml, attached(crypto.SHA512, 0)), test.cause) // what is accepted is evidence
			e, err := VerifyEvidence(&crypto.Signature{XML: xml}, attachedFiles(0).resolve)
			mustBe(t, err, test.cause)
			if err != nil {
				return
			}
			var got []string
			for _, token := range e.Stamps {
				got = append(got, string(token))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("time-stamps %q", got)
			}
		})
	}
}

func FuzzVerifyEvidence(f *testing.F) {
	s := signer(f, "P-256", 1)
	for _, form := range []crypto.Form{crypto.Direct, crypto.Chain} {
		sig := mustSign(f, s, attached(crypto.SHA512, 1), form)
		f.Add(sig.XML, sig.HashChainResult, sig.HashChain)
		stamped, err := AddTimestamp(sig.XML, []byte("token"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stamped, []byte("<x/>"), []byte(nil))
	}
	parts := attached(crypto.SHA512, 1)
	f.Fuzz(func(t *testing.T, xml, result, chain []byte) {
		sig := &crypto.Signature{XML: xml, HashChainResult: result, HashChain: chain}
		e, err := VerifyEvidence(sig, attachedFiles(1).resolve)
		if err != nil && cause(err) == "" || err == nil && e == nil {
			t.Errorf("%+v, %v", e, err)
		}
		// What the message exchange accepts is evidence, and what is whole as evidence it accepts.
		_, exchangeErr := Verify(sig, parts)
		if exchangeErr == nil && err != nil {
			t.Errorf("accepted, and then no evidence: %v", err)
		}
		if err == nil && len(e.Proved) == 2 && !e.Unreferenced && exchangeErr != nil && e.Form == crypto.Chain {
			t.Errorf("evidence that was never accepted: %v", exchangeErr)
		}
	})
}
