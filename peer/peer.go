// SPDX-License-Identifier: Apache-2.0

// Package peer keeps connections to other security servers: chooses one, dials, judges it, remembers.
// (message-and-transport 5.1, 5.7 and 5.8)
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

const (
	connectTimeout  = 30 * time.Second // TCP, and TLS again
	idleTimeout     = 25 * time.Second // below the 30 s after which X-Road peers close
	idlePerPeer     = 512              // kept connections, of some 50 KiB each at our side, for as long as idleTimeout
	transportBuffer = 16 << 10         // a chunk of a large message passes it by
	sessions        = 256              // TLS sessions that may be resumed
)

// Config is what a Pool needs.
type Config struct {
	Trust       trust.Store
	Certificate func() *tls.Certificate // ours, shown to peers
	Transport   *http.Transport         // whose dialing is taken; it is not used itself
	Port        int                     // of peers, where their address has none
	OCSPPort    int                     // of peers' OCSP responses
	Clock       func() time.Time
}

// Pool is the connections of one security server to its peers. It is safe for concurrent use.
type Pool struct {
	config   Config
	kept     *http.Transport // whose connections are used again
	fresh    *http.Transport // that uses none again: for what met a kept connection which was just being closed
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	tls      *tls.Config
	statuses *statuses
	winners  *winners
}

// New returns a Pool.
func New(c Config) *Pool {
	p := &Pool{config: c, dial: c.Transport.DialContext, winners: newWinners()}
	if p.dial == nil {
		p.dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	p.statuses = newStatuses(p.dial, c.Clock)
	p.tls = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		InsecureSkipVerify: true, // authentication certificates hold no host names: verifyConnection judges instead
		VerifyConnection:   p.verifyConnection,
		ClientSessionCache: tls.NewLRUClientSessionCache(sessions),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.Certificate(), nil
		},
	}
	p.kept = &http.Transport{
		DialTLSContext:         p.dialPeer,
		MaxIdleConnsPerHost:    idlePerPeer,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
		WriteBufferSize:        transportBuffer,
		ReadBufferSize:         transportBuffer,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		MaxResponseHeaderBytes: 64 << 10,
	}
	p.fresh = p.kept.Clone()
	p.fresh.MaxIdleConnsPerHost = -1
	return p
}

// Close closes idle connections.
func (p *Pool) Close() {
	p.kept.CloseIdleConnections()
	p.statuses.close()
}

// Body is a request body that writes itself. SendTo is called once at the most, on a goroutine of the Pool, and only when
// the peer has been judged; once more where Again has allowed it. Close is called once, when the body will not be used any
// more.
type Body interface {
	SendTo(Line) (int64, error)
	// Again is called when a kept connection has turned out to be closed and the peer has not answered anything, after the
	// end of SendTo if that was begun. It returns true if the body can be sent once more from its beginning, and if it does
	// no harm that the peer may have got what was sent.
	Again() bool
	io.Closer
}

// Line is the way to a peer.
type Line interface {
	io.Writer
	// Broken tells whether it is known that nothing arrives any more. A write may not have told yet.
	Broken() bool
}

// Request is a message on its way to the security server of a provider.
type Request struct {
	Provider ident.Client
	Server   *ident.Server // the one that the consumer wants, or nil
	Header   http.Header
	Body     Body
	// Towards is told, before a connection is made, which security server the request will go to, or probably go to where
	// several serve the provider. It may wait; its error ends the request.
	Towards func(ident.Server) error
	// Judged is told, before the header is sent and Body is begun, which security server has been found good for it, and
	// whether an answer on this connection has told that it is akin. It may add to the header, which is a copy. It may be
	// told again, where the first connection was of no use after all.
	Judged func(server ident.Server, akin bool, header http.Header)
	// Akin tells whether the header of an answer is that of a peer of our kind. The connection remembers it.
	Akin func(http.Header) bool
}

// Post sends the request to a security server of the provider and returns the answer as soon as its header is there,
// which may be while the body is still being written. Before any octet of the body leaves, the peer has been found to
// serve the provider, with good OCSP responses for its certificates. Errors have X-Road's cause. Close the response's
// body: that ends the upload, too.
//
// A request that meets a kept connection just when the peer closes it is sent once more, over a new one, if its Body can
// be written Again.
func (p *Pool) Post(ctx context.Context, r Request) (response *http.Response, server ident.Server, err error) {
	endpoints, err := p.config.Trust.Endpoints(r.Provider, r.Server)
	if err == nil {
		endpoints, err = inService(endpoints, r.Server != nil)
	}
	if err != nil {
		r.Body.Close()
		return nil, ident.Server{}, err
	}
	x := &posting{Request: r, pool: p, gate: &gate{Body: r.Body}} // closed, if nothing comes to be tried
	defer func() {
		if err != nil {
			x.gate.shut()
		}
		x.gate.settle()
	}()
	e, remembered := p.winners.of(endpoints, p.config.Clock())
	if len(endpoints) > 0 {
		likely := endpoints[0]
		if remembered {
			likely = e
		}
		if err := r.Towards(likely.Server); err != nil {
			return nil, ident.Server{}, err
		}
	}
	if remembered {
		response, err = x.post(ctx, e, nil)
		if err == nil || x.gate.begun() || ctx.Err() != nil {
			return response, e.Server, err
		}
		p.winners.forget(e.Address) // and try the others
	}
	e, conn, err := p.choose(ctx, endpoints)
	if err != nil {
		return nil, ident.Server{}, err
	}
	response, err = x.post(ctx, e, conn)
	return response, e.Server, err
}

