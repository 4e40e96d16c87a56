// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"io"
	"mime"
	stdmultipart "mime/multipart"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzReader reads a body in four ways, which must agree, and compares with mime/multipart where that accepts the body too.
func FuzzReader(f *testing.F) {
	f.Add("--b\r\nA: 1\r\n\r\nx\r\n--b\r\nB: 2\r\n\r\n\r\n--b--\r\n", "b", 3)
	f.Add("p\n--b \nA: 1;\n 2\n\nx\r\n--bb\n--b\n\n--b--junk", "b", 1)
	f.Add("--b\r\n--b\r\nnone\r\n--b-x", "b", 2)
	f.Add("--T\r\n\r\n\r\n--TA\r\n\r\nx\r\n--TA--\r\n\r\n--T--", "T", 7)
	f.Add("--:k=Q:\n\n\r\r\n--:k=Q:--", ":k=Q:", 1460)
	f.Add("--b\n--b--", "b", 4)
	f.Add("------\n\n---\n------\r\n--------", "----", 5)
	f.Fuzz(func(t *testing.T, body, boundary string, piece int) {
		limits := Limits{HeaderBytes: 1000, Headers: 10, Parts: 10, Preamble: 1000}
		parts, err := readParts(NewReader(strings.NewReader(body), boundary, limits))
		again, errAgain := readParts(NewReader(inPieces{strings.NewReader(body), max(1, piece&0xff)}, boundary, limits))
		if !slices.Equal(parts, again) || err.Error() != errAgain.Error() {
			t.Fatalf("whole: %q, %v; in pieces: %q, %v", parts, err, again, errAgain)
		}
		one, errOne := readParts(NewReader(iotest.DataErrReader(iotest.OneByteReader(strings.NewReader(body))), boundary, limits))
		if !slices.Equal(parts, one) || err.Error() != errOne.Error() {
			t.Fatalf("whole: %q, %v; octet by octet: %q, %v", parts, err, one, errOne)
		}
		if over := (*LimitError)(nil); len(body) < smallBuffer-2 && !errors.As(err, &over) {
			before := smallBuffer - 2 - (piece&0xffff)%(len(body)+1) // so the first buffer ends inside the body
			limits.Preamble += smallBuffer
			edge, errEdge := readParts(NewReader(strings.NewReader(strings.Repeat("x", before)+"\r\n"+body), boundary, limits))
			if !slices.Equal(parts, edge) || err.Error() != errEdge.Error() {
				t.Fatalf("at the start: %q, %v; over the edge of a buffer: %q, %v", parts, err, edge, errEdge)
			}
		}
		if err != io.EOF {
			return
		}
		compareWithStd(t, body, boundary, parts)
	})
}

// FuzzRoundTrip writes what it read: that must read as the same parts, and be written again to the same octets.
func FuzzRoundTrip(f *testing.F) {
	f.Add("--b\r\nA: 1\r\n\r\nx\r\n--b\r\nB: 2\r\n\r\n\r\n--b--\r\n", "b")
	f.Add("p\n--b \nA: 1;\n 2\n\nx\r\n--bb\n--b\n\n--b--junk", "b")
	f.Add("--T\nContent-Type: multipart/mixed; boundary=TA\n\n\n--TA\n\nx\n--TA--\n\n--T--", "T")
	f.Add("--T\r\ncontent-type: multipart/mixed; boundary=\"A\"\r\n\r\n--A--\r\n--T\r\n--T--", "T")
	f.Fuzz(func(t *testing.T, body, boundary string) {
		rewrite := func(body string) (string, error) {
			var written strings.Builder
			err := copyParts(NewWriter(&written, boundary), NewReader(strings.NewReader(body), boundary, Limits{}))
			return written.String(), err
		}
		written, err := rewrite(body)
		if err != nil {
			return
		}
		again, err := rewrite(written)
		if err != nil || again != written {
			t.Fatalf("written %q, written again %q, %v", written, again, err)
		}
	})
}

