// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestHeaderOfManyParts: a header that is written some parts at a time is what it would be at once, in the room for it.
func TestHeaderOfManyParts(t *testing.T) {
	for _, n := range []int{0, 1, 2, 63, 64, 65, 128, 129, 1000} {
		j := &header{Time: time.Unix(1, 0), MessageID: "a\"b\u2028", Fault: "x", Documents: [3]int64{1, 2, 3}}
		for i := range n {
			j.Parts = append(j.Parts, headerPart{
				Name: crypto.Attachment(i + 1), ContentType: "text/xml", Digest: "SHA-512",
				Sum: crypto.SHA512.Sum([]byte(strconv.Itoa(i))), Size: int64(i) << 20, Kept: i%2 == 0,
			})
		}
		want, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		const before, behind = "before", 1000
		got, err := j.appendTo([]byte(before), behind)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, append([]byte(before), want...)) {
			t.Errorf("%d parts: got %s, want %s", n, got, want)
		}
		if cap(got)-len(got) < behind {
			t.Errorf("%d parts: no room for what is behind", n)
		}
	}
}

// TestHeaderOfOddTypes: Content-Types that JSON writes in many more characters leave room for what is behind them.
func TestHeaderOfOddTypes(t *testing.T) {
	for n := range 2000 {
		w, err := encode(&Record{
			Parts:     []Part{{Name: crypto.Message, ContentType: strings.Repeat("<", n)}},
			Signature: crypto.Signature{XML: make([]byte, 3000)},
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if w.digestAt()+digestSize != int64(len(w.frame)) {
			t.Fatalf("%d: the digest is at %d of %d octets", n, w.digestAt(), len(w.frame))
		}
	}
}
