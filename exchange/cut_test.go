// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/spool"
)

// message is a request with an attachment that no buffer on the way holds.
func message() []byte {
	return related(testbed.Envelope(header(), "echo", ""), bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
}

// dial opens a connection to a test server.
func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestCutByConsumer breaks the information system's connection at every stage of its request.
func TestCutByConsumer(t *testing.T) {
	body := message()
	envelope := bytes.Index(body, []byte("\r\n--b\r\nContent-Type: application/octet-stream"))
	for name, sent := range map[string]int{
		"in the header of the part": 20,
		"in the envelope":           envelope - 30,
		"after the envelope":        envelope + 2,
		"in the attachment":         len(body) / 2,
		"in the closing delimiter":  len(body) - 5,
		"one octet before the end":  len(body) - 3,
		"complete, not waiting":     len(body),
	} {
		t.Run(name, func(t *testing.T) {
			route := &counted{Handler: testbed.Echo{}}
			bed := testbed.New(t, testbed.Options{Route: route})
			conn := dial(t, bed.URL)
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", relatedType, len(body))
			conn.Write(body[:sent])
			conn.Close()
			waitOutcome(t, bed, "send")
			if sent < len(body) && route.calls.Load() != 0 {
				t.Error("the service was called for a message that was cut")
			}
			bed.CheckClean()
		})
	}
}

// TestHungUp has an information system go while the service works: both security servers say who went.
func TestHungUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer service.Close()
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: service.URL}})
	request, err := http.NewRequestWithContext(ctx, "POST", bed.URL, bytes.NewReader(testbed.Envelope(header(), "echo", "")))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "text/xml")
	if response, err := http.DefaultClient.Do(request); err == nil {
		response.Body.Close()
		t.Error("there is an answer")
	}
	for role, want := range map[string]string{"send": "the information system has hung up: ", "receive": "the other security server has hung up: "} {
		if o := waitOutcome(t, bed, role); o.Err == nil || !strings.Contains(o.Err.Error(), want) {
			t.Errorf("%s: %v", role, o.Err)
		}
	}
	bed.CheckClean()
}

// waitOutcome waits until an exchange of that role has ended.
func waitOutcome(t *testing.T, bed *testbed.Bed, role string) exchange.Outcome {
	t.Helper()
	for range 1000 {
		for _, o := range bed.Outcomes() {
			if o.Role == role {
				return o
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the exchange does not end")
	return exchange.Outcome{}
}

// TestCutBetweenServers breaks the connection between the security servers at every stage.
func TestCutBetweenServers(t *testing.T) {
	const next = "server.clientproxy.service_failed."
	tests := []struct {
		name   string
		middle func(next http.Handler) http.Handler
		want   string
	}{
		{"before the request is read", func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hangUp(w) })
		}, "server.clientproxy.network_error"},
		{"in the request", func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.CopyN(io.Discard, r.Body, 1<<19)
				hangUp(w)
			})
		}, "server.clientproxy.network_error"},
		{"after the request", func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				hangUp(w)
			})
		}, "server.clientproxy.network_error"},
		{"in the envelope of the response", cutAfter(300), next + "io_error"},
		{"in the attachment of the response", cutAfter(1 << 19), next + "io_error"},
		{"before the signature of the response", cutAt("signature/bdoc-1.0/ts"), next + "io_error"},
		{"in the response of the receiver's fault", func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/xml")
				w.Header().Set("Content-Length", "1000")
				io.WriteString(w, "<?xml version='1.0'?><s:Envelope ")
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
		}, next + "io_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{Route: testbed.Echo{Attach: true}, Middle: tt.middle})
			_, answer := post(t, bed, relatedType, bytes.NewReader(message()))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			bed.CheckClean()
		})
	}
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.Close()
}

// cutAfter lets so many octets of the response through.
func cutAfter(n int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer panicIfCut(next.ServeHTTP, &cutting{ResponseWriter: w, left: n}, r)
		})
	}
}

// cutAt lets the response through up to those octets, where they come in one piece.
func cutAt(octets string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer panicIfCut(next.ServeHTTP, &cutting{ResponseWriter: w, left: 1 << 30, at: []byte(octets)}, r)
		})
	}
}

func panicIfCut(serve http.HandlerFunc, w *cutting, r *http.Request) {
	serve(w, r)
	if w.done {
		panic(http.ErrAbortHandler)
	}
}

