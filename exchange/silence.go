// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"io"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// Limits of time are limits of silence (docs/timeouts.md): a slow line is never one that stands still. Each says in its
// fault who was silent in doing what, for how long, and which setting has it longer.

// silence ends a call of a service, or of a peer, that has neither taken nor sent an octet for its timeout. Once it has
// begun to answer, the clock runs while we wait for its octets, not while whoever gets them takes his time.
type silence struct {
	who     string // is silent
	setting string // that has the limit
	place   wire.Place
	limit   time.Duration // 0: none
	mu      sync.Mutex    // guards the timer, and what is known of a peer
	timer   *time.Timer
	ctx     context.Context
	cancel  context.CancelCauseFunc
	heard   atomic.Bool
	reached atomic.Bool                       // there is a connection
	body    atomic.Pointer[io.ReadSeekCloser] // of the request; its position tells what the service has taken

	position int64 // of the body at the last look; what follows is the timer's own
	idle     int   // looks since it last moved
}

const silenceLooks = 10

// silentError is why a call was ended.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

func (w *silence) begin(ctx context.Context) context.Context {
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	return w.ctx
}

// watchService begins to watch a call of a service. The context that it returns is that of the call. Until the service
// answers, the clock starts anew when it has taken some octets, which is looked at silenceLooks times within the timeout.
func watchService(ctx context.Context, s *Service) (context.Context, *silence) {
	limit := s.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	w := &silence{who: "service " + s.ID.String(), setting: "timeout of the service", place: wire.AtReceiver.NextHop(), limit: limit}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { w.reached.Store(true) }})
	w.begin(ctx)
	w.timer = time.AfterFunc(limit/silenceLooks, w.look)
	return w.ctx, w
}

// watchPeer begins to watch a call of another security server. The clock starts when that is known and all is sent, and
// anew with every interim answer, by which one of our kind says that it is still at it.
func watchPeer(ctx context.Context) (context.Context, *silence) {
	w := &silence{setting: "timeout of the peer", place: wire.AtSender.NextHop()}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { w.alive(); return nil },
	})
	return w.begin(ctx), w
}

// meets says which peer it is, and its limit.
func (w *silence) meets(peer ident.Server, limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.who, w.limit = "security server "+peer.String(), limit
}

// await starts the clock of a peer that has got all.
func (w *silence) await() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit > 0 && w.timer == nil && !w.heard.Load() {
		w.timer = time.AfterFunc(w.limit, func() { w.end("did not begin to answer") })
	}
}

func (w *silence) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

// sending is an io.Writer to the peer that it may not leave waiting.
func (w *silence) sending(to io.Writer) io.Writer {
	if w.limit == 0 {
		return to
	}
	return &taking{Writer: to, silence: w}
}

type taking struct {
	io.Writer
	silence *silence
	timer   *time.Timer
}

func (t *taking) Write(p []byte) (int, error) {
	if w := t.silence; t.timer == nil {
		t.timer = time.AfterFunc(w.limit, func() { w.end("took nothing of the request") })
	} else {
		t.timer.Reset(w.limit)
	}
	defer t.timer.Stop()
	return t.Writer.Write(p)
}

// look is called by the timer.
func (w *silence) look() {
	if w.heard.Load() {
		return
	}
	w.idle++
	taking := false
	if body := w.body.Load(); body != nil {
		// A position that cannot be told is that of a closed body: all is taken, or the call is over.
		at, err := (*body).Seek(0, io.SeekCurrent)
		if taking = err == nil; taking && at != w.position {
			w.position, w.idle = at, 0
		}
	}
	switch {
	case w.idle < silenceLooks:
		w.timer.Reset(w.limit / silenceLooks)
	case !w.reached.Load():
		w.end("accepted no connection")
	case taking:
		w.end("took nothing of the request")
	default:
		w.end("did not begin to answer")
	}
}

// end ends the call, for what its service did not do.
func (w *silence) end(what string) {
	w.cancel(silentError{wire.At(w.place, wire.Errorf("io_error", "%s %s for %s (setting: %s)", w.who, what, w.limit, w.setting))})
}

// taken tells how much of a body of that size the service has taken.
func (w *silence) taken(size int64) func() int64 {
	return func() int64 {
		if body := w.body.Load(); body != nil {
			if at, err := (*body).Seek(0, io.SeekCurrent); err == nil {
				return min(at, size) // a part lies behind others
			}
		}
		return size
	}
}

// answered stops the clock: the header of the answer is there.
func (w *silence) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard.Store(true)
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *silence) stop() {
	w.answered()
	w.cancel(nil)
}

// explain replaces the transport's words for a call that silence has ended.
func (w *silence) explain(err error) error {
	if reason, silent := errors.AsType[silentError](context.Cause(w.ctx)); err != nil && silent {
		return reason.error
	}
	return err
}

// listen returns an answer that is waited for bit by bit.
func (w *silence) listen(answer io.Reader) io.Reader {
	if w.limit == 0 {
		return answer
	}
	return &listening{Reader: answer, silence: w}
}

type listening struct {
	io.Reader
	silence *silence
	timer   *time.Timer
}

func (l *listening) Read(p []byte) (int, error) {
	if w := l.silence; l.timer == nil {
		l.timer = time.AfterFunc(w.limit, func() { w.end("sent no more of its answer") })
	} else {
		l.timer.Reset(w.limit)
	}
	defer l.timer.Stop()
	return l.Reader.Read(p)
}
