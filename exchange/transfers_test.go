// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/soap"
)

// begun is an exchange that a consumer has begun over a connection of its own.
type begun struct {
	t      *testing.T
	conn   net.Conn
	answer *bufio.Reader
}

// begin sends the first octets of a body that will have so many.
func begin(t *testing.T, bed *testbed.Bed, body []byte, sent int) *begun {
	t.Helper()
	conn := dial(t, bed.URL)
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetReadBuffer(64 << 10)
	}
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", relatedType, len(body))
	go conn.Write(body[:sent])
	return &begun{t, conn, bufio.NewReader(conn)}
}

// end returns the answer.
func (b *begun) end() ([]byte, error) {
	b.conn.SetReadDeadline(time.Now().Add(time.Minute))
	response, err := http.ReadResponse(b.answer, nil)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(response.Body)
}

// transferOf waits for the exchange of a message in a phase, where "" is any message.
func transferOf(t *testing.T, s *exchange.SecurityServer, phase, id string) exchange.Transfer {
	t.Helper()
	var seen []exchange.Transfer
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		seen = s.Transfers()
		for _, x := range seen {
			if x.Phase == phase && (id == "" || x.MessageID == id) {
				return x
			}
		}
	}
	t.Fatalf("%s has no exchange in the phase %q, but %+v", s.ID, phase, seen)
	return exchange.Transfer{}
}

// noTransfers waits until a server has no exchanges.
func noTransfers(t *testing.T, servers ...*exchange.SecurityServer) {
	t.Helper()
	for _, s := range servers {
		for deadline := time.Now().Add(20 * time.Second); len(s.Transfers()) > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s still has %+v", s.ID, s.Transfers())
			}
		}
	}
}

// holding is an evidence store that keeps nothing before it is let go.
type holding struct {
	evidence.Store
	until chan struct{}
}

func (h holding) Put(ctx context.Context, r *evidence.Record) (func() error, error) {
	<-h.until
	return h.Store.Put(ctx, r)
}

