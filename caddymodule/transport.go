// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

const (
	dialTimeout = 30 * time.Second
	// copyBuffer is what one read or write of a connection carries: attachments are long.
	copyBuffer = 64 << 10
	// idlePerHost is how many idle connections to one peer or service are kept: a server has few of them, all busy.
	idlePerHost = 256
	// responseHeader is the longest header that a peer or a service may answer with.
	responseHeader = 64 << 10
)

// newTransport returns a transport with Caddy's dialing and keep-alive. It outlives ctx.
//
// It goes straight to the address it is given: a proxy of the environment is meant for other traffic, and the upstream
// that a reverse_proxy around us has chosen, which Caddy's dialer looks for in the context, is not our peer.
func newTransport(ctx caddy.Context) (*http.Transport, error) {
	compression := false
	t, err := (&reverseproxy.HTTPTransport{
		Versions:              []string{"1.1"},
		Compression:           &compression,
		DialTimeout:           caddy.Duration(dialTimeout),
		MaxResponseHeaderSize: responseHeader,
		WriteBufferSize:       copyBuffer,
		ReadBufferSize:        copyBuffer,
		KeepAlive:             &reverseproxy.KeepAlive{MaxIdleConnsPerHost: idlePerHost},
	}).NewTransport(ctx)
	if err != nil {
		return nil, err
	}
	t.Proxy = nil
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(valueless{ctx}, network, address)
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Timeout() {
			err = fmt.Errorf("%w: no connection within %s (this limit is fixed)", err, dialTimeout)
		}
		return conn, err
	}
	return t, nil
}

// valueless is a context that ends with its parent and knows nothing else of it.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }
