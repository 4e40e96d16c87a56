// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// TestFieldExpect: 100 comes where the body is going to be read, and never before or after a refusal (FR-64).
func TestFieldExpect(t *testing.T) {
	f := newField(t)
	const expect = "Expect: 100-continue"
	body := request("expect")
	f.answers(func(octetRequest) string {
		return "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + httpAnswer("200 OK", "text/xml", response(body))
	})

	t.Run("FR-64a a message that may come", func(t *testing.T) {
		for _, expects := range []string{expect, "expect: 100-Continue"} {
			for _, request := range []string{posted(body, "Content-Type: text/xml", expects), chunked(body, nil, "Content-Type: text/xml", expects)} {
				s := f.system(t)
				head, octets, _ := strings.Cut(request, "\r\n\r\n")
				io.WriteString(s.conn, head+"\r\n\r\n")
				if line, err := s.in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
					t.Fatalf("got %q, %v", line, err)
				}
				s.in.ReadString('\n')
				io.WriteString(s.conn, octets)
				if got := s.reads(); got.continued || got.status != 200 || got.close || got.code() != "" {
					t.Errorf("got %q, and %.500s", got.head, got.body)
				}
			}
		}
	})
	t.Run("FR-64g the service is not asked to wait", func(t *testing.T) {
		calls := f.taken()
		if len(calls) != 4 {
			t.Errorf("%d calls", len(calls))
		}
		for _, call := range calls {
			if strings.Contains(strings.ToLower(call.head), "expect") {
				t.Errorf("the service was sent %q", call.head)
			}
		}
	})
	t.Run("FR-64d a client that does not wait", func(t *testing.T) {
		if got := f.system(t).asks(posted(body, "Content-Type: text/xml", expect)); got.status != 200 || got.code() != "" {
			t.Errorf("got %q, and %.500s", got.head, got.body)
		}
	})
	f.taken()

	// The client sends no body before it is told to, and here it never is.
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000000\r\n" + expect + "\r\n"
	for _, c := range []struct {
		number, about, head string
		status              int
		code                string
	}{
		{"FR-64b", "a method that is none of SOAP's", strings.Replace(post, "POST", "PUT", 1) + "Content-Type: text/xml\r\n", 200, "client.invalid_http_method"},
		{"FR-64b", "no Content-Type", post, 200, "client.invalid_content_type"},
		{"FR-64b", "a Content-Type that is none of SOAP's", post + "Content-Type: text/html\r\n", 200, "client.invalid_content_type"},
		{"FR-64b", "no boundary", post + "Content-Type: multipart/related\r\n", 200, "client.invalid_content_type"},
		{"FR-64b", "two boundaries", post + "Content-Type: multipart/related; boundary=a; boundary=b\r\n", 200, "client.invalid_content_type"},
		{"FR-64b", "a SOAPAction that is none", post + "Content-Type: text/xml\r\nSOAPAction: urn:a\r\n", 200, "client.invalid_soap_action"},
		{"FR-64b", "a body in gzip", post + "Content-Type: text/xml\r\nContent-Encoding: gzip\r\n", 200, "client.invalid_content_type"},
		{"FR-64c", "a length of more than 63 bits", strings.Replace(post, "5000000000", "99999999999999999999", 1) + "Content-Type: text/xml\r\n", 400, ""},
		{"FR-64e", "another expectation", strings.Replace(post, "100-continue", "foo", 1) + "Content-Type: text/xml\r\n", 417, ""},
	} {
		t.Run(c.number+" "+c.about, func(t *testing.T) {
			s := f.system(t)
			io.WriteString(s.conn, c.head+"\r\n")
			got := s.reads()
			if got.continued || got.status != c.status || got.code() != c.code || !got.close {
				t.Errorf("a 100 before it: %t; got %q, and %.500s", got.continued, got.head, got.body)
			}
			s.silent()
		})
	}
	t.Run("FR-64f HTTP/1.0", func(t *testing.T) {
		got := f.system(t).asks(strings.Replace(posted(body, "Content-Type: text/xml", expect), "HTTP/1.1", "HTTP/1.0", 1))
		if got.continued || got.status != 200 || got.code() != "" {
			t.Errorf("got %q, and %.500s", got.head, got.body)
		}
	})
}

