// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
)

func init() {
	caddy.RegisterModule(NoEvidence{})
}

// NoEvidence keeps no evidence: nobody can prove later what was exchanged.
type NoEvidence struct{}

// CaddyModule returns the Caddy module information.
func (NoEvidence) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.evidence_stores.none",
		New: func() caddy.Module { return new(NoEvidence) },
	}
}

// OpenEvidence implements EvidenceStore.
func (NoEvidence) OpenEvidence(context.Context, Host) (evidence.Store, exchange.Keep, error) {
	return evidence.None(), exchange.Keep{}, nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	evidence none
func (NoEvidence) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// Interface guards
var (
	_ EvidenceStore         = (*NoEvidence)(nil)
	_ caddyfile.Unmarshaler = (*NoEvidence)(nil)
)
