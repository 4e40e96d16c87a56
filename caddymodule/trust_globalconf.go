// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/trust"
)

func init() {
	caddy.RegisterModule(GlobalConfTrust{})
}

// GlobalConfTrust is an X-Road instance, and those federated with it, as X-Road's own configuration client keeps them in
// a folder. Changes of the folder are followed within seconds, without a reload. What cannot be read of a change does
// not count and is logged; when the configuration of the own instance has expired, messages are refused. Nothing proves
// the folder again: keep it where nobody but the configuration client can write.
type GlobalConfTrust struct {
	// The folder, usually /etc/xroad/globalconf. Required.
	Dir string `json:"dir,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (GlobalConfTrust) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.trust_stores.globalconf",
		New: func() caddy.Module { return new(GlobalConfTrust) },
	}
}

// Validate checks the configuration.
func (g *GlobalConfTrust) Validate() error {
	if g.Dir == "" {
		return errors.New("the folder of global configuration is missing: write trust globalconf DIR")
	}
	return nil
}

// OpenTrust implements TrustStore.
func (g *GlobalConfTrust) OpenTrust(_ context.Context, h Host) (trust.Store, error) {
	return trust.OpenGlobalConf(absolute(g.Dir), h.Clock, func(err error) {
		caddy.Log().Named("xroad").Warn("global configuration", zap.Stringer("server", h.ID), zap.Error(err))
	})
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	trust globalconf DIR
func (g *GlobalConfTrust) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return oneArgument(d, &g.Dir)
}

// Interface guards
var (
	_ TrustStore            = (*GlobalConfTrust)(nil)
	_ caddy.Validator       = (*GlobalConfTrust)(nil)
	_ caddyfile.Unmarshaler = (*GlobalConfTrust)(nil)
)
