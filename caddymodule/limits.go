// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/exchange"
)

// named returns a request and its answer whose errors say which limit of Caddy's server it was that ended their
// connection, and how it is called in a Caddyfile (docs/timeouts.md). who is at its other end.
func named(w http.ResponseWriter, r *http.Request, who string) (http.ResponseWriter, *http.Request) {
	reader, writer := caddyhttp.IdleTimeoutsFromContext(r.Context())
	if reader != nil && r.Body != nil {
		r.Body = &namedBody{r.Body, limit{reader.Deadline.Timeout, reader.Deadline.MinRate, reader.Deadline.HardDeadline,
			who + " sent nothing", "read_body_idle", "read_body"}}
	}
	if writer != nil {
		w = &namedWriter{caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, limit{writer.Deadline.Timeout, writer.Deadline.MinRate,
			writer.Deadline.HardDeadline, who + " took nothing", "write_idle", "write"}}
	}
	return w, r
}

// limit is one of Caddy's limits of a connection. It is looked at when the request begins: reading and writing change it.
type limit struct {
	idle         time.Duration
	rate         int64 // octets per second, 0 is none
	until        time.Time
	silent       string // who did what
	setting, all string // in "timeouts" of the server
}

// name says in err which limit has been reached. since is when the reading or writing began.
func (l *limit) name(err error, since time.Time) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	const place = "in timeouts of Caddy's server"
	switch now := time.Now(); {
	case !l.until.IsZero() && !now.Before(l.until):
		return &limitError{fmt.Sprintf("%s more when its time was over (setting: %s %s)", l.silent, l.all, place), err}
	case l.rate > 0:
		return &limitError{fmt.Sprintf("%s more, and has been slower than %d octets a second (setting: %s %s)", l.silent, l.rate, l.setting, place), err}
	case now.Sub(since) >= l.idle:
		return &limitError{fmt.Sprintf("%s for %s (setting: %s %s)", l.silent, l.idle, l.setting, place), err}
	}
	return err // somebody else has set the deadline
}

type limitError struct {
	text string
	err  error
}

func (e *limitError) Error() string { return e.text }
func (e *limitError) Unwrap() error { return e.err }

type namedBody struct {
	io.ReadCloser
	limit limit
}

// Read implements io.Reader.
func (b *namedBody) Read(p []byte) (int, error) {
	since := time.Now()
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = b.limit.name(err, since)
	}
	return n, err
}

type namedWriter struct {
	caddyhttp.ResponseWriterWrapper
	limit limit
}

// Write implements io.Writer.
func (w *namedWriter) Write(p []byte) (int, error) {
	since := time.Now()
	n, err := w.ResponseWriterWrapper.Write(p)
	if err != nil {
		err = w.limit.name(err, since)
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom: a file is copied by the kernel.
func (w *namedWriter) ReadFrom(r io.Reader) (int64, error) {
	since := time.Now()
	n, err := w.ResponseWriterWrapper.ReadFrom(r)
	if err != nil {
		err = w.limit.name(err, since)
	}
	return n, err
}

// Piecewise implements exchange.Piecewise: Caddy's writer, for which this one is made, cuts a file.
func (*namedWriter) Piecewise() {}

// Interface guards
var (
	_ exchange.Piecewise                        = (*namedWriter)(nil)
	_ io.ReadCloser                             = (*namedBody)(nil)
	_ http.ResponseWriter                       = (*namedWriter)(nil)
	_ io.ReaderFrom                             = (*namedWriter)(nil)
	_ interface{ Unwrap() http.ResponseWriter } = (*namedWriter)(nil)
)
