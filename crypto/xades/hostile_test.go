// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// hostile is a signature document that nobody honest sends, and how it is refused.
type hostile struct {
	name string
	xml  []byte
	want string // "": it is handled
}

// hostiles makes signature documents that try to cost much: long, deep, of very many small things, with certificates like
// no other. All have the right structure up to where the trouble is.
func hostiles(t testing.TB) []hostile {
	s := signer(t, "P-256", 1)
	sig := mustSign(t, s, attached(crypto.SHA512, 0), crypto.Direct)
	fill := func(old, piece string, n int) []byte {
		return []byte(change(t, sig.XML, old, old+strings.Repeat(piece, n)))
	}
	filled := func(old, piece string) []byte { return fill(old, piece, (limits.Size-len(sig.XML))/len(piece)) }
	of := func(cert []byte) []byte {
		return []byte(change(t, sig.XML, encode(s.Certificate.Raw), encode(cert)))
	}
	const object, value, response, policy = "<ds:Object>", `<ds:SignatureValue Id="signature-value">`, `Id="ocsp-response-1">`, "<xades:SignaturePolicyId>"
	references := strings.Builder{}
	for i, p := range attached(crypto.SHA512, 10000) {
		writeReference(&references, i+2, "", p)
	}
	short := strings.Builder{}
	for i := range 10000 {
		fmt.Fprintf(&short, `<ds:Reference URI="/attachment%d"><ds:DigestMethod Algorithm="%s"/><ds:DigestValue>AAAA</ds:DigestValue></ds:Reference>`, i+1, crypto.SHA256.URI())
	}
	// The exclusive form names the namespace again for each element.
	repeating := strings.Replace(string(fill(policy, "<x:a/>", 40000)), " xmlns:asic=", ` xmlns:x="urn:`+strings.Repeat("x", 1<<20)+`" xmlns:asic=`, 1)
	repeating = strings.Replace(repeating, `URI="#signed-properties">`, `URI="#signed-properties"><ds:Transforms><ds:Transform Algorithm="`+c14n.Exclusive+`"/></ds:Transforms>`, 1)
	return []hostile{
		{"64 MiB of blanks", append(bytes.Clone(sig.XML), bytes.Repeat([]byte(" "), 64<<20)...), invalidXML},
		{"64 MiB of base64 for the value", fill(value, "AAAA", 16<<20), invalidXML},
		{"all the base64 that fits for the value", filled(value, "AAAA"), invalidSignature},
		{"all the base64 that fits for an OCSP response", filled(response, "AAAA"), ""},
		{"base64 cut into lines of four", filled(response, "AAAA&#13;\n"), ""},
		{"base64 between comments", filled(response, "A<!---->"), invalidXML},
		{"deep", fill(object, "<a>", 100), invalidXML},
		{"as deep as it goes", filled(object, strings.Repeat("<a>", 20)+strings.Repeat("</a>", 20)), invalidXML},
		{"elements", filled(object, "<a/>"), invalidXML},
		{"as many elements as go", fill(object, "<a/>", 49000), malformed},
		{"attributes", filled(object, `<a a="" b="" c="" d="" e="" f="" g="" h=""/>`), invalidXML},
		{"attributes of one element", fill("<ds:Signature ", `a="" `, 100000), invalidXML},
		{"one attribute", filled(`Target="`, "&lt;"), malformed},
		{"one name", filled("<ds:Object", "a"), invalidXML},
		{"namespaces", filled(object, `<a xmlns="u:1" xmlns:b="u:2" xmlns:c="u:3" xmlns:d="u:4"/>`), invalidXML},
		{"pieces of text", filled(policy, "<![CDATA[]]>"), invalidXML},
		{"references to characters", filled(policy, "&#65;"), invalidSignature},
		{"namespace that the canonical form repeats", resign(t, s, repeating), malformed},
		{"text that grows in the canonical form", filled(policy, ">"), invalidSignature},
		{"10,000 references", []byte(change(t, sig.XML, "</ds:SignedInfo>", references.String()+"</ds:SignedInfo>")), invalidXML},
		{"10,000 short references", []byte(change(t, sig.XML, "</ds:SignedInfo>", short.String()+"</ds:SignedInfo>")), invalidXML},
		{"as many references as go", []byte(change(t, sig.XML, "</ds:SignedInfo>", short.String()[:5500*strings.Index(short.String(), "<ds:Reference URI=\"/attachment2\"")]+"</ds:SignedInfo>")), invalidXML},
		{"Ids", filled(object, `<a Id=""/>`), invalidXML},
		{"certificate of all names that fit", of(absurd(t, alternatives(t, 2, 300000))), malformed},
		{"certificate of all addresses that fit", of(absurd(t, alternatives(t, 6, 300000))), malformed},
		{"certificate of very many extensions", of(absurd(t, extensions(60000)...)), malformed},
		{"certificate of one long extension", of(absurd(t, pkix.Extension{Id: private, Value: make([]byte, 1<<20)})), malformed},
		{"certificate that constrains very many names", of(absurd(t, constraints(t, 60000))), malformed},
		{"certificate of policies", of(absurd(t, policies(t, 100000))), malformed},
	}
}

