// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// hostile is a container that nobody honest makes, and how it is refused.
type hostile struct {
	name   string
	octets []byte
	want   string // "": it is handled
}

// hostiles are containers that unpack to more than they are, that say different things in different places, and that hold
// documents which try to cost much.
func hostiles(t testing.TB) []hostile {
	changed := func(change func(*zipFile)) []byte {
		z := pieces(t)
		change(z)
		return z.octets()
	}
	with := func(i int, name, text string) []byte { return changed(at(i, func(p *piece) { *p = pack(name, text) })) }
	chained := func(items string) []byte {
		c := signed(t, crypto.Chain, "one")
		c.Signature.HashChain = []byte(`<HashChain xmlns="http://cyber.ee/hashchain" xmlns:d="http://www.w3.org/2000/09/xmldsig#"><DefaultDigestMethod Algorithm="` +
			crypto.SHA512.URI() + `"/><HashStep id="STEP0">` + items + `</HashStep></HashChain>`)
		return written(t, c)
	}
	references := func(uri func(i int) string) string {
		var b strings.Builder
		for i := range 10000 {
			fmt.Fprintf(&b, `<DataRef URI="%s"><d:DigestValue>%s</d:DigestValue></DataRef>`, uri(i), strings.Repeat("A", 86)+"==")
		}
		return b.String()
	}
	const document = `<?xml version="1.0" encoding="UTF-8"?>`
	return []hostile{
		{"bomb", changed(at(4, func(p *piece) { *p = bomb("attachment1") })), invalid},
		{"bomb for the signature", changed(at(2, func(p *piece) { *p = bomb(signatureName) })), invalid},
		{"bomb that says it is small", changed(at(2, func(p *piece) { *p = bomb(signatureName); p.both(func(h *head) { h.size = 100 }) })), invalid},
		{"many bombs in one", changed(func(z *zipFile) { z.pieces = append(z.pieces, piece{again: true, central: bomb("one").central}) }), invalid},
		{"twenty bombs, each allowed", changed(func(z *zipFile) {
			one := bomb("")
			one.both(func(h *head) { h.size = freeSize })
			for i := range 20 {
				one.both(func(h *head) { h.name = fmt.Sprint(i) })
				z.pieces = append(z.pieces, one)
			}
		}), invalid},
		{"directory that does not know an entry", changed(at(4, func(p *piece) { p.absent = true })), invalid},
		{"directory with another name", changed(at(1, func(p *piece) { p.local.name = "messagx.xml" })), invalid},
		{"directory with another length", changed(at(1, func(p *piece) { p.local.size++ })), invalid},
		{"directory of 2^64 entries", changed(func(z *zipFile) { z.zip64, z.count, z.here, z.count64 = true, 1<<16-1, 1<<16-1, 1<<64-1 }), invalid},
		{"65,000 entries", changed(func(z *zipFile) {
			for i := range 65000 {
				z.pieces = append(z.pieces, store(fmt.Sprint(i), ""))
			}
		}), invalid},
		{"as many entries as go", changed(func(z *zipFile) {
			for i := range maxEntries - len(z.pieces) {
				z.pieces = append(z.pieces, store(fmt.Sprint(i), ""))
			}
		}), ""},
		{"message of blanks", with(1, messageName, strings.Repeat(" ", 10<<20)), noMessage},
		{"2 MiB of base64 for the signature", with(2, signatureName, document+"<ds>"+strings.Repeat("AAAA", 2<<18)+"</ds>"), invalid},
		{"all the base64 that fits", with(2, signatureName, document+"<ds>"+strings.Repeat("AAAA", 2<<18-16)+"</ds>"), malformed},
		{"deep nesting", with(2, signatureName, document+strings.Repeat("<a>", 500000)), "invalid_xml"},
		{"elements", with(2, signatureName, document+"<a>"+strings.Repeat("<a/>", 500000)+"</a>"), "invalid_xml"},
		{"10,000 references to the message", chained(references(func(int) string { return crypto.Message })), "malformed_signature.invalid_hash_chain_ref"},
		{"10,000 references to attachments", chained(references(func(i int) string { return crypto.Attachment(i + 1) })), "malformed_signature.invalid_hash_chain"},
		{"10,000 references to anything", chained(references(func(i int) string { return fmt.Sprint("/", i) })), "malformed_signature.invalid_hash_chain"},
	}
}

// maxMemory is how much memory a hostile container may take in all, be it used at once or one after the other.
const maxMemory = 32 << 20

// TestHostile: what costs a stranger little to send costs us little to refuse.
func TestHostile(t *testing.T) {
	for _, h := range hostiles(t) {
		t.Run(h.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := prove(h.octets)
			runtime.ReadMemStats(&after)
			mustBe(t, err, h.want)
			if n := after.TotalAlloc - before.TotalAlloc; n > maxMemory {
				t.Errorf("it took %d octets of memory", n)
			}
		})
	}
}

// TestHostileFile: a gibibyte of base64 under the name of a container is read at its end, and is none.
func TestHostileFile(t *testing.T) {
	read := 0
	file := readerAt(func(p []byte, off int64) (int, error) {
		read += len(p)
		return copy(p, bytes.Repeat([]byte("A"), len(p))), nil
	})
	_, err := Open(file, 1<<30)
	mustBe(t, err, noMIMEType)
	if read > 1<<20 {
		t.Errorf("%d octets of it were read", read)
	}
}

type readerAt func(p []byte, off int64) (int, error)

func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

func BenchmarkHostile(b *testing.B) {
	for _, h := range hostiles(b) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := prove(h.octets)
				mustBe(b, err, h.want)
			}
		})
	}
}