// TestFieldExpectPeer_FR64: a security server that waits for a 100 gets it only where what it declares may come (FR-64).
func TestFieldExpectPeer_FR64(t *testing.T) {
	config := strings.ReplaceAll(readExample(t), "\t\t\tallow DEV/GOV/1111/app\n", "\t\t\tallow DEV/GOV/1111/app\n\t\t\tlimit 2MiB\n")
	e := freePorts(t, strings.Replace(config, "\t\tserver DEV/GOV/0000/ss2\n", "\t\tserver DEV/GOV/0000/ss2\n\t\tspool disk {\n\t\t\tquota 1MiB\n\t\t}\n", 1))
	run(t, e.config)
	t.Cleanup(func() { caddy.Stop() })
	for _, c := range []struct {
		number, about string
		length        int
		code, says    string
	}{
		{"FR-64a", "a message that may come", 1 << 19, "", ""},
		{"FR-64c", "a message that is too long for every service", 2<<20 + 1, "server.serverproxy.invalid_request", "2097152 octets"},
		{"FR-64c", "a message that the spool has no room for", 2 << 20, "server.serverproxy.io_error", "no room for 2097152 more octets now</faultstring>"},
	} {
		t.Run(c.number+" "+c.about, func(t *testing.T) {
			s := e.peer(t)
			fmt.Fprintf(s.conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/mixed; boundary=b\r\nX-Hash-Algorithm: SHA-512\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", c.length)
			if c.code == "" {
				if line, err := s.in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
					t.Errorf("got %q, %v", line, err)
				}
				return
			}
			s.refusedUntold(c.code, c.says)
		})
	}
}