// deaf is a service that takes a connection and reads nothing of it.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// TestTransferAtEachPhase holds an exchange at each phase, sees it there and cancels it there.
func TestTransferAtEachPhase(t *testing.T) {
	small := message()
	large := related(testbed.Envelope(header(), "echo", ""), make([]byte, 12<<20))
	waits := func(answer []byte) http.Handler { // answers so much, and waits until it is not wanted any more
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if answer != nil {
				w.Header().Set("Content-Type", relatedType)
				w.Header().Set("Content-Length", fmt.Sprint(len(small)))
				w.Write(answer)
				http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
	}
	served := httptest.NewServer(waits(small[:len(small)/2]))
	defer served.Close()
	const sender, receiver = "server.clientproxy.io_error", "server.serverproxy.io_error"
	early := func(s *exchange.SecurityServer) {
		for client, caller := range s.Local.Clients {
			caller.Delivery = exchange.Gated
			s.Local.Clients[client] = caller
		}
	}
	let, files, envelope := make(chan struct{}), t.TempDir(), len(testbed.Envelope(header(), "echo", ""))
	for _, tt := range []struct {
		role, phase string
		how         string
		options     testbed.Options
		body        []byte
		sent        int
		octets      [2]int // at least, at most
		total       int
		peer        string // the phase of the other side, if it takes part
		want        string // of the fault; "" is a broken answer
	}{
		{role: "send", phase: "reading envelope", body: small, sent: 300, octets: [2]int{1, 300}, total: len(small), want: sender},
		{role: "send", phase: "connecting", body: small, sent: len(small), octets: [2]int{300, len(small)}, total: len(small), want: sender,
			options: testbed.Options{Sender: func(s *exchange.SecurityServer) {
				s.Peers = peer.New(peer.Config{Trust: s.Trust, Certificate: s.Keys.Auth, Clock: time.Now, Transport: &http.Transport{
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
				}})
			}}},
		{role: "send", phase: "uploading", body: small, sent: len(small) / 2, octets: [2]int{len(small) / 4, len(small) / 2}, total: len(small), peer: "receiving", want: sender},
		{role: "send", phase: "waiting for answer", body: small, sent: len(small), octets: [2]int{len(small), len(small)}, total: len(small), peer: "waiting for service", want: sender,
			options: testbed.Options{Route: waits(nil)}},
		{role: "send", phase: "receiving answer", body: small, sent: len(small), octets: [2]int{1, len(small)}, total: -1, peer: "answering", want: sender,
			options: testbed.Options{Route: waits(small[:len(small)/2])}},
		{role: "send", phase: "delivering", body: large, sent: len(large), octets: [2]int{1, len(large) - 1}, total: -2, want: "",
			options: testbed.Options{Route: testbed.Echo{Attach: true}}},
		{role: "send", phase: "receiving answer", how: "gated", body: small, sent: len(small), octets: [2]int{1, len(small)}, total: -1, peer: "answering", want: "",
			options: testbed.Options{Route: waits(small[:len(small)/2]), Sender: early}},
		{role: "send", phase: "delivering", how: "gated", body: large, sent: len(large), octets: [2]int{1, len(large) - 1}, total: -2, want: "",
			options: testbed.Options{Route: testbed.Echo{Attach: true}, Sender: early}},

		{role: "receive", phase: "receiving", body: small, sent: len(small) / 2, octets: [2]int{len(small) / 4, len(small)}, total: len(small), peer: "uploading", want: receiver},
		{role: "receive", phase: "receiving", how: "gated", body: large, sent: len(large) / 2, octets: [2]int{len(large) / 4, len(large)}, total: len(large), peer: "uploading", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: deaf(t), Delivery: exchange.Gated}}},
		{role: "receive", phase: "verifying", body: small, sent: len(small), octets: [2]int{len(small), len(small)}, total: len(small), peer: "waiting for answer", want: receiver,
			options: testbed.Options{Receive: func(s *exchange.SecurityServer) { s.Evidence = holding{s.Evidence, let} }}},
		{role: "receive", phase: "forwarding", body: large, sent: len(large), octets: [2]int{1, len(large) - 1}, total: len(large), peer: "waiting for answer", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: deaf(t)}}},
		{role: "receive", phase: "forwarding", how: "gated", body: large, sent: len(large), octets: [2]int{1, len(large) - 1}, total: len(large), peer: "waiting for answer", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: deaf(t), Delivery: exchange.Gated}}},
		{role: "receive", phase: "waiting for service", body: small, sent: len(small), octets: [2]int{len(small), len(small)}, total: len(small), peer: "waiting for answer", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: deaf(t)}}},
		{role: "receive", phase: "waiting for service", how: "files", body: small, sent: len(small), octets: [2]int{envelope, envelope}, total: envelope, peer: "waiting for answer", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: deaf(t), Delivery: exchange.ByFile, Files: exchange.Files{Dir: files}}}},
		{role: "receive", phase: "waiting for service", how: "route", body: small, sent: len(small), octets: [2]int{len(small), len(small)}, total: len(small), peer: "waiting for answer", want: receiver,
			options: testbed.Options{Route: waits(nil)}},
		{role: "receive", phase: "answering", body: small, sent: len(small), octets: [2]int{1, len(small)}, total: len(small), peer: "receiving answer", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: served.URL}}},
		{role: "receive", phase: "answering", how: "gated", body: large, sent: len(large), octets: [2]int{1, len(small)}, total: len(small), peer: "receiving answer", want: receiver,
			options: testbed.Options{Service: exchange.Service{To: served.URL, Delivery: exchange.Gated}}},
		{role: "receive", phase: "answering", how: "route", body: small, sent: len(small), octets: [2]int{1, len(small)}, total: len(small), peer: "receiving answer", want: receiver,
			options: testbed.Options{Route: waits(small[:len(small)/2])}},
	} {
		t.Run(strings.Join(strings.Fields(tt.role+" "+tt.phase+" "+tt.how), " "), func(t *testing.T) {
			bed := testbed.New(t, tt.options)
			here, there := bed.Sender, bed.Receiver
			if tt.role == "receive" {
				here, there = there, here
			}
			b := begin(t, bed, tt.body, tt.sent)
			x := transferOf(t, here, tt.phase, "")
			for deadline := time.Now().Add(10 * time.Second); (x.Octets < int64(tt.octets[0]) || tt.total >= 0 && x.Total != int64(tt.total)) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
				x = transferOf(t, here, tt.phase, "") // it is on its way
			}
			if x.Octets < int64(tt.octets[0]) || x.Octets > int64(tt.octets[1])+8<<10 || tt.total != -2 && x.Total != int64(tt.total) {
				t.Errorf("%d octets of %d, want from %d to %d of %d", x.Octets, x.Total, tt.octets[0], tt.octets[1], tt.total)
			}
			if x.Role != tt.role || !strings.HasSuffix(x.ID, "-"+tt.role) || x.Begun.IsZero() || x.Cancelled {
				t.Errorf("%+v", x)
			}
			if tt.phase != "reading envelope" {
				h := header()
				if x.MessageID != h.ID || x.Client != h.Client || x.Service != h.Service || (x.Peer != there.ID.String()) != (tt.phase == "connecting") {
					t.Errorf("%+v", x)
				}
			}
			if tt.peer != "" {
				if y := transferOf(t, there, tt.peer, ""); y.RequestID != x.RequestID || y.ID == x.ID {
					t.Errorf("the other side has %+v, this one %+v", y, x)
				}
			}
			if !here.Cancel(x.ID) {
				t.Fatal("it has gone")
			}
			if tt.phase == "verifying" {
				if y := transferOf(t, here, tt.phase, ""); !y.Cancelled || y.ID != x.ID {
					t.Errorf("%+v", y)
				}
				close(let)
			}
			if answer, err := b.end(); tt.want == "" {
				// Where nothing of it had been passed on yet, a fault stands in its place.
				if err == nil && !bytes.Contains(answer, []byte("cancelled by the operator of security server "+here.ID.String())) {
					t.Errorf("the answer is whole: %d octets", len(answer))
				}
			} else if err != nil {
				t.Error(err)
			} else if got, text := faultCode(t, answer), "cancelled by the operator of security server "+here.ID.String(); got != tt.want || !bytes.Contains(answer, []byte(text)) {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			b.conn.Close()
			noTransfers(t, here, there)
			if here.Cancel(x.ID) {
				t.Error("it can be cancelled again")
			}
			bed.CheckClean()
		})
	}
}

