// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"net"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/internal/gather"
)

func init() {
	caddy.RegisterModule(Gather{})
}

// Gather makes large answers over TLS cheaper: what one write makes of records goes out together. It stands before `tls` in
// the listener wrappers, and `xroad_framing` behind it.
type Gather struct{}

// CaddyModule returns the Caddy module information.
func (Gather) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.listeners.xroad_gather",
		New: func() caddy.Module { return new(Gather) },
	}
}

// WrapListener implements caddy.ListenerWrapper.
func (*Gather) WrapListener(l net.Listener) net.Listener { return &gatherListener{l} }

type gatherListener struct{ net.Listener }

// Accept implements net.Listener.
func (l *gatherListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gather.New(conn), nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	xroad_gather
func (*Gather) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// Interface guards
var (
	_ caddy.ListenerWrapper = (*Gather)(nil)
	_ caddyfile.Unmarshaler = (*Gather)(nil)
)
