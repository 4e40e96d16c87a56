// SPDX-License-Identifier: Apache-2.0

// Package testbed is two security servers on loopback, for tests, without Caddy around them.
package testbed

import (
	"context"
	stdcrypto "crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// Options is what a test wants. The zero value is client DEV/GOV/1111/app and service DEV/GOV/0000/registry/echo/v1,
// whom the client may call, answered by Echo.
type Options struct {
	Client     ident.Client
	Service    exchange.Service
	More       []exchange.Service              // further services of the receiver
	ServerCode string                          // of the receiver; ss2 where empty
	Route      http.Handler                    // for services without To; Echo where nil
	Peer       http.Handler                    // in place of the receiving security server
	Middle     func(http.Handler) http.Handler // around the receiving security server
	Spool      func(spool.Store) spool.Store
	Dial       func(ctx context.Context, network, address string) (net.Conn, error) // to other security servers; may be nil
	Sender     func(*exchange.SecurityServer)                                       // last changes before the start
	Receive    func(*exchange.SecurityServer)
}

// Bed is the two security servers. They end with the test.
type Bed struct {
	Sender, Receiver *exchange.SecurityServer
	URL              string // of the sending security server, for information systems
	PeerURL          string // of the receiving security server, for other security servers
	Authority        *dev.Authority

	tb       testing.TB
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	spools   []string
	mu       sync.Mutex
	outcomes []exchange.Outcome
}

// New starts both security servers.
func New(tb testing.TB, o Options) *Bed {
	tb.Helper()
	if o.Client.IsZero() {
		o.Client = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	}
	if o.Service.ID == (ident.Service{}) {
		o.Service.ID = ident.Service{
			Client: ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"},
			Code:   "echo", Version: "v1",
		}
	}
	if o.Service.Allow == nil {
		o.Service.Allow = []exchange.Subject{{Client: o.Client}}
	}
	if o.ServerCode == "" {
		o.ServerCode = "ss2"
	}
	if o.Route == nil {
		o.Route = Echo{}
	}
	b := &Bed{tb: tb, dial: o.Dial}
	ctx := context.Background()
	authority, err := dev.Open(ctx, NewStorage(), o.Client.Instance, time.Now)
	b.check(err)
	b.Authority = authority

	local := exchange.Local{Services: map[ident.Service]*exchange.Service{o.Service.ID: &o.Service}}
	providers := []ident.Client{o.Service.ID.Client}
	for _, s := range o.More {
		local.Services[s.ID] = &s
		providers = append(providers, s.ID.Client)
	}
	sendID, receiveID := owned(o.Client, "ss1"), owned(o.Service.ID.Client, o.ServerCode)
	peers, ocsp, consumers := b.listen(), b.listen(), b.listen()
	servers := []dev.Server{
		{ID: sendID, Address: "127.0.0.1:1", Clients: []ident.Client{o.Client}},
		{ID: receiveID, Address: peers.Addr().String(), Clients: providers},
	}
	b.Sender = b.server(sendID, servers, exchange.Local{Clients: map[ident.Client]exchange.Caller{o.Client: {}}}, portOf(ocsp), o.Spool)
	b.Receiver = b.server(receiveID, servers, local, portOf(ocsp), o.Spool)
	if o.Sender != nil {
		o.Sender(b.Sender)
	}
	if o.Receive != nil {
		o.Receive(b.Receiver)
	}
	b.check(b.Sender.Start(ctx))
	b.check(b.Receiver.Start(ctx))

	handler := o.Peer
	if handler == nil {
		receiver := &exchange.Receiver{Server: b.Receiver}
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { receiver.Serve(w, b.observed(r), o.Route) })
	}
	if o.Middle != nil {
		handler = o.Middle(handler)
	}
	b.serve(tls.NewListener(peers, b.tlsConfig()), handler)
	b.serve(ocsp, http.HandlerFunc(b.Receiver.ServeOCSP))
	sender := &exchange.Sender{Server: b.Sender}
	b.serve(consumers, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sender.Serve(w, b.observed(r)) }))
	b.URL, b.PeerURL = "http://"+consumers.Addr().String()+"/", "https://"+peers.Addr().String()+"/"
	tb.Cleanup(func() {
		b.check(b.Sender.Close())
		b.check(b.Receiver.Close())
	})
	return b
}

// Impatient returns the URL of the sending security server at a server that waits no longer for the next octet of a request.
func (b *Bed) Impatient(limit time.Duration) string {
	l := b.listen()
	sender := &exchange.Sender{Server: b.Sender}
	b.serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &impatient{r.Body, http.NewResponseController(w), limit}
		sender.Serve(w, b.observed(r))
	}))
	return "http://" + l.Addr().String() + "/"
}

type impatient struct {
	io.ReadCloser
	controller *http.ResponseController
	limit      time.Duration
}

func (i *impatient) Read(p []byte) (int, error) {
	i.controller.SetReadDeadline(time.Now().Add(i.limit))
	return i.ReadCloser.Read(p)
}

