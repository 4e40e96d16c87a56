// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/caddy-fairway/fairway/wire"
)

// Delivery says when a service gets a request.
type Delivery uint8

const (
	// Strict delivers a request that has been verified as a whole.
	Strict Delivery = iota
	// Gated delivers a multipart request with attachments as it arrives, but for its end (docs/architecture.md).
	Gated
	// ByFile delivers a request that has been verified as a whole: its envelope to the To, its attachments as files.
	ByFile
)

// gated is the call of a service that takes a request while it is still being read.
type gated struct {
	*tail
	message  *wire.Message
	conn     atomic.Pointer[net.Conn]
	called   chan struct{} // closed when the call has an answer
	response *http.Response
	err      error
	silence  *silence
	cancel   context.CancelFunc
}

// advance is called on the goroutine that reads the request, whenever it is going to read more. It returns an error where
// nobody needs the rest any more.
func (x *receiving) advance() error {
	m := x.message
	if m == nil || x.service == nil || x.service.Delivery != Gated {
		return nil
	}
	free := releasable(m)
	if free == 0 {
		return nil
	}
	if x.gated == nil {
		t, err := openTail(m)
		if t == nil || err != nil {
			return wire.At(wire.AtReceiver, err)
		}
		x.gated = x.callGated(m, t)
	}
	g := x.gated
	g.release(free)
	select {
	case <-g.called:
		return x.calling(g.err, g.silence)
	default:
		return nil
	}
}

// callGated begins the call of the service.
func (x *receiving) callGated(m *wire.Message, t *tail) *gated {
	g := &gated{tail: t, message: m, called: make(chan struct{})}
	// Where the peer hangs up, settle ends the call: it has to be torn down, not closed.
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.ctx))
	g.cancel = cancel
	ctx, g.silence = watchService(ctx, x.service)
	var body io.ReadSeekCloser = g
	g.silence.body.Store(&body)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		g.conn.Store(&info.Conn)
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.service.To, g)
	if err != nil {
		g.err = wire.Errorf("service_malformed_url", "address of service %s: %w", x.service.ID, err)
		close(g.called)
		return g
	}
	req.ContentLength = -1
	req.Header = serviceHeader(m, x.action)
	go func() {
		g.response, g.err = x.server.backends.fresh(x.service).RoundTrip(req)
		g.silence.answered() // it may be long before anybody wants the answer
		close(g.called)
	}()
	return g
}

// tearDown ends the call of a request that is not good: the service must see a broken one.
func (g *gated) tearDown(err error) {
	g.settle(0, fmt.Errorf("the request is withdrawn: %w", err))
	if conn := g.conn.Load(); conn != nil {
		reset(*conn)
	}
	g.cancel()
}

// reset has a connection that is closed be reset, not ended in good order.
func reset(conn net.Conn) {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
}

// end frees what the call holds. Where reading the request has ended in a panic, nobody has said what became of it.
func (g *gated) end() {
	if !g.settled() {
		g.tearDown(errClosed)
	}
	g.cancel()
	g.silence.stop()
	<-g.called
	if g.response != nil {
		g.response.Body.Close()
	}
	g.Close()
}

// withdraw notes that a service has got the beginning of a request that was not good to its end.
func (x *receiving) withdraw(err error) error {
	g := x.gated
	err = x.transfer.explain(err)
	g.tearDown(err)
	err = fmt.Errorf("%w (service %s had %d octets of it, which were withdrawn before its end)", err, x.service.ID, g.seen())
	record := x.server.record(&x.outcome, &g.message.Header, false)
	record.Fault = "withdrawn"
	if bad := x.server.putDurably(x.ctx, record, nil, nil); bad != nil {
		return wire.At(wire.AtReceiver, fmt.Errorf("%w; evidence of that could not be kept: %w", err, bad))
	}
	return err
}

// deliver ends the gated call of a request that has been read: err is why it is not good, or nil.
func (x *receiving) deliver(m *wire.Message, err error) error {
	if err != nil {
		return x.withdraw(err)
	}
	g := x.gated
	x.transfer.moves(forwarding, m.Size(), g.seen)
	g.settle(m.Size(), nil)
	defer context.AfterFunc(x.ctx, g.cancel)()
	select {
	case <-g.called:
	case <-x.ctx.Done():
		return wire.At(wire.AtReceiver, x.hungUp(context.Cause(x.ctx)))
	}
	if g.err != nil {
		return x.calling(g.err, g.silence)
	}
	return x.passOn(x.ctx, g.response, g.silence, m)
}
