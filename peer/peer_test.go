// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

var (
	provider = ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}
	sender   = ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}
)

func server(code string) ident.Server {
	return ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: code}
}

// place is a development instance with security servers of the provider.
type place struct {
	*dev.Authority
	store    trust.Store
	requests atomic.Int32 // that reached a server
	octets   atomic.Int64 // of bodies that reached a server
	fetches  atomic.Int32 // of OCSP responses

	connections atomic.Int32 // to a server of own
}

// newPlace starts servers of the provider; addresses of others may be given. A server "stranger" is not registered.
func newPlace(t *testing.T, codes []string, dead map[string]string) *place {
	t.Helper()
	authority, err := dev.Open(t.Context(), testbed.NewStorage(), "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{Authority: authority}
	var servers []dev.Server
	for _, code := range codes {
		cert, err := authority.AuthKey(t.Context(), server(code))
		if err != nil {
			t.Fatal(err)
		}
		address, ocspAddress := p.serve(t, cert), p.serveOCSP(t, cert.Leaf)
		servers = append(servers, dev.Server{ID: server(code), Address: address, OCSPAddress: ocspAddress, Clients: []ident.Client{provider}})
	}
	for code, address := range dead {
		servers = append(servers, dev.Server{ID: server(code), Address: address, Clients: []ident.Client{provider}})
	}
	servers = append(servers, dev.Server{ID: sender, Address: "127.0.0.1:1"})
	if p.store, err = authority.Trust(t.Context(), servers); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) serve(t *testing.T, cert *tls.Certificate) string {
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*cert}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		n, _ := io.Copy(io.Discard, r.Body)
		p.octets.Add(n)
		w.Header().Set("X-Server", cert.Leaf.SerialNumber.String())
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

func (p *place) serveOCSP(t *testing.T, cert *x509.Certificate) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fetches.Add(1)
		ocsp.ServePeer(w, r, func([20]byte) ([]byte, error) { return p.store.Status(r.Context(), cert) })
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

func (p *place) pool(t *testing.T, store trust.Store) *peer.Pool {
	t.Helper()
	cert, err := p.AuthKey(t.Context(), sender)
	if err != nil {
		t.Fatal(err)
	}
	pool := peer.New(peer.Config{
		Trust: store, Certificate: func() *tls.Certificate { return cert }, Transport: &http.Transport{},
		Port: 5500, OCSPPort: 5577, Clock: time.Now,
	})
	t.Cleanup(pool.Close)
	return pool
}

// body counts how it is used.
type body struct {
	text    string
	written atomic.Int32
	closed  atomic.Int32
	again   atomic.Int32
}

func (b *body) SendTo(w peer.Line) (int64, error) {
	b.written.Add(1)
	n, err := io.WriteString(w, b.text)
	return int64(n), err
}

func (b *body) Again() bool { return b.again.Add(1) == 1 }

func (b *body) Close() error { b.closed.Add(1); return nil }

func post(ctx context.Context, pool *peer.Pool, named *ident.Server) (*body, ident.Server, error) {
	b := &body{text: "hello"}
	var judged ident.Server
	response, chosen, err := pool.Post(ctx, peer.Request{
		Towards:  func(ident.Server) error { return nil },
		Provider: provider, Server: named, Header: http.Header{}, Body: b,
		Judged: func(s ident.Server, _ bool, _ http.Header) { judged = s },
		Akin:   func(http.Header) bool { return false },
	})
	if err == nil && judged != chosen {
		err = fmt.Errorf("%s was judged, and the answer is that of %s", judged, chosen)
	}
	if err == nil {
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	return b, chosen, err
}

func cause(err error) string {
	var c interface{ Cause() string }
	if errors.As(err, &c) {
		return c.Cause()
	}
	return ""
}

func TestPost(t *testing.T) {
	dead := map[string]string{"gone": "127.0.0.1:1", "nowhere": "server.invalid", "malformed": "a b"}
	ss3 := server("ss3")
	unknown := server("ss9")
	tests := []struct {
		name  string
		codes []string
		dead  map[string]string
		named *ident.Server
		want  string // cause, or "" for success
	}{
		{"one server", []string{"ss2"}, nil, nil, ""},
		{"the only one that answers", []string{"ss2"}, dead, nil, ""},
		{"the named one", []string{"ss2", "ss3"}, nil, &ss3, ""},
		{"an unknown one", []string{"ss2"}, nil, &unknown, "invalid_security_server"},
		{"none answers", nil, dead, nil, "network_error"},
		{"the only one is gone", nil, map[string]string{"gone": "127.0.0.1:1"}, nil, "network_error"},
		{"the only one does not resolve", nil, map[string]string{"nowhere": "server.invalid"}, nil, "network_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, tt.codes, tt.dead)
			pool := p.pool(t, p.store)
			for range 3 {
				b, chosen, err := post(t.Context(), pool, tt.named)
				if got := cause(err); got != tt.want || (err == nil) != (tt.want == "") {
					t.Fatalf("got %q: %v", got, err)
				}
				if b.closed.Load() != 1 {
					t.Errorf("the body was closed %d times", b.closed.Load())
				}
				if tt.named != nil && err == nil && chosen != *tt.named {
					t.Errorf("went to %s", chosen)
				}
			}
			if tt.want == "" && (p.requests.Load() != 3 || p.octets.Load() != 15 || p.fetches.Load() != 1) {
				t.Errorf("%d requests of %d octets, %d fetches of OCSP responses", p.requests.Load(), p.octets.Load(), p.fetches.Load())
			}
		})
	}
}

// judging is a trust.Store that refuses in one place.
type judging struct {
	trust.Store
	serverOf, verifyAuth error
	maintenance          string
}

func (j judging) ServerOf(cert *x509.Certificate) (ident.Server, error) {
	if j.serverOf != nil {
		return ident.Server{}, j.serverOf
	}
	return j.Store.ServerOf(cert)
}

func (j judging) VerifyAuth(chain []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	if j.verifyAuth != nil {
		return j.verifyAuth
	}
	return j.Store.VerifyAuth(chain, responses, client, at)
}

func (j judging) Endpoints(provider ident.Client, named *ident.Server) ([]trust.Endpoint, error) {
	all, err := j.Store.Endpoints(provider, named)
	for i := range all {
		if j.maintenance != "" {
			all[i].Maintenance = &j.maintenance
		}
	}
	return all, err
}

type refusal string

func (r refusal) Error() string { return string(r) }
func (r refusal) Cause() string { return "ssl_authentication_failed" }

// TestNothingLeaves: no octet of a body reaches a peer that is not found good.
func TestNothingLeaves(t *testing.T) {
	tests := []struct {
		name  string
		store judging
		want  string
	}{
		{"a stranger", judging{serverOf: refusal("no such server")}, "ssl_authentication_failed"},
		{"a server of another member, or revoked", judging{verifyAuth: refusal("does not serve the provider")}, "ssl_authentication_failed"},
		{"a server in maintenance", judging{maintenance: "until noon"}, "maintenance_mode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, []string{"ss2"}, nil)
			tt.store.Store = p.store
			pool := p.pool(t, tt.store)
			b, _, err := post(t.Context(), pool, nil)
			if got := cause(err); got != tt.want {
				t.Errorf("got %q: %v", got, err)
			}
			if b.written.Load() != 0 || b.closed.Load() != 1 || p.octets.Load() != 0 {
				t.Errorf("the body was begun %d times, closed %d times; %d octets arrived", b.written.Load(), b.closed.Load(), p.octets.Load())
			}
			if tt.want == "maintenance_mode" && !strings.Contains(err.Error(), "until noon") {
				t.Error(err)
			}
		})
	}
}

