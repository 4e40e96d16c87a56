// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
)

// admit gives a security server so many places.
func admit(a exchange.Admission) func(*exchange.SecurityServer) {
	return func(s *exchange.SecurityServer) { s.Admission = a }
}

// A refusal comes soon in a test that wants it, and late in one that does not.
const (
	refusedSoon = 5 * time.Millisecond
	refusedLate = time.Minute
)

// loaded waits until a load is as it should be.
func loaded(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// TestPlaceIsGivenBack ends an exchange in every way at servers that have one place for exchanges. The next one finds it.
func TestPlaceIsGivenBack(t *testing.T) {
	large := related(testbed.Envelope(header(), "echo", ""), make([]byte, 8<<20))
	envelope := testbed.Envelope(header(), "echo", "")
	fails := func(want string, body []byte) func(*testing.T, *testbed.Bed) {
		return func(t *testing.T, bed *testbed.Bed) {
			if _, answer := post(t, bed, "text/xml", bytes.NewReader(body)); faultCode(t, answer) != want {
				t.Errorf("got %s", answer)
			}
		}
	}
	goes := func(phase string, body []byte, sent int, receiving bool) func(*testing.T, *testbed.Bed) {
		return func(t *testing.T, bed *testbed.Bed) {
			b := begin(t, bed, body, sent)
			if receiving {
				transferOf(t, bed.Receiver, phase, "")
			} else {
				transferOf(t, bed.Sender, phase, "")
			}
			b.conn.Close()
		}
	}
	cancelled := func(phase string, receiving bool) func(*testing.T, *testbed.Bed) {
		return func(t *testing.T, bed *testbed.Bed) {
			b := begin(t, bed, large, len(large)/2)
			s := bed.Sender
			if receiving {
				s = bed.Receiver
			}
			s.Cancel(transferOf(t, s, phase, "").ID)
			if answer, err := b.end(); err != nil || !bytes.Contains(answer, []byte("cancelled by the operator")) {
				t.Errorf("%v: %s", err, answer)
			}
			b.conn.Close()
		}
	}
	early := func(s *exchange.SecurityServer) {
		for client := range s.Local.Clients {
			s.Local.Clients[client] = exchange.Caller{Delivery: exchange.Gated}
		}
	}
	for _, tt := range []struct {
		name   string
		first  http.HandlerFunc // the service of the first exchange; nil: Echo
		middle func(http.Handler) http.Handler
		sender func(*exchange.SecurityServer)
		gated  bool
		end    func(*testing.T, *testbed.Bed)
	}{
		{name: "answered", end: fails("", envelope)},
		{name: "no envelope", end: fails("client.invalid_soap", []byte("x"))},
		{name: "refused by the sender", end: fails("server.clientproxy.unknown_member", changed(func(h *soap.Header) { h.Client.Subsystem = "none" }))},
		{name: "refused by the receiver", end: fails("server.serverproxy.unknown_service", changed(func(h *soap.Header) { h.Service.Code = "ech" }))},
		{name: "no peer", end: fails("server.clientproxy.unknown_member", changed(func(h *soap.Header) { h.Service.Client.Member = "none" }))},
		{name: "status of the service", end: fails("server.serverproxy.service_failed.http_error", envelope),
			first: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }},
		{name: "no answer of the route", end: fails("server.serverproxy.service_failed.io_error", envelope),
			first: func(http.ResponseWriter, *http.Request) {}},
		{name: "panic of the route", end: fails("server.serverproxy.service_failed.io_error", envelope),
			first: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{name: "peer gone", end: fails("server.clientproxy.network_error", envelope),
			middle: func(next http.Handler) http.Handler {
				var calls atomic.Int64
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if calls.Add(1) == 1 {
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(w, r)
				})
			}},
		{name: "consumer gone in the envelope", end: goes("reading envelope", large, 300, false)},
		{name: "consumer gone in the upload", end: goes("uploading", large, len(large)/2, false)},
		{name: "consumer gone in the upload, gated", end: goes("receiving", large, len(large)/2, true), gated: true},
		{name: "consumer gone while the service works", end: goes("waiting for service", large, len(large), true),
			first: func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}},
		{name: "consumer does not read", end: goes("delivering", large, len(large), false)},
		{name: "consumer does not read, gated", end: goes("delivering", large, len(large), false), sender: early},
		{name: "cancelled at the sender", end: cancelled("uploading", false)},
		{name: "cancelled at the receiver", end: cancelled("receiving", true)},
		{name: "cancelled at the receiver, gated", end: cancelled("receiving", true), gated: true},
		{name: "answer closed unread", end: func(t *testing.T, bed *testbed.Bed) {
			req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(large))
			req.Header.Set("Content-Type", relatedType)
			req.RemoteAddr = "127.0.0.1:1"
			response, err := (&exchange.Sender{Server: bed.Sender}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if _, sending, _ := bed.Sender.Load(); sending.Exchanges != 1 {
				t.Errorf("%+v", sending)
			}
			response.Body.Close()
			response.Body.Close()
		}},
		{name: "list of clients", end: func(t *testing.T, bed *testbed.Bed) {
			response, err := http.Get(bed.URL + "listClients")
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatal(err, response)
			}
			response.Body.Close()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			one := exchange.Admission{All: 1, Peer: 1, Wait: refusedLate}
			route := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) == 1 && tt.first != nil {
					tt.first(w, r)
					return
				}
				testbed.Echo{Attach: true}.ServeHTTP(w, r)
			})
			options := testbed.Options{Route: route, Middle: tt.middle, Receive: admit(one), Sender: func(s *exchange.SecurityServer) {
				s.Admission = one
				if tt.sender != nil {
					tt.sender(s)
				}
			}}
			if tt.gated {
				server := httptest.NewServer(route)
				defer server.Close()
				options.Service = exchange.Service{To: server.URL, Delivery: exchange.Gated}
			}
			bed := testbed.New(t, options)
			tt.end(t, bed)
			if _, answer := post(t, bed, "text/xml", bytes.NewReader(envelope)); faultCode(t, answer) != "" {
				t.Errorf("the next one gets %s", answer)
			}
			bed.CheckClean()
		})
	}
}

