// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestFieldEdge: requests whose framing can be read in two ways are refused, and the connection is closed (FR-73), and so
// are lengths that no counter holds (FR-71).
func TestFieldEdge(t *testing.T) {
	f := newField(t)
	body := request("edge")
	length := fmt.Sprintf("Content-Length: %d", len(body))
	inChunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	const post = "POST / HTTP/1.1\r\nHost: fairway.test\r\nContent-Type: text/xml\r\n"
	for about, request := range map[string]string{
		"a length and chunks":                    post + length + "\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks,
		"chunks and a length":                    post + "Transfer-Encoding: chunked\r\n" + length + "\r\n\r\n" + inChunks,
		"chunked twice in one field":             post + "Transfer-Encoding: chunked, chunked\r\n\r\n" + inChunks,
		"chunked in two fields":                  post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks,
		"gzip and chunked":                       post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + inChunks,
		"identity and a length":                  post + "Transfer-Encoding: identity\r\n" + length + "\r\n\r\n" + body,
		"blank before the colon":                 post + "Transfer-Encoding : chunked\r\n\r\n" + inChunks,
		"two lengths":                            post + length + "\r\nContent-Length: 5\r\n\r\n" + body,
		"a length with a sign":                   post + "Content-Length: +5\r\n\r\n" + body,
		"a list of lengths":                      post + "Content-Length: 5,5\r\n\r\n" + body,
		"a length in hexadecimal":                post + "Content-Length: 0x5\r\n\r\n" + body,
		"chunks to HTTP/1.0":                     strings.Replace(post, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n" + inChunks,
		"chunks and a length to HTTP/1.0":        strings.Replace(post, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n" + length + "\r\n\r\n" + body,
		"a folded field":                         post + "X-Folded: a\r\n b\r\n" + length + "\r\n\r\n" + body,
		"a folded Content-Type":                  strings.Replace(post, "text/xml", "multipart/related;\r\n\tboundary=b", 1) + length + "\r\n\r\n" + body,
		"a length that is folded":                post + "Content-Length:\r\n 5\r\n\r\n" + body,
		"a fold before the first field":          "POST / HTTP/1.1\r\n Host: a\r\nHost: fairway.test\r\n" + length + "\r\n\r\n" + body,
		"two hosts":                              post + "Host: another.test\r\n" + length + "\r\n\r\n" + body,
		"no host":                                strings.Replace(post, "Host: fairway.test\r\n", "", 1) + length + "\r\n\r\n" + body,
		"a NUL in a field":                       post + "X: a\x00b\r\n" + length + "\r\n\r\n" + body,
		"a lone CR in a field":                   post + "X: a\rContent-Length: 5\r\n" + length + "\r\n\r\n" + body,
		"lines of the header in line feeds only": strings.ReplaceAll(post+length+"\r\n\r\n", "\r\n", "\n") + body,
		"a field without a colon":                post + "nothing\r\n" + length + "\r\n\r\n" + body,
		"a header of 100 KB":                     post + "X: " + strings.Repeat("y", 100_000) + "\r\n" + length + "\r\n\r\n" + body,
		"a header of 10 MB in small fields":      post + strings.Repeat("X: y\r\n", 10<<20/6) + length + "\r\n\r\n" + body,
		"a target of 10 MB":                      "POST /" + strings.Repeat("y", 10<<20) + " HTTP/1.1\r\nHost: fairway.test\r\n" + length + "\r\n\r\n" + body,
	} {
		t.Run("FR-73 "+about, func(t *testing.T) { f.refusesFraming(t, request) })
	}
	t.Run("FR-71 a length of 2^63", func(t *testing.T) {
		f.refusesFraming(t, post+"Content-Length: 9223372036854775808\r\n\r\n"+body)
	})

	// What shows in the body only comes too late for a status, and is a fault or a closed connection.
	for about, request := range map[string]string{
		"a chunk with a sign":                    post + "Transfer-Encoding: chunked\r\n\r\n+" + inChunks,
		"a chunk in 0x":                          post + "Transfer-Encoding: chunked\r\n\r\n0x" + inChunks,
		"a chunk extension of 1 MB":              post + "Transfer-Encoding: chunked\r\n\r\n" + strings.Replace(inChunks, "\r\n", ";x="+strings.Repeat("y", 1<<20)+"\r\n", 1),
		"chunk lines that end in line feeds":     post + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\n%s\n0\n\n", len(body), body),
		"a chunk that is longer than it says":    post + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body)-1, body),
		"a trailer that says another type":       post + "Transfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(inChunks, "\r\n") + "Content-Type: " + related1 + "\r\n\r\n",
		"an announced trailer of another type":   post + "Trailer: Content-Type\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(inChunks, "\r\n") + "Content-Type: " + related1 + "\r\n\r\n",
		"a trailer that says another action":     post + "Transfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(inChunks, "\r\n") + "SOAPAction: \"urn:b\"\r\n\r\n",
		"a trailer that says a length":           post + "Transfer-Encoding: chunked\r\n\r\n" + strings.TrimSuffix(inChunks, "\r\n") + "Content-Length: 5\r\n\r\n",
		"a body that is shorter than its length": post + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)+1) + body,
	} {
		t.Run("FR-73 "+about, func(t *testing.T) { f.refusesBody(t, request, strings.Contains(about, "shorter")) })
	}
	for about, size := range map[string]string{"a chunk of 2^63": "8000000000000000", "a chunk of 2^64-1": "FFFFFFFFFFFFFFFF", "a chunk of more than 64 bits": "FFFFFFFFFFFFFFFFFF"} {
		t.Run("FR-71 "+about, func(t *testing.T) {
			f.refusesBody(t, post+"Transfer-Encoding: chunked\r\n\r\n"+size+"\r\n"+body, false)
		})
	}

	const fault = "client.invalid_content_type"
	f.one(t, "FR-73 the same length twice", posted(body, "Content-Type: text/xml", length), "")
	f.one(t, "FR-73 two Content-Types", posted(body, "Content-Type: text/xml", "content-type: "+related1), fault)
	f.one(t, "FR-73 the same Content-Type twice", posted(body, "Content-Type: text/xml", "Content-Type: text/xml"), fault)
	f.one(t, "FR-73 two SOAPActions", posted(body, "Content-Type: text/xml", `SOAPAction: "urn:a"`, `Soapaction: "urn:b"`), "client.invalid_soap_action")
	f.one(t, "FR-73 no Content-Type", posted(body), fault)
	for _, encoding := range []string{"gzip", "deflate", "gzip, gzip", "zstd", "identity, gzip"} {
		f.one(t, "FR-76 Content-Encoding "+encoding, posted("\x1f\x8b\x08\x00", "Content-Type: "+related1, "Content-Encoding: "+encoding), fault)
	}
	f.one(t, "FR-76 Content-Encoding identity", posted(body, "Content-Type: text/xml", "Content-Encoding: identity"), "")
	f.one(t, "FR-94 a body with GET", "GET / HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\n"+length+"\r\n\r\n"+body, "client.invalid_http_method")
}

