// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
)

func header() *soap.Header {
	user := "EE38001085718"
	return &soap.Header{
		Client:          ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"},
		Service:         ident.Service{Client: ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}, Code: "echo", Version: "v1"},
		UserID:          &user,
		ID:              "id-1",
		ProtocolVersion: "4.0",
	}
}

// post sends a body to the sending security server and returns the answer's Content-Type and body.
func post(t *testing.T, bed *testbed.Bed, contentType string, body io.Reader) (string, []byte) {
	t.Helper()
	response, err := http.Post(bed.URL, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", response.StatusCode, answer)
	}
	return response.Header.Get("Content-Type"), answer
}

// faultCode returns the code of a fault, or "".
func faultCode(t *testing.T, answer []byte) string {
	t.Helper()
	env, err := soap.Open(bytes.NewReader(answer), "", soap.Limits{})
	if err != nil {
		t.Fatalf("%v\n%s", err, answer)
	}
	if !env.Fault {
		return ""
	}
	fault, err := soap.ParseFault(answer)
	if err != nil {
		t.Fatal(err)
	}
	return fault.Code
}

func TestPlainMessage(t *testing.T) {
	bed := testbed.New(t, testbed.Options{})
	contentType, answer := post(t, bed, "text/xml; charset=utf-8", bytes.NewReader(testbed.Envelope(header(), "echo", "hello")))
	if contentType != "text/xml; charset=UTF-8" || faultCode(t, answer) != "" || !bytes.Contains(answer, []byte("echoResponse")) || !bytes.Contains(answer, []byte("requestHash")) {
		t.Fatalf("%s\n%s", contentType, answer)
	}
	bed.CheckClean()
}

// related returns a multipart/related body of an envelope and attachments.
func related(envelope []byte, attachments ...[]byte) []byte {
	var b bytes.Buffer
	b.WriteString("--b\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-ID: <root>\r\n\r\n")
	b.Write(envelope)
	for n, a := range attachments {
		fmt.Fprintf(&b, "\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-ID: <a%d>\r\nX-Odd:  kept \r\n\r\n", n+1)
		b.Write(a)
	}
	b.WriteString("\r\n--b--\r\n")
	return b.Bytes()
}

func TestAttachments(t *testing.T) {
	for _, n := range []int{0, 1, 3, 28, 29, 40, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{Route: testbed.Echo{Attach: true}})
			var attachments [][]byte
			for i := range n {
				attachments = append(attachments, bytes.Repeat([]byte{byte(i)}, i*10))
			}
			contentType, answer := post(t, bed, `multipart/related; type="text/xml"; start="<root>"; boundary=b`, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), attachments...)))
			if !strings.HasPrefix(contentType, "multipart/related") {
				t.Fatalf("%s\n%s", contentType, answer)
			}
			if got := bytes.Count(answer, []byte("X-Odd:  kept \r\n")); got != n {
				t.Errorf("%d attachments came back, want %d", got, n)
			}
			bed.CheckClean()
		})
	}
}

// TestAnswerInAnotherEncoding: the consumer gets UTF-8 that says so, in a multipart as well.
func TestAnswerInAnotherEncoding(t *testing.T) {
	h := header()
	answer := latin1(strings.Replace(string(testbed.Envelope(h, "echoResponse", "@")), ">@<", ">\xe4<", 1))
	for contentType, body := range map[string]string{
		"text/xml; charset=ISO-8859-1": answer,
		relatedType:                    strings.Replace(string(related([]byte(answer), []byte("x"))), "charset=UTF-8\r\n", "charset=\"iso-8859-1\"\r\n", 1),
	} {
		t.Run(contentType, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", contentType)
				io.WriteString(w, body)
			})})
			_, got := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(h, "echo", "")))
			if !bytes.Contains(got, []byte(">ä<")) || bytes.Contains(bytes.ToLower(got), []byte("iso-8859")) || faultOf(t, got) != "" {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestKeptConnections sends several messages of each form over one connection: no leg is dialled twice.
func TestKeptConnections(t *testing.T) {
	var handshakes, calls atomic.Int32
	service := httptest.NewUnstartedServer(testbed.Echo{})
	service.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			calls.Add(1)
		}
	}
	service.Start()
	defer service.Close()
	bed := testbed.New(t, testbed.Options{
		Service: exchange.Service{To: service.URL},
		Middle: func(next http.Handler) http.Handler {
			seen := make(map[string]bool)
			var mu sync.Mutex
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				if !seen[r.RemoteAddr] {
					seen[r.RemoteAddr] = true
					handshakes.Add(1)
				}
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		},
	})
	conn := dial(t, bed.URL)
	reader := bufio.NewReader(conn)
	plain := testbed.Envelope(header(), "echo", "")
	for range 3 {
		for contentType, body := range map[string][]byte{
			"text/xml":                      plain,
			relatedType:                     related(plain, []byte("x")),
			"multipart/related; boundary=b": append(related(plain), "an epilogue\r\n"...),
		} {
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", contentType, len(body), body)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(response.Body); err != nil || response.Close || !bytes.Contains(answer, []byte("echoResponse")) {
				t.Fatalf("%s: closing %v, %v\n%s", contentType, response.Close, err, answer)
			}
		}
	}
	if handshakes.Load() != 1 || calls.Load() != 1 {
		t.Errorf("%d connections between the servers, %d to the service", handshakes.Load(), calls.Load())
	}
	bed.CheckClean()
}

