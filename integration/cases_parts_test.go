// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

const related1 = "multipart/related; type=text/xml; boundary=b"

// TestFieldParts: the header blocks and the octets of parts go on as they came, and what cannot is refused.
func TestFieldParts(t *testing.T) {
	f := newField(t)
	const started = `multipart/related; type="text/xml"; start="<root>"; boundary=b`
	const binary = "Content-Type: application/octet-stream\r\n"
	root := func(lines string) string { return "Content-Type: text/xml\r\n" + lines + "\r\n" + env }
	passes := func(number, about string, parts ...string) fieldCase {
		c := fieldCase{number: number, about: about, contentType: started, body: form("b", parts...)}
		for _, p := range parts[1:] {
			_, data, _ := strings.Cut(p, "\r\n\r\n")
			c.attachments = append(c.attachments, data)
		}
		return c
	}
	refused := func(number, about, code, says string, parts ...string) fieldCase {
		return fieldCase{number: number, about: about, contentType: started, body: form("b", parts...), code: code, says: says}
	}
	const noType = "client.invalid_content_type"
	f.run(t, []fieldCase{
		passes("FR-16", "attachments without an id, with a location, with an empty id", rootPart,
			binary+"\r\nfirst", binary+"Content-Location: http://example.test/f.bin\r\n\r\nsecond", binary+"Content-ID: <>\r\n\r\nthird"),
		passes("FR-16", "two attachments of the same id", rootPart, binary+"Content-ID: <a>\r\n\r\nfirst", binary+"Content-ID: <a>\r\n\r\nsecond"),
		refused("FR-17a", "an attachment with an id only", noType, "attachment 1 has no Content-Type", rootPart, "Content-ID: <a>\r\n\r\ndata"),
		refused("FR-17a", "the second attachment", noType, "attachment 2 has no Content-Type", rootPart, filePart+"x", "Content-ID: <a>\r\n\r\ndata"),
		refused("FR-17b", "an attachment without a header", noType, "attachment 1 has no Content-Type", rootPart, "\r\ndata"),
		refused("FR-17c", "a root without a header", noType, "first part has no Content-Type", "\r\n"+env),
		refused("FR-17", "a root with an id only", noType, "first part has no Content-Type", "Content-ID: <root>\r\n\r\n"+env),
		refused("FR-17", "a blank for a Content-Type", noType, "attachment 1 has no Content-Type", rootPart, "Content-Type: \r\n\r\ndata"),
		refused("FR-73", "an attachment with two Content-Types", noType, "attachment 1 has 2 Content-Types", rootPart, binary+"content-type: image/png\r\n\r\ndata"),
		refused("FR-73", "a root with two Content-Types", noType, "first part has 2 Content-Types", root("Content-Type: application/xop+xml\r\n")),
		passes("FR-19", "transfer encodings that nobody decodes", rootPart,
			binary+"Content-Transfer-Encoding: base64\r\n\r\nSGVs\nbG8s\nIHdvcmxk\n",
			binary+"Content-Transfer-Encoding: quoted-printable\r\n\r\nsoft=\r\nbreak =20 \t\r\nblanks  \r\n",
			binary+"Content-Transfer-Encoding: Binary\r\n\r\n\x00\xff\r\x00",
			binary+"Content-Transfer-Encoding: x-weird\r\n\r\n=41=42"),
		passes("FR-19", "root in binary", root("Content-Transfer-Encoding: binary\r\n"), filePart+"x"),
		passes("FR-19", "root in 8bit", root("content-transfer-encoding:8BIT\r\n"), filePart+"x"),
		passes("FR-19", "root in 7bit", root("Content-Transfer-Encoding: 7bit \r\n"), filePart+"x"),
		refused("FR-19", "root in quoted-printable", noType, "quoted-printable", root("Content-Transfer-Encoding: quoted-printable\r\n"), filePart+"x"),
		refused("FR-19", "root in base64", noType, "base64", root("Content-Transfer-Encoding: BASE64\r\n")),
		passes("FR-20", "folded with a tab", rootPart, "Content-Type: application/x-y;\r\n\tname=\"3 of 4 t.xlsx\"\r\n\r\ndata"),
		passes("FR-20", "a name in three pieces", rootPart,
			binary+"Content-Disposition: attachment;\r\n filename*0=\"a very \";\r\n filename*1=\"long name\";\r\n\tfilename*2=\".pdf\"\r\nX-After: y\r\n\r\ndata"),
		passes("FR-20", "a line of 20,000 octets", rootPart, binary+"X-Long: "+strings.Repeat("long", 5000)+"\r\n\r\ndata"),
		passes("FR-20", "a folded line of blanks only", rootPart, binary+"X-Fold: a\r\n \t \r\n b\r\nX-After: y\r\n\r\ndata"),
		passes("FR-20", "a folded Content-Type of the root", "Content-Type: text/xml;\r\n\tcharset=UTF-8\r\nContent-ID:\r\n <root>\r\n\r\n"+env, filePart+"x"),
		refused("FR-20", "a header block beyond the limit", "client.mime_parsing_failed", "HeaderBytes", rootPart, binary+"X: "+strings.Repeat("y", 64<<10)+"\r\n\r\n"),
		passes("FR-29", "quotes, order and case in the Content-Types of parts",
			"CONTENT-TYPE:  Text/XML;Charset=\"utf-8\" ; x=Y\r\nContent-ID:<root>\r\n\r\n"+env, "content-type: TEXT/plain; format=flowed;charset=\"utf-8\"\r\n\r\nx"),
		passes("FR-29", "order, repetition and octets above ASCII in header blocks", rootPart,
			"X-B: 2\r\nX-a: 1\r\nX-B: 3\r\n"+binary+"Content-Description: \xc3\xa4\xe4 =?utf-8?q?=41?=\r\nMIME-Version: 1.0\r\nno-blank:here\r\n\r\ndata"),
		passes("FR-56", "names that are paths", rootPart,
			binary+"Content-ID: <../../x>\r\nContent-Disposition: attachment; filename=\"../../etc/cron.d/x\"\r\n\r\n"+octetsOf(100_000, 11)),
		passes("FR-23", "attachments of 0, 1, 2 octets and more", rootPart,
			filePart, filePart+"x", filePart+"\r\n", filePart+octetsOf(100<<10, 12), filePart+octetsOf(51<<10, 13), filePart),
		{number: "FR-23", about: "an empty attachment without an empty line", contentType: started, attachments: []string{"", "x"},
			body: form("b", rootPart, strings.TrimSuffix(binary, "\r\n"), filePart+"x"), arrives: form("b", rootPart, binary+"\r\n", filePart+"x")},
	})
}

