// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// hostile is a hash chain that nobody honest sends, and how it is refused.
type hostile struct {
	name  string
	chain string
	want  string // "": it is handled
}

// hostiles makes hash chains that try to cost much: long, deep, of very many small things, with steps that lead around.
func hostiles(t testing.TB) []hostile {
	parts := message(crypto.SHA512, "<a/>", "x")
	_, chains, err := Build([][]crypto.Part{parts}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	honest := string(chains[0])
	const first = `<ns2:HashStep id="STEP0">`
	filled := func(piece string) string {
		return strings.Replace(honest, first, first+strings.Repeat(piece, (limits.Size-len(honest))/len(piece)), 1)
	}
	many := func(n int, item func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(item(i))
		}
		return document512(`<HashStep id="STEP0">` + b.String() + `</HashStep>`)
	}
	data := func(name func(i int) string) func(i int) string {
		return func(i int) string { return dr(name(i), parts[0].Sum) }
	}
	steps := func(n int, items func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`<HashStep id="STEP%d">%s</HashStep>`, i, items(i))
		}
		return document512(all...)
	}
	next := func(i int) string { return fmt.Sprintf(`<StepRef URI="#STEP%d"/>`, i+1) }
	return []hostile{
		{"64 MiB of blanks", honest + strings.Repeat(" ", 64<<20), malformed},
		{"64 MiB of base64", strings.Replace(honest, "<DigestValue>", "<DigestValue>"+strings.Repeat("AAAA", 16<<20), 1), malformed},
		{"all the base64 that fits", strings.Replace(honest, "<DigestValue>", "<DigestValue>"+strings.Repeat("AAAA", 1300000), 1), invalidTop},
		{"deep", filled("<a>"), malformed},
		{"elements", filled("<a/>"), malformed},
		{"as many elements as go", document512(`<HashStep id="STEP0">` + strings.Repeat("<a/>", maxTags-10) + `</HashStep>`), malformed},
		{"blanks and elements", filled(" <a/>"), malformed},
		{"attributes", filled(`<a a="" b="" c="" d="" e="" f="" g="" h=""/>`), malformed},
		{"namespaces", filled(`<a xmlns="u:1" xmlns:b="u:2" xmlns:c="u:3" xmlns:d="u:4"/>`), malformed},
		{"pieces of text", filled("<![CDATA[]]>"), malformed},
		{"comments", filled("<!---->"), malformed},
		{"references to characters", filled("&#32;"), invalidTop},
		{"cycle", steps(2, func(i int) string { return next((i+1)%2 - 1) }), malformed},
		{"doubling", steps(60, func(i int) string { return next(i) + next(i) }), malformed},
		{"too many steps", steps(10000, next), malformed},
		{"steps as deep as they go", steps(maxSteps, func(i int) string {
			if i < maxSteps-1 {
				return next(i)
			}
			return dr(crypto.Message, parts[0].Sum)
		}), invalidTop},
		{"10,000 references to one step", many(10000, func(int) string { return `<StepRef URI="#STEP0"/>` }), malformed},
		{"10,000 references to one part", many(10000, data(func(int) string { return crypto.Message })), invalidTop},
		{"10,000 references to attachments", many(10000, data(crypto.Attachment)), invalidURI},
		{"10,000 digests", many(10000, func(int) string { return hv(b64(parts[0].Sum)) }), invalidTop},
		{"very many digests of one octet", many(40000, func(int) string { return hv("AA==") }), malformed},
		{"as many digests of one octet as go", many(MaxParts, func(int) string { return hv("AA==") }), invalidTop},
		{"as many references as go", many(MaxParts, data(func(int) string { return crypto.Message })), invalidTop},
		{"10,000 chain files", many(10000, func(i int) string { return fmt.Sprintf(`<StepRef URI="/%d#a"/>`, i) }), invalidURI},
	}
}

// maxMemory is how much memory a hostile chain may take in all, be it used at once or one after the other.
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
	for _, h := range hostiles(t) {
		t.Run(h.name, func(t *testing.T) {
			verify := h.verify()
			var err error
			n := allocated(func() { err = verify() })
			if cause(t, err) != h.want {
				t.Errorf("got %v, want %q", err, h.want)
			}
			if n > maxMemory {
				t.Errorf("it took %d octets of memory", n)
			}
			t.Logf("%.1f MiB of %.1f", float64(n)/(1<<20), float64(len(h.chain))/(1<<20))
		})
	}
}

// verify returns what a receiver does with the chain.
func (h hostile) verify() func() error {
	parts := message(crypto.SHA512, "<a/>", "x")
	result := result512("/sig-hashchain.xml#STEP0", b64(crypto.SHA512.Sum(nil)))
	chain := []byte(h.chain)
	return func() error { return Verify(result, chain, parts) }
}

func BenchmarkHostile(b *testing.B) {
	for _, h := range hostiles(b) {
		b.Run(h.name, func(b *testing.B) {
			verify := h.verify()
			b.ReportAllocs()
			for b.Loop() {
				if err := verify(); cause(b, err) != h.want {
					b.Fatal(err)
				}
			}
		})
	}
}
