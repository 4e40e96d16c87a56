// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
)

func init() {
	caddy.RegisterModule(MatchService{})
}

// MatchService matches requests that `xroad_receive` handed on, by the service that the verified message calls:
// INSTANCE/CLASS/MEMBER/SUBSYSTEM/CODE[/VERSION], in full. Other requests match never.
type MatchService []ident.Service

// CaddyModule returns the Caddy module information.
func (MatchService) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.matchers.xroad_service",
		New: func() caddy.Module { return new(MatchService) },
	}
}

// MatchWithError implements caddyhttp.RequestMatcherWithError.
func (m MatchService) MatchWithError(r *http.Request) (bool, error) {
	called, ok := exchange.ServiceOf(r.Context())
	return ok && slices.Contains(m, called), nil
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	xroad_service ID…
func (m *MatchService) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() { // a matcher may stand several times in a set
		if !d.NextArg() {
			return d.ArgErr()
		}
		for {
			id, err := ident.ParseService(d.Val())
			if err != nil {
				return d.WrapErr(err)
			}
			*m = append(*m, id)
			if !d.NextArg() {
				break
			}
		}
		if err := lineEnds(d); err != nil {
			return err
		}
	}
	return nil
}

// Interface guards
var (
	_ caddyhttp.RequestMatcherWithError = (*MatchService)(nil)
	_ caddyfile.Unmarshaler             = (*MatchService)(nil)
)
