// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/exchange"
)

func init() {
	caddy.RegisterModule(Send{})
	httpcaddyfile.RegisterHandlerDirective("xroad_send", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		s := new(Send)
		return s, s.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("xroad_send", httpcaddyfile.Before, "reverse_proxy")
}

// Send sends the SOAP messages of information systems to the security servers of the services they call, and answers
// with what those answer. It is the last handler: it answers every request itself, with a SOAP fault where need be.
type Send struct {
	// The name of the security server that sends. Default: "".
	Server string `json:"server,omitempty"`

	server *Server
}

// CaddyModule returns the Caddy module information.
func (Send) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.xroad_send",
		New: func() caddy.Module { return new(Send) },
	}
}

// Provision finds the server.
func (s *Send) Provision(ctx caddy.Context) (err error) {
	var listen []caddy.NetworkAddress
	if s.server, listen, err = attach(ctx, s.Server); err != nil {
		return err
	}
	if onlyLoopback(listen) != nil && !framed(ctx) {
		ctx.Logger().Warn("requests that can be read in two ways are not refused here: write xroad_framing into the listener_wrappers of this site's server")
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (s *Send) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	u, err := s.server.use()
	if err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	defer u.release()
	(&exchange.Sender{Server: u.SecurityServer}).Serve(named(w, observed(r, nil), "the information system"))
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	xroad_send [<matcher>] [NAME]
func (s *Send) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseName(d, &s.Server)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Send)(nil)
	_ caddyhttp.MiddlewareHandler = (*Send)(nil)
	_ caddyfile.Unmarshaler       = (*Send)(nil)
)
