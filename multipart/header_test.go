// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestHeaderReading(t *testing.T) {
	tests := []struct {
		name, block string
		fields      []string // name=value
		written     string   // "": as block
	}{
		{"order, spelling and case", "B: 1\r\ncontent-ID: <x>\r\nb: 2\r\nA:3\r\n", []string{"B=1", "content-ID=<x>", "b=2", "A=3"}, ""},
		{"no blank after the colon", "content-type:text/xml\r\n", []string{"content-type=text/xml"}, ""},
		{"blanks around the value", "A: \t x y \t\r\n", []string{"A=x y"}, ""},
		{"blank before the colon", "Content-ID \t: x\r\n", []string{"Content-ID=x"}, ""},
		{"empty value", "A:\r\nB: \r\n", []string{"A=", "B="}, ""},
		{"colons in the value", "A: b:c: d\r\n", []string{"A=b:c: d"}, ""},
		{"folded with tab", "Content-Type: application/x-y;\r\n\tname=\"1 of 2 t.xlsx\"\r\n", []string{"Content-Type=application/x-y;\tname=\"1 of 2 t.xlsx\""}, ""},
		{"folded thrice", "D: attachment;\r\n filename*0=a;\r\n  filename*1=b\r\nE: 1\r\n", []string{"D=attachment; filename*0=a;  filename*1=b", "E=1"}, ""},
		{"folded before the value", "A:\r\n x\r\n", []string{"A=x"}, ""},
		{"fold line of blanks", "A: x;\r\n  \t\r\n y\r\nB: 1\r\n", []string{"A=x;  \t y", "B=1"}, ""},
		{"LF", "A: x;\n y\nB: 1\n", []string{"A=x; y", "B=1"}, "A: x;\r\n y\r\nB: 1\r\n"},
		{"octets above ASCII", "A: f\xfcr p\xc3\xa4iv\xc3\xa4\r\n", []string{"A=f\xfcr p\xc3\xa4iv\xc3\xa4"}, ""},
		{"encoded words stay", "A: =?utf-8?Q?=C3=A4?=\r\n", []string{"A==?utf-8?Q?=C3=A4?="}, ""},
		{"long line", "A: " + strings.Repeat("x", 20000) + "\r\n", []string{"A=" + strings.Repeat("x", 20000)}, ""},
		{"twice", "A: 1\r\nA: 2\r\n", []string{"A=1", "A=2"}, ""},
		{"no colon", "A: 1\r\nhello\r\nB: 2\r\n", []string{"A=1", "B=2"}, "A: 1\r\nB: 2\r\n"},
		{"no colon, folded", "hello\r\n X: 1\r\nB: 2\r\n", []string{"B=2"}, "B: 2\r\n"},
		{"blank first", " A: 1\r\nB: 2\r\n", []string{"B=2"}, "B: 2\r\n"},
		{"no name", ": 1\r\nB: 2\r\n", []string{"B=2"}, "B: 2\r\n"},
		{"name of blanks inside", "A B: 1\r\nC: 2\r\n", []string{"C=2"}, "C: 2\r\n"},
		{"name above ASCII", "\xe4: 1\r\nC: 2\r\n", []string{"C=2"}, "C: 2\r\n"},
		{"name over the line end", "A\r\n : 1\r\nC: 2\r\n", []string{"C=2"}, "C: 2\r\n"},
		{"name that may be a delimiter", "--B-: 1\r\nC: 2\r\n", []string{"C=2"}, "C: 2\r\n"},
		{"nothing but no fields", "hello\r\n", nil, "-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := NewReader(strings.NewReader("--b\r\n"+tt.block+"\r\nbody\r\n--b--"), "b", Limits{}).Next()
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, f := range p.Header {
				fields = append(fields, f.Name+"="+f.Value)
			}
			if !slices.Equal(fields, tt.fields) {
				t.Errorf("got %q", fields)
			}
			want := tt.written
			switch want {
			case "":
				want = tt.block
			case "-":
				want = ""
			}
			var b strings.Builder
			if n, err := p.Header.WriteTo(&b); err != nil || b.String() != want || n != int64(len(want)) {
				t.Errorf("written %q, %d, %v", b.String(), n, err)
			}
			if body, err := io.ReadAll(p); string(body) != "body" || err != nil {
				t.Errorf("body %q, %v", body, err)
			}
		})
	}
	for name, block := range map[string]string{
		"lone CR":               "A: 1\rB: 2\r\n",
		"lone CR in the name":   "A\rB: 2\r\n",
		"CR CR LF":              "A: 1\r\r\n",
		"lone CR without colon": "hello\rworld\r\n",
		"NUL":                   "A: 1\x00\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewReader(strings.NewReader("--b\r\n"+block+"\r\nbody\r\n--b--"), "b", Limits{}).Next()
			if !errors.Is(err, ErrHeader) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHeaderLookup(t *testing.T) {
	h := NewHeader("Content-Type", "text/xml", "X", "1", "x", "2", "odd")
	if got := h.Get("content-TYPE"); got != "text/xml" {
		t.Errorf("Get: %q", got)
	}
	if got := h.Get("missing"); got != "" {
		t.Errorf("Get of none: %q", got)
	}
	if got := h.Values("x"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("Values: %q", got)
	}
	if got := h.Values("missing"); got != nil {
		t.Errorf("Values of none: %q", got)
	}
}

func TestHeaderMade(t *testing.T) {
	tests := []struct {
		name   string
		header Header
		want   string // "": refused
	}{
		{"pairs", NewHeader("content-type", "text/xml", "Content-ID", "<a>"), "content-type: text/xml\r\nContent-ID: <a>\r\n"},
		{"odd", NewHeader("A", "1", "B"), "A: 1\r\nB: \r\n"},
		{"tab and octets above ASCII", NewHeader("A", "\t\xe4\xc3\xa4"), "A: \t\xe4\xc3\xa4\r\n"},
		{"literal", Header{{Name: "A", Value: "1"}}, "A: 1\r\n"},
		{"CR LF", NewHeader("A", "1", "B", "2\r\nC: 3"), ""},
		{"LF", NewHeader("B", "2\nC: 3"), ""},
		{"CR", NewHeader("B", "2\rC: 3"), ""},
		{"folding", NewHeader("B", "2\r\n 3"), ""},
		{"NUL", NewHeader("B", "\x00"), ""},
		{"LF in the name", NewHeader("B\nC", "2"), ""},
		{"colon in the name", NewHeader("B: C", "2"), ""},
		{"empty name", NewHeader("", "2"), ""},
		{"name that may be a delimiter", NewHeader("--b", "2"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			n, err := tt.header.WriteTo(&b)
			if b.String() != tt.want || n != int64(len(tt.want)) {
				t.Errorf("written %q", b.String())
			}
			if refused := errors.Is(err, ErrHeader); refused != (tt.want == "") {
				t.Errorf("got %v", err)
			}
		})
	}
}
