// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"crypto/tls"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
)

func init() {
	caddy.RegisterModule(Certificates{})
}

// Certificates serves the key for TLS of a security server, wherever its signer has it.
type Certificates struct {
	// The name of the security server. Default: "".
	Server string `json:"server,omitempty"`

	server *Server
}

// CaddyModule returns the Caddy module information.
func (Certificates) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "tls.get_certificate.xroad",
		New: func() caddy.Module { return new(Certificates) },
	}
}

// Provision finds the server.
func (c *Certificates) Provision(ctx caddy.Context) (err error) {
	c.server, err = find(ctx, c.Server)
	return err
}

// GetCertificate implements certmagic.Manager. It returns a certificate or an error, for without either Caddy would
// ask a public certificate authority for one.
func (c *Certificates) GetCertificate(_ context.Context, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.server.authKey(hello)
}

// authKey is a tls.Config's GetCertificate.
func (s *Server) authKey(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	u, err := s.use()
	if err != nil {
		return nil, err
	}
	defer u.release()
	return u.Keys.Auth(), nil
}

// UnmarshalCaddyfile sets up the manager from Caddyfile tokens. Syntax:
//
//	get_certificate xroad [NAME]
func (c *Certificates) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseName(d, &c.Server)
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Certificates)(nil)
	_ certmagic.Manager     = (*Certificates)(nil)
	_ caddyfile.Unmarshaler = (*Certificates)(nil)
)
