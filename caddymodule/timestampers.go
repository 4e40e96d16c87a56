// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func init() {
	caddy.RegisterModule(NoTimestamper{})
	caddy.RegisterModule(DevTimestamper{})
	caddy.RegisterModule(TSPTimestamper{})
}

// NoTimestamper leaves evidence without time stamps.
type NoTimestamper struct{}

// CaddyModule returns the Caddy module information.
func (NoTimestamper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.timestampers.none",
		New: func() caddy.Module { return new(NoTimestamper) },
	}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	timestamper none
func (NoTimestamper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// DevTimestamper is not available in this version.
type DevTimestamper struct{}

// CaddyModule returns the Caddy module information.
func (DevTimestamper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.timestampers.dev",
		New: func() caddy.Module { return new(DevTimestamper) },
	}
}

// Validate refuses the module.
func (DevTimestamper) Validate() error {
	return fmt.Errorf("timestamper dev is %w: use timestamper none", errNotAvailable)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	timestamper dev
func (DevTimestamper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// TSPTimestamper is not available in this version.
type TSPTimestamper struct {
	// The addresses of time-stamping services, in the order in which they are tried. Required.
	URLs []string `json:"urls,omitempty"`

	// How long evidence may be without a time stamp before exchanges are refused. Default: no limit.
	Limit caddy.Duration `json:"limit,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (TSPTimestamper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.timestampers.tsp",
		New: func() caddy.Module { return new(TSPTimestamper) },
	}
}

// Validate refuses the module.
func (*TSPTimestamper) Validate() error {
	return fmt.Errorf("timestamper tsp is %w: use timestamper none", errNotAvailable)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	timestamper tsp {
//		url   URL…
//		limit DURATION
//	}
func (t *TSPTimestamper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return parseBlock(d, words{
		"url": func(d *caddyfile.Dispenser) error {
			if t.URLs = d.RemainingArgs(); len(t.URLs) == 0 {
				return d.ArgErr()
			}
			return nil
		},
		"limit": func(d *caddyfile.Dispenser) error { return parseDuration(d, &t.Limit) },
	}, nil)
}

// Interface guards
var (
	_ caddy.Validator       = (*DevTimestamper)(nil)
	_ caddy.Validator       = (*TSPTimestamper)(nil)
	_ caddyfile.Unmarshaler = (*NoTimestamper)(nil)
	_ caddyfile.Unmarshaler = (*DevTimestamper)(nil)
	_ caddyfile.Unmarshaler = (*TSPTimestamper)(nil)
)