// posting is one Post.
type posting struct {
	Request
	pool   *Pool
	gate   *gate // of the connection that was tried last
	resent bool
}

// post sends the request to one security server, over won if the transport has no kept connection.
func (x *posting) post(ctx context.Context, to trust.Endpoint, won *raced) (*http.Response, error) {
	defer won.close() // if the transport did not need it
	response, stale, err := x.over(ctx, x.pool.kept, to, won)
	if stale && x.again() {
		response, _, err = x.over(ctx, x.pool.fresh, to, won)
	}
	return response, err
}

// again tells whether the body may be begun once more.
func (x *posting) again() bool {
	if x.resent || !x.gate.idle() || !x.Body.Again() {
		return false
	}
	x.resent = true
	return true
}

// over sends the request over a connection of the transport. Where it fails, stale tells that a kept connection was of
// no use: it broke before the peer had answered anything.
func (x *posting) over(ctx context.Context, transport *http.Transport, to trust.Endpoint, won *raced) (response *http.Response, stale bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &gate{Body: x.Body}
	x.gate = g
	var used *secured
	var kept bool
	var heard atomic.Bool
	header := x.Header.Clone()
	judging := ctx // without the trace: judging may make a connection of its own
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			used, kept = info.Conn.(*secured), info.Reused // as dialPeer made it
			if err := x.pool.judge(judging, used, x.Request, to); err != nil {
				cancel(err)
				return
			}
			x.Judged(to.Server, used.akin.Load(), header)
			g.admit(used)
		},
		GotFirstResponseByte: func() { heard.Store(true) },
	})
	ctx = context.WithValue(ctx, racedKey{}, won)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+x.pool.address(to)+"/", g)
	if err != nil {
		cancel(nil)
		return nil, false, &Error{"network_error", fmt.Errorf("address of security server %s: %w", to.Server, err)}
	}
	req.Header = header
	response, err = transport.RoundTrip(req)
	if err != nil {
		if reason := context.Cause(ctx); reason != nil {
			err = reason
		} else if said := alert(used); said != nil {
			err = said
		} else {
			stale = kept && !heard.Load() && !errors.As(err, new(stalledError))
		}
		cancel(nil)
		return nil, stale, x.pool.classify(err, to)
	}
	if x.Akin(response.Header) {
		used.akin.Store(true)
	}
	response.Body = &responseBody{response.Body, g, cancel}
	return response, false, nil
}

// Error is a failure to reach or to accept a peer.
type Error struct {
	cause string
	err   error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Cause returns X-Road's cause.
func (e *Error) Cause() string { return e.cause }

// remoteError is what crypto/tls calls an alert of the other side.
const remoteError = "remote error"

// alert returns the alert by which the peer has ended a connection that the transport has given up, or nil. A write that
// failed for it may have been quicker to tell.
func alert(conn *secured) error {
	if conn == nil {
		return nil
	}
	_ = conn.SetReadDeadline(time.Unix(1, 0)) // what has been read counts, and nothing is waited for
	_, err := conn.Read(make([]byte, 1))
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == remoteError {
		return err
	}
	return nil
}

// classify gives an error of the transport its cause.
func (p *Pool) classify(err error, to trust.Endpoint) error {
	var caused interface{ Cause() string }
	if errors.As(err, &caused) {
		return err
	}
	err = fmt.Errorf("security server %s at %s: %w", to.Server, to.Address, err)
	var (
		op     *net.OpError
		late   interface{ Timeout() bool }
		record tls.RecordHeaderError
		verify *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &op) && op.Op == remoteError:
		return &Error{"ssl_authentication_failed", fmt.Errorf("%w; perhaps it does not take our certificate %s", err, ocsp.Name(p.config.Certificate().Leaf))}
	case errors.As(err, &record), errors.As(err, &verify):
		return &Error{"ssl_authentication_failed", err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, new(stalledError)):
		return &Error{"io_error", err}
	case op == nil && errors.As(err, &late) && late.Timeout():
		return &Error{"network_error", fmt.Errorf("%w: no TLS connection within %s (this limit is fixed)", err, connectTimeout)}
	}
	return &Error{"network_error", err}
}

// inService leaves out the servers in maintenance (message-and-transport 5.7 step 3).
func inService(all []trust.Endpoint, named bool) ([]trust.Endpoint, error) {
	var usable []trust.Endpoint
	for _, e := range all {
		if e.Maintenance == nil {
			usable = append(usable, e)
		}
	}
	if len(usable) > 0 || len(all) == 0 {
		return usable, nil
	}
	e := all[0]
	text := fmt.Sprintf("Security server %q with address %q is in maintenance mode", e.Server, e.Address)
	if *e.Maintenance != "" {
		from := e.Address
		if named {
			from = e.Server.String()
		}
		text += fmt.Sprintf(". Message from %q administrator: %s", from, *e.Maintenance)
	}
	return nil, &Error{"maintenance_mode", errors.New(text)}
}

func (p *Pool) address(e trust.Endpoint) string { return withPort(e.Address, p.config.Port) }

func (p *Pool) ocspAddress(e trust.Endpoint) string {
	if e.OCSPAddress != "" {
		return e.OCSPAddress
	}
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil {
		host = e.Address
	}
	return withPort(host, p.config.OCSPPort)
}

// withPort adds the port to an address that has none.
func withPort(address string, port int) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(port))
}

// verifyConnection refuses strangers at the handshake, resumed sessions included: the certificate must be that of a
// registered security server. Whether it serves the provider is judged for each message.
func (p *Pool) verifyConnection(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return &Error{"ssl_authentication_failed", errors.New("the peer shows no certificate")}
	}
	_, err := p.config.Trust.ServerOf(state.PeerCertificates[0])
	return err
}

// judge decides whether this message may go over that connection.
func (p *Pool) judge(ctx context.Context, conn *secured, r Request, to trust.Endpoint) error {
	chain := conn.ConnectionState().PeerCertificates
	server, err := p.config.Trust.ServerOf(chain[0])
	if err != nil {
		return err
	}
	if r.Server != nil && server != *r.Server {
		return &Error{"ssl_authentication_failed", fmt.Errorf("the peer at %s is security server %s, not %s", to.Address, server, *r.Server)}
	}
	unknown := func(err error) error {
		return &Error{"ssl_authentication_failed", fmt.Errorf("OCSP responses of security server %s: %w", to.Server, err)}
	}
	verify := func(responses [][]byte) error {
		return p.config.Trust.VerifyAuth(chain, responses, r.Provider, p.config.Clock())
	}
	responses, err := p.statuses.get(ctx, p.ocspAddress(to), chain, p.config.Trust.Freshness())
	if err != nil {
		return unknown(err)
	}
	refused := verify(responses)
	if refused == nil {
		return nil
	}
	// The kept responses may have grown too old for the rules: ask once more before refusing.
	if responses, err = p.statuses.renew(ctx, p.ocspAddress(to), chain); err != nil {
		return fmt.Errorf("%w; asking for newer OCSP responses: %v", refused, err)
	}
	return verify(responses)
}

// gate lets a body out over one connection, to a peer that has been judged.
type gate struct {
	Body
	mu      sync.Mutex
	conn    *secured
	open    bool // the body may be begun
	started bool
	writing bool
	last    bool // the body goes to no other connection
	closed  bool
}

var errNotJudged = errors.New("the peer has not been judged")

// Read implements io.Reader for http.Request; the transport uses WriteTo.
func (g *gate) Read([]byte) (int, error) {
	return 0, errors.New("peer: the body writes itself")
}

func (g *gate) WriteTo(w io.Writer) (int64, error) {
	g.mu.Lock()
	if !g.open {
		g.mu.Unlock()
		return 0, errNotJudged
	}
	g.open, g.started, g.writing = false, true, true
	g.mu.Unlock()
	defer g.change(func() { g.writing = false })
	return g.SendTo(line{w, g.conn})
}

// line is a Line of the transport, which closes the connection as soon as it has read its end.
type line struct {
	io.Writer
	conn *secured
}

func (l line) Broken() bool {
	select {
	case <-l.conn.below.closed:
		return true
	default:
		return false
	}
}

// Close does nothing: a body that was not begun may go over another connection, one that was ends with WriteTo.
func (g *gate) Close() error { return nil }

// admit lets the body be begun.
func (g *gate) admit(conn *secured) { g.change(func() { g.open, g.conn = true, conn }) }

// idle sees that a body which was not begun never will be, and tells whether it is not being written.
func (g *gate) idle() bool {
	g.shut()
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.writing
}

// shut sees that a body which was not begun never will be.
func (g *gate) shut() { g.change(func() { g.open = false }) }

// settle says that the body goes to no other connection: it is closed as soon as it is not used here any more.
func (g *gate) settle() { g.change(func() { g.last = true }) }

func (g *gate) change(what func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	what()
	if g.last && !g.open && !g.writing && !g.closed {
		g.closed = true
		g.Body.Close()
	}
}

func (g *gate) begun() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.started
}

// responseBody ends the exchange with its response.
type responseBody struct {
	io.ReadCloser
	gate   *gate
	cancel context.CancelCauseFunc
}

func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	b.gate.shut()
	return err
}
