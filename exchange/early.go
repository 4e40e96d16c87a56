// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/wire"
)

// early is an answer that an information system gets while it is still being read: what gated is for a request.
type early struct {
	begun    chan *tail     // has one, once something may be seen
	tail     *tail          // of the goroutine that reads
	kind     string         // Content-Type
	done     chan struct{}  // closed when the answer has been judged
	whole    *http.Response // and is good
	err      error          // or not
	transfer *transfer
}

// receiveGated is receive for an information system that opted in. It returns as soon as the answer may be seen, or is
// known as a whole.
func (x *sending) receiveGated(ctx context.Context, response *http.Response, request *soap.Header) (*http.Response, error) {
	e := &early{begun: make(chan *tail, 1), done: make(chan struct{}), transfer: x.transfer}
	go func() {
		defer close(e.done)
		e.err = x.server.caught(wire.AtSender, func() (err error) {
			e.whole, err = x.receive(ctx, response, request, e.advance)
			return err
		})
		if e.tail == nil {
			return
		}
		err := e.err
		if err == nil && x.outcome.Err != nil {
			err = x.outcome.Err // a fault that came in place of the signature
		}
		if err != nil {
			err = x.withdraw(x.transfer.explain(err), request, e.tail)
		}
		size := int64(0)
		if err == nil {
			size = e.whole.ContentLength
			x.transfer.moves(delivering, size, e.tail.seen)
		}
		e.tail.settle(size, err)
		x.outcome.report(ctx)
	}()
	select {
	case t := <-e.begun:
		return e.response(t), nil
	case <-e.done:
	}
	if e.tail != nil {
		return e.response(e.tail), nil
	}
	return e.whole, e.err
}

func (e *early) response(t *tail) *http.Response {
	return newResponse(http.Header{"Content-Type": {e.kind}}, &earlyBody{t, e}, -1)
}

// advance is called on the goroutine that reads the answer, whenever it is going to read more.
func (e *early) advance(m *wire.Message) error {
	free := releasable(m)
	if free == 0 {
		return nil
	}
	if e.tail == nil {
		t, err := openTail(m)
		if t == nil || err != nil {
			return wire.At(wire.AtSender, err)
		}
		e.tail, e.kind = t, m.ContentType()
		t.release(free)
		e.begun <- t
	}
	e.tail.release(free)
	return nil
}

// withdraw notes that an information system has got the beginning of an answer that was not good to its end.
func (x *sending) withdraw(err error, request *soap.Header, t *tail) error {
	err = fmt.Errorf("%w (client %s had %d octets of the answer, which were withdrawn before its end)", err, request.Client, t.seen())
	x.outcome.Fault, x.outcome.Err = wire.Fault(err, x.outcome.RequestID).Code, err
	record := x.server.record(&x.outcome, request, true)
	record.Fault = "withdrawn"
	if bad := x.server.putDurably(context.Background(), record, nil, nil); bad != nil {
		x.outcome.Err = fmt.Errorf("%w; evidence of that could not be kept: %w", err, bad)
	}
	return err
}

// earlyBody is the body of such an answer.
type earlyBody struct {
	*tail
	early *early
}

func isEarly(response *http.Response) bool {
	_, early := response.Body.(*earlyBody)
	return early
}

// Read implements io.Reader.
func (b *earlyBody) Read(p []byte) (int, error) {
	if err := b.early.transfer.cancelled(); err != nil {
		return 0, err
	}
	return b.tail.Read(p)
}

// earlyPiece is how much is delivered at a time.
const earlyPiece = 128 << 10

var earlyPieces = sync.Pool{New: func() any { return new([earlyPiece]byte) }}

// WriteTo implements io.WriterTo. The kernel could not tell where what has been released ends, so it does not copy the file.
func (b *earlyBody) WriteTo(w io.Writer) (int64, error) {
	piece := earlyPieces.Get().(*[earlyPiece]byte)
	defer earlyPieces.Put(piece)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{b}, piece[:])
}

// Close ends the reading, if it has not ended, and frees the spool.
func (b *earlyBody) Close() error {
	b.early.transfer.end()
	<-b.early.done
	err := b.tail.Close()
	if b.early.whole != nil {
		b.early.whole.Body.Close()
	}
	return err
}

// advancing tells that more is going to be read.
type advancing struct {
	io.Reader
	message *wire.Message // once its header is known
	advance func(*wire.Message) error
}

func (a *advancing) Read(p []byte) (int, error) {
	if a.advance != nil && a.message != nil {
		if err := a.advance(a.message); err != nil {
			return 0, err
		}
	}
	return a.Reader.Read(p)
}
