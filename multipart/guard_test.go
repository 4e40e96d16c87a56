// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// guarded says whether a Guard finds a delimiter in content, written in pieces of that size.
func guarded(content, boundary string, piece int) bool {
	g := NewGuard(boundary)
	return guardPart(g, content, piece)
}

func guardPart(g *Guard, content string, piece int) bool {
	g.Begin()
	for len(content) > 0 {
		n := min(piece, len(content))
		if k, err := g.Write([]byte(content[:n])); k != n || err != nil && err != ErrDelimiter {
			panic("Guard does not consume all")
		}
		content = content[n:]
	}
	return g.End() != nil
}

func TestGuard(t *testing.T) {
	tests := []struct {
		name, boundary, content string
		want                    bool
	}{
		{"nothing", "b", "", false},
		{"plain", "b", "hello", false},
		{"at the start", "b", "--b\r\nx", true},
		{"after CR LF", "b", "x\r\n--b\r\ny", true},
		{"after LF", "b", "x\n--b\ny", true},
		{"after a lone CR", "b", "x\r--b\r\ny", true},
		{"after many lone CRs", "b", "\r\r\n\r--b", true},
		{"a lone CR, then longer", "b", "x\r--bb\r--bb", false},
		{"inside a line", "b", "x--b\r\ny", false},
		{"closing", "b", "x\n--b--", true},
		{"one dash", "b", "x\n--b-y", true},
		{"blank", "b", "x\n--b y", true},
		{"tab", "b", "x\n--b\ty", true},
		{"CR", "b", "x\n--b\ry", true},
		{"longer", "b", "x\n--bb\ny", false},
		{"shorter", "bb", "x\n--b\ny", false},
		{"at the end", "b", "x\n--b", true},
		{"the whole part", "b", "--b", true},
		{"all but the last octet at the end", "bb", "x\n--b", false},
		{"line feeds before", "b", "\n\n\n--b\n", true},
		{"broken off by a delimiter", "bb", "\n--b\n--bb\n", true},
		{"longer, then right", "b", "\n--bx\n--b\n", true},
		{"longer at the end, then right", "b", "\n--bb--b\n--b", true},
		{"boundary of dashes", "----", "\n-----\n------\n", true},
		{"too few dashes", "----", "\n-----\n-------\n", true},
		{"far too few dashes", "----", "\n-----\n---\n", false},
		{"long boundary", strings.Repeat("x", 1000), "\n--" + strings.Repeat("x", 1000) + "\n", true},
		{"long boundary, longer", strings.Repeat("x", 1000), "\n--" + strings.Repeat("x", 1001) + "\n", false},
		{"unusable boundary", "b ", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for piece := 1; piece <= len(tt.content)+1; piece++ {
				if got := guarded(tt.content, tt.boundary, piece); got != tt.want {
					t.Errorf("in pieces of %d: %t", piece, got)
				}
			}
		})
	}
	t.Run("parts", func(t *testing.T) {
		g := NewGuard("b")
		for _, content := range []string{"x\n--", "b\n", "x\n--bb", "\n-", "-b"} {
			if guardPart(g, content, 100) {
				t.Fatalf("%q", content)
			}
		}
		if !guardPart(g, "--b", 100) {
			t.Error("not found")
		}
		if !guardPart(g, "x", 100) {
			t.Error("forgotten")
		}
	})
	t.Run("error", func(t *testing.T) {
		n, err := NewGuard("b").Write([]byte("--b\nmore"))
		var cause interface{ Cause() string }
		if n != 8 || err != ErrDelimiter || !errors.As(err, &cause) || cause.Cause() != "invalid_content_type" {
			t.Errorf("%d, %v", n, err)
		}
	})
}

