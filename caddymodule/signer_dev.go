// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust/dev"
)

func init() {
	caddy.RegisterModule(DevSigner{})
}

// DevSigner makes keys for development and keeps them, unencrypted, in Caddy's storage: one for TLS and one for every
// member whose clients or services the server has.
type DevSigner struct {
	// Whether sites of the server may listen beyond loopback. Default: false.
	Anywhere bool `json:"anywhere,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (DevSigner) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.signers.dev",
		New: func() caddy.Module { return new(DevSigner) },
	}
}

// OpenKeys implements Signer.
func (d *DevSigner) OpenKeys(ctx context.Context, h Host) (exchange.Keys, error) {
	authority, err := dev.Open(ctx, h.Storage, h.ID.Instance, h.Clock)
	if err != nil {
		return nil, err
	}
	keys := &devKeys{sign: make(map[ident.Client]*exchange.SignKey)}
	if keys.auth, err = authority.AuthKey(ctx, h.ID); err != nil {
		return nil, err
	}
	for _, member := range h.Members {
		key, err := authority.SignKey(ctx, member, h.ID)
		if err != nil {
			return nil, fmt.Errorf("key of %s: %w", member, err)
		}
		keys.sign[member] = &exchange.SignKey{Key: key.Private, Certificate: key.Chain[0]}
	}
	return keys, nil
}

func (d *DevSigner) anywhere() bool { return d.Anywhere }

// devKeys is one key for each purpose.
type devKeys struct {
	sign map[ident.Client]*exchange.SignKey
	auth *tls.Certificate
}

// Sign implements exchange.Keys.
func (k *devKeys) Sign(member ident.Client) *exchange.SignKey { return k.sign[member.MemberOf()] }

// Auth implements exchange.Keys.
func (k *devKeys) Auth() *tls.Certificate { return k.auth }

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	signer dev [anywhere]
func (d *DevSigner) UnmarshalCaddyfile(disp *caddyfile.Dispenser) (err error) {
	d.Anywhere, err = parseAnywhere(disp)
	return err
}

// Interface guards
var (
	_ Signer                = (*DevSigner)(nil)
	_ developer             = (*DevSigner)(nil)
	_ exchange.Keys         = (*devKeys)(nil)
	_ caddyfile.Unmarshaler = (*DevSigner)(nil)
)