// TestRevokedLater: a kept connection is judged again for each message.
func TestRevokedLater(t *testing.T) {
	p := newPlace(t, []string{"ss2"}, nil)
	store := &judging{Store: p.store}
	pool := p.pool(t, store)
	if _, _, err := post(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	store.verifyAuth = refusal("revoked")
	b, _, err := post(t.Context(), pool, nil)
	if cause(err) != "ssl_authentication_failed" || b.written.Load() != 0 {
		t.Errorf("%v; the body was begun %d times", err, b.written.Load())
	}
	store.verifyAuth = nil
	if _, _, err := post(t.Context(), pool, nil); err != nil {
		t.Error("a peer that is good again is refused:", err)
	}
}

// TestWinnerDies: the others are tried when the remembered one does not answer any more.
func TestWinnerDies(t *testing.T) {
	p := newPlace(t, []string{"ss2", "ss3"}, nil)
	var refused atomic.Value // address
	refused.Store("")
	pool := peer.New(peer.Config{
		Trust: p.store, Certificate: func() *tls.Certificate { c, _ := p.AuthKey(t.Context(), sender); return c },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if refused.Load() == address {
				return nil, errors.New("refused")
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}},
		Clock: time.Now,
	})
	t.Cleanup(pool.Close)
	_, first, err := post(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := p.store.Endpoints(provider, &first)
	if err != nil {
		t.Fatal(err)
	}
	refused.Store(all[0].Address)
	pool.Close() // its kept connections are gone as well
	_, second, err := post(t.Context(), pool, nil)
	if err != nil || second == first {
		t.Errorf("went to %s again: %v", second, err)
	}
}

// TestSilentOCSP: a peer that does not answer for its OCSP responses stops no message as long as those that are kept are
// good, and then the error says what they are besides that.
func TestSilentOCSP(t *testing.T) {
	p := newPlace(t, []string{"ss2"}, nil)
	clock := new(atomic.Pointer[time.Time])
	set := func(at time.Time) { clock.Store(&at) }
	began := time.Now()
	set(began)
	cert, err := p.AuthKey(t.Context(), sender)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := p.AuthKey(t.Context(), server("ss2"))
	if err != nil {
		t.Fatal(err)
	}
	silent := make(chan struct{})
	var hangs atomic.Bool
	responses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			<-silent
			http.Error(w, "it is out", http.StatusServiceUnavailable)
			return
		}
		ocsp.ServePeer(w, r, func([20]byte) ([]byte, error) { return p.store.Status(r.Context(), theirs.Leaf) })
	}))
	t.Cleanup(responses.Close)
	known, err := p.store.Endpoints(provider, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := p.Trust(t.Context(), []dev.Server{{
		ID: server("ss2"), Address: known[0].Address, OCSPAddress: responses.Listener.Addr().String(), Clients: []ident.Client{provider},
	}})
	if err != nil {
		t.Fatal(err)
	}
	pool := peer.New(peer.Config{
		Trust: store, Certificate: func() *tls.Certificate { return cert }, Clock: func() time.Time { return *clock.Load() },
		Transport: &http.Transport{},
	})
	t.Cleanup(pool.Close)
	if _, _, err := post(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	for _, age := range []time.Duration{29 * time.Minute, 31 * time.Minute, 59 * time.Minute} {
		set(began.Add(age))
		for range 3 {
			if _, _, err := post(t.Context(), pool, nil); err != nil {
				t.Fatalf("after %v: %v", age, err)
			}
		}
	}
	close(silent)
	set(began.Add(2 * time.Hour))
	b, _, err := post(t.Context(), pool, nil)
	if cause(err) != "ssl_authentication_failed" || b.written.Load() != 0 {
		t.Fatalf("got %v", err)
	}
	for _, word := range []string{"2h0m", "at most 1h0m0s old", "serial", "it answered 503"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
	hangs.Store(false)
	set(began.Add(2*time.Hour + 2*time.Second))
	if _, _, err := post(t.Context(), pool, nil); err == nil || strings.Contains(err.Error(), "503") {
		t.Errorf("it was not asked again: %v", err)
	}
}

// TestOneFetchForAll: messages that come together ask for OCSP responses once.
func TestOneFetchForAll(t *testing.T) {
	p := newPlace(t, []string{"ss2"}, nil)
	pool := p.pool(t, p.store)
	failed := make(chan error)
	const many = 20
	for range many {
		go func() {
			_, _, err := post(t.Context(), pool, nil)
			failed <- err
		}()
	}
	for range many {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of OCSP responses", n)
	}
}

// TestNotTaken: a peer that does not take our certificate says so by an alert, which may come while we write.
func TestNotTaken(t *testing.T) {
	authority, err := dev.Open(t.Context(), testbed.NewStorage(), "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			p := &place{Authority: authority}
			theirs, err := authority.AuthKey(t.Context(), server("ss2"))
			if err != nil {
				t.Fatal(err)
			}
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
				Certificates: []tls.Certificate{*theirs}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: version,
				VerifyConnection: func(tls.ConnectionState) error { return errors.New("not you") },
			})
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
			go s.Serve(l)
			t.Cleanup(func() { s.Close() })
			p.store, err = authority.Trust(t.Context(), []dev.Server{
				{ID: server("ss2"), Address: l.Addr().String(), OCSPAddress: p.serveOCSP(t, theirs.Leaf), Clients: []ident.Client{provider}},
			})
			if err != nil {
				t.Fatal(err)
			}
			pool := p.pool(t, p.store)
			for range 50 { // after the first, nothing is fetched between the handshake and the body
				_, _, err := post(t.Context(), pool, nil)
				if cause(err) != "ssl_authentication_failed" || !strings.Contains(err.Error(), "remote error: tls: bad certificate") || !strings.Contains(err.Error(), "GOV") {
					t.Fatalf("got %q: %v", cause(err), err)
				}
			}
		})
	}
}

// TestUnregisteredSession: a TLS session that is resumed is judged as a new one.
func TestUnregisteredSession(t *testing.T) {
	p := newPlace(t, []string{"ss2"}, nil)
	store := &judging{Store: p.store}
	pool := p.pool(t, store)
	var resumed atomic.Bool
	over := func() error {
		pool.Close() // its kept connections
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{TLSHandshakeDone: func(s tls.ConnectionState, _ error) { resumed.Store(s.DidResume) }})
		_, _, err := post(ctx, pool, nil)
		return err
	}
	for range 2 {
		if err := over(); err != nil {
			t.Fatal(err)
		}
	}
	if !resumed.Load() {
		t.Fatal("the session was not resumed")
	}
	resumed.Store(false)
	store.serverOf = refusal("not registered any more")
	if err := over(); cause(err) != "ssl_authentication_failed" || !strings.Contains(err.Error(), "not registered any more") {
		t.Errorf("got %v", err)
	}
	if n := p.requests.Load(); n != 2 {
		t.Errorf("%d requests came", n)
	}
}
