// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"

	"github.com/caddy-fairway/fairway/wire"
)

// Delivery says when a service gets a request.
type Delivery uint8

const (
	// Strict delivers a request that has been verified as a whole.
	Strict Delivery = iota
	// Gated delivers a multipart request with attachments as it arrives, but for its end (docs/architecture.md).
	Gated
)

// withheld is how many octets of the end of a request a service does not get before it is verified, the closing delimiter
// among them: an unverified message never becomes complete.
const withheld = 64 << 10

// gated is a request on its way to a service while it is still being read, and the call of that service. It is the body
// of the call: what is verified is what the spool has, and the service gets it from there.
type gated struct {
	message *wire.Message // its size and its octets are asked for on the goroutine that reads it

	mu       sync.Mutex
	changed  sync.Cond
	octets   io.ReadCloser
	position int64 // the service has what is before it
	released int64 // the service may have what is before it
	complete bool  // there is no more than that
	reason   error // why the rest will not come
	waiting  bool  // the service has all that it may have
	looks    int64
	conn     net.Conn

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
	if m == nil || x.service == nil || x.service.Delivery != Gated || len(m.Parts) == 0 {
		return nil
	}
	envelope := m.Parts[0].Offset + m.Parts[0].Size
	free := m.Size() - withheld
	if free <= envelope || m.FaultCode != "" {
		return nil
	}
	if x.gated == nil {
		octets, err := m.Open()
		if err != nil {
			return wire.At(wire.AtReceiver, err)
		}
		if _, file := octets.(*os.File); !file { // it may move into a file, and then the reader would end too early
			octets.Close()
			return nil
		}
		x.gated = x.callGated(m, octets)
	}
	g := x.gated
	g.mu.Lock()
	g.released = free
	g.changed.Broadcast()
	g.mu.Unlock()
	select {
	case <-g.called:
		return x.calling(g.err, g.silence)
	default:
		return nil
	}
}

// callGated begins the call of the service.
func (x *receiving) callGated(m *wire.Message, octets io.ReadCloser) *gated {
	g := &gated{message: m, octets: octets, called: make(chan struct{})}
	g.changed.L = &g.mu
	// Where the peer hangs up, settle ends the call: it has to be torn down, not closed.
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.ctx))
	g.cancel = cancel
	ctx, g.silence = watchSilence(ctx, x.service)
	var body io.ReadSeekCloser = g
	g.silence.body.Store(&body)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		g.mu.Lock()
		g.conn = info.Conn
		g.mu.Unlock()
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
		close(g.called)
	}()
	return g
}

// settle tells the service's call what became of the request: it gets the rest, or it is torn down. It is called on the
// goroutine that read the request.
func (g *gated) settle(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.changed.Broadcast()
	if err == nil {
		g.released, g.complete = g.message.Size(), true
		return
	}
	g.reason = fmt.Errorf("the request is withdrawn: %w", err)
	conn := g.conn
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // the service must see a broken request
	}
	g.cancel()
}

// end frees what the call holds.
func (g *gated) end() {
	g.cancel()
	g.silence.stop()
	<-g.called
	if g.response != nil {
		g.response.Body.Close()
	}
	g.Close()
}

// Read implements io.Reader for the transport. It waits for what the service may have.
func (g *gated) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.position >= g.released && !g.complete && g.reason == nil {
		g.waiting = true
		g.changed.Wait()
		g.waiting = false
	}
	switch {
	case g.reason != nil:
		return 0, g.reason
	case g.position >= g.released:
		return 0, io.EOF
	}
	n, err := g.octets.Read(p[:min(int64(len(p)), g.released-g.position)])
	g.position += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the spool has more
	}
	return n, err
}

// Seek tells where the service stands. While it waits for us, that is somewhere else at every look: it is not silent.
func (g *gated) Seek(int64, int) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting {
		g.looks++
	}
	return g.position + g.looks, nil
}

var errClosed = errors.New("the service takes no more")

// Close implements io.Closer for the transport.
func (g *gated) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == nil {
		g.reason = errClosed
	}
	g.changed.Broadcast()
	return g.octets.Close()
}

// withdraw notes that a service has got the beginning of a request that was not good to its end.
func (x *receiving) withdraw(err error) error {
	g := x.gated
	g.settle(err)
	g.mu.Lock()
	position := g.position
	g.mu.Unlock()
	err = fmt.Errorf("%w (service %s had %d octets of it, which were withdrawn before its end)", err, x.service.ID, position)
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
	g.settle(nil)
	select {
	case <-g.called:
	case <-x.ctx.Done():
		return wire.At(wire.AtReceiver, context.Cause(x.ctx))
	}
	if g.err != nil {
		return x.calling(g.err, g.silence)
	}
	return x.passOn(x.ctx, g.response, g.silence, m)
}
