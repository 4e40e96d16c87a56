// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/evidence"
)

// TestFieldMTOM: what the stacks of the field write arrives as they wrote it, in both directions.
func TestFieldMTOM(t *testing.T) {
	f := newField(t)
	rooted := func(id string) string {
		return "Content-Type: application/xop+xml; charset=utf-8; type=\"text/xml\"\r\nContent-Transfer-Encoding: binary\r\nContent-ID: " + id + "\r\n\r\n" + env
	}
	files := []string{octetsOf(5000, 20), "\r\n--", octetsOf(100, 21)}
	attached := func(id, file string) string {
		return "Content-Type: application/octet-stream\r\nContent-ID: " + id + "\r\nContent-Transfer-Encoding: binary\r\n\r\n" + file
	}
	for _, c := range []struct {
		number, about, contentType, boundary, root string
		ids                                        []string
	}{
		{"FR-31", "Metro", `multipart/related; start="<rootpart*5-6@example.test>"; type="application/xop+xml"; boundary="uuid:5-6"; start-info="text/xml"`, "uuid:5-6",
			"<rootpart*5-6@example.test>", []string{"<7-8@example.test>", "<9-0@example.test>"}},
		{"FR-31", "WCF", `multipart/related; type="application/xop+xml"; start="<http://tempuri.org/0>"; boundary="uuid:5-6+id=3"; start-info="text/xml"`, "uuid:5-6+id=3",
			"<http://tempuri.org/0>", []string{"<http://tempuri.org/1/636>", "<http://tempuri.org/2/636>", "<http://tempuri.org/3/636>"}},
		{"FR-31", "gSOAP", `multipart/related; boundary="==QwE+/r=="; type="application/xop+xml"; start="<SOAP-ENV:Envelope>"; start-info="text/xml; charset=utf-8"`, "==QwE+/r==",
			"<SOAP-ENV:Envelope>", []string{"<id1>"}},
		{"FR-32a", "action with escaped quotes in start-info", `multipart/related; start-info="application/soap+xml; action=\"urn:a;b\""; type="application/xop+xml"; boundary=b1`, "b1", "<root>", []string{"<a>"}},
		{"FR-32b", "action as a parameter", `multipart/related; start-info="application/soap+xml"; action="urn:a"; type="application/xop+xml"; boundary=b1`, "b1", "<root>", []string{"<a>"}},
		{"FR-32c", "two actions that differ", `multipart/related; start-info="application/soap+xml; action=\"urn:a\""; action="urn:b"; type="application/xop+xml"; boundary=b1`, "b1", "<root>", []string{"<a>"}},
		{"FR-32d", "a boundary inside a quoted value", `multipart/related; start-info="x;boundary=fake"; type="application/xop+xml"; boundary=b1`, "b1", "<root>", []string{"<a>"}},
		{"FR-34a", "a root and nothing else", `multipart/related; type="application/xop+xml"; start="<root>"; boundary="b1"`, "b1", "<root>", nil},
		{"FR-29", "a Content-Type in odd case and order", `Multipart/Related; CHARSET="utf-8";boundary=b1;	Type=application/xop+xml`, "b1", "<root>", []string{"<a>"}},
	} {
		parts := []string{rooted(c.root)}
		for i, id := range c.ids {
			parts = append(parts, attached(id, files[i]))
		}
		body := form(c.boundary, parts...)
		t.Run(c.number+" "+c.about, func(t *testing.T) {
			f.send(t, fieldCase{contentType: c.contentType, body: body, attachments: files[:len(c.ids)]})
		})
		t.Run(c.number+" "+c.about+", as an answer", func(t *testing.T) {
			id := f.id()
			asked, answered := request(id), response(request(id))
			got := f.answered(t, httpAnswer("200 OK", c.contentType, strings.Replace(body, env, answered, 1)), asked)
			if contentType, _ := headerLine(got.head, "Content-Type"); contentType != c.contentType {
				t.Errorf("the information system got the Content-Type %q", contentType)
			}
			if want := strings.Replace(body, env, hashed(answered, asked), 1); got.body != want {
				t.Errorf("the information system got %s", difference(got.body, want))
			}
		})
	}
	t.Run("FR-32 an envelope of SOAP 1.2", func(t *testing.T) {
		f.exchange(t, fieldCase{contentType: `multipart/related; type="application/xop+xml"; start-info="application/soap+xml"; boundary=b1`,
			body: form("b1", rooted("<root>")), code: "client.invalid_soap"},
			func(e string) string {
				return strings.Replace(e, "http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope", 1)
			})
	})

	signed := `<w:Security xmlns:w="urn:w"  z="1"   a='2'` + "\r\n\t" + `><w:BinarySecurityToken><xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:a"/></w:BinarySecurityToken>` +
		`<ds:Signature xmlns:ds='http://www.w3.org/2000/09/xmldsig#'><!-- as it is --><ds:SignatureValue>AA==&#13;</ds:SignatureValue ></ds:Signature></w:Security>`
	t.Run("FR-38 a signature of the application in the header", func(t *testing.T) {
		f.exchange(t, fieldCase{contentType: `multipart/related; type="application/xop+xml"; boundary=b1`, body: form("b1", rooted("<root>"), attached("<a>", "x")), attachments: []string{"x"}},
			func(e string) string { return strings.Replace(e, "<x:client", signed+"\r\n<x:client", 1) })
	})
	t.Run("FR-38 in an answer, where only the hash is put in", func(t *testing.T) {
		id := f.id()
		asked, answered := request(id), strings.Replace(response(request(id)), "</env:Header>", signed+"</env:Header>", 1)
		got := f.answered(t, httpAnswer("200 OK", "text/xml", answered), asked)
		if want := hashed(answered, asked); got.body != want {
			t.Errorf("the information system got %s", difference(got.body, want))
		}
	})
}

