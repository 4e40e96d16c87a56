// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

func init() {
	caddy.RegisterModule(DevTrust{})
}

// DevTrust is an X-Road instance for development: its members are those of the security servers in this process that
// have it too, and its certificate authority is kept, unencrypted, in Caddy's storage.
type DevTrust struct {
	// Whether sites of the server may listen beyond loopback. Default: false.
	Anywhere bool `json:"anywhere,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (DevTrust) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.trust_stores.dev",
		New: func() caddy.Module { return new(DevTrust) },
	}
}

// OpenTrust implements TrustStore.
func (d *DevTrust) OpenTrust(ctx context.Context, h Host) (trust.Store, error) {
	authority, err := dev.Open(ctx, h.Storage, h.ID.Instance, h.Clock)
	if err != nil {
		return nil, err
	}
	return authority.Trust(ctx, h.Neighbours)
}

func (d *DevTrust) anywhere() bool { return d.Anywhere }

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	trust dev [anywhere]
func (d *DevTrust) UnmarshalCaddyfile(disp *caddyfile.Dispenser) (err error) {
	d.Anywhere, err = parseAnywhere(disp)
	return err
}

// Interface guards
var (
	_ TrustStore            = (*DevTrust)(nil)
	_ developer             = (*DevTrust)(nil)
	_ caddyfile.Unmarshaler = (*DevTrust)(nil)
)