// TestRouteSeesNoPeer: path, query, host, trailers and header fields that the other security server sends stay here.
func TestRouteSeesNoPeer(t *testing.T) {
	var got *http.Request
	bed := testbed.New(t, testbed.Options{
		Middle: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL, r.RequestURI, r.Host = &url.URL{Path: "/admin", RawQuery: "all=1"}, "/admin?all=1", "other.example"
				r.Trailer = http.Header{"X-Peer": {"x"}}
				r.Header.Set("X-Peer", "x")
				next.ServeHTTP(w, r)
			})
		},
		Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r
			testbed.Echo{}.ServeHTTP(w, r)
		}),
	})
	if _, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", ""))); faultCode(t, answer) != "" {
		t.Fatalf("%s", answer)
	}
	if got.URL.String() != "/" || got.RequestURI != "/" || got.Host != "" || len(got.Trailer) > 0 || got.Header.Get("X-Peer") != "" || got.Method != http.MethodPost {
		t.Errorf("the route sees %s %s (%s) of host %q, trailers %v, header %v", got.Method, got.URL, got.RequestURI, got.Host, got.Trailer, got.Header)
	}
}

// TestHead: a health check by HEAD gets a whole answer, and the connection stays.
func TestHead(t *testing.T) {
	bed := testbed.New(t, testbed.Options{})
	for range 2 {
		response, err := http.Head(bed.URL)
		if err != nil || response.StatusCode != http.StatusOK || response.Close {
			t.Fatalf("%v, %v", response, err)
		}
		response.Body.Close()
	}
}

// TestRuleForAPeer: what is special about one security server holds for the requests that go to it and the answers that
// come to it, and evidence names the peer on both sides.
func TestRuleForAPeer(t *testing.T) {
	chain := crypto.Chain
	special := func(code, member string) func(*exchange.SecurityServer) {
		return func(s *exchange.SecurityServer) {
			s.Local.Peers = map[ident.Server]exchange.PeerRule{{Instance: "DEV", Class: "GOV", Member: member, Code: code}: {Form: &chain}}
		}
	}
	bed := testbed.New(t, testbed.Options{Route: testbed.Echo{Attach: true}, Sender: special("ss2", "0000"), Receive: special("ss1", "1111")})
	_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), []byte("x"))))
	if code := faultOf(t, answer); code != "" {
		t.Fatalf("%s\n%s", code, answer)
	}
	for server, peer := range map[*exchange.SecurityServer]string{bed.Sender: "DEV/GOV/0000/ss2", bed.Receiver: "DEV/GOV/1111/ss1"} {
		n := 0
		for r, err := range server.Evidence.Find(t.Context(), evidence.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if r.Signature.Form() != chain || r.Peer != peer {
				t.Errorf("%s: response %v has form %s and peer %q", server.ID, r.Response, r.Signature.Form(), r.Peer)
			}
		}
		if n != 2 {
			t.Errorf("%s has %d records", server.ID, n)
		}
	}
}

// TestRoundTripper uses a Sender as what it is, without an HTTP server before it.
func TestRoundTripper(t *testing.T) {
	bed := testbed.New(t, testbed.Options{})
	req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
	req.Header.Set("Content-Type", "text/xml")
	req.RemoteAddr = "127.0.0.1:1"
	response, err := (&exchange.Sender{Server: bed.Sender}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil || int64(len(answer)) != response.ContentLength || faultCode(t, answer) != "" {
		t.Errorf("%d octets of %d, %v", len(answer), response.ContentLength, err)
	}
	response.Body.Close()
	bed.CheckClean()
}
