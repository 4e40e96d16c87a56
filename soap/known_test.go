// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestKnownTags scans documents with what was learned from others: nothing but forms may be taken from there.
func TestKnownTags(t *testing.T) {
	tags := new(knownTags)
	scan := func(text string, limits Limits) error {
		var d document
		if err := d.init(deaf{}, "", limits.orDefaults()); err != nil {
			t.Fatal(err)
		}
		d.tags = tags
		tags.tag, tags.ends = 0, 0
		tags.scope++
		if err := d.scan([]byte(text)); err != nil {
			return err
		}
		return d.close()
	}
	const rows = "<r><p:a b='1' p:c='2'>x</p:a><p:a b='3' p:c='4'/></r>"
	for _, c := range []struct {
		name, text string
		limits     Limits
		good       bool
	}{
		{"learned", "<e xmlns:p='u'>" + rows + rows + "</e>", Limits{}, true},
		{"again", "<e xmlns:p='u'>" + rows + rows + "</e>", Limits{}, true},
		{"of another namespace", "<e xmlns:p='v'>" + rows + "</e>", Limits{}, true},
		{"of a prefix not declared", "<e xmlns:q='u'>" + rows + "</e>", Limits{}, false},
		{"of a prefix out of scope", "<e><f xmlns:p='u'>" + rows + "</f>" + rows + "</e>", Limits{}, false},
		{"more attributes than another document may have", "<e xmlns:p='u'>" + rows + "</e>", Limits{Attributes: 1}, false},
		{"longer than another document may have", "<e xmlns:p='u'>" + rows + "</e>", Limits{Name: 10}, true},
		{"two attributes of two namespaces", "<e xmlns:p='u' xmlns:q='v'><a p:b='' q:b=''/><a p:b='' q:b=''/></e>", Limits{}, true},
		{"two attributes of one namespace", "<e xmlns:p='u' xmlns:q='u'><a p:b='' q:b=''/></e>", Limits{}, false},
		{"an attribute twice", "<e><a b='' b=''/></e>", Limits{}, false},
		{"an attribute twice again", "<e><a b='' b=''/></e>", Limits{}, false},
		{"a declaration", "<e xmlns:x='u'/>", Limits{}, true},
		{"a declaration that is forbidden", "<e xmlns:x='" + xmlSpace + "'/>", Limits{}, false},
		{"a declaration of nothing", "<e xmlns:x=''/>", Limits{}, false},
		{"a value with a reference", "<e xmlns:x='u&amp;v'/>", Limits{}, true},
		{"a value with <", "<e xmlns:x='u<v'/>", Limits{}, false},
		{"a value in other quotes", `<e xmlns:x="u'v"/>`, Limits{}, true},
		{"the end tag of another", "<e xmlns:p='u'><r><p:a b='1' p:c='2'>x</p:b></r></e>", Limits{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := scan(c.text, c.limits); (err == nil) != c.good {
				t.Error(err)
			}
		})
	}
	if tags.n == 0 {
		t.Error("nothing was learned")
	}
}

// TestKnownTagsFull scans more start tags than there is room for, and some that would take all of it.
func TestKnownTagsFull(t *testing.T) {
	var many strings.Builder
	for i := range 3 * knownTagsMost {
		fmt.Fprintf(&many, "<a%d><b%d c='%d'/></a%d>", i, i, i, i)
	}
	long := "<" + strings.Repeat("l", knownOctets/2) + " a=''/>" + attributes(knownAttributes)
	data := []byte("<e>" + long + many.String() + many.String() + long + "</e>")
	for range 3 {
		if err := scanCut(data, Limits{}, len(data), len(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := scanAll(t, data, Limits{}); err != nil {
		t.Fatal(err)
	}
}

// TestPlain compares plain with a look at one character after the other.
func TestPlain(t *testing.T) {
	alphabet := []string{"a", "z", "ä", "Ж", "\xC3", "\x80", "\xC0\x80", "\xC1\xBF", "<", "]", "&", "\t", " ", "\x7F", "中", "\xE4", "😀", "\xFF"}
	random := uint32(1)
	for range 200_000 {
		var p []byte
		for range (random >> 20) % 24 {
			random = random*1664525 + 1013904223
			p = append(p, alphabet[(random>>8)%uint32(len(alphabet))]...)
		}
		random = random*1664525 + 1013904223
		want := 0
		for want < len(p) {
			r, n := utf8.DecodeRune(p[want:])
			if n > 2 || n == 1 && (r == utf8.RuneError || classes[p[want]]&endsText != 0) {
				break
			}
			want += n
		}
		// Beyond ASCII it may stop early, in the last octets that are not eight; never late, and never inside a character.
		if got := plain(p); got > want || got < want-7 || !utf8.Valid(p[:got]) || isASCII(p[:want]) && got != want {
			t.Fatalf("%q: %d, want %d", p, got, want)
		}
	}
}

func isASCII(p []byte) bool {
	return bytes.IndexFunc(p, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}
