// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/spool"
)

func init() {
	caddy.RegisterModule(MemorySpool{})
}

// defaultMemorySpool is how much a spool in memory holds, where a quarter of the memory is not less.
const defaultMemorySpool = 256 << 20

// MemorySpool keeps attachments that are not verified yet in memory: for small messages, and for tests.
type MemorySpool struct {
	// Octets that all attachments together may take. Default: 256 MiB or a quarter of the memory, whichever is less.
	Limit int64 `json:"limit,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (MemorySpool) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.spools.memory",
		New: func() caddy.Module { return new(MemorySpool) },
	}
}

// Validate checks the configuration.
func (m *MemorySpool) Validate() error {
	if m.Limit < 0 {
		return errors.New("the limit is negative")
	}
	return nil
}

// OpenSpool implements Spool.
func (m *MemorySpool) OpenSpool(context.Context, Host) (spool.Store, error) {
	if m.Limit == 0 { // Caddy sets Go's limit to the memory that there is, in a container too
		return spool.NewMemory(min(defaultMemorySpool, debug.SetMemoryLimit(-1)/4)), nil
	}
	return spool.NewMemory(m.Limit), nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	spool memory [SIZE]
func (m *MemorySpool) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	if d.CountRemainingArgs() == 0 {
		return nil
	}
	if err := parseSize(d, &m.Limit); err != nil {
		return err
	}
	return lineEnds(d)
}

// Interface guards
var (
	_ Spool                 = (*MemorySpool)(nil)
	_ caddy.Validator       = (*MemorySpool)(nil)
	_ caddyfile.Unmarshaler = (*MemorySpool)(nil)
)