type cutting struct {
	http.ResponseWriter
	left int
	at   []byte
	done bool
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutting) Write(b []byte) (int, error) {
	if i := bytes.Index(b, c.at); c.at != nil && i >= 0 {
		c.left = i
	}
	if c.done || len(b) > c.left {
		if !c.done {
			c.ResponseWriter.Write(b[:c.left])
		}
		c.done = true
		return 0, errors.New("cut")
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// TestCutByService breaks the service's connection at every stage. What the service got is never a complete message
// where the exchange failed before its end, for nothing is sent before all of it is there.
func TestCutByService(t *testing.T) {
	const failed = "server.serverproxy.service_failed."
	tests := []struct {
		name  string
		serve func(conn net.Conn, r *bufio.Reader)
		want  string
	}{
		{"at once", func(net.Conn, *bufio.Reader) {}, failed + "network_error"},
		{"in the request", func(_ net.Conn, r *bufio.Reader) { r.Discard(1 << 18) }, failed + "network_error"},
		{"after a status line", func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		}, failed + "io_error"},
		{"a status line and a length", func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
		}, failed + "invalid_content_type"},
		{"in the answer", func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 100000\r\n\r\n"+string(testbed.Envelope(header(), "echoResponse", "")))
		}, failed + "io_error"},
		{"in an attachment of the answer", func(c net.Conn, r *bufio.Reader) {
			readRequest(r)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: 10000000\r\n\r\n", relatedType)
			c.Write(related(testbed.Envelope(header(), "echoResponse", ""), make([]byte, 1<<20))[:1<<19])
		}, failed + "io_error"},
		{"answers before it reads", func(c net.Conn, r *bufio.Reader) {
			r.Peek(1)
			answer := testbed.Envelope(header(), "echoResponse", "")
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
			readRequest(r)
		}, ""},
		{"no HTTP", func(c net.Conn, r *bufio.Reader) { r.ReadString('\n'); io.WriteString(c, "hello\r\n\r\n") }, failed + "network_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					tt.serve(conn, bufio.NewReader(conn))
					conn.Close()
				}
			}()
			bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: "http://" + listener.Addr().String()}})
			_, answer := post(t, bed, relatedType, bytes.NewReader(message()))
			got := faultCode(t, answer)
			if got != tt.want && !(tt.want == failed+"network_error" && got == failed+"io_error") {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			bed.CheckClean()
		})
	}
}

func readRequest(r *bufio.Reader) {
	if req, err := http.ReadRequest(r); err == nil {
		io.Copy(io.Discard, req.Body)
	}
}

// TestFaultWhileUploading: the consumer learns that it may not call while it still has much to send.
func TestFaultWhileUploading(t *testing.T) {
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{Allow: []exchange.Subject{}}})
	conn := dial(t, bed.URL)
	body := message()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", relatedType, 10<<30)
	conn.Write(body[:len(body)/2]) // and then it waits
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := faultCode(t, answer); got != "server.serverproxy.access_denied" || !response.Close {
		t.Errorf("got %q, closing %v", got, response.Close)
	}
	conn.Close()
	bed.CheckClean()
}

// TestFaultToWriter: a consumer that only reads after it has written everything gets the fault, too.
func TestFaultToWriter(t *testing.T) {
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{Allow: []exchange.Subject{}}})
	conn := dial(t, bed.URL)
	body := related(testbed.Envelope(header(), "echo", ""), make([]byte, 16<<20))
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", relatedType, len(body))
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := faultCode(t, answer); got != "server.serverproxy.access_denied" {
		t.Errorf("got %q", got)
	}
	bed.CheckClean()
}

// TestSpoolFull: a message that finds no room is refused, and the next one passes.
func TestSpoolFull(t *testing.T) {
	var full atomic.Bool
	bed := testbed.New(t, testbed.Options{Spool: func(s spool.Store) spool.Store { return fullStore{s, &full} }})
	full.Store(true)
	_, answer := post(t, bed, relatedType, bytes.NewReader(message()))
	if got := faultCode(t, answer); got != "server.serverproxy.io_error" && got != "server.clientproxy.logging_failed" {
		t.Errorf("got %q\n%s", got, answer)
	}
	full.Store(false)
	if _, answer := post(t, bed, relatedType, bytes.NewReader(message())); faultOf(t, answer) != "" {
		t.Errorf("%s", answer)
	}
	bed.CheckClean()
}

type fullStore struct {
	spool.Store
	full *atomic.Bool
}

func (s fullStore) Create(ctx context.Context) (spool.Entry, error) {
	e, err := s.Store.Create(ctx)
	return fullEntry{e, s.full}, err
}

type fullEntry struct {
	spool.Entry
	full *atomic.Bool
}

func (e fullEntry) Write(p []byte) (int, error) {
	if e.full.Load() && e.Size() > 1<<18 {
		return 0, fmt.Errorf("writing: %w", spool.ErrFull)
	}
	return e.Entry.Write(p)
}

// TestServiceGetsItWhole: with To, the service gets a request of known length.
func TestServiceGetsItWhole(t *testing.T) {
	lengths := make(chan int64, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lengths <- r.ContentLength
		for name := range r.Header {
			if strings.HasPrefix(name, "X-") || name == "User-Agent" || name == "Accept-Encoding" {
				t.Errorf("the service got the header %s", name)
			}
		}
		testbed.Echo{}.ServeHTTP(w, r)
	}))
	defer server.Close()
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: server.URL}})
	body := message()
	if _, answer := post(t, bed, relatedType, bytes.NewReader(body)); faultOf(t, answer) != "" {
		t.Errorf("%s", answer)
	}
	if got := <-lengths; got != int64(len(body)) {
		t.Errorf("Content-Length %d, want %d", got, len(body))
	}
	bed.CheckClean()
}
