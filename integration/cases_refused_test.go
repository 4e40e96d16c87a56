// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// TestFieldXML_FR91: document types, entities and bombs are refused where they show, by whoever reads them first, without a
// call of anybody that they name and without memory.
func TestFieldXML_FR91(t *testing.T) {
	f := newField(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			t.Error("somebody asked for what a document type names")
		}
	}()
	doctype := func(text string) func(string) string {
		return func(e string) string {
			return strings.Replace(e, "<env:Envelope", "<!DOCTYPE env:Envelope "+text+"><env:Envelope", 1)
		}
	}
	inBody := func(text string) func(string) string {
		return func(e string) string { return strings.Replace(e, "</e:echo>", text+"</e:echo>", 1) }
	}
	inHeader := func(text string) func(string) string {
		return func(e string) string { return strings.Replace(e, "<x:id>", text+"<x:id>", 1) }
	}
	laughs := `<!ENTITY l0 "ha">`
	for i := range 20 {
		laughs += fmt.Sprintf(`<!ENTITY l%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	var attributes strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&attributes, " a%d=''", i)
	}
	url := "http://" + listener.Addr().String()
	for _, c := range []struct {
		about  string
		change func(string) string
		says   string
	}{
		{"a document type", doctype(""), "DOCTYPE"},
		{"an internal subset", doctype(`[<!ELEMENT a ANY>]`), "DOCTYPE"},
		{"an external one in a file", doctype(`SYSTEM "file:///etc/passwd"`), "DOCTYPE"},
		{"an external one elsewhere", doctype(`SYSTEM "` + url + `/x.dtd"`), "DOCTYPE"},
		{"an external entity", func(e string) string {
			return inBody("&x;")(doctype(`[<!ENTITY x SYSTEM "` + url + `">]`)(e))
		}, "DOCTYPE"},
		{"parameter entities", doctype(`[<!ENTITY % p SYSTEM "` + url + `">%p;]`), "DOCTYPE"},
		{"a billion laughs", func(e string) string { return inBody("&l20;")(doctype("[" + laughs + "]")(e)) }, "DOCTYPE"},
		{"an entity that nobody defined, in the Header", inHeader("&x;"), "entity"},
		{"an entity that nobody defined, in the Body", inBody("&x;"), "entity"},
		{"a million attributes in the Header", inHeader("<a" + attributes.String() + "/>"), "1024 attributes"},
		{"a million attributes in the Body", inBody("<a" + attributes.String() + "/>"), "1024 attributes"},
		{"100,000 elements inside each other in the Header", inHeader(strings.Repeat("<a>", 100_000) + strings.Repeat("</a>", 100_000)), "512 elements"},
		{"100,000 elements inside each other in the Body", inBody(strings.Repeat("<a>", 100_000) + strings.Repeat("</a>", 100_000)), "512 elements"},
		{"octets that are no UTF-8 in the Header", inHeader("<a>\xc0\xaf</a>"), "UTF-8"},
		{"octets that are no UTF-8 in the Body", inBody("\xed\xa0\x80"), "UTF-8"},
		{"a NUL in the Header", inHeader("<a>\x00</a>"), ""},
		{"a NUL in the Body", inBody("a\x00b"), ""},
		{"a reference to NUL", inBody("&#0;"), ""},
		{"a section without end in the Header", inHeader("<![CDATA["), ""},
		{"a section without end in the Body", inBody("<![CDATA[" + strings.Repeat("]] ", 1<<20)), ""},
		{"a comment without end", inBody("<!--"), ""},
		{"a start tag without end", inBody("<a b='"), ""},
	} {
		t.Run("FR-91 "+c.about, func(t *testing.T) {
			f.exchange(t, fieldCase{contentType: "text/xml", body: env, code: "client.invalid_soap", says: c.says}, c.change)
		})
		t.Run("FR-91 "+c.about+", in a part", func(t *testing.T) {
			f.exchange(t, fieldCase{contentType: related1, body: form("b", rootPart, filePart+"x"), code: "client.invalid_soap", says: c.says}, c.change)
		})
		t.Run("FR-91 "+c.about+", as an answer", func(t *testing.T) {
			asked := request(f.id())
			got := f.answered(t, httpAnswer("200 OK", "text/xml", response(c.change(asked))), asked)
			if code := got.code(); code != "server.serverproxy.service_failed.invalid_soap" {
				t.Errorf("got %q: %.600s", code, got.body)
			}
		})
	}
	for about, before := range map[string]string{
		"a document type":             "<!DOCTYPE a [",
		"a start tag in the Header":   request("endless")[:strings.Index(request("endless"), "<x:client")] + "<a ",
		"a start tag in the Body":     request("endless")[:strings.Index(request("endless"), "</e:echo>")] + "<a ",
		"a name in the Body":          request("endless")[:strings.Index(request("endless"), "</e:echo>")] + "<",
		"a section in the Header":     request("endless")[:strings.Index(request("endless"), "<x:client")] + "<![CDATA[",
		"elements inside each other":  request("endless")[:strings.Index(request("endless"), "</e:echo>")],
		"a declaration before it all": "<?xml ",
	} {
		t.Run("FR-91 "+about+" that never ends", func(t *testing.T) {
			filling := " b='c'"
			switch about {
			case "a name in the Body", "a section in the Header":
				filling = "aaaaaa"
			case "elements inside each other":
				filling = "<a>"
			}
			f.taken()
			s := f.system(t)
			watched := watchHeap(t)
			s.filled(before, strings.Repeat(filling, 10_000), "Content-Type: text/xml")
			got := s.reads()
			grown := watched.grown()
			if !got.close {
				t.Error("the connection is to be used again")
			}
			f.judge(t, fieldCase{code: "client.invalid_soap"}, "", "", got)
			if grown > 32<<20 {
				t.Errorf("the heap grew by %d octets", grown)
			}
		})
	}
	listener.Close()
	<-asked
}

// TestFieldREST_FR95: consumers of REST, whose messages are not carried, learn so in the format that they accept, also while
// they upload; other security servers by a SOAP fault.
func TestFieldREST_FR95(t *testing.T) {
	f := newField(t)
	const code = "server.clientproxy.service_type"
	const target = "/r1/DEV/GOV/0000/registry/echo/a%2Fb?c=d+e"
	head := func(verb string, lines ...string) string {
		return verb + " " + target + " HTTP/1.1\r\nHost: a\r\nX-Road-Client: DEV/GOV/1111/app\r\n" + strings.Join(append(lines, "\r\n"), "\r\n")
	}
	for _, c := range []struct{ number, about, accept, kind string }{
		{"FR-95", "accepting JSON", "Accept: application/json", "application/json"},
		{"FR-95", "accepting XML", "Accept: text/xml", "text/xml;charset=utf-8"},
		{"FR-95", "accepting XML by another name", "Accept: application/xml;q=0.5", "application/xml;charset=utf-8"},
		{"FR-95", "accepting text", "Accept: image/png, Text/*;q=0.5, application/xml", "text/xml;charset=utf-8"},
		{"FR-95", "accepting XML in the second field", "Accept: a/b\r\naccept: application/xml", "application/xml;charset=utf-8"},
		{"FR-95", "accepting anything", "Accept: */*", "application/json"},
		{"FR-95", "accepting garbage", "Accept: ;;,foobarbaz,\x80", "application/json"},
		{"FR-95", "accepting nothing", "Accept:", "application/json"},
		{"FR-95", "that does not say", "X: y", "application/json"},
		{"FR-95", "that wants a range", "Range: bytes=0-9", "application/json"},
	} {
		t.Run(c.number+" a consumer "+c.about, func(t *testing.T) {
			f.taken()
			got := f.system(t).asks(head("GET", c.accept))
			f.judgeREST(t, got, code, c.kind)
			if got.close {
				t.Error("the connection is closed")
			}
		})
	}
	for _, verb := range []string{"DELETE", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"} {
		t.Run("FR-94 a REST request by "+verb, func(t *testing.T) {
			s := f.system(t)
			if verb == "HEAD" {
				io.WriteString(s.conn, head(verb, "Connection: close"))
				octets, err := io.ReadAll(s.in)
				if name, _ := headerLine(string(octets), "X-Road-Error"); err != nil || name != code || !strings.HasSuffix(string(octets), "\r\n\r\n") {
					t.Errorf("got %q, %v", octets, err)
				}
				return
			}
			f.judgeREST(t, s.asks(head(verb, "Content-Type: application/json", "Content-Length: 2")+"{}"), code, "application/json")
		})
	}
	t.Run("FR-94 a REST body that waits for a 100", func(t *testing.T) {
		s := f.system(t)
		io.WriteString(s.conn, head("PUT", "Expect: 100-continue", "Content-Length: 32212254720"))
		got := s.reads()
		if got.continued || !got.close {
			t.Errorf("a 100 before it: %t; got %q", got.continued, got.head)
		}
		f.judgeREST(t, got, code, "application/json")
		s.silent()
	})
	t.Run("FR-94 a REST body without end", func(t *testing.T) {
		s := f.system(t)
		go func() {
			io.WriteString(s.conn, head("PUT", "Transfer-Encoding: chunked"))
			for {
				if _, err := io.WriteString(s.conn, "10000\r\n"+strings.Repeat("x", 1<<16)+"\r\n"); err != nil {
					return
				}
			}
		}()
		got := s.reads()
		if !got.close {
			t.Error("the connection is to be used again")
		}
		f.judgeREST(t, got, code, "application/json")
	})
	t.Run("FR-95 between security servers", func(t *testing.T) {
		s := f.peer(t)
		io.WriteString(s.conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/mixed; boundary=b\r\nX-Road-Message-Type: REST\r\nX-Hash-Algorithm: SHA-512\r\nContent-Length: 5000\r\n\r\n")
		got := s.reads()
		if _, named := headerLine(got.head, "X-Road-Error"); got.status != 200 || got.code() != "server.serverproxy.service_type" || named {
			t.Errorf("got %q, and %.500s", got.head, got.body)
		}
	})
	t.Run("FR-95 a fault of SOAP is none of REST", func(t *testing.T) {
		got := f.system(t).asks("GET / HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n")
		if _, named := headerLine(got.head, "X-Road-Error"); got.status != 200 || got.code() != "client.invalid_http_method" || named {
			t.Errorf("got %q, and %.500s", got.head, got.body)
		}
	})
}

// judgeREST wants that error, in that format (message-and-transport 8.6).
func (f *field) judgeREST(t *testing.T, got reply, code, kind string) {
	t.Helper()
	if calls := f.taken(); len(calls) > 0 {
		t.Error("the service was called")
	}
	named, _ := headerLine(got.head, "X-Road-Error")
	contentType, _ := headerLine(got.head, "Content-Type")
	if got.status != 500 || named != code || contentType != kind {
		t.Errorf("got %q", got.head)
	}
	var told struct {
		XMLName xml.Name `xml:"error" json:"-"`
		Type    string   `xml:"type" json:"type"`
		Message string   `xml:"message" json:"message"`
		Detail  string   `xml:"detail" json:"detail"`
	}
	read := json.Unmarshal
	if kind != "application/json" {
		read = xml.Unmarshal
	}
	if err := read([]byte(got.body), &told); err != nil || told.Type != code || told.Message == "" || told.Detail == "" {
		t.Errorf("got %s, %v", got.body, err)
	}
}