// refusesFraming sends a request whose header shows that it can be read in two ways.
func (f *field) refusesFraming(t *testing.T, request string) {
	t.Helper()
	f.taken()
	s := f.system(t)
	go io.WriteString(s.conn, request)
	got, err := s.read()
	if err == nil && (got.status/100 != 4 && got.status != 501 || !got.close) {
		t.Errorf("got HTTP status %d: %.300s", got.status, got.body)
	}
	if calls := f.taken(); len(calls) != 0 {
		t.Error("the service was called")
	}
	if err == nil && got.close {
		if rest, err := io.ReadAll(s.in); err == nil && len(rest) > 0 {
			t.Errorf("a second answer: %.200s", rest)
		}
	}
}

// refusesBody sends a request whose body shows it.
func (f *field) refusesBody(t *testing.T, request string, hangUp bool) {
	t.Helper()
	f.taken()
	s := f.system(t)
	go func() {
		io.WriteString(s.conn, request)
		if hangUp {
			s.conn.Close()
		}
	}()
	got, err := s.read()
	if err == nil && (got.status/100 == 2 && !strings.HasPrefix(got.code(), "client.") || !got.close) {
		t.Errorf("got HTTP status %d: %.500s", got.status, got.body)
	}
	if calls := f.taken(); len(calls) != 0 {
		t.Error("the service was called")
	}
}

// one sends one request, which must get that fault, or come to the service where the code is empty.
func (f *field) one(t *testing.T, name, request, code string) {
	t.Run(name, func(t *testing.T) {
		_, body, _ := strings.Cut(request, "\r\n\r\n")
		f.answers(func(octetRequest) string { return httpAnswer("200 OK", "text/xml", response(body)) })
		f.taken()
		got := f.system(t).asks(request)
		if calls := len(f.taken()); got.status != 200 || got.code() != code || calls != 0 && code != "" || calls != 1 && code == "" {
			t.Errorf("HTTP status %d, fault %q, %d calls of the service: %.500s", got.status, got.code(), calls, got.body)
		}
	})
}

// TestFieldEdgeTLS: the edge is as strict over HTTPS, where the caller's certificate still reaches the exchange.
func TestFieldEdgeTLS(t *testing.T) {
	e := freePorts(t, strings.Replace(readExample(t), "\tmetrics\n", "\tskip_install_trust\n", 1)+`
https://127.0.0.1:8081 {
	tls internal
	xroad_send ss1
}
`)
	address := strings.TrimSuffix(strings.TrimPrefix(regexp.MustCompile(`https://127.0.0.1:[0-9]+ \{`).FindString(e.config), "https://"), " {")
	run(t, strings.Replace(e.config, "client DEV/GOV/1111/app\n", "client DEV/GOV/1111/app {\n\t\t\tcaller tls\n\t\t}\n", 1))
	t.Cleanup(func() { caddy.Stop() })
	for _, protocol := range []string{"http/1.1", "h2"} {
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: protocol == "h2", TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}}}
		response, err := client.Post("https://"+address+"/", "text/xml", strings.NewReader(request("tls")))
		if err != nil {
			t.Fatal(protocol, err)
		}
		if got := parts(t, response); !strings.Contains(got[0], "echoResponse") || (response.ProtoMajor == 2) != (protocol == "h2") {
			t.Errorf("%s: over %s: %s", protocol, response.Proto, got[0])
		}
		response.Body.Close()
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("got %q, %v", answer, err)
	}
}