// Outcomes returns what has happened so far, in the order of ending.
func (b *Bed) Outcomes() []exchange.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]exchange.Outcome(nil), b.outcomes...)
}

// PeerTransport returns a transport that comes to the receiving security server as the sending one.
func (b *Bed) PeerTransport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the test knows whom it calls
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return b.Sender.Keys.Auth(), nil
		},
	}}
}

// CheckClean fails the test unless the spools are empty and no exchange has a place, at the latest after five seconds.
func (b *Bed) CheckClean() {
	b.tb.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := b.left()
		held := b.held()
		if len(left) == 0 && held == "" && b.Sender.Spool.Size() == 0 && b.Receiver.Spool.Size() == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.tb.Fatalf("left in the spools: %q, %d and %d octets; places held:%s", left, b.Sender.Spool.Size(), b.Receiver.Spool.Size(), held)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// held says which places of exchanges are held, "" where none is.
func (b *Bed) held() (held string) {
	for _, s := range []*exchange.SecurityServer{b.Sender, b.Receiver} {
		asking, sending, receiving := s.Load()
		for _, load := range []exchange.Load{asking, sending, receiving} {
			if load.Exchanges+load.Waiting > 0 {
				held += fmt.Sprintf(" %s %+v", s.ID, load)
			}
		}
	}
	return held
}

// left lists the files of the spools that hold something.
func (b *Bed) left() (files []string) {
	for _, dir := range b.spools {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if info, _ := os.Stat(path); err == nil && !d.IsDir() && info != nil && info.Size() > 0 {
				files = append(files, path)
			}
			return nil
		})
	}
	return files
}

func (b *Bed) observed(r *http.Request) *http.Request {
	return r.WithContext(exchange.WithObserver(r.Context(), &exchange.Observer{Done: func(o exchange.Outcome) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.outcomes = append(b.outcomes, o)
	}}))
}

func (b *Bed) server(id ident.Server, servers []dev.Server, local exchange.Local, ocspPort int, around func(spool.Store) spool.Store) *exchange.SecurityServer {
	ctx := context.Background()
	store, err := b.Authority.Trust(ctx, servers)
	b.check(err)
	dir := b.tb.TempDir()
	b.spools = append(b.spools, filepath.Join(dir, "spool"))
	spooled, err := spool.OpenDisk(filepath.Join(dir, "spool"), spool.Options{})
	b.check(err)
	if around != nil {
		spooled = around(spooled)
	}
	kept, err := evidence.OpenDisk(filepath.Join(dir, "evidence"))
	b.check(err)
	auth, err := b.Authority.AuthKey(ctx, id)
	b.check(err)
	s := &exchange.SecurityServer{
		ID: id, Local: local, Trust: store, Spool: spooled, Evidence: kept, Clock: time.Now,
		Keys:     &keys{authority: b.Authority, server: id, auth: auth},
		Keep:     exchange.Keep{Message: true, Attachments: true, UpTo: 10 << 20},
		Services: &http.Transport{},
	}
	s.Peers = peer.New(peer.Config{
		Trust: store, Certificate: s.Keys.Auth, Transport: &http.Transport{DialContext: b.dial}, OCSPPort: ocspPort, Clock: time.Now,
	})
	return s
}

func (b *Bed) tlsConfig() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{*b.Receiver.Keys.Auth()},
		ClientAuth:   tls.RequireAnyClientCert,
		NextProtos:   []string{"http/1.1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := b.Receiver.Trust.ServerOf(state.PeerCertificates[0])
			return err
		},
	}
}

func (b *Bed) listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.check(err)
	return l
}

func (b *Bed) serve(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	b.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			b.tb.Error(err)
		}
	})
}

func (b *Bed) check(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

func owned(c ident.Client, code string) ident.Server {
	return ident.Server{Instance: c.Instance, Class: c.Class, Member: c.Member, Code: code}
}

func portOf(l net.Listener) int {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	return n
}

// keys are those of the development authority.
type keys struct {
	authority *dev.Authority
	server    ident.Server
	auth      *tls.Certificate
}

func (k *keys) Auth() *tls.Certificate { return k.auth }

func (k *keys) Sign(member ident.Client) *exchange.SignKey {
	key, err := k.authority.SignKey(context.Background(), member.MemberOf(), k.server)
	if err != nil {
		return nil
	}
	return &exchange.SignKey{Key: key.Private, Certificate: key.Chain[0]}
}

// Broken is a signing key that never signs.
type Broken struct{ exchange.Keys }

// Sign implements exchange.Keys.
func (b Broken) Sign(member ident.Client) *exchange.SignKey {
	key := b.Keys.Sign(member)
	return &exchange.SignKey{Key: brokenKey{key.Key}, Certificate: key.Certificate}
}

type brokenKey struct{ stdcrypto.Signer }

func (brokenKey) Sign(_ io.Reader, _ []byte, _ stdcrypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("the key device does not answer")
}
