// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"net"
	"sync/atomic"
	"time"
)

// writeIdle is how long a peer may take nothing of what we send. Without it, one that keeps its connection and does not
// read would hold the exchange for ever: while an upload stands still, nobody notices that its information system has gone.
const writeIdle = 10 * time.Minute

// conn is a connection whose writes end when the peer takes nothing for that long. A write deadline that somebody else
// sets, as TLS does to say goodbye, is left alone.
type conn struct {
	net.Conn
	idle  time.Duration
	fixed atomic.Bool
}

func (c *conn) Write(b []byte) (int, error) {
	if !c.fixed.Load() {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.fixed.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	c.fixed.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}
