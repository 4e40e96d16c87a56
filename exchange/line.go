// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/wire"
)

// Limits of what is read of a message after it has been refused, so that its sender comes to read the refusal.
const (
	lingerOctets = 64 << 20
	lingerTime   = 30 * time.Second
	sparedOctets = 64 << 10 // of a request whose connection is kept though it is refused
)

// line is the HTTP connection of one exchange, on which the answer may come before the request has ended.
type line struct {
	w          http.ResponseWriter
	body       *tracked
	controller *http.ResponseController
	interim    bool // whoever waits knows of interim answers
	expects    bool // he sends the body once he is told to (Expect: 100-continue)

	mu       sync.Mutex // guards what follows
	answered bool       // the header is being made
	still    *time.Timer
}

// newLine makes the connection of w full duplex, where it can be, and follows the reading of r's body.
func newLine(w http.ResponseWriter, r *http.Request) *line {
	l := &line{
		w: w, body: &tracked{ReadCloser: r.Body}, controller: http.NewResponseController(w),
		interim: r.ProtoAtLeast(1, 1), expects: r.Header.Get("Expect") != "",
	}
	l.body.eof.Store(r.ContentLength == 0)
	r.Body = l.body
	l.controller.EnableFullDuplex() // HTTP/2 is full duplex anyway and says that it is not supported
	return l
}

// stillHere is the time between the interim answers to a peer of our kind. Only tests change it.
var stillHere = 20 * time.Second

// keepAlive sends interim answers (102) to whoever waits, as long as the request has been read and the header of the
// answer has not been asked for. They keep what stands between, and his own limits of time, from ending the exchange.
func (l *line) keepAlive(every time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if every <= 0 || !l.interim || l.answered || l.still != nil {
		return
	}
	l.still = time.AfterFunc(every, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.answered {
			return
		}
		if l.body.ended() {
			l.w.WriteHeader(http.StatusProcessing)
		}
		l.still.Reset(every)
	})
}

// quiet ends the interim answers.
func (l *line) quiet() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
	if l.still != nil {
		l.still.Stop()
	}
}

// header returns the header of the answer, which is about to be made.
func (l *line) header() http.Header {
	l.quiet()
	return l.w.Header()
}

// answer writes the header of the answer. While the request has not been read to its end it is the connection's last.
func (l *line) answer(status int) {
	if h := l.header(); !l.body.ended() && h.Get("Connection") == "" {
		h.Set("Connection", "close")
	}
	l.w.WriteHeader(status)
}

// spare reads a request of that length to its end, if it is a short one, before it is refused for want of a place: it will
// come again, over the same connection, and another one would be more work than the answer.
func (l *line) spare(length int64) {
	if length < 0 || length > sparedOctets || l.expects || l.body.ended() {
		return
	}
	l.controller.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, l.body, 4*sparedOctets) // it is longer than its length, where that is without what frames it
}

// linger reads what is left of the request of somebody and throws it away, within limits, that of p for all such requests among
// them; beyond, the connection is reset.
func (l *line) linger(p *places, who string) {
	l.controller.Flush()
	if l.body.ended() {
		return
	}
	if p.try(who) {
		defer p.leave(who)
		l.controller.SetReadDeadline(time.Now().Add(lingerTime))
		io.CopyN(io.Discard, rest{l.body}, lingerOctets)
	}
	l.controller.SetReadDeadline(time.Now()) // whoever is still reading stops
}

// breakOff ends an answer whose rest will not come: the other side must see a broken one. It does not return where the
// server has to do it.
func (l *line) breakOff() {
	if conn, _, err := l.controller.Hijack(); err == nil {
		reset(conn)
		conn.Close()
		return
	}
	panic(http.ErrAbortHandler)
}

// interruptAfter is how long an exchange that has been cancelled may take to notice.
const interruptAfter = time.Second

// watch interrupts reading and then writing of an exchange that is cancelled but waits for the other side: a deadline
// leaves the connection of no use, so whoever is not waiting may end in peace. ctx is that of the exchange. It lasts
// until release is called.
func (l *line) watch(ctx context.Context, t *transfer) (release func()) {
	released, done := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		if t.cancelled() == nil {
			return
		}
		for _, interrupt := range []func(time.Time) error{l.controller.SetReadDeadline, l.controller.SetWriteDeadline} {
			select {
			case <-time.After(interruptAfter):
				interrupt(time.Now())
			case <-released:
				return
			}
		}
	})
	return func() {
		close(released)
		if !stop() {
			<-done
		}
	}
}

// tracked counts what is read of a body and remembers whether that was all. Its reading ends when the exchange is
// cancelled.
type tracked struct {
	io.ReadCloser
	eof      atomic.Bool
	octets   atomic.Int64
	transfer *transfer // nil: none yet
	lane     lane
	reading  sync.Mutex
}

func (t *tracked) Read(p []byte) (int, error) {
	if err := t.transfer.cancelled(); err != nil {
		return 0, err
	}
	n, err := t.take(p)
	octets := t.octets.Add(int64(n))
	t.lane.passes(octets)
	if err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("it was broken off after %d octets: %w", octets, err)
	}
	if err == io.EOF {
		t.eof.Store(true)
	} else if err != nil { // where the next request would begin is not known
		err = wire.OrElse("io_error", fmt.Errorf("reading the request: %w", err))
	}
	return n, err
}

// take reads and does nothing else. An upload that nobody needs any more may still be reading while the rest is thrown away:
// one after the other.
func (t *tracked) take(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	return t.ReadCloser.Read(p)
}

// rest is what is thrown away of a body.
type rest struct{ of *tracked }

func (r rest) Read(p []byte) (int, error) { return r.of.take(p) }

func (t *tracked) ended() bool { return t.eof.Load() }

// counted counts what is read.
type counted struct {
	io.Reader
	octets *atomic.Int64
	lane   lane
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.lane.passes(c.octets.Add(int64(n)))
	return n, err
}
