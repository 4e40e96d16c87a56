// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestHostileCanonicalForm: the exclusive form of a short document, which names a long namespace for every element, would
// have forty gibibytes. It ends at its limit.
func TestHostileCanonicalForm(t *testing.T) {
	e := must(t, `<r xmlns:x="urn:`+strings.Repeat("x", 1<<20)+`"><a>`+strings.Repeat("<x:b/>", 40000)+`</a></r>`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := find(e, "a").Canonicalize(io.Discard, Exclusive)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("it took %d octets of memory", n)
	}
	if err := find(e, "a").Canonicalize(io.Discard, Inclusive); err != nil {
		t.Errorf("the inclusive form, which names it once: %v", err)
	}
}

// TestCanonicalFormInPieces: long forms are written in pieces, and come out as they would in one.
func TestCanonicalFormInPieces(t *testing.T) {
	text := strings.Repeat("a&amp;b", 20000) + strings.Repeat("c", 100000)
	doc := `<r a="` + text + `">` + strings.Repeat("<b>"+text[:4900]+"</b>", 100) + text + `</r>`
	if got := canonical(t, must(t, doc), Inclusive); got != doc {
		t.Errorf("%d octets come out of %d", len(got), len(doc))
	}
}
