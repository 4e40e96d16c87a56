// SPDX-License-Identifier: Apache-2.0

// Command slowserver is Fairway with one more signer, whose signing keys are as slow as those in a device. The benchmarks
// run it.
package main

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-fairway/fairway"
	"github.com/caddy-fairway/fairway/caddymodule"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/slowkey"
)

func init() {
	caddy.RegisterModule(Signer{})
}

func main() { caddycmd.Main() }

// Signer takes keys from files and signs with them slowly, with one operation of a key at a time.
type Signer struct {
	Dir   string         `json:"dir,omitempty"`   // of the files
	Takes caddy.Duration `json:"takes,omitempty"` // how long an operation takes
}

// CaddyModule returns the Caddy module information.
func (Signer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.signers.slow",
		New: func() caddy.Module { return new(Signer) },
	}
}

// OpenKeys implements caddymodule.Signer.
func (s *Signer) OpenKeys(_ context.Context, h caddymodule.Host) (exchange.Keys, error) {
	loaded, err := softkey.LoadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	keys := caddymodule.NewKeyRing(h)
	for _, k := range loaded {
		slow := softkey.CanSign(k.Chain[0])
		if slow {
			k.Private = slowkey.New(k.Private, time.Duration(s.Takes))
		}
		if err := keys.Add(k, slow); err != nil {
			return nil, err
		}
	}
	return keys, keys.Complete(s.Dir)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	signer slow DIR DURATION
func (s *Signer) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	var takes string
	if d.Next(); !d.AllArgs(&s.Dir, &takes) {
		return d.ArgErr()
	}
	duration, err := caddy.ParseDuration(takes)
	s.Takes = caddy.Duration(duration)
	return err
}

// Interface guards
var (
	_ caddymodule.Signer    = (*Signer)(nil)
	_ caddyfile.Unmarshaler = (*Signer)(nil)
)