// private is the type of extensions that mean nothing.
var private = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}

// absurd makes a certificate with extensions like no other's. Nobody has to have signed it.
func absurd(t testing.TB, extensions ...pkix.Extension) []byte {
	t.Helper()
	return certify(t, keys["P-256"](), func(c *x509.Certificate) { c.ExtraExtensions = extensions }).Raw
}

func extension(t testing.TB, id asn1.ObjectIdentifier, value any) pkix.Extension {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: id, Value: der}
}

// alternatives has n subject alternative names: 2 for names of hosts, 6 for addresses.
func alternatives(t testing.TB, tag, n int) pkix.Extension {
	all := make([]asn1.RawValue, n)
	for i := range all {
		all[i] = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: []byte("a:")[:1+tag/6]}
	}
	return extension(t, asn1.ObjectIdentifier{2, 5, 29, 17}, all)
}

func extensions(n int) []pkix.Extension {
	all := make([]pkix.Extension, n)
	for i := range all {
		all[i].Id = asn1.ObjectIdentifier{1, 2, i}
	}
	return all
}

func constraints(t testing.TB, n int) pkix.Extension {
	type subtree struct {
		Base asn1.RawValue
	}
	all := make([]subtree, n)
	for i := range all {
		all[i].Base = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 7, Bytes: append(net.IPv4(byte(i>>16), byte(i>>8), byte(i), 0).To4(), 255, 255, 255, 255)}
	}
	return extension(t, asn1.ObjectIdentifier{2, 5, 29, 30}, struct {
		Permitted []subtree `asn1:"tag:0"`
	}{all})
}

func policies(t testing.TB, n int) pkix.Extension {
	all := make([]struct{ ID asn1.ObjectIdentifier }, n)
	for i := range all {
		all[i].ID = asn1.ObjectIdentifier{1, 2, i}
	}
	return extension(t, asn1.ObjectIdentifier{2, 5, 29, 32}, all)
}

// maxMemory is how much memory a hostile document may take in all, be it used at once or one after the other.
const maxMemory = 32 << 20

// allocated returns how many octets f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostile: what costs a stranger little to send costs us little to refuse.
func TestHostile(t *testing.T) {
	parts := attached(crypto.SHA512, 0)
	for _, h := range hostiles(t) {
		t.Run(h.name, func(t *testing.T) {
			for name, verify := range map[string]func() error{
				"message": func() error { return attempt(h.xml, parts) },
				"evidence": func() error {
					_, err := VerifyEvidence(&crypto.Signature{XML: h.xml}, attachedFiles(0).resolve)
					return err
				},
			} {
				var err error
				n := allocated(func() { err = verify() })
				mustBe(t, err, h.want)
				if n > maxMemory {
					t.Errorf("%s: it took %d octets of memory", name, n)
				}
				t.Logf("%s: %.1f MiB of %.1f", name, float64(n)/(1<<20), float64(len(h.xml))/(1<<20))
			}
		})
	}
}

func BenchmarkHostile(b *testing.B) {
	parts := attached(crypto.SHA512, 0)
	for _, h := range hostiles(b) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustBe(b, attempt(h.xml, parts), h.want)
			}
		})
	}
}
