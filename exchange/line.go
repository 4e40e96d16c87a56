// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/wire"
)

// Limits of what is read of a message after it has been refused, so that its sender comes to read the refusal.
const (
	lingerOctets = 64 << 20
	lingerTime   = 30 * time.Second
)

// line is the HTTP connection of one exchange, on which the answer may come before the request has ended.
type line struct {
	w          http.ResponseWriter
	body       *tracked
	controller *http.ResponseController
}

// newLine makes the connection of w full duplex, where it can be, and follows the reading of r's body.
func newLine(w http.ResponseWriter, r *http.Request) *line {
	l := &line{w: w, body: &tracked{ReadCloser: r.Body}, controller: http.NewResponseController(w)}
	l.body.eof.Store(r.ContentLength == 0)
	r.Body = l.body
	l.controller.EnableFullDuplex() // HTTP/2 is full duplex anyway and says that it is not supported
	return l
}

// answer writes the header of the answer. While the request has not been read to its end it is the connection's last.
func (l *line) answer(status int) {
	if !l.body.ended() && l.w.Header().Get("Connection") == "" {
		l.w.Header().Set("Connection", "close")
	}
	l.w.WriteHeader(status)
}

// linger reads what is left of the request and throws it away, within limits; beyond, the connection is reset.
func (l *line) linger() {
	l.controller.Flush()
	if l.body.ended() {
		return
	}
	l.controller.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, l.body, lingerOctets)
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

// tracked remembers whether a body has been read to its end.
type tracked struct {
	io.ReadCloser
	eof atomic.Bool
}

func (t *tracked) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		t.eof.Store(true)
	} else if err != nil { // where the next request would begin is not known
		err = wire.OrElse("io_error", fmt.Errorf("reading the request: %w", err))
	}
	return n, err
}

func (t *tracked) ended() bool { return t.eof.Load() }
