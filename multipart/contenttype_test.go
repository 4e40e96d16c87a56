// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseContentType(t *testing.T) {
	tests := []struct {
		value, kind string
		params      string // "name=value|…"; a name without "=" must be missing
	}{
		// clients of the field
		{"multipart/related; start-info=text/xml; type='application/xop+xml'; boundary=:kQ7zAbCdEfGhIjKlMnOp:", "multipart/related",
			"start-info=text/xml|type='application/xop+xml'|boundary=:kQ7zAbCdEfGhIjKlMnOp:"},
		{"multipart/related; boundary=----=_Part_8_12.34; type=text/xml", "multipart/related", "boundary=----=_Part_8_12.34|type=text/xml"},
		{"multipart/related; boundary=b1; type=application/xop+xml; start=<root>", "multipart/related", "start=<root>|boundary=b1|type=application/xop+xml"},
		{`multipart/related; boundary=uuid:1111-2222; type="application/xop+xml"`, "multipart/related", "boundary=uuid:1111-2222|type=application/xop+xml"},
		{`multipart/related; charset=; boundary="b1"`, "multipart/related", "boundary=b1|charset"},
		{`multipart/related; charset=""; boundary="b1"`, "multipart/related", "boundary=b1|charset"},
		{`multipart/related; boundary="a b'()+_,-./:=?z"`, "multipart/related", "boundary=a b'()+_,-./:=?z"},
		{"multipart/related; boundary=" + strings.Repeat("x", 70), "multipart/related", "boundary=" + strings.Repeat("x", 70)},
		{"multipart/related; boundary=Z", "multipart/related", "boundary=Z"},
		{`multipart/related; boundary="a\-b"`, "multipart/related", "boundary=a-b"},
		{`multipart/related; start="<rootpart*11-22@example.test>"; boundary="uuid:11-22"`, "multipart/related", "start=<rootpart*11-22@example.test>|boundary=uuid:11-22"},
		{`multipart/related; type="application/xop+xml";start="<http://tempuri.org/0>";boundary="uuid:11+id=7";start-info="text/xml"`, "multipart/related",
			"type=application/xop+xml|start=<http://tempuri.org/0>|boundary=uuid:11+id=7|start-info=text/xml"},
		{`multipart/related; boundary="==AbC+/d=="`, "multipart/related", "boundary===AbC+/d=="},
		{`multipart/related; start-info="application/soap+xml; action=\"urn:a;b\""; boundary=b`, "multipart/related",
			`start-info=application/soap+xml; action="urn:a;b"|boundary=b|action`},
		{`multipart/related; start-info="x;boundary=fake"; boundary=real`, "multipart/related", "boundary=real"},
		{`multipart/related; start-info="application/soap+xml"; action="urn:a"; boundary=b`, "multipart/related", "action=urn:a|boundary=b"},
		{`multipart/related; boundary="----=_Part_10_1777426800.1476273281168"; start="<rootpart>"`, "multipart/related", "boundary=----=_Part_10_1777426800.1476273281168"},
		{"multipart/mixed; boundary=jetty42534330h7vzfqv2;charset=ISO-8859-1", "multipart/mixed", "boundary=jetty42534330h7vzfqv2|charset=ISO-8859-1"},
		{`text/xml; charset="utf-8"`, "text/xml", "charset=utf-8"},
		{`application/xop+xml; charset=UTF-8; type="text/xml"`, "application/xop+xml", "charset=UTF-8|type=text/xml"},
		// forms
		{"text/xml", "text/xml", "charset"},
		{"signature/bdoc-1.0/ts", "signature/bdoc-1.0/ts", "charset"},
		{" Text/XML ; Charset = UTF-8 ", "text/xml", "charset=UTF-8|CHARSET=UTF-8"},
		{"text/xml;charset=UTF-8;", "text/xml", "charset=UTF-8"},
		{"text/xml;; ;charset=UTF-8;;", "text/xml", "charset=UTF-8"},
		{"text/xml;\tcharset\t=\t\"UTF-8\"\t;\ta=b", "text/xml", "charset=UTF-8|a=b"},
		{"multipart/related;\r\n\tboundary=b;\r\n type=\"text/\r\n xml\"", "multipart/related", "boundary=b|type=text/ xml"},
		{"multipart/related;\n boundary=b", "multipart/related", "boundary=b"},
		{"text/xml; flag; charset=UTF-8", "text/xml", "flag|charset=UTF-8"},
		{"text/xml; name=a b c; x=1", "text/xml", "name=a b c|x=1"},
		{"text/xml; name=Z\xe4; x=1", "text/xml", "name=Z\xe4|x=1"},
		{`text/xml; name="C:\\dir"; a="\"\;"`, "text/xml", `name=C:\dir|a=";`},
		// twice
		{`multipart/mixed; boundary=b; boundary="b"`, "multipart/mixed", "boundary=b"},
		{"multipart/mixed; boundary=; boundary=b", "multipart/mixed", "boundary=b"},
		{"text/xml; charset=utf-8; Charset=UTF-8", "text/xml", "charset=utf-8"},
		{"text/xml; type=text/xml; type=Text/XML", "text/xml", "type=text/xml"},
		{"text/xml; name=1; name=2", "text/xml", "name=1"},
		// RFC 2231
		{"multipart/mixed; boundary*0=abc; boundary*1=\"d;f\"", "multipart/mixed", "boundary=abcd;f"},
		{"multipart/mixed; boundary*1=def; boundary*0=abc; a=b", "multipart/mixed", "boundary=abcdef|a=b"},
		{"multipart/mixed; boundary*=us-ascii'en'a%20b", "multipart/mixed", "boundary=a b"},
		{"multipart/mixed; boundary=ab; boundary*=''ab", "multipart/mixed", "boundary=ab"},
		{"text/plain; name*0*=utf-8''%c3%A4; name*1=b%20; name*2*=%3b", "text/plain", "name=äb%20;"},
		{"text/plain; name=x; name*=utf-8''%e4", "text/plain", "name=x"},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			c, err := ParseContentType(tt.value)
			if err != nil || c.Type != tt.kind || c.Value != tt.value {
				t.Fatalf("got %q of %q, %v", c.Type, c.Value, err)
			}
			for want := range strings.SplitSeq(tt.params, "|") {
				name, value, there := strings.Cut(want, "=")
				if got, ok := c.Param(name); got != value || ok != there {
					t.Errorf("%s: got %q, %t", name, got, ok)
				}
			}
		})
	}

	many := "text/xml"
	for i := range maxParameters + 1 {
		many += fmt.Sprintf("; a%d=b", i)
	}
	refused := []struct {
		name, value, kind string
		err               error
	}{
		{"empty", "", "", ErrContentType},
		{"only parameters", "; boundary=b", "", ErrContentType},
		{"no subtype", "text", "", ErrContentType},
		{"empty subtype", "text/", "", ErrContentType},
		{"slash at the end", "text/xml/", "", ErrContentType},
		{"list of types", "text/xml, text/html", "", ErrContentType},
		{"no semicolon", "text/xml charset=utf-8", "", ErrContentType},
		{"line feed", "text/xml\nX: y", "", ErrContentType},
		{"line feed before nothing but blanks", "text/xml; a=b\r\nc=d", "", ErrContentType},
		{"lone CR", "text/xml;\r a=b", "", ErrContentType},
		{"NUL", "text/xml; a=\x00", "", ErrContentType},
		{"two boundaries", "multipart/mixed; boundary=a; boundary=b", "multipart/mixed", ErrContentType},
		{"two boundaries, by case", "multipart/mixed; boundary=a; boundary=A", "multipart/mixed", ErrContentType},
		{"two starts", "multipart/mixed; start=a; start=b", "multipart/mixed", ErrContentType},
		{"two types", "multipart/mixed; type=text/a; type=text/b", "multipart/mixed", ErrContentType},
		{"two charsets", "text/xml; charset=utf-8; charset=latin1", "text/xml", ErrContentType},
		{"boundary and its extended form", "multipart/mixed; boundary=a; boundary*=''b", "multipart/mixed", ErrContentType},
		{"boundary with a blank, bare", "multipart/mixed; boundary=a b", "multipart/mixed", ErrContentType},
		{"boundary without a semicolon behind it", "multipart/mixed; boundary=a charset=utf-8", "multipart/mixed", ErrContentType},
		{"quoted string without end", `multipart/mixed; boundary="a`, "multipart/mixed", ErrContentType},
		{"quoted string that ends in a backslash", `multipart/mixed; boundary="a\`, "multipart/mixed", ErrContentType},
		{"more after the quotes", `multipart/mixed; boundary="a"b`, "multipart/mixed", ErrContentType},
		{"quotes inside quotes", `multipart/mixed; x="a "b;boundary=c""; boundary=d`, "multipart/mixed", ErrContentType},
		{"quote inside", `multipart/mixed; x=a"; boundary=b; y="`, "multipart/mixed", ErrContentType},
		{"name with a blank", "multipart/mixed; x boundary=b", "multipart/mixed", ErrContentType},
		{"no name", "multipart/mixed; =b", "multipart/mixed", ErrContentType},
		{"gap", "multipart/mixed; boundary*0=a; boundary*2=b", "multipart/mixed", ErrContentType},
		{"section twice", "multipart/mixed; boundary*0=a; boundary*0=b", "multipart/mixed", ErrContentType},
		{"sections and a whole", "multipart/mixed; boundary*0=a; boundary*=''b", "multipart/mixed", ErrContentType},
		{"no such section", "multipart/mixed; boundary*x=a", "multipart/mixed", ErrContentType},
		{"zero before the number", "multipart/mixed; boundary*00=a", "multipart/mixed", ErrContentType},
		{"two asterisks", "multipart/mixed; boundary**=a", "multipart/mixed", ErrContentType},
		{"no charset", "multipart/mixed; boundary*=a", "multipart/mixed", ErrContentType},
		{"percent without digits", "multipart/mixed; boundary*=''a%2", "multipart/mixed", ErrContentType},
		{"percent with a sign", "multipart/mixed; boundary*=''a%+2", "multipart/mixed", ErrContentType},
		{"percent of a line feed", "multipart/mixed; name*=''a%0a", "multipart/mixed", ErrContentType},
		{"blanks in an extended boundary, bare", "multipart/mixed; boundary*0=a b", "multipart/mixed", ErrContentType},
		{"boundary that ends in a blank", `multipart/mixed; boundary="b "`, "multipart/mixed", ErrBoundary},
		{"boundary above ASCII", "multipart/mixed; boundary=\xe4", "multipart/mixed", ErrBoundary},
		{"too many parameters", many, "text/xml", ErrContentType},
	}
	for _, tt := range refused {
		t.Run(tt.name, func(t *testing.T) {
			c, err := ParseContentType(tt.value)
			if !errors.Is(err, tt.err) || c.Type != tt.kind || c.Value != tt.value {
				t.Errorf("got %q, %v", c.Type, err)
			}
			var cause interface{ Cause() string }
			if !errors.As(err, &cause) || cause.Cause() != "invalid_content_type" {
				t.Errorf("no cause in %v", err)
			}
		})
	}
}

// TestPlain: only what is written as it reads is the same for all.
func TestPlain(t *testing.T) {
	for value, want := range map[string]bool{
		"start=a": true, `start="<a>"`: true, `START="a"; start=a`: true, "x=a": false, "start=": false,
		`start="\a"`: false, `start=a; start="\a"`: false, "start*=us-ascii''a": false, "start=a; start*0=a": false,
	} {
		ct, err := ParseContentType("multipart/related; " + value)
		if err != nil || ct.Plain("start") != want {
			t.Errorf("%s: %t, %v", value, !want, err)
		}
	}
}