// TestCancelledRequestReachesNobody has a service never called for what was cancelled before it was called, and a gated
// one see what it got broken off.
func TestCancelledRequestReachesNobody(t *testing.T) {
	request := related(testbed.Envelope(header(), "echo", ""), bytes.Repeat([]byte("0123456789abcde\n"), 2<<16))
	for name, delivery := range map[string]exchange.Delivery{"strict": exchange.Strict, "gated": exchange.Gated} {
		t.Run(name, func(t *testing.T) {
			service := newPatient()
			route := &counted{Handler: service}
			server := httptest.NewServer(route)
			defer server.Close()
			bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: server.URL + "/", Delivery: delivery}})
			b := begin(t, bed, request, 3<<19)
			x := transferOf(t, bed.Receiver, "receiving", header().ID)
			if delivery == exchange.Gated {
				<-service.begun
			}
			bed.Receiver.Cancel(x.ID)
			answer, err := b.end()
			if err != nil || faultCode(t, answer) != "server.serverproxy.io_error" {
				t.Errorf("%v\n%s", err, answer)
			}
			b.conn.Close()
			noTransfers(t, bed.Sender, bed.Receiver)
			if delivery == exchange.Strict {
				if n := route.calls.Load(); n != 0 {
					t.Errorf("the service was called %d times", n)
				}
			} else if got := <-service.got; got.err == io.EOF {
				t.Errorf("the service got a whole request of %d octets", len(got.octets))
			}
			bed.CheckClean()
		})
	}
}

// TestCancelOneOfMany leaves the others alone.
func TestCancelOneOfMany(t *testing.T) {
	bed := testbed.New(t, testbed.Options{Route: testbed.Echo{}})
	var all []*begun
	var bodies [][]byte
	for n := range 5 {
		h := header()
		h.ID = fmt.Sprint("number ", n)
		body := related(testbed.Envelope(h, "echo", ""), bytes.Repeat([]byte{'a'}, 1<<20))
		bodies, all = append(bodies, body), append(all, begin(t, bed, body, len(body)/2))
		transferOf(t, bed.Receiver, "receiving", h.ID)
	}
	seen := bed.Receiver.Transfers()
	for n, x := range seen {
		if x.MessageID != fmt.Sprint("number ", n) {
			t.Errorf("the transfers are not in the order of their beginning: %+v", seen)
		}
	}
	if len(seen) != 5 || !bed.Receiver.Cancel(seen[1].ID) || !bed.Sender.Cancel(transferOf(t, bed.Sender, "uploading", "number 3").ID) {
		t.Fatalf("%+v", seen)
	}
	for n, b := range all {
		want := ""
		switch n {
		case 1:
			want = "server.serverproxy.io_error"
		case 3:
			want = "server.clientproxy.io_error"
		default:
			go b.conn.Write(bodies[n][len(bodies[n])/2:])
		}
		if answer, err := b.end(); err != nil || faultOf(t, answer) != want {
			t.Errorf("number %d: %v, want %q\n%s", n, err, want, answer)
		}
		b.conn.Close()
	}
	noTransfers(t, bed.Sender, bed.Receiver)
	bed.CheckClean()
}