// TestGuardReadings watches for every boundary that a reader may take from a Content-Type.
func TestGuardReadings(t *testing.T) {
	const both = "\x00" // in front of a boundary: also where it does not stand at the start of a line, and goes on
	for _, tt := range []struct {
		contentType string
		cut, whole  []string
	}{
		{`multipart/related; boundary=b`, []string{"b"}, []string{"'b'", "bb", both + "b"}},
		{`multipart/related; boundary="a\-b"`, []string{"a-b", both + `a\-b`}, []string{"a", "b"}},
		{`multipart/related; boundary='b'`, []string{"'b'", both + "b"}, []string{"'b"}},
		{`multipart/related; boundary="<b>"`, []string{"<b>", both + "b"}, []string{"<b"}},
		{`multipart/related; boundary="<\b>"`, []string{"<b>", both + `<\b>`, both + "b", both + `\b`}, nil},
		{`multipart/related; boundary="''"`, []string{"''"}, []string{"", "'"}},
		{`multipart/related; xboundary=A; boundary=b`, []string{"b", both + "A"}, []string{both + "b"}},
		{`multipart/related; boundary=b; xBoundary=A`, []string{"b", both + "A"}, nil},
		{`multipart/related; x="boundary=A"; boundary=b`, []string{"b", both + "A"}, nil},
		{`multipart/related; start-info="x;boundary=fake"; boundary=b`, []string{"b", both + "fake"}, []string{"fak"}},
		{`multipart/related; foo="x; boundary=A y; z"; boundary=b`, []string{"b", both + "A y"}, []string{"A"}},
		{`multipart/related; boundary="\;b"`, []string{";b", both + `\`}, []string{"b"}},
		{`multipart/related; boundary="a\"b"`, []string{`a"b`, both + `a\`}, nil},
		{`multipart/related; boundary="A;B"`, []string{"A;B", both + "A"}, []string{"B"}},
		{`multipart/related; boundary="boundary=A"`, []string{"boundary=A", both + "A"}, nil},
		{`multipart/related; boundary=b ; type=text/xml`, []string{"b", both + "b "}, []string{both + "b"}},
		{`multipart/related; boundary=ab; boundary="a\b"`, []string{"ab", both + `a\b`}, nil},
		{`multipart/related; boundary = "b"`, []string{"b"}, nil},
		{`multipart/related; boundary="a b'()+_,-./:=?z"`, []string{"a b'()+_,-./:=?z"}, []string{"a"}},
	} {
		ct, err := ParseContentType(tt.contentType)
		if err != nil {
			t.Fatal(err)
		}
		found := func(content string, piece int) bool {
			g, err := ct.Guard()
			if err != nil {
				t.Fatalf("%s: %v", tt.contentType, err)
			}
			return guardPart(g, content, piece)
		}
		for want, boundaries := range map[bool][]string{true: tt.cut, false: tt.whole} {
			for _, b := range boundaries {
				content := "x\r\n--" + b + "\r\ny"
				if rest, ok := strings.CutPrefix(b, both); ok {
					content = "x---" + rest + "more"
				}
				for piece := 1; piece < len(content); piece++ {
					if got := found(content, piece); got != want {
						t.Errorf("%s: %q in pieces of %d: %t", tt.contentType, content, piece, got)
					}
				}
			}
		}
	}
}

// TestGuardRefuses: some Content-Types are read in two ways whatever the parts hold.
func TestGuardRefuses(t *testing.T) {
	many := "multipart/related; boundary=b"
	for i := range maxMisreadings + 1 {
		many += fmt.Sprintf("; x%dboundary=%d", i, i)
	}
	for _, contentType := range []string{
		`multipart/related`,
		`multipart/related; Boundary="B C"`,
		`multipart/related; boundary ="B C"`,
		`multipart/related; boundary*=us-ascii''B%20C`,
		`multipart/related; boundary*0="B "; boundary*1=C; xboundary=A`,
		`multipart/related; boundary*=us-ascii''b%31`,
		`multipart/related; boundary*=cp037''KL`,
		`multipart/related; boundary=b; boundary*0=b`,
		`multipart/related; boundary= "B"`,
		`multipart/related; boundary=; boundary=B`,
		`multipart/related; boundary=""; boundary=B`,
		`multipart/related; start-info="boundary=;A"; boundary=B`,
		`multipart/related; start-info="boundary="; boundary=B`,
		"multipart/related; start-info=\"boundary=\t;A\"; boundary=B",
		many,
	} {
		ct, err := ParseContentType(contentType)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ct.Guard(); !errors.Is(err, ErrContentType) {
			t.Errorf("%s: %v", contentType, err)
		}
	}
}

// TestGuardLoose takes what merely begins as a delimiter for one, at the start of lines.
func TestGuardLoose(t *testing.T) {
	for content, want := range map[string]bool{
		"--bx": true, "x\r\n--bxyz: q\r\n": true, "x\r--b_": true, "\n--b": true, "x--b\n": false, "x\n--": false, "-\n-b": false,
	} {
		for piece := 1; piece <= len(content); piece++ {
			g := NewGuard("b")
			g.Loosen()
			if got := guardPart(g, content, piece); got != want {
				t.Errorf("%q in pieces of %d: %t", content, piece, got)
			}
		}
	}
}

// TestGuardHeader looks at header blocks, where readers of another boundary may find one.
func TestGuardHeader(t *testing.T) {
	h := NewHeader("Content-Type", "a/b", "X", "y--A")
	if err := NewGuard("b", "A").Header(h); err != ErrDelimiter {
		t.Error(err)
	}
	g := NewGuard("b", "xq")
	if err := g.Header(h); err != nil {
		t.Error(err)
	}
	if _, err := g.Write([]byte("--b")); err != nil || g.End() != ErrDelimiter {
		t.Error("the first line behind the header block is none")
	}
	if err := NewGuard("b", "A").Header(NewHeader("X", "a\r\nb")); !errors.Is(err, ErrHeader) {
		t.Error(err)
	}
}

// TestGuardExhaustive compares a Guard with a Reader on all short contents of the octets that matter.
func TestGuardExhaustive(t *testing.T) {
	const octets = "\r\n-bx "
	var grow func(content string)
	grow = func(content string) {
		guardAgainstReader(t, content, "b", 1)
		guardAgainstReader(t, content, "b", 3)
		if len(content) == 6 {
			return
		}
		for _, c := range octets {
			grow(content + string(c))
		}
	}
	grow("")
}

var loneCR = regexp.MustCompile(`\r($|[^\n])`)

// guardAgainstReader checks that a Guard finds a delimiter if and only if a Reader does for whom a lone CR ends a line.
func guardAgainstReader(t *testing.T, content, boundary string, piece int) {
	t.Helper()
	written := content
	for loneCR.MatchString(content) {
		content = loneCR.ReplaceAllString(content, "\n$1")
	}
	body := "--" + boundary + "\r\n\r\n" + content + "\r\n--" + boundary + "--\r\n"
	parts, _ := readParts(NewReader(strings.NewReader(body), boundary, Limits{}))
	seen := len(parts) != 1 || parts[0] != "|"+content
	if got := guarded(written, boundary, piece); got != seen {
		t.Fatalf("content %q, boundary %q: Guard %t, Reader %t", written, boundary, got, seen)
	}
}
