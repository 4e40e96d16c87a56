// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// writeIdle is how long a peer may take nothing of what we send. Without it, one that keeps its connection and does not
// read would hold the exchange for ever: while an upload stands still, nobody notices that its information system has gone.
const writeIdle = 10 * time.Minute

// lastWords is how long what a peer said before it broke off is waited for.
const lastWords = time.Second

// conn is a connection whose writes end when the peer takes nothing for that long. A write deadline that somebody else
// sets, as TLS does to say goodbye, is left alone.
//
// Where a peer breaks off while we write, a write fails at once, and the reason may be on its way still: an alert that
// it does not take our certificate, or a fault. So the write does not tell before the reader has closed the connection,
// which it does with the reason in hand.
type conn struct {
	net.Conn
	idle   time.Duration
	fixed  atomic.Bool
	closed chan struct{}
	close  sync.Once
}

// stalledError is that of a write that the peer has not taken in time.
type stalledError struct{ error }

func (e stalledError) Unwrap() error { return e.error }

func newConn(c net.Conn, idle time.Duration) *conn {
	return &conn{Conn: c, idle: idle, closed: make(chan struct{})}
}

func (c *conn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *conn) Write(b []byte) (int, error) {
	if !c.fixed.Load() {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(b)
	if err != nil && !c.fixed.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, stalledError{fmt.Errorf("it took nothing of what we send for %s (this limit is fixed): %w", c.idle, err)}
	}
	if err != nil && !c.fixed.Load() {
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case <-c.closed:
		case <-timer.C:
		}
	}
	return n, err
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.fixed.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.fixed.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}