// peer comes to the receiving security server as the sending one.
func (e example) peer(t *testing.T) *system {
	t.Helper()
	authority, err := dev.Open(t.Context(), caddy.DefaultStorage, "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := authority.AuthKey(t.Context(), ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", e.receive, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{*key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &system{t, conn, bufio.NewReader(conn)}
}

// refusedUntold reads a fault before which, and behind which, no 100 comes.
func (s *system) refusedUntold(code, says string) {
	s.t.Helper()
	got := s.reads()
	if got.continued || got.status != 200 || got.code() != code || !strings.Contains(got.body, says) || !got.close {
		s.t.Errorf("a 100 before it: %t; got %q, and %.500s", got.continued, got.head, got.body)
	}
	s.silent()
}

// silent sees that nothing more comes, for long enough for a 100 that nobody should send.
func (s *system) silent() {
	s.t.Helper()
	s.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if rest, err := io.ReadAll(s.in); len(rest) > 0 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Errorf("behind the answer came %q, %v", rest, err)
	}
}

// TestFieldSOAPAction: the service sees the field in the spelling that old ones look for, with the value that was sent,
// and no other field that nobody sent (FR-74).
func TestFieldSOAPAction(t *testing.T) {
	f := newField(t)
	long := `"urn:` + strings.Repeat("a", 8<<10) + `"`
	for _, service := range []string{"echo", "other"} {
		for _, c := range []struct {
			about, line, value, code string
			status                   int
		}{
			{"a URN", `SOAPAction: "urn:a"`, `"urn:a"`, "", 200},
			{"in lower case", `soapaction:"http://example.test/x?y=z;w#f"`, `"http://example.test/x?y=z;w#f"`, "", 200},
			{"in capitals", `SOAPACTION: 	"a/relative+one"  `, `"a/relative+one"`, "", 200},
			{"empty in quotes", `SOAPAction: ""`, `""`, "", 200},
			{"empty", `SOAPAction: `, "", "", 200},
			{"absent", `X-Unknown: dropped`, "", "", 200}, // message-and-transport 2.3
			{"of 8 KiB", "SOAPAction: " + long, long, "", 200},
			{"above ASCII", "SOAPAction: \"urn:\xc3\xa4\xe4\"", "\"urn:\xc3\xa4\xe4\"", "", 200},
			{"without quotes", `SOAPAction: urn:a`, "", "client.invalid_soap_action", 200},
			{"with a blank", `SOAPAction: "urn:a b"`, "", "client.invalid_soap_action", 200},
			{"with a quote inside", `SOAPAction: "urn:"a"`, "", "client.invalid_soap_action", 200},
			{"that is no URI", `SOAPAction: "%zz"`, "", "client.invalid_soap_action", 200},
			{"with a carriage return", "SOAPAction: \"urn:a\rX: b\"", "", "", 400},
			{"with a line feed", "SOAPAction: \"urn:a\nX: b\"", "", "", 400},
			{"folded", "SOAPAction:\r\n \"urn:a\"", "", "", 400},
		} {
			t.Run("FR-74 "+c.about+", to "+service, func(t *testing.T) {
				id := f.id()
				asked := strings.ReplaceAll(request(id), "echo", service)
				answered := strings.NewReplacer("<e:"+service+" ", "<e:"+service+"Response ", "</e:"+service+">", "</e:"+service+"Response>").Replace(asked)
				f.answers(func(octetRequest) string { return httpAnswer("200 OK", "text/xml", answered) })
				f.taken()
				got := f.system(t).asks(posted(asked, "Content-Type: text/xml", c.line, "Cookie: a=b", "Authorization: Basic eDp5", "User-Agent: x", "Accept-Encoding: gzip", "Connection: X-Drop", "X-Drop: y"))
				calls := f.taken()
				if got.status != c.status || got.code() != c.code {
					t.Fatalf("got HTTP status %d, fault %q: %.500s", got.status, got.code(), got.body)
				}
				if c.code != "" || c.status != 200 {
					if len(calls) != 0 {
						t.Error("the service was called")
					}
					return
				}
				if len(calls) != 1 {
					t.Fatalf("%d calls", len(calls))
				}
				f.delivered(id, asked)
				if value, ok := calls[0].line("SOAPAction"); !ok || value != c.value {
					t.Errorf("the service was sent %q", calls[0].head)
				}
				if _, ok := calls[0].line("Content-Type"); !ok {
					t.Errorf("the service was sent %q", calls[0].head)
				}
				var names []string
				for _, line := range strings.Split(strings.TrimSpace(calls[0].head), "\r\n")[1:] {
					name, _, _ := strings.Cut(line, ":")
					names = append(names, name)
				}
				slices.Sort(names)
				if want := []string{"Content-Length", "Content-Type", "Host", "SOAPAction"}; service == "echo" && !slices.Equal(names, want) {
					t.Errorf("the service was sent the fields %q", names)
				}
				for _, dropped := range []string{"cookie", "authorization", "x-drop", "x-unknown", "basic"} {
					if strings.Contains(strings.ToLower(calls[0].head), dropped) {
						t.Errorf("the service was sent %q", calls[0].head)
					}
				}
			})
		}
	}
}

// TestFieldConnections_FR61_FR62: after every answer the connection is as good as new, or announced as closed.
func TestFieldConnections_FR61_FR62(t *testing.T) {
	f := newField(t)
	file := octetsOf(200_000, 30)
	s := f.system(t)
	for i := range 60 {
		id := f.id()
		contentType, body, code := related1, strings.Replace(form("b", rootPart, filePart+file), env, request(id), 1), ""
		switch i % 6 {
		case 1:
			contentType, code = "text/html", "client.invalid_content_type"
		case 2:
			body, code = strings.Replace(body, ">DEV<", ">OTHER<", 1), "server.clientproxy.unknown_member"
		case 3:
			body, code = strings.Replace(body, "<id:serviceCode>echo", "<id:serviceCode>ech", 1), "server.serverproxy.unknown_service"
		case 4:
			body, code = strings.TrimSuffix(body, "--\r\n"), "client.mime_parsing_failed"
		case 5:
			code = "server.serverproxy.service_failed.http_error"
		}
		f.answers(func(octetRequest) string {
			if i%6 == 5 {
				return "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
			}
			// The service keeps the connection in what it says, and closes it.
			return strings.Replace(httpAnswer("200 OK", "text/xml", response(request(id))), "Connection: close\r\n", "", 1)
		})
		f.taken()
		got := s.asks(posted(body, "Content-Type: "+contentType))
		if got.status != 200 || got.code() != code {
			t.Fatalf("FR-62 request %d: HTTP status %d, fault %q, want %q: %.500s", i, got.status, got.code(), code, got.body)
		}
		if code == "" {
			f.judge(t, fieldCase{contentType: contentType, body: body, attachments: []string{file}}, id, request(id), got)
		}
		if got.close {
			rest, _ := io.ReadAll(s.in)
			if len(rest) > 0 {
				t.Fatalf("FR-62 request %d: behind the last answer came %.100q", i, rest)
			}
			s = f.system(t)
		}
	}

	for i := range 200 {
		asked := request(fmt.Sprint("reused-", i))
		got := f.answered(t, strings.Replace(httpAnswer("200 OK", "text/xml", response(asked)), "Connection: close\r\n", "", 1), asked)
		if got.code() != "" {
			t.Fatalf("FR-61 request %d over a connection that the service closes: %s", i, got.body)
		}
	}
}

// TestFieldPeerProtocol_FR65: between security servers it is HTTP/1.1, also where the receiving one offers HTTP/2 (FR-65).
func TestFieldPeerProtocol_FR65(t *testing.T) {
	service := newOctetService(t)
	config := strings.NewReplacer(
		"reverse_proxy 127.0.0.1:9000", "reverse_proxy "+service.address()+" {\n\t\t\theader_up X-Proto {http.request.proto}\n\t\t}",
		"\t\talpn http/1.1\n", "", "\t\tprotocols h1\n", "",
	).Replace(readExample(t))
	e := freePorts(t, config)
	run(t, e.config)
	t.Cleanup(func() { caddy.Stop() })
	conn, err := tls.Dial("tcp", e.receive, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("the receiving security server offers %q only", got)
	}
	conn.Close()
	asked := strings.ReplaceAll(request("protocol"), "echo", "other")
	service.answers(func(octetRequest) string {
		return httpAnswer("200 OK", "text/xml", strings.NewReplacer("<e:other ", "<e:otherResponse ", "</e:other>", "</e:otherResponse>").Replace(asked))
	})
	if got := parts(t, post(t, e.send, "text/xml", strings.NewReader(asked))); !strings.Contains(got[0], "otherResponse") {
		t.Fatal(got[0])
	}
	calls := service.taken()
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	if proto, _ := calls[0].line("X-Proto"); proto != "HTTP/1.1" {
		t.Errorf("the sending security server spoke %q", proto)
	}
}