// held is a service that answers when it is let go, and says how many it works for.
type held struct {
	let  chan struct{}
	have atomic.Int64
}

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.have.Add(1)
	select {
	case <-h.let:
	case <-r.Context().Done():
	}
	testbed.Echo{}.ServeHTTP(w, r)
}

// TestBusy has one exchange more than there may be, at the sender and at the receiver: it is refused in the end, and leaves
// no evidence where it is.
func TestBusy(t *testing.T) {
	const receiver, sender = "server.serverproxy.io_error", "server.clientproxy.io_error"
	inAll := exchange.Admission{All: 1, Peer: 1, Wait: refusedSoon}
	one := exchange.Admission{All: 2, Peer: 1, Wait: refusedSoon}
	envelope := testbed.Envelope(header(), "echo", "")
	large := related(envelope, make([]byte, 16<<20))
	for _, tt := range []struct {
		name             string
		sender, receiver exchange.Admission
		kind             string
		body             []byte
		kept             bool // the connection, though its request was refused
		code, want       string
	}{
		{"receiver", exchange.Admission{}, inAll, "text/xml", envelope, true, receiver,
			"this security server has 1 exchanges as the receiver with security server DEV/GOV/1111/ss1, as many as may be at once: try again after 5ms (setting: peer in exchanges)"},
		{"receiver, large", exchange.Admission{}, inAll, relatedType, large, false, receiver, "as the receiver"},
		{"sender", one, exchange.Admission{}, "text/xml", envelope, true, sender,
			"this security server has 1 exchanges as the sender with security server DEV/GOV/0000/ss2, as many as may be at once: try again after 5ms (setting: peer in exchanges)"},
		{"sender, large", one, exchange.Admission{}, relatedType, large, false, sender, "as the sender"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := &held{let: make(chan struct{})}
			var told sync.Map // what receivers said in the header
			bed := testbed.New(t, testbed.Options{Route: service, Sender: admit(tt.sender), Receive: admit(tt.receiver),
				Middle: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						next.ServeHTTP(w, r)
						told.Store(w.Header().Get("Retry-After"), w.Header().Get("Connection"))
					})
				}})
			first := make(chan []byte, 1)
			go func() {
				_, answer := post(t, bed, "text/xml", bytes.NewReader(envelope))
				first <- answer
			}()
			loaded(t, "the first has not come", func() bool { return service.have.Load() == 1 })

			response, err := http.Post(bed.URL, tt.kind, bytes.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(response.Body)
			response.Body.Close()
			if got := faultCode(t, answer); err != nil || got != tt.code || !bytes.Contains(answer, []byte(tt.want)) || response.StatusCode != http.StatusOK {
				t.Errorf("got %q, want %q that says %q\n%s %v", got, tt.code, tt.want, answer, err)
			}
			here := bed.Sender
			if tt.code == receiver {
				here = bed.Receiver
				loaded(t, "the sender was not told to retry", func() bool { _, ok := told.Load("1"); return ok })
				if connection, _ := told.Load("1"); (connection == "") != tt.kept {
					t.Errorf("the sender was told of the connection %q", connection)
				}
			} else if response.Header.Get("Retry-After") != "1" || response.Close == tt.kept {
				t.Errorf("the header is %v, the connection is closed: %v", response.Header, response.Close)
			}
			_, sending, receiving := here.Load()
			if sending.Refused+receiving.Refused != 1 {
				t.Errorf("%+v, %+v", sending, receiving)
			}
			close(service.let)
			if answer := <-first; faultCode(t, answer) != "" {
				t.Errorf("the first one gets %s", answer)
			}
			bed.CheckClean()
			records := 0
			for _, err := range here.Evidence.Find(t.Context(), evidence.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				records++
			}
			if records != 2 {
				t.Errorf("%d records of evidence, not those of the first exchange", records)
			}
		})
	}
}