// TestFieldFloods: many parts pass, and absurd numbers are refused (FR-22).
func TestFieldFloods(t *testing.T) {
	f := newField(t)
	flood := func(parts, fields int) string {
		var b strings.Builder
		b.WriteString("--b\r\n" + rootPart)
		header := "Content-Type: a/b\r\n"
		for i := 1; i < fields; i++ {
			header += fmt.Sprintf("X-%d: y\r\n", i)
		}
		for range parts {
			b.WriteString("\r\n--b\r\n" + header + "\r\n")
		}
		return b.String() + "\r\n--b--\r\n"
	}
	var legitimate []string
	parts := []string{rootPart}
	for i := range 2000 {
		legitimate = append(legitimate, octetsOf(1024, uint64(i)))
		parts = append(parts, filePart+legitimate[i])
	}
	const code = "client.mime_parsing_failed"
	for _, c := range []fieldCase{
		{number: "FR-22a", about: "100,000 empty parts", contentType: related1, body: flood(100_000, 1), code: code, says: "limit Parts"},
		{number: "FR-22b", about: "20,000 header fields", contentType: related1, body: flood(1, 20_000), code: code, says: "limit Header"},
		{number: "FR-22b", about: "2,000 short header fields", contentType: related1, body: flood(1, 2_000), code: code, says: "limit Headers"},
		{number: "FR-22c", about: "a header line of 11 MB", contentType: related1, body: form("b", rootPart, "Content-Type: a/b\r\nX: "+strings.Repeat("y", 11<<20)+"\r\n\r\n"), code: code, says: "limit HeaderBytes"},
		{number: "FR-22d", about: "5,000 parts of 200 header fields", contentType: related1, body: flood(5_000, 200), code: code, says: "limit Fields"},
		{number: "FR-22e", about: "2,000 attachments", contentType: related1, body: form("b", parts...), attachments: legitimate},
	} {
		t.Run(c.number+" "+c.about, func(t *testing.T) {
			id := f.id()
			f.answers(func(octetRequest) string { return httpAnswer("200 OK", "text/xml", response(request(id))) })
			f.taken()
			sent := posted(strings.Replace(c.body, env, request(id), 1), "Content-Type: "+c.contentType)
			s := f.system(t)
			watched := watchHeap(t)
			got := s.asks(sent)
			if grown := watched.grown(); grown > 32<<20 {
				t.Errorf("the heap grew by %d octets", grown)
			}
			f.judge(t, c, id, request(id), got)
		})
	}
}

