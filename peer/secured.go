// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// secured is a TLS connection to a peer. What one Write makes of records goes out together: crypto/tls makes a system call
// for each of 16 KiB, and for a large message they cost more than its encryption.
type secured struct {
	*tls.Conn
	akin     atomic.Bool // the peer has told that it is of our kind
	writing  atomic.Bool // something that is gathered
	gathered *gathered
}

// secure shakes hands with a peer. It owns raw, also where it fails.
func (p *Pool) secure(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	config := p.tls.Clone()
	config.ServerName = host
	g := &gathered{Conn: newConn(raw, writeIdle)}
	c := &secured{Conn: tls.Client(g, config), gathered: g}
	slow := errors.New("timeout")
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, slow)
	defer cancel()
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	err = c.HandshakeContext(ctx)
	if err != nil && context.Cause(ctx) == slow {
		err = &Error{"network_error", fmt.Errorf("the TLS handshake with the security server at %s took longer than %s", address, connectTimeout)}
	}
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(c.ConnectionState(), err)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return c, nil
}

// Close says goodbye to the peer, unless somebody is writing: that write ends at once.
func (c *secured) Close() error {
	if c.writing.Load() {
		return errors.Join(c.gathered.Close(), c.Conn.Close())
	}
	return c.Conn.Close()
}

// oneRecord is how much goes into a record of TLS: nothing is gained by gathering less.
const oneRecord = 16 << 10

func (c *secured) Write(b []byte) (int, error) {
	if len(b) <= oneRecord {
		return c.Conn.Write(b)
	}
	c.writing.Store(true)
	defer c.writing.Store(false)
	c.gathered.begin()
	n, err := c.Conn.Write(b)
	if e := c.gathered.end(); err == nil && e != nil {
		return 0, e
	}
	return n, err
}

// gathered is a connection whose writes can be put together. What is said aside of a Write of its owner, as an alert, goes
// out with what has been gathered before it, in order.
type gathered struct {
	net.Conn

	mu   sync.Mutex
	held *[]byte // not written yet; nil: writes pass
}

// holdings are the octets of one gathering: what a large chunk of a message becomes by encryption fits.
var holdings = sync.Pool{New: func() any {
	b := make([]byte, 0, 264<<10)
	return &b
}}

// begin gathers writes until end.
func (g *gathered) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = holdings.Get().(*[]byte)
}

// end writes what has been gathered.
func (g *gathered) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.flush()
	holdings.Put(g.held)
	g.held = nil
	return err
}

func (g *gathered) flush() error {
	b := *g.held
	if len(b) == 0 {
		return nil
	}
	*g.held = b[:0]
	_, err := g.Conn.Write(b)
	return err
}

func (g *gathered) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		return g.Conn.Write(b)
	}
	if len(*g.held)+len(b) > cap(*g.held) {
		if err := g.flush(); err != nil {
			return 0, err
		}
	}
	*g.held = append(*g.held, b...)
	return len(b), nil
}
