// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
)

// TestWriterFraming follows message-and-transport 5.4 line by line.
func TestWriterFraming(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var body strings.Builder
	w := NewWriter(&body, "T")
	part := func(w *Writer, content string, pairs ...string) {
		t.Helper()
		p, err := w.Part(NewHeader(pairs...))
		must(err)
		_, err = io.WriteString(p, content)
		must(err)
	}
	part(w, "<DER>", "content-type", "application/ocsp-response")
	part(w, "<SOAP bytes>", "content-type", "text/xml; charset=UTF-8", "Content-ID", "<root>")
	a, err := w.Nested(NewHeader("content-type", "multipart/mixed; charset=UTF-8; boundary=A"), "A")
	must(err)
	part(a, "<bytes of attachment 1>", "content-type", "application/octet-stream", "Content-Transfer-Encoding", "base64")
	part(a, "", "content-type", "text/plain")
	must(a.Close())
	part(w, "<XML>", "content-type", "application/hash-chain-result")
	part(w, "<signature>", "content-type", "signature/bdoc-1.0/ts")
	must(w.Close())
	must(w.Close())

	want := `--T
content-type: application/ocsp-response

<DER>
--T
content-type: text/xml; charset=UTF-8
Content-ID: <root>

<SOAP bytes>
--T
content-type: multipart/mixed; charset=UTF-8; boundary=A


--A
content-type: application/octet-stream
Content-Transfer-Encoding: base64

<bytes of attachment 1>
--A
content-type: text/plain


--A--

--T
content-type: application/hash-chain-result

<XML>
--T
content-type: signature/bdoc-1.0/ts

<signature>
--T--
`
	if want = strings.ReplaceAll(want, "\n", "\r\n"); body.String() != want {
		t.Errorf("got\n%s\nwant\n%s", body.String(), want)
	}
}

