// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// connKey is under which a request's context has its connection.
type connKey struct{}

// own starts a security server of the provider with that handler, and returns a way to it and a function that restarts it.
func own(t *testing.T, version uint16, handler http.HandlerFunc) (p *place, restart func()) {
	t.Helper()
	authority, err := dev.Open(t.Context(), testbed.NewStorage(), "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p = &place{Authority: authority}
	cert, err := authority.AuthKey(t.Context(), server("ss2"))
	if err != nil {
		t.Fatal(err)
	}
	var running *http.Server
	start := func(address string) string {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		running = &http.Server{
			ConnState: func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					p.connections.Add(1)
				}
			},
			Handler:     handler,
			ErrorLog:    log.New(io.Discard, "", 0),
			ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		}
		go running.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}))
		return l.Addr().String()
	}
	address := start("127.0.0.1:0")
	t.Cleanup(func() { running.Close() })
	p.store, err = authority.Trust(t.Context(), []dev.Server{
		{ID: server("ss2"), Address: address, OCSPAddress: p.serveOCSP(t, cert.Leaf), Clients: []ident.Client{provider}},
		{ID: sender, Address: "127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, func() {
		running.Close()
		start(address)
	}
}

// closeNow closes a request's connection below TLS.
func closeNow(r *http.Request) { r.Context().Value(connKey{}).(*tls.Conn).NetConn().Close() }

// TestAgain: a body goes out once more, over a new connection, only if it can, only once, and only where a kept connection
// was closed before anything was answered.
func TestAgain(t *testing.T) {
	const early = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
	for _, c := range []struct {
		name    string
		first   bool // a request has been answered before, so that there is a kept connection
		never   bool // the body cannot be sent again
		cuts    int32
		says    string // before a cut
		written int32
		cause   string
	}{
		{"kept", true, false, 1, "", 2, ""},
		{"kept, and the body cannot", true, true, 1, "", 1, "network_error"},
		{"kept, and the new one, too", true, false, 2, "", 2, "network_error"},
		{"kept, but the peer has begun to answer", true, false, 1, early, 1, "network_error"},
		{"new", false, false, 1, "", 1, "network_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cuts atomic.Int32
			p, _ := own(t, tls.VersionTLS13, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if cuts.Add(-1) < 0 {
					return
				}
				if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
					io.WriteString(conn, c.says)
					conn.Close()
				}
			})
			pool := p.pool(t, p.store)
			if c.first {
				if _, _, err := post(t.Context(), pool, nil); err != nil {
					t.Fatal(err)
				}
			}
			cuts.Store(c.cuts)
			b := &body{text: "hello"}
			if c.never {
				b.again.Store(1)
			}
			err := postBody(t.Context(), pool, b)
			if cause(err) != c.cause || (err == nil) != (c.cause == "") {
				t.Errorf("got %q: %v", cause(err), err)
			}
			if b.written.Load() != c.written || b.closed.Load() != 1 {
				t.Errorf("the body was written %d times and closed %d times, want %d and once", b.written.Load(), b.closed.Load(), c.written)
			}
		})
	}
}

func postBody(ctx context.Context, pool *peer.Pool, b *body) error {
	response, _, err := pool.Post(ctx, peer.Request{
		Provider: provider, Header: http.Header{}, Body: b,
		Towards: func(ident.Server) error { return nil },
		Judged:  func(ident.Server, bool, http.Header) {}, Akin: func(http.Header) bool { return false },
	})
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	return err
}

// TestPeerRestarts: with the first message after a restart of the peer all is well.
func TestPeerRestarts(t *testing.T) {
	p, restart := own(t, tls.VersionTLS13, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	pool := p.pool(t, p.store)
	for range 20 {
		var all sync.WaitGroup
		for range 4 { // connections
			all.Go(func() {
				if err := postBody(t.Context(), pool, &body{text: strings.Repeat("x", 1000)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		restart()
	}
}

// TestRestlessPeer: a peer closes each connection with its second to fifth answer, at some moment, so that the next message may
// have left already.
func TestRestlessPeer(t *testing.T) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(3, 4))
	left := make(map[any]int)
	p, _ := own(t, tls.VersionTLS13, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn := r.Context().Value(connKey{})
		mu.Lock()
		defer mu.Unlock()
		n, known := left[conn]
		if !known {
			n = 2 + random.IntN(4) // a new one lasts for one answer: what is sent over it is not sent again
		}
		if left[conn] = n - 1; n == 1 {
			time.AfterFunc(time.Duration(500+random.IntN(1000))*time.Microsecond, func() { closeNow(r) })
		}
	})
	pool := p.pool(t, p.store)
	again := 0
	for range 200 {
		b := &body{text: "hello"}
		if err := postBody(t.Context(), pool, b); err != nil {
			t.Error(err)
		}
		again += int(b.again.Load())
	}
	t.Logf("%d of 200 messages were sent again", again)
}

// TestManyAtOnce: connections that were needed at one time are kept for the next.
func TestManyAtOnce(t *testing.T) {
	const many = 200
	var arrived sync.WaitGroup
	p, _ := own(t, tls.VersionTLS13, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		arrived.Done()
		arrived.Wait()
	})
	pool := p.pool(t, p.store)
	var before, after runtime.MemStats
	for range 3 {
		runtime.GC()
		runtime.ReadMemStats(&before)
		arrived.Add(many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				if err := postBody(t.Context(), pool, &body{text: "hello"}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := p.connections.Load(); n != many {
			t.Errorf("%d connections were made", n)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Logf("%d KiB more for each connection, both sides together", (int64(after.HeapAlloc+after.StackInuse)-int64(before.HeapAlloc+before.StackInuse))/many/1024)
	}
}

// TestVersionsOfTLS: peers of both versions are spoken to, and sessions of both are resumed.
func TestVersionsOfTLS(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			p, _ := own(t, version, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
			pool := p.pool(t, p.store)
			for i := range 3 {
				var state tls.ConnectionState
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					TLSHandshakeDone: func(s tls.ConnectionState, _ error) { state = s },
				})
				if err := postBody(ctx, pool, &body{text: "hello"}); err != nil {
					t.Fatal(err)
				}
				if state.Version != version || state.DidResume != (i > 0) {
					t.Errorf("connection %d: version %s, resumed %v", i, tls.VersionName(state.Version), state.DidResume)
				}
				pool.Close() // its kept connections
			}
			if n := p.fetches.Load(); n != 1 {
				t.Errorf("%d fetches of OCSP responses", n)
			}
		})
	}
}
