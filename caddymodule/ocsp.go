// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(OCSP{})
	httpcaddyfile.RegisterHandlerDirective("xroad_ocsp", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		o := new(OCSP)
		return o, o.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("xroad_ocsp", httpcaddyfile.Before, "reverse_proxy")
}

// OCSP gives other security servers the OCSP responses of our certificate for TLS. They look for it on port 5577.
type OCSP struct {
	// The name of the security server whose responses they are. Default: "".
	Server string `json:"server,omitempty"`

	server *Server
}

// CaddyModule returns the Caddy module information.
func (OCSP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.xroad_ocsp",
		New: func() caddy.Module { return new(OCSP) },
	}
}

// Provision finds the server and tells it where the site listens.
func (o *OCSP) Provision(ctx caddy.Context) error {
	s, listen, err := attach(ctx, o.Server)
	if err != nil {
		return err
	}
	o.server = s
	s.sites.ocsp = with(s.sites.ocsp, listen)
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (o *OCSP) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	u, err := o.server.use()
	if err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	defer u.release()
	u.ServeOCSP(w, r)
	return nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	xroad_ocsp [<matcher>] [NAME]
func (o *OCSP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseName(d, &o.Server)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*OCSP)(nil)
	_ caddyhttp.MiddlewareHandler = (*OCSP)(nil)
	_ caddyfile.Unmarshaler       = (*OCSP)(nil)
)