// TestCancelReachesABusyConsumer has one that sends without a pause, in chunks, and reads only then get its fault.
func TestCancelReachesABusyConsumer(t *testing.T) {
	for _, role := range []string{"send", "receive"} {
		t.Run(role, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{})
			stop := make(chan struct{})
			body := io.MultiReader(bytes.NewReader(message()[:1<<19]), &endless{stop: stop, pace: time.Millisecond})
			answered := make(chan []byte, 1)
			go func() {
				_, answer := post(t, bed, relatedType, body)
				answered <- answer
			}()
			here, phase := bed.Sender, "uploading"
			if role == "receive" {
				here, phase = bed.Receiver, "receiving"
			}
			here.Cancel(transferOf(t, here, phase, header().ID).ID)
			answer := <-answered
			close(stop)
			if !bytes.Contains(answer, []byte("cancelled by the operator of security server "+here.ID.String())) {
				t.Errorf("%s", answer)
			}
			noTransfers(t, bed.Sender, bed.Receiver)
			bed.CheckClean()
		})
	}
}

// endless yields octets until it is stopped.
type endless struct {
	stop chan struct{}
	pace time.Duration
}

func (e *endless) Read(p []byte) (int, error) {
	select {
	case <-e.stop:
		return 0, io.EOF
	case <-time.After(e.pace):
		n := min(len(p), 4<<10)
		clear(p[:n])
		return n, nil
	}
}

// TestTransferIDs: what peers choose as request id makes no two exchanges one, and stands in no URL as it is.
func TestTransferIDs(t *testing.T) {
	for name, tt := range map[string]struct {
		id   string
		kept bool
	}{
		"as X-Road makes them": {"f47ac10b-58cc-4372-a567-0e02b2c3d479", true},
		"none":                 {"", false},
		"a path":               {"../../config", false},
		"an option":            {"--all", false},
		"with a query":         {"a?b", false},
	} {
		t.Run(name, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{})
			for range 2 {
				conn, err := tls.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(bed.PeerURL, "https://"), "/"), bed.PeerTransport().TLSClientConfig)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/mixed; boundary=x\r\nx-hash-algorithm: SHA-512\r\nx-road-request-id: %s\r\nContent-Length: 1000\r\n\r\n--x", tt.id)
			}
			for deadline := time.Now().Add(20 * time.Second); len(bed.Receiver.Transfers()) < 2 && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			seen := bed.Receiver.Transfers()
			if len(seen) != 2 || seen[0].ID == seen[1].ID || seen[0].RequestID != tt.id || seen[1].RequestID != tt.id {
				t.Fatalf("%+v", seen)
			}
			kept := 0
			for _, x := range seen {
				if x.ID == tt.id+"-receive" {
					kept++
				}
				if strings.ContainsAny(x.ID, "/?#%") || x.ID[0] == '-' {
					t.Errorf("the id %q", x.ID)
				}
			}
			if (kept == 1) != tt.kept {
				t.Errorf("%d exchanges have their request id: %+v", kept, seen)
			}
			for _, x := range seen {
				bed.Receiver.Cancel(x.ID)
			}
			noTransfers(t, bed.Receiver)
			bed.CheckClean()
		})
	}
}

// TestRoundTripperEndsTransfer: without an HTTP server, the closing of the body ends it.
func TestRoundTripperEndsTransfer(t *testing.T) {
	for name, id := range map[string]string{"answered": "id-1", "refused": ""} {
		t.Run(name, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{})
			req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(changed(func(h *soap.Header) { h.ID = id })))
			req.Header.Set("Content-Type", "text/xml")
			req.RemoteAddr = "127.0.0.1:1"
			response, err := (&exchange.Sender{Server: bed.Sender}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if id != "" {
				transferOf(t, bed.Sender, "delivering", id)
			}
			response.Body.Close()
			noTransfers(t, bed.Sender, bed.Receiver)
			bed.CheckClean()
		})
	}
}
