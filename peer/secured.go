// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/caddy-fairway/fairway/internal/gather"
)

// secured is a TLS connection to a peer.
type secured struct {
	*gather.TLS
	below *conn
	akin  atomic.Bool // the peer has told that it is of our kind
}

// secure shakes hands with a peer. It owns raw, also where it fails.
func (p *Pool) secure(ctx context.Context, raw net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	config := p.tls.Clone()
	config.ServerName = host
	below := newConn(raw, writeIdle)
	c := &secured{TLS: gather.Client(below, config), below: below}
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
		below.Close()
		return nil, err
	}
	return c, nil
}