// answered sends a bare request, which the service answers so.
func (f *field) answered(t *testing.T, answer, asked string, header ...string) reply {
	t.Helper()
	f.answers(func(octetRequest) string { return answer })
	f.taken()
	got := f.system(t).asks(posted(asked, append([]string{"Content-Type: text/xml"}, header...)...))
	if got.status != 200 {
		t.Fatalf("HTTP status %d: %.300s", got.status, got.body)
	}
	return got
}

// TestFieldAnswers: an answer keeps the packaging that the service chose, and a service's fault is its own.
func TestFieldAnswers(t *testing.T) {
	f := newField(t)
	const plain = "text/xml; charset=UTF-8"
	for _, c := range []struct {
		number, about string
		answer        func(answered string) (contentType, body string)
		arrives       func(hashed string) (contentType, body string)
	}{
		{"FR-34b", "one part", func(e string) (string, string) { return related1, form("b", strings.Replace(rootPart, env, e, 1)) },
			func(e string) (string, string) { return related1, form("b", strings.Replace(rootPart, env, e, 1)) }},
		{"FR-34c", "bare", func(e string) (string, string) { return "text/xml", e }, func(e string) (string, string) { return plain, e }},
		{"FR-34c", "bare, as application/xop+xml", func(e string) (string, string) { return "application/xop+xml", e }, func(e string) (string, string) { return plain, e }},
		{"FR-25c", "byte order mark", func(e string) (string, string) { return "text/xml", "\xef\xbb\xbf" + e }, func(e string) (string, string) { return plain, e }},
		{"FR-25c", "byte order mark in a part", func(e string) (string, string) {
			return related1, form("b", strings.Replace(rootPart, env, "\xef\xbb\xbf"+e, 1), filePart+"x")
		}, func(e string) (string, string) {
			return related1, form("b", strings.Replace(rootPart, env, e, 1), filePart+"x")
		}},
		{"FR-17", "header blocks as the service wrote them", func(e string) (string, string) {
			return related1, form("b", strings.Replace(rootPart, env, e, 1), "content-TYPE:a/b\r\nX-Z: 1\r\nX-Fold: a\r\n\tb\r\nx-z: 2\r\n\r\nx")
		}, func(e string) (string, string) {
			return related1, form("b", strings.Replace(rootPart, env, e, 1), "content-TYPE:a/b\r\nX-Z: 1\r\nX-Fold: a\r\n\tb\r\nx-z: 2\r\n\r\nx")
		}},
		{"FR-40", "31 attachments", func(e string) (string, string) { return related1, many(strings.Replace(rootPart, env, e, 1), 31) },
			func(e string) (string, string) { return related1, many(strings.Replace(rootPart, env, e, 1), 31) }},
	} {
		t.Run(c.number+" "+c.about, func(t *testing.T) {
			asked := request(f.id())
			contentType, body := c.answer(response(asked))
			got := f.answered(t, httpAnswer("200 OK", contentType, body), asked)
			contentType, body = c.arrives(hashed(response(asked), asked))
			if to, _ := headerLine(got.head, "Content-Type"); to != contentType || got.body != body {
				t.Errorf("the information system got %q, %s", to, difference(got.body, body))
			}
		})
	}

	fault := func(extra string) string {
		return `<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:own="urn:own"><s:Header><own:h a='1'/></s:Header><s:Body><s:Fault><faultcode>own:Broken</faultcode>` +
			`<faultstring>it   is</faultstring><detail><own:a><own:b>deep</own:b>` + extra + `</own:a></detail></s:Fault></s:Body></s:Envelope>`
	}
	for about, c := range map[string]struct{ status, contentType, body, arrives string }{
		"bare, 500":                 {"500 Internal Server Error", "text/xml", fault(""), fault("")},
		"bare, 200":                 {"200 OK", "text/xml;charset=utf-8", fault("<x/>"), fault("<x/>")},
		"with an attachment, 500":   {"500 Internal Server Error", related1, form("b", strings.Replace(rootPart, env, fault(""), 1), filePart+octetsOf(200_000, 22)), fault("")},
		"with an attachment, 200":   {"200 OK", related1, form("b", strings.Replace(xopPart, env, fault("\r\n"), 1), filePart+"x"), fault("\r\n")},
		"alone in a multipart, 500": {"500 Oops", related1, form("b", strings.Replace(rootPart, env, fault(""), 1)), fault("")},
	} {
		t.Run("FR-35 fault of the service, "+about, func(t *testing.T) {
			id := f.id()
			got := f.answered(t, httpAnswer(c.status, c.contentType, c.body), request(id))
			f.keepsFault(t, id)
			if got.body != c.arrives {
				t.Errorf("the information system got %s", difference(got.body, c.arrives))
			}
			if to, _ := headerLine(got.head, "Content-Type"); to != "text/xml;charset=utf-8" {
				t.Errorf("the information system got the Content-Type %q", to)
			}
		})
	}

	for about, asked := range map[string]string{
		"the methods of a service": posted(strings.NewReplacer("<id:serviceCode>echo", "<id:serviceCode>listMethods", "<id:serviceVersion>v1</id:serviceVersion>", "",
			"e:echo", "x:listMethods", ` xmlns:e="urn:example"`, "").Replace(request(f.id())), "Content-Type: text/xml"),
		"the clients of the instance": "GET /listClients HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		t.Run("FR-34d "+about, func(t *testing.T) {
			f.taken()
			got := f.system(t).asks(asked)
			if to, _ := headerLine(got.head, "Content-Type"); got.status != 200 || got.code() != "" || !strings.HasPrefix(strings.ToLower(to), "text/xml") || !strings.Contains(got.body, "xroad.xsd") {
				t.Errorf("got %q, and %.1000s", got.head, got.body)
			}
			if calls := f.taken(); len(calls) > 0 {
				t.Error("the service was called")
			}
		})
	}

	const failed = "server.serverproxy.service_failed."
	for _, c := range []struct{ number, about, answer, code string }{
		{"FR-10", "a multipart answer without its end", httpAnswer("200 OK", related1, "--b\r\n"+strings.Replace(rootPart, env, response(request("x")), 1)+"\r\n--b\r\n"+filePart+"data"), failed + "mime_parsing_failed"},
		{"FR-10", "an answer that is cut", strings.Replace(httpAnswer("200 OK", related1, form("b", strings.Replace(rootPart, env, response(request("x")), 1), filePart+"data")), "Content-Length: ", "Content-Length: 9", 1), failed + "io_error"},
		{"FR-10", "chunks that do not end", "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + response(request("x")), failed + "io_error"},
		{"FR-05", "another boundary in the answer", httpAnswer("200 OK", related1, form("c", "Content-Type: text/xml\r\n\r\nx")), failed + "invalid_message"},
		{"FR-14", "start names another part of the answer", httpAnswer("200 OK", `multipart/related; start="<file>"; boundary=b`, form("b", strings.Replace(rootPart, env, response(request("x")), 1), filePart+"x")), failed + "invalid_content_type"},
		{"FR-17", "an attachment of the answer without a Content-Type", httpAnswer("200 OK", related1, form("b", strings.Replace(rootPart, env, response(request("x")), 1), "\r\nx")), failed + "invalid_content_type"},
		{"FR-34d", "a fault of ours", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", failed + "http_error"},
		{"FR-34d", "an answer that is no SOAP", httpAnswer("200 OK", "text/html", "<html/>"), failed + "invalid_content_type"},
		{"FR-76", "an answer in gzip, which nobody asked for", strings.Replace(httpAnswer("200 OK", "text/xml", "\x1f\x8b\x08\x00"), "\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n", 1), failed + "invalid_content_type"},
		{"FR-73", "an answer with two Content-Types", strings.Replace(httpAnswer("200 OK", "text/xml", response(request("x"))), "\r\n\r\n", "\r\nContent-Type: "+related1+"\r\n\r\n", 1), failed + "invalid_content_type"},
		{"FR-73", "an answer with two lengths", strings.Replace(httpAnswer("200 OK", "text/xml", response(request("x"))), "\r\n\r\n", "\r\nContent-Length: 7\r\n\r\n", 1), failed + "network_error"},
	} {
		t.Run(c.number+" "+c.about, func(t *testing.T) {
			got := f.answered(t, c.answer, request("x"))
			if got.code() != c.code {
				t.Errorf("got %q, want %q: %.600s", got.code(), c.code, got.body)
			}
			if to, _ := headerLine(got.head, "Content-Type"); to != "text/xml;charset=utf-8" {
				t.Errorf("the information system got the Content-Type %q", to)
			}
		})
	}
}

// keepsFault wants the evidence of the sending server to say that the answer was a fault.
func (f *field) keepsFault(t *testing.T, id string) {
	t.Helper()
	store, err := evidence.OpenRead(filepath.Join(caddy.AppDataDir(), "xroad", "ss1", "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var faults []string
	for record, err := range store.Find(t.Context(), evidence.Query{MessageID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		if record.Response {
			faults = append(faults, record.Fault)
		}
	}
	if len(faults) != 1 || faults[0] == "" {
		t.Errorf("the answer is kept as %q", faults)
	}
}

// many returns a body with n attachments.
func many(root string, n int) string {
	parts := []string{root}
	for i := range n {
		parts = append(parts, filePart+octetsOf(1024, uint64(i)))
	}
	return form("b", parts...)
}
