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
//
// Caddy puts the managers of all sites without a host name together and asks the first, whichever site a connection
// came to. So the server that receives where the connection came in is the one whose key is served; the configured one
// is for connections that came in elsewhere.
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
	server := c.server
	if hello.Conn != nil {
		if at := server.receiving(hello.Conn.LocalAddr()); at != nil {
			server = at
		}
	}
	u, err := server.use()
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
