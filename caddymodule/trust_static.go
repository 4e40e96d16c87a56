// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/trust"
)

func init() {
	caddy.RegisterModule(StaticTrust{})
}

// StaticTrust is an X-Road instance as one file of shared parameters says. Nothing proves the file: keep it where
// nobody else can write. A reload with a changed file opens it anew.
type StaticTrust struct {
	// The file, shared parameters of version 6. Required.
	File string `json:"file,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (StaticTrust) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.trust_stores.static",
		New: func() caddy.Module { return new(StaticTrust) },
	}
}

// Validate checks the configuration.
func (s *StaticTrust) Validate() error {
	if s.File == "" {
		return errors.New("the file of shared parameters is missing: write trust static FILE")
	}
	return nil
}

// OpenTrust implements TrustStore.
func (s *StaticTrust) OpenTrust(context.Context, Host) (trust.Store, error) {
	return trust.OpenStatic(absolute(s.File))
}

// Version implements Versioned.
func (s *StaticTrust) Version() (string, error) {
	info, err := os.Stat(absolute(s.File))
	if err != nil {
		return "", fmt.Errorf("trust static: %w", err)
	}
	return fileVersion(info), nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	trust static FILE
func (s *StaticTrust) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return oneArgument(d, &s.File)
}

// Interface guards
var (
	_ TrustStore            = (*StaticTrust)(nil)
	_ Versioned             = (*StaticTrust)(nil)
	_ caddy.Validator       = (*StaticTrust)(nil)
	_ caddyfile.Unmarshaler = (*StaticTrust)(nil)
)