func TestWriterMisuse(t *testing.T) {
	t.Run("no parts", func(t *testing.T) {
		var body strings.Builder
		if err := NewWriter(&body, "b").Close(); err != nil || body.String() != "--b--\r\n" {
			t.Errorf("%q, %v", body.String(), err)
		}
	})
	t.Run("part after the next one", func(t *testing.T) {
		w := NewWriter(io.Discard, "b")
		first, _ := w.Part(nil)
		w.Part(nil)
		if n, err := first.Write([]byte("x")); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("part after Close", func(t *testing.T) {
		w := NewWriter(io.Discard, "b")
		p, _ := w.Part(nil)
		w.Close()
		if n, err := p.Write([]byte("x")); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := w.Part(nil); err == nil {
			t.Error("Part after Close")
		}
		if _, err := w.Nested(nil, "c"); err == nil {
			t.Error("Nested after Close")
		}
	})
	t.Run("nested still open", func(t *testing.T) {
		w := NewWriter(io.Discard, "b")
		a, _ := w.Nested(nil, "c")
		if _, err := w.Part(nil); err == nil {
			t.Error("Part")
		}
		if err := w.Close(); err == nil {
			t.Error("Close")
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("unusable boundary", func(t *testing.T) {
		for _, boundary := range []string{"", "a\r\nb", "a ", "\xff"} {
			var body strings.Builder
			w := NewWriter(&body, boundary)
			if _, err := w.Part(nil); !errors.Is(err, ErrBoundary) {
				t.Errorf("%q: %v", boundary, err)
			}
			if _, err := NewWriter(&body, "b").Nested(nil, boundary); !errors.Is(err, ErrBoundary) {
				t.Errorf("%q nested: %v", boundary, err)
			}
			if err := w.Close(); !errors.Is(err, ErrBoundary) || body.Len() > 0 {
				t.Errorf("%q: %v, %q", boundary, err, body.String())
			}
		}
	})
	t.Run("header that cannot be written changes nothing", func(t *testing.T) {
		var body strings.Builder
		w := NewWriter(&body, "b")
		p, _ := w.Part(NewHeader("A", "1"))
		if _, err := w.Part(NewHeader("A", "1\r\nB: 2")); !errors.Is(err, ErrHeader) {
			t.Error(err)
		}
		if _, err := io.WriteString(p, "x"); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil || body.String() != "--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n" {
			t.Errorf("%q, %v", body.String(), err)
		}
	})
	t.Run("first error stays", func(t *testing.T) {
		full := errors.New("full")
		for _, short := range []error{full, nil} {
			want := full
			if short == nil {
				want = io.ErrShortWrite
			}
			out := &failing{after: 2, err: short}
			w := NewWriter(out, "b")
			a, err := w.Nested(nil, "c")
			if err != nil {
				t.Fatal(err)
			}
			p, err := a.Part(nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Write([]byte("xyz")); err != want {
				t.Errorf("Write: %v", err)
			}
			if _, err := p.Write([]byte("xyz")); err != want {
				t.Errorf("Write again: %v", err)
			}
			if err := a.Close(); err != want {
				t.Errorf("Close of the nested: %v", err)
			}
			if err := w.Close(); err != want {
				t.Errorf("Close: %v", err)
			}
			if _, err := w.Part(nil); err != want {
				t.Errorf("Part: %v", err)
			}
			if out.calls != 3 {
				t.Errorf("%d calls", out.calls)
			}
		}
	})
}

// failing takes one octet less than it is given, from the third call on.
type failing struct {
	after, calls int
	err          error
}

func (f *failing) Write(b []byte) (int, error) {
	if f.calls++; f.calls > f.after {
		return len(b) - 1, f.err
	}
	return len(b), nil
}

// copyParts writes what r reads, and opens what is multipart.
func copyParts(w *Writer, r *Reader) error {
	for {
		p, err := r.Next()
		if err == io.EOF {
			return w.Close()
		}
		if err != nil {
			return err
		}
		if c, _ := ParseContentType(p.Header.Get("Content-Type")); strings.HasPrefix(c.Type, "multipart/") {
			boundary, _ := c.Param("boundary")
			inner, err := w.Nested(p.Header, boundary)
			if err != nil {
				return err
			}
			if err := copyParts(inner, p.Nested(boundary)); err != nil {
				return err
			}
			continue
		}
		out, err := w.Part(p.Header)
		if err != nil {
			return err
		}
		if _, err := p.WriteTo(out); err != nil {
			return err
		}
	}
}

// TestRoundTrip writes what was read, to the same octets.
func TestRoundTrip(t *testing.T) {
	tests := []struct{ name, body string }{
		{"order, spelling, padding and folding of fields", "--b\r\nB: 1\r\nContent-ID : <x>\r\nA:x;\r\n\ty\r\n\r\none\r\n--b\r\ncontent-type:text/xml\r\n\r\n\r\n--b--\r\n"},
		{"a field twice", "--b\r\nA: 1\r\na: 2\r\nA: 1\r\n\r\nx\r\n--b--\r\n"},
		{"blanks before and behind a value", "--b\r\nA:  \t 1 \t \r\nB:\r\n\r\nx\r\n--b--\r\n"},
		{"octets above ASCII", "--b\r\nA: f\xfcr \xc3\xa4\r\n\r\n\x00\xff\r\n--b--\r\n"},
		{"no header", "--b\r\n\r\nx\r\n--b--\r\n"},
		{"line ends in parts", "--b\r\n\r\n\r\n\n\r\r\n\r\n--b\r\n\r\n\n\r\n--b--\r\n"},
		{"imitated delimiters", "--b\r\n\r\n--bb\r\n--\r\n---b\r\n --b--\r\n--b--\r\n"},
		{"no parts", "--b--\r\n"},
		{"nested", "--b\r\nA: 1\r\n\r\nx\r\n--b\r\ncontent-type: multipart/mixed; boundary=c\r\n\r\n\r\n--c\r\nA: 1\r\n\r\none\r\n--c\r\n\r\n\r\n--c--\r\n\r\n--b\r\n\r\ny\r\n--b--\r\n"},
	}
	for _, tt := range tests {
		for way, wrap := range waysToRead {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				var written strings.Builder
				err := copyParts(NewWriter(&written, "b"), NewReader(wrap(strings.NewReader(tt.body)), "b", Limits{}))
				if err != nil || written.String() != tt.body {
					t.Errorf("%q, %v", written.String(), err)
				}
			})
		}
	}
}

// TestLettersAreCryptographic sees where letters come from: with the source of crypto/rand they repeat.
func TestLettersAreCryptographic(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	first := Letters(30)
	cryptotest.SetGlobalRandom(t, 2)
	other := Letters(30)
	cryptotest.SetGlobalRandom(t, 1)
	if again := Letters(30); again != first || other == first {
		t.Errorf("%q, with another seed %q, with the first %q", first, other, again)
	}
}

func TestLetters(t *testing.T) {
	if got := Letters(-1); got != "" {
		t.Errorf("Letters(-1) = %q", got)
	}
	for _, n := range []int{0, 1, 30, 64, 65, 1000} {
		if got := Letters(n); len(got) != n || strings.Trim(got, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("Letters(%d) = %q", n, got)
		}
	}
	if first, second := Letters(30), Letters(30); first == second {
		t.Error("the same twice")
	}
	counts := map[rune]int{}
	const each = 10000
	for _, c := range Letters(52 * each) {
		counts[c]++
	}
	few, many := each, each
	for _, n := range counts {
		few, many = min(few, n), max(many, n)
	}
	if len(counts) != 52 || few < each*9/10 || many > each*11/10 {
		t.Errorf("%d letters, between %d and %d times", len(counts), few, many)
	}
}

func TestWriterIsReadByReader(t *testing.T) {
	for _, contents := range [][]string{nil, {""}, {"\r\n"}, {"", "\n", "\r"}, {"--", "-", "\r\n-"}, {"b", "--c--\r\n"}} {
		var body strings.Builder
		w := NewWriter(&body, "b")
		for _, c := range contents {
			p, err := w.Part(nil)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(p, c)
		}
		w.Close()
		var want []string
		for _, c := range contents {
			want = append(want, "|"+c)
		}
		if got, err := readParts(NewReader(strings.NewReader(body.String()), "b", Limits{})); err != io.EOF || !slices.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
