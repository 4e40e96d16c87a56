// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/wire"
)

type headerKey struct{}

// HeaderOf returns the verified X-Road header of a request that Receiver.Serve handed to next. Do not change it.
func HeaderOf(ctx context.Context) (*soap.Header, bool) {
	h, ok := ctx.Value(headerKey{}).(*soap.Header)
	return h, ok
}

// ServiceOf returns the service of a request that Receiver.Serve handed to next.
func ServiceOf(ctx context.Context) (ident.Service, bool) {
	if h, ok := HeaderOf(ctx); ok {
		return h.Service, true
	}
	return ident.Service{}, false
}

// errNothing is the answer of a handler that wrote nothing.
var errNothing = errors.New("the service's route answered nothing")

// handOver gives the verified request to next, on this goroutine, and wraps what next writes on another.
func (x *receiving) handOver(r *http.Request, next http.Handler, m *wire.Message, action string) error {
	body, err := m.Open()
	if err != nil {
		return wire.At(wire.AtReceiver, err)
	}
	defer body.Close()
	x.transfer.moves(forwarding, m.Size(), position(body, m.Size()))
	onward := r.WithContext(context.WithValue(r.Context(), headerKey{}, &m.Header))
	onward.Header = serviceHeader(m, action)
	onward.Header.Del("User-Agent")
	onward.Body, onward.ContentLength, onward.TransferEncoding, onward.Trailer = body, m.Size(), nil, nil
	onward.URL, onward.RequestURI, onward.Host = &url.URL{Path: "/"}, "/", "" // the peer's are not signed, and routes may act on them

	pipe := newPipe()
	stop := context.AfterFunc(r.Context(), func() {
		if reason := x.transfer.cancelled(); reason != nil {
			pipe.writer.CloseWithError(reason) // whoever waits for next's answer waits no longer
		}
	})
	defer stop()
	wrapped := make(chan error, 1)
	go func() {
		err := x.server.caught(wire.AtReceiver, func() error { return x.wrap(r.Context(), pipe, m) })
		pipe.reader.CloseWithError(err) // next need not write what nobody reads
		wrapped <- err
	}()
	failure := call(next, pipe, onward)
	pipe.end(failure)
	err = <-wrapped
	if p, ok := failure.(*panicked); ok && p.value != http.ErrAbortHandler {
		x.repanic = p
	}
	return err
}

// wrap waits for the header of next's answer and responds with what follows.
func (x *receiving) wrap(ctx context.Context, p *pipe, m *wire.Message) (err error) {
	select {
	case head := <-p.head:
		if head.err != nil {
			return wire.At(wire.AtReceiver.NextHop(), wire.Errorf("io_error", "service %s: %w", x.service.ID, head.err))
		}
		return x.respond(ctx, answer{head.status, head.header, &counted{Reader: p.reader, octets: &x.transfer.answer}}, m)
	case <-ctx.Done():
		return wire.At(wire.AtReceiver, context.Cause(ctx))
	}
}

// panicked is a panic of next that waits to go on.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprintf("the service's route broke off: %v", p.value) }

// call runs next and turns its panic into an error.
func call(next http.Handler, w http.ResponseWriter, r *http.Request) (failure error) {
	defer func() {
		if v := recover(); v != nil {
			failure = &panicked{v}
		}
	}()
	next.ServeHTTP(w, r)
	return nil
}

// pipe is an http.ResponseWriter whose other end is read as an answer.
type pipe struct {
	header http.Header
	head   chan head
	sent   bool
	reader *io.PipeReader
	writer *io.PipeWriter
}

type head struct {
	status int
	header http.Header
	err    error
}

func newPipe() *pipe {
	p := &pipe{header: make(http.Header), head: make(chan head, 1)}
	p.reader, p.writer = io.Pipe()
	return p
}

func (p *pipe) Header() http.Header { return p.header }

func (p *pipe) WriteHeader(status int) {
	if p.sent || status < 200 {
		return // informational answers stay here
	}
	p.sent = true
	p.head <- head{status: status, header: p.header.Clone()}
}

func (p *pipe) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.writer.Write(b)
}

// Flush implements http.Flusher: a pipe holds nothing back.
func (p *pipe) Flush() { p.WriteHeader(http.StatusOK) }

// end says that next has returned, or why it broke off.
func (p *pipe) end(failure error) {
	if !p.sent {
		if failure == nil {
			failure = errNothing
		}
		p.head <- head{err: failure}
	}
	if failure != nil {
		failure = wire.Errorf("io_error", "%w", failure)
	}
	p.writer.CloseWithError(failure) // nil is the end of the body
}
