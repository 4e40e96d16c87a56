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
	caddy.RegisterModule(Receive{})
	httpcaddyfile.RegisterHandlerDirective("xroad_receive", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		r := new(Receive)
		return r, r.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("xroad_receive", httpcaddyfile.Before, "invoke")
}

// Receive takes messages of other security servers, verifies them and calls the services they name: where the service
// says, or else the next handlers of the site, which see the request that the information system sent. The matcher
// `xroad_service` tells these which service is called.
type Receive struct {
	// The name of the security server that receives. Default: "".
	Server string `json:"server,omitempty"`

	server *Server
}

// CaddyModule returns the Caddy module information.
func (Receive) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.xroad_receive",
		New: func() caddy.Module { return new(Receive) },
	}
}

// Provision finds the server and tells it where the site listens.
func (v *Receive) Provision(ctx caddy.Context) error {
	s, listen, err := attach(ctx, v.Server)
	if err != nil {
		return err
	}
	v.server = s
	s.sites.receive = with(s.sites.receive, listen)
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (v *Receive) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	u, err := v.server.use()
	if err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	defer u.release()
	called := &service{next: next, peer: r}
	w, r = named(w, observed(r, &called.err), "the other security server")
	(&exchange.Receiver{Server: u.SecurityServer}).Serve(w, r, called)
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	xroad_receive [<matcher>] [NAME]
func (v *Receive) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseName(d, &v.Server)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Receive)(nil)
	_ caddyhttp.MiddlewareHandler = (*Receive)(nil)
	_ caddyfile.Unmarshaler       = (*Receive)(nil)
)
