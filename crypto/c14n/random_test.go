// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestCanonicalTrees makes trees that are canonical as they are written, of many more things than are made at once: the
// whole and every element must come out as they went in.
func TestCanonicalTrees(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		var spans [][2]int // of the elements, in document order
		left := 1 + r.IntN(3000)
		var element func(depth int)
		element = func(depth int) {
			left--
			n := len(spans)
			spans = append(spans, [2]int{b.Len(), 0})
			name := fmt.Sprintf("p:e%d", r.IntN(5))
			b.WriteString("<" + name)
			if depth == 0 {
				b.WriteString(` xmlns:p="urn:p"`)
			}
			var names []string
			for i := range r.IntN(4) {
				names = append(names, fmt.Sprintf("a%d%d", i, r.IntN(9)))
			}
			slices.Sort(names)
			for _, name := range names {
				fmt.Fprintf(&b, ` %s="%d&quot;&amp;&lt;&#xD;&#xA;"`, name, r.IntN(1000))
			}
			b.WriteString(">")
			for left > 0 && depth < 40 && r.IntN(5) > 0 || depth == 0 && left > 0 {
				if r.IntN(2) == 0 {
					fmt.Fprintf(&b, "%d&amp;&lt;&gt;\n&#xD;\"", r.IntN(1000))
				}
				element(depth + 1)
			}
			if r.IntN(2) == 0 {
				b.WriteString("end")
			}
			b.WriteString("</" + name + ">")
			spans[n][1] = b.Len()
		}
		element(0)
		doc := b.String()
		i := 0
		var check func(e *Element)
		check = func(e *Element) {
			want := doc[spans[i][0]:spans[i][1]]
			if i++; i > 1 {
				want = strings.Replace(want, " ", ` xmlns:p="urn:p" `, 1)
				if end := strings.IndexByte(want, '>'); !strings.Contains(want[:end], "xmlns") {
					want = doc[spans[i-1][0]:spans[i-1][1]]
					end = strings.IndexByte(want, '>')
					want = want[:end] + ` xmlns:p="urn:p"` + want[end:]
				}
			}
			if i < 200 || i%50 == 0 {
				if got := canonical(t, e, Exclusive); got != want {
					t.Fatalf("seed %d, element %d: %.300q, want %.300q", seed, i, got, want)
				}
			}
			for _, c := range e.Children() {
				check(c)
			}
		}
		check(must(t, doc))
		if i != len(spans) {
			t.Errorf("seed %d: %d elements of %d", seed, i, len(spans))
		}
	}
}