// TestFieldEnvelopes: what an envelope is written in is decided in one way, its octets go on as they came, and its body
// is nobody's business.
func TestFieldEnvelopes(t *testing.T) {
	f := newField(t)
	const bom = "\xef\xbb\xbf"
	plain := func(charset, envelope string) (contentType, body string) { return "text/xml" + charset, envelope }
	inPart := func(charset, envelope string) (contentType, body string) {
		return related1, form("b", "Content-Type: text/xml"+charset+"\r\n\r\n"+envelope, filePart+"x")
	}
	declared := func(charset, envelope string) string {
		return strings.Replace(envelope, `encoding="UTF-8"`, `encoding="`+charset+`"`, 1)
	}
	undeclared := func(envelope string) string {
		return strings.TrimPrefix(envelope, `<?xml version="1.0" encoding="UTF-8"?>`+"\n")
	}
	wide := func(order string, envelope string) string {
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune(envelope)) {
			if order == "LE" {
				b.WriteString(string([]byte{byte(unit), byte(unit >> 8)}))
			} else {
				b.WriteString(string([]byte{byte(unit >> 8), byte(unit)}))
			}
		}
		return b.String()
	}
	user := func(envelope, octets string) string {
		return strings.Replace(envelope, "<x:protocolVersion>", "<x:userId>"+octets+"</x:userId><x:protocolVersion>", 1)
	}
	for _, c := range []struct {
		number, about, charset string
		envelope               func(string) string
		user                   string // of the answer, in UTF-8
		code, says             string
		to                     string // charset that the service of a bare envelope is told; "": UTF-8
	}{
		{"FR-25", "byte order mark", "; charset=utf-8", func(e string) string { return bom + e }, "", "", "", ""},
		{"FR-25", "byte order mark without a charset", "", func(e string) string { return bom + e }, "", "", "", ""},
		{"FR-25", "byte order mark without a declaration", "", func(e string) string { return bom + undeclared(e) }, "", "", "", ""},
		{"FR-50", "line ends behind the envelope", "", func(e string) string { return e + "\r\n \r\n" }, "", "", "", ""},
		{"FR-26", "ISO-8859-1, declared", "", func(e string) string { return user(declared("ISO-8859-1", e), "J\xe4rv") }, "Järv", "", "", "ISO-8859-1"},
		{"FR-26", "ISO-8859-1, declared twice", "; charset=iso-8859-1", func(e string) string { return user(declared("ISO-8859-1", e), "J\xe4rv") }, "Järv", "", "", "ISO-8859-1"},
		{"FR-26", "ISO-8859-1, told by the charset only", "; charset=ISO-8859-1", func(e string) string { return user(undeclared(e), "J\xe4rv") }, "", "client.invalid_soap", "ISO-8859-1", ""},
		{"FR-26", "ISO-8859-1, told by nobody", "", func(e string) string { return user(undeclared(e), "J\xe4rv") }, "", "client.invalid_soap", "", ""},
		{"FR-26", "UTF-16 with a byte order mark", "; charset=UTF-16", func(e string) string { return "\xff\xfe" + wide("LE", declared("UTF-16", e)) }, "", "", "", "UTF-16"},
		{"FR-26", "UTF-16BE with a byte order mark", "; charset=UTF-16BE", func(e string) string { return "\xfe\xff" + wide("BE", undeclared(e)) }, "", "", "", "UTF-16"},
		{"FR-26", "UTF-16LE with a mark and no charset", "", func(e string) string { return "\xff\xfe" + wide("LE", undeclared(e)) }, "", "", "", "UTF-16"},
		{"FR-26", "UTF-16LE, told by the charset only", "; charset=UTF-16LE", func(e string) string { return wide("LE", undeclared(e)) }, "", "client.invalid_soap", "", ""},
		{"FR-26", "UTF-8 that is declared UTF-16", `; charset="utf-8"`, func(e string) string { return declared("UTF-16", e) }, "", "client.invalid_soap", "UTF-16", ""},
		{"FR-26", "UTF-16 that is declared UTF-8", "", func(e string) string { return "\xff\xfe" + wide("LE", e) }, "", "client.invalid_soap", "UTF-8", ""},
		{"FR-26", "ISO-8859-1 that the charset calls UTF-8", "; charset=utf-8", func(e string) string { return user(declared("ISO-8859-1", e), "J\xe4rv") }, "", "client.invalid_soap", "UTF-8", ""},
		{"FR-26", "a charset that is not supported", "", func(e string) string { return declared("KOI8-R", e) }, "", "client.invalid_soap", "KOI8-R", ""},
		{"FR-26", "a charset that nobody knows", "; charset=x-klingon", func(e string) string { return e }, "", "client.invalid_soap", "x-klingon", ""},
	} {
		for form, body := range map[string]func(string, string) (string, string){"bare": plain, "in a part": inPart} {
			t.Run(c.number+" "+c.about+", "+form, func(t *testing.T) {
				id := f.id()
				asked := c.envelope(request(id))
				answered := response(request(id))
				if c.user != "" {
					answered = user(answered, c.user)
				}
				f.answers(func(octetRequest) string { return httpAnswer("200 OK", "text/xml", answered) })
				f.taken()
				contentType, octets := body(c.charset, asked)
				got := f.system(t).asks(posted(octets, "Content-Type: "+contentType))
				if c.code != "" {
					f.judge(t, fieldCase{code: c.code, says: c.says}, id, asked, got)
					return
				}
				calls := f.taken()
				if got.body != hashed(answered, asked) || len(calls) != 1 {
					t.Fatalf("%d calls; the information system got %s", len(calls), difference(got.body, hashed(answered, asked)))
				}
				if calls[0].body != octets {
					t.Errorf("the service got %s", difference(calls[0].body, octets))
				}
				sent := []string{asked, "x"}
				if form == "bare" {
					sent, contentType = sent[:1], "text/xml; charset="+cmp.Or(c.to, "UTF-8") // message-and-transport 3.6
				}
				if to, _ := calls[0].line("Content-Type"); to != contentType {
					t.Errorf("the service got the Content-Type %q", to)
				}
				f.delivered(id, sent...)
			})
		}
	}

	var attributes strings.Builder
	for attributes.Len() < 20<<20 {
		attributes.WriteString(`<a b="` + strings.Repeat("c", 500) + `" d='"' e="&#10;"/>`)
	}
	for about, content := range map[string]string{
		"types of others":           `<e:x xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:p="urn:p" xsi:type="p:T"/>`,
		"200 elements inside":       strings.Repeat("<a>", 200) + strings.Repeat("</a>", 200),
		"20 MB of attributes":       attributes.String(),
		"a text of 50 MB":           strings.Repeat("text ", 10<<20),
		"an include":                `<xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:nowhere"/>`,
		"a header inside the body":  `<x:client><id:memberCode>9999</id:memberCode></x:client>`,
		"comments, CDATA and signs": "<!-- < & --><![CDATA[<b>&]]>&lt;&#x41;\t\r\n",
	} {
		t.Run("FR-28 "+about, func(t *testing.T) {
			f.exchange(t, fieldCase{contentType: related1, body: form("b", rootPart, filePart+"x"), attachments: []string{"x"}},
				func(envelope string) string { return strings.Replace(envelope, "</e:echo>", content+"</e:echo>", 1) })
		})
	}
}