// compareWithStd compares the octets of parts with those that mime/multipart reads, where it accepts the body too.
func compareWithStd(t *testing.T, body, boundary string, parts []string) {
	crlf := strings.Count(body, "\r\n")
	if crlf != strings.Count(body, "\n") && strings.Contains(body, "\r") {
		return // mixed line ends mean other things there
	}
	if strings.Contains(body, "|") {
		return // which parts have between header and octets
	}
	if _, after, _ := strings.Cut(body, "--"+boundary+"--"); strings.TrimSpace(after) != "" {
		return // so do closing delimiters with something behind them
	}
	r := stdmultipart.NewReader(strings.NewReader(body), boundary)
	for i := 0; ; i++ {
		p, err := r.NextRawPart()
		if err == io.EOF {
			// It takes a last part without blank line for the end of the body.
			if i != len(parts) && !(i == len(parts)-1 && strings.HasSuffix(parts[i], "|")) {
				t.Fatalf("%d parts in mime/multipart, here %q", i, parts)
			}
			return
		}
		if err != nil {
			return
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return
		}
		if i == len(parts) {
			t.Fatalf("mime/multipart has a part more, %q; here %q", content, parts)
		}
		if _, here, _ := strings.Cut(parts[i], "|"); here != string(content) {
			t.Fatalf("part %d is %q, in mime/multipart %q", i, here, content)
		}
	}
}

// FuzzGuard checks that a Guard finds a delimiter if and only if a Reader does.
func FuzzGuard(f *testing.F) {
	f.Add("x\r\n--b\r\n", "b", 1)
	f.Add("--b", "b", 2)
	f.Add("\n--b\n--bb-", "bb", 3)
	f.Add("\n-----\n-------", "----", 5)
	f.Fuzz(func(t *testing.T, content, boundary string, piece int) {
		if checkBoundary(boundary) != nil || len(boundary) > DefaultLimits.Boundary {
			return
		}
		guardAgainstReader(t, content, boundary, max(1, piece&0xff))
	})
}

// FuzzParseContentType looks for panics, and compares the boundary with mime.ParseMediaType where both accept a value.
func FuzzParseContentType(f *testing.F) {
	f.Add(`multipart/related; start-info="application/soap+xml; action=\"urn:a;b\""; boundary=:b:`)
	f.Add("multipart/mixed; boundary*1*=%41; boundary*0=a;; charset=")
	f.Add("multipart/related;\r\n\tboundary=b; type='a/b'")
	f.Fuzz(func(t *testing.T, value string) {
		c, err := ParseContentType(value)
		if c.Value != value {
			t.Fatalf("Value is %q", c.Value)
		}
		if err != nil {
			return
		}
		boundary, ok := c.Param("boundary")
		if ok && checkBoundary(boundary) != nil {
			t.Fatalf("boundary %q", boundary)
		}
		kind, params, err := mime.ParseMediaType(value)
		if err != nil || strings.ContainsAny(value, "\\*") {
			return
		}
		if kind != c.Type {
			t.Fatalf("type %q, in mime %q", c.Type, kind)
		}
		if params["boundary"] != boundary {
			t.Fatalf("boundary %q, in mime %q", boundary, params["boundary"])
		}
	})
}

// FuzzHeader checks that a header writes what reads as the same header.
func FuzzHeader(f *testing.F) {
	f.Add("A: 1\r\nb:2;\n\t3\r\nnone\r\n")
	f.Add(" A: 1\n--b: 2\n")
	f.Fuzz(func(t *testing.T, block string) {
		if !strings.HasSuffix(block, "\n") {
			return
		}
		h, err := parseHeader(nil, block, 100)
		if err != nil {
			return
		}
		var written strings.Builder
		if _, err := h.WriteTo(&written); err != nil {
			t.Fatal(err)
		}
		back, err := parseHeader(nil, written.String(), 100)
		if err != nil || len(back) != len(h) {
			t.Fatalf("read %q, written and read again %q, %v", h, back, err)
		}
		for i := range h {
			if h[i].Name != back[i].Name || h[i].Value != back[i].Value {
				t.Fatalf("read %q, written and read again %q", h[i], back[i])
			}
		}
	})
}
