// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
)

var (
	sum  = sha512.Sum512([]byte("request"))
	sum4 = base64.StdEncoding.EncodeToString(sum[:])
)

// withHash puts a request hash into an envelope that comes in pieces of n octets.
func withHash(t testing.TB, data []byte, n int) ([]byte, error) {
	t.Helper()
	e, err := Open(pieces{bytes.NewReader(data), n}, "", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return io.ReadAll(e.WithRequestHash(sum[:]))
}

func TestWithRequestHash(t *testing.T) {
	const declaration = `<?xml version="1.0" encoding="UTF-8"?>`
	hash := func(prefix, declared string) string {
		return "<" + prefix + "requestHash" + declared + ` algorithmId="http://www.w3.org/2001/04/xmlenc#sha512">` + sum4 + "</" + prefix + "requestHash>"
	}
	const old = `<x:requestHash algorithmId="x">no<y/></x:requestHash>`
	text := func(edits ...string) []byte { return edited(t, edits...) }
	const idEnd = "</x:id>"
	latin := strings.Replace(declaring("ISO-8859-1", "ä"), "<t:getThing/>", "<t:getThing>"+strings.Repeat("äõ\n", 10000)+"</t:getThing>", 1)
	wide := strings.Replace(declaring("", "ä😀"), "<t:getThing/>", "<t:getThing>"+strings.Repeat("ä😀", 10000)+"</t:getThing>", 1)
	for _, c := range []struct {
		name string
		in   []byte
		want string
	}{
		{"after id", text(), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"with its line end", text("\n    <x:id", "\r\n\t<x:id"), string(text("\n    <x:id", "\r\n\t<x:id", idEnd, idEnd+"\r\n\t"+hash("x:", "")))},
		{"without white space", text("\n    <x:id", "<x:id"), string(text("\n    <x:id", "<x:id", idEnd, idEnd+hash("x:", "")))},
		{"after an empty id", text("<x:id>msg-0001</x:id>", "<x:id  />"), string(text("<x:id>msg-0001</x:id>", "<x:id  />\n    "+hash("x:", "")))},
		{"after an end tag with blanks", text(idEnd, "</x:id\n>"), string(text(idEnd, "</x:id\n>\n    "+hash("x:", "")))},
		{"old one before id", text("<x:userId>", old+"<x:userId>"), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"old one right before id", text("<x:id>", old+"<x:id>"), string(text(idEnd, idEnd+hash("x:", "")))},
		{"old one right after id", text(idEnd, idEnd+old), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"old one last", text("</s:Header>", old+"</s:Header>"), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"old one empty, of another prefix", text("</s:Header>", `<z:requestHash xmlns:z="http://x-road.eu/xsd/xroad.xsd"/></s:Header>`), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"others stay", text("</s:Header>", "<requestHash/><y>"+old+"</y></s:Header>", "<t:getThing/>", "<t:getThing>"+old+"</t:getThing>"),
			string(text("</s:Header>", "<requestHash/><y>"+old+"</y></s:Header>", "<t:getThing/>", "<t:getThing>"+old+"</t:getThing>", idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"default namespace", text("<s:Header>", `<s:Header xmlns="http://x-road.eu/xsd/xroad.xsd">`, "<x:id>", "<id>", "</x:id>", "</id>"),
			string(text("<s:Header>", `<s:Header xmlns="http://x-road.eu/xsd/xroad.xsd">`, "<x:id>", "<id>", "</x:id>", "</id>\n    "+hash("", "")))},
		{"default namespace of id itself", text("<x:id>", `<id xmlns="http://x-road.eu/xsd/xroad.xsd">`, "</x:id>", "</id>"),
			string(text("<x:id>", `<id xmlns="http://x-road.eu/xsd/xroad.xsd">`, "</x:id>", "</id>\n    "+hash("", ` xmlns="http://x-road.eu/xsd/xroad.xsd"`)))},
		{"prefix of id itself", text("<x:id>", `<p:id xmlns:p='http://x-road.eu/xsd/xroad.xsd' a="b">`, "</x:id>", "</p:id>"),
			string(text("<x:id>", `<p:id xmlns:p='http://x-road.eu/xsd/xroad.xsd' a="b">`, "</x:id>", "</p:id>\n    "+hash("p:", ` xmlns:p="http://x-road.eu/xsd/xroad.xsd"`)))},
		{"other octets stay", text("?>\n", "?><?pi data?>\r\n<!-- c -->", "<s:Body", "<s:Body  a='1&#10;2'", "<t:getThing/>", "<t:getThing>&#x41;<![CDATA[<b>]]>\r\n</t:getThing>"),
			string(text("?>\n", "?><?pi data?>\r\n<!-- c -->", "<s:Body", "<s:Body  a='1&#10;2'", "<t:getThing/>", "<t:getThing>&#x41;<![CDATA[<b>]]>\r\n</t:getThing>", idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"byte order mark", append([]byte("\xEF\xBB\xBF"), text()...), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"ISO-8859-1", inCharset(t, charmap.ISO8859_1, latin), strings.NewReplacer("ISO-8859-1", "UTF-8", idEnd, idEnd+"\n    "+hash("x:", "")).Replace(latin)},
		{"UTF-16", append([]byte("\xFE\xFF"), inUTF16(binary.BigEndian, wide)...), declaration + strings.Replace(wide, idEnd, idEnd+"\n    "+hash("x:", ""), 1)},
		{"US-ASCII", text("UTF-8", "US-ASCII"), string(text(idEnd, idEnd+"\n    "+hash("x:", "")))},
		{"fault without Header", []byte(`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault/></s:Body></s:Envelope>`),
			`<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault/></s:Body></s:Envelope>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, 1 << 20} {
				got, err := withHash(t, c.in, n)
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != c.want {
					t.Fatalf("in pieces of %d:\n%.2000s\nwant\n%.2000s", n, got, c.want)
				}
			}
			checkRewritten(t, mustOpen(t, c.in, ""), []byte(c.want))
		})
	}
}

// checkRewritten checks that out has the header of in and a request hash.
func checkRewritten(t testing.TB, in *Envelope, out []byte) {
	t.Helper()
	after := mustOpen(t, out, "utf-8")
	want := in.Header
	if !in.Fault {
		want.RequestHash = &sum4
	}
	if !reflect.DeepEqual(after.Header, want) || after.Body != in.Body {
		t.Errorf("header %+v, want %+v", after.Header, want)
	}
	if err := Consistent(&in.Header, &after.Header); err != nil {
		t.Error(err)
	}
}

func TestInUTF8(t *testing.T) {
	const declaration = `<?xml version="1.0" encoding="UTF-8"?>`
	latin, wide, marked := declaring("ISO-8859-1", "ä"), declaring("", "ä😀"), "\xEF\xBB\xBF"+declaring("", "ä")
	for _, c := range []struct {
		name string
		in   []byte
		want string
	}{
		{"UTF-8", []byte(marked), marked},
		{"US-ASCII", edited(t, "UTF-8", "US-ASCII"), base},
		{"ISO-8859-1", inCharset(t, charmap.ISO8859_1, latin), strings.Replace(latin, "ISO-8859-1", "UTF-8", 1)},
		{"UTF-16", append([]byte("\xFE\xFF"), inUTF16(binary.BigEndian, wide)...), declaration + wide},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustOpen(t, c.in, "")
			if e.IsUTF8() != (c.name == "UTF-8") {
				t.Error("IsUTF8:", e.IsUTF8())
			}
			if e.Charset() != c.name {
				t.Error("Charset:", e.Charset())
			}
			if got, err := io.ReadAll(e.InUTF8()); string(got) != c.want || err != nil {
				t.Errorf("%v\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

// TestRequestHashErrors checks that a late violation ends the rewritten envelope too.
func TestRequestHashErrors(t *testing.T) {
	late := strings.Replace(declaring("ISO-8859-1", "ä"), "<t:getThing/>", "<t:getThing>"+strings.Repeat("äõ\n", 10000)+"&no;</t:getThing>", 1)
	for name, data := range map[string][]byte{
		"UTF-8":      []byte(strings.Replace(late, "ISO-8859-1", "UTF-8", 1)),
		"ISO-8859-1": inCharset(t, charmap.ISO8859_1, late),
	} {
		_, err := withHash(t, data, 1000)
		var bad *Error
		if !errors.As(err, &bad) || bad.Cause() != "invalid_soap" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVectorsRewritten puts request hashes into X-Road's own answers.
func TestVectorsRewritten(t *testing.T) {
	n := 0
	for _, v := range readVectors(t) {
		for _, use := range v.Uses {
			if use.Rewritten.Length == 0 {
				continue
			}
			n++
			t.Run(v.File, func(t *testing.T) {
				for _, mark := range []string{"", "\xEF\xBB\xBF"} {
					data := append([]byte(mark), readVector(t, v.File)...)
					out, err := withHash(t, data, 100)
					if err != nil {
						t.Fatal(err)
					}
					checkRewritten(t, mustOpen(t, data, ""), out)
				}
			})
		}
	}
	if n == 0 {
		t.Error("no vectors")
	}
}
