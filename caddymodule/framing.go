// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/internal/gather"
)

func init() {
	caddy.RegisterModule(Framing{})
}

// Framing refuses HTTP/1 requests that two readers could cut in two ways: with a Content-Length and a Transfer-Encoding,
// with folded header lines, with line feeds or carriage returns that stand alone, with a Transfer-Encoding other than
// `chunked` or in HTTP/1.0, with a trailer that says what belongs into the header, and with a head above 64 KiB. Go's
// server mends some of it before a handler can see it, and a proxy before it may have read it otherwise. The answer is
// status 400, and the connection is closed; the log has the reason. What shows in the body only breaks the body off.
//
// A head is held until it is complete, for no longer than a connection may be idle. What a connection carries after a
// switch of protocols, and HTTP/2, passes.
type Framing struct {
	logger *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (Framing) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.listeners.xroad_framing",
		New: func() caddy.Module { return new(Framing) },
	}
}

// Provision sets up the log.
func (f *Framing) Provision(ctx caddy.Context) error {
	f.logger = ctx.Logger()
	return nil
}

// WrapListener implements caddy.ListenerWrapper. It stands behind `tls`, where there is any.
func (f *Framing) WrapListener(l net.Listener) net.Listener { return &framingListener{l, f.logger} }

type framingListener struct {
	net.Listener
	logger *zap.Logger
}

// Accept implements net.Listener.
func (l *framingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	framed := &framedConn{Conn: conn, refused: func(reason string) {
		l.logger.Warn("refused a request that can be read in two ways", zap.Stringer("remote", conn.RemoteAddr()), zap.String("reason", reason))
	}}
	if secure, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		over := framedTLSConn{framed, secure.ConnectionState}
		if gathering, ok := gather.Of(conn); ok {
			return &gatheredConn{over, gathering}, nil
		}
		return &over, nil
	}
	return framed, nil
}

// framed says whether the server for which ctx provisions a handler has Framing.
func framed(ctx caddy.Context) bool {
	site, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if site == nil {
		return false
	}
	for _, raw := range site.ListenerWrappersRaw {
		var module struct {
			Wrapper string `json:"wrapper"`
		}
		if json.Unmarshal(raw, &module) == nil && module.Wrapper == new(Framing).CaddyModule().ID.Name() {
			return true
		}
	}
	return false
}

// framedTLSConn tells Caddy the state of TLS.
type framedTLSConn struct {
	*framedConn
	state func() tls.ConnectionState
}

// ConnectionState is what Caddy looks for.
func (c *framedTLSConn) ConnectionState() tls.ConnectionState { return c.state() }

// gatheredConn lets the records of one write go out together.
type gatheredConn struct {
	framedTLSConn
	secure *gather.TLS
}

// Write implements io.Writer.
func (c *gatheredConn) Write(p []byte) (int, error) { return c.secure.Write(p) }

// ReadFrom implements io.ReaderFrom, by which files go out.
func (c *gatheredConn) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, make([]byte, gatheredCopy))
}

// gatheredCopy is how much of a file is read at a time. Caddy's write_max_chunk may make it less.
const gatheredCopy = 64 << 10

// Close implements io.Closer.
func (c *gatheredConn) Close() error { return c.secure.Close() }

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	xroad_framing
func (*Framing) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Framing)(nil)
	_ caddy.ListenerWrapper = (*Framing)(nil)
	_ caddyfile.Unmarshaler = (*Framing)(nil)
)