// TestBusyWaits has one exchange more than there may be wait for its turn, which comes, or be cancelled before.
func TestBusyWaits(t *testing.T) {
	one := exchange.Admission{All: 1, Peer: 1, Wait: refusedLate}
	for _, tt := range []struct {
		name    string
		options testbed.Options
		cancel  bool
		code    string
	}{
		{"at the receiver", testbed.Options{Receive: admit(one)}, false, ""},
		{"at the sender", testbed.Options{Sender: admit(one)}, false, ""},
		{"cancelled at the receiver", testbed.Options{Receive: admit(one)}, true, "server.serverproxy.io_error"},
		{"cancelled at the sender", testbed.Options{Sender: admit(one)}, true, "server.clientproxy.io_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := &held{let: make(chan struct{})}
			tt.options.Route = service
			bed := testbed.New(t, tt.options)
			here := bed.Sender
			if tt.options.Receive != nil {
				here = bed.Receiver
			}
			answers := make(chan []byte, 2)
			ask := func() {
				_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
				answers <- answer
			}
			go ask()
			loaded(t, "the first has not come", func() bool { return service.have.Load() == 1 })
			go ask()
			x := transferOf(t, here, "waiting for its turn", "")
			if service.have.Load() != 1 {
				t.Error("it does not wait")
			}
			if tt.cancel {
				here.Cancel(x.ID)
				if answer := <-answers; faultCode(t, answer) != tt.code || !bytes.Contains(answer, []byte("cancelled by the operator")) {
					t.Errorf("the cancelled one gets %s", answer)
				}
			}
			close(service.let)
			for range 2 {
				if tt.cancel {
					tt.cancel = false
					continue
				}
				if answer := <-answers; faultCode(t, answer) != "" {
					t.Errorf("got %s", answer)
				}
			}
			bed.CheckClean()
		})
	}
}

// TestDribblers has two hundred connections on which nearly nothing comes. They take the places of their own, and messages
// of others pass.
func TestDribblers(t *testing.T) {
	const many, all, one = 200, 40, 20
	limits := exchange.Admission{All: all, Peer: one, Wait: refusedSoon}
	const envelope = `<?xml version="1.0"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Header>`
	for _, tt := range []struct {
		name    string
		options testbed.Options
		dial    func(bed *testbed.Bed) (net.Conn, error)
		kind    string
		first   string
		load    func(bed *testbed.Bed) exchange.Load
	}{
		{"a peer, at the receiver", testbed.Options{Receive: admit(limits)},
			func(bed *testbed.Bed) (net.Conn, error) {
				return tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(bed.PeerURL, "https://"), "/"), &tls.Config{
					InsecureSkipVerify: true, // the test knows whom it calls
					Certificates:       []tls.Certificate{*bed.Receiver.Keys.Auth()},
				})
			}, "multipart/mixed; boundary=x\r\nx-hash-algorithm: SHA-512", "--x",
			func(bed *testbed.Bed) exchange.Load { _, _, l := bed.Receiver.Load(); return l }},
		{"an information system, at the sender", testbed.Options{Sender: admit(limits)},
			func(bed *testbed.Bed) (net.Conn, error) {
				dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
				return dialer.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(bed.URL, "http://"), "/"))
			}, "text/xml", envelope,
			func(bed *testbed.Bed) exchange.Load { l, _, _ := bed.Sender.Load(); return l }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bed := testbed.New(t, tt.options)
			for range many {
				conn, err := tt.dial(bed)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 100000\r\n\r\n%s", tt.kind, tt.first)
			}
			loaded(t, "not all of them were refused", func() bool { return tt.load(bed).Refused == many-one })
			for range 2 * all {
				if _, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", ""))); faultCode(t, answer) != "" {
					t.Fatalf("a message of somebody else gets %s", answer)
				}
			}
			if l := tt.load(bed); l.Exchanges < one || l.Refused != many-one {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestLingerersAreFew: of refused requests that do not end, some are waited for, and no more.
func TestLingerersAreFew(t *testing.T) {
	bed := testbed.New(t, testbed.Options{Sender: admit(exchange.Admission{All: 1, Peer: 1, Wait: refusedLate})})
	refused := func() (net.Conn, *bufio.Reader) {
		conn := dial(t, bed.URL)
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: 1000000\r\n\r\n%s",
			changed(func(h *soap.Header) { h.Client.Subsystem = "none" }))
		in := bufio.NewReader(conn)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(response.Body); err != nil || faultCode(t, answer) != "server.clientproxy.unknown_member" {
			t.Errorf("%v: %s", err, answer)
		}
		return conn, in
	}
	first, in := refused()
	// Its answer comes before it is waited for.
	loaded(t, "the first is not waited for", func() bool { return exchange.Lingering(bed.Sender).Exchanges == 1 })
	_, next := refused()
	if n, err := next.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the second gets %d octets more, %v", n, err)
	}
	first.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first is not waited for: %v", err)
	}
	first.Close()
	bed.CheckClean()
}

// TestBusyList: the list of clients takes a place, too.
func TestBusyList(t *testing.T) {
	bed := testbed.New(t, testbed.Options{Sender: admit(exchange.Admission{All: 1, Peer: 1, Wait: refusedSoon})})
	begin(t, bed, message(), 300)
	transferOf(t, bed.Sender, "reading envelope", "")
	response, err := http.Get(bed.URL + "listClients")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err := io.ReadAll(response.Body); err != nil || faultCode(t, answer) != "server.clientproxy.io_error" || response.Header.Get("Retry-After") != "1" {
		t.Errorf("%v, %v: %s", err, response.Header, answer)
	}
}
