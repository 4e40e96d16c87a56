// SPDX-License-Identifier: Apache-2.0

// Package gather lets what one write to a TLS connection makes of records go out together: crypto/tls makes a system call
// for each of 16 KiB, and for a large message they cost more than its encryption.
package gather

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// oneRecord is how much goes into a record of TLS: nothing is gained by gathering less.
const oneRecord = 16 << 10

// Conn is the connection below TLS. Its writes pass, but for those that one Write of TLS makes. It is as safe for concurrent use as the
// connection that it was made of.
type Conn struct {
	net.Conn
	gathering atomic.Bool

	mu   sync.Mutex
	held *[]byte // not written yet; nil: writes pass
}

// New returns a connection over c.
func New(c net.Conn) *Conn { return &Conn{Conn: c} }

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// TLS is a TLS connection over a Conn.
type TLS struct {
	*tls.Conn
	below *Conn
}

// Client returns the client's side of a TLS connection over c.
func Client(c net.Conn, config *tls.Config) *TLS {
	below := New(c)
	return &TLS{tls.Client(below, config), below}
}

// Of returns the TLS connection that c is, if it is one over a Conn.
func Of(c net.Conn) (*TLS, bool) {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return nil, false
	}
	below, ok := secure.NetConn().(*Conn)
	return &TLS{secure, below}, ok
}

// Write implements io.Writer. What TLS says aside of it, as an alert, goes out behind what has been gathered before, in
// order. One call at a time is allowed.
func (t *TLS) Write(b []byte) (int, error) {
	if len(b) <= oneRecord {
		return t.Conn.Write(b)
	}
	t.below.begin()
	n, err := t.Conn.Write(b)
	if e := t.below.end(); err == nil && e != nil {
		return 0, e
	}
	return n, err
}

// Close says goodbye to the other side, unless somebody is writing: that write ends at once.
func (t *TLS) Close() error {
	if t.below.gathering.Load() {
		return errors.Join(t.below.Close(), t.Conn.Close())
	}
	return t.Conn.Close()
}

// holdings are the octets of one gathering: what a large chunk of a message becomes by encryption fits.
var holdings = sync.Pool{New: func() any {
	b := make([]byte, 0, 264<<10)
	return &b
}}

// begin gathers writes until end.
func (c *Conn) begin() {
	c.gathering.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = holdings.Get().(*[]byte)
}

// end writes what has been gathered.
func (c *Conn) end() error {
	defer c.gathering.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.flush()
	holdings.Put(c.held)
	c.held = nil
	return err
}

func (c *Conn) flush() error {
	b := *c.held
	if len(b) == 0 {
		return nil
	}
	*c.held = b[:0]
	_, err := c.Conn.Write(b)
	return err
}

// Write implements io.Writer.
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return c.Conn.Write(b)
	}
	if len(*c.held)+len(b) > cap(*c.held) {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	*c.held = append(*c.held, b...)
	return len(b), nil
}
