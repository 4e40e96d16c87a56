// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/caddy-fairway/fairway/internal/gather"
)

// secured is a TLS connection to a peer.
type secured struct {
	*tls.Conn
	akin  atomic.Bool // the peer has told that it is of our kind
	below *gather.Conn
}

// secure shakes hands with a peer. It owns raw, also where it fails.
func (p *Pool) secure(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	config := p.tls.Clone()
	config.ServerName = host
	g := gather.New(newConn(raw, writeIdle))
	c := &secured{Conn: tls.Client(g, config), below: g}
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
func (c *secured) Close() error { return gather.Close(c.Conn, c.below) }

func (c *secured) Write(b []byte) (int, error) { return gather.Write(c.Conn, c.below, b) }
