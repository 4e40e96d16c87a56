// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

func init() {
	caddy.RegisterModule(Verifier{})
}

// Verifier lets a TLS handshake go on only with a security server that is registered in the X-Road instance. Use it in
// `client_auth` with `mode require`, for certificate authorities of an instance are not those of the web.
type Verifier struct {
	// The name of the security server whose trust store is asked. Default: "".
	Server string `json:"server,omitempty"`

	server *Server
}

// CaddyModule returns the Caddy module information.
func (Verifier) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "tls.client_auth.verifier.xroad",
		New: func() caddy.Module { return new(Verifier) },
	}
}

// Provision finds the server.
func (v *Verifier) Provision(ctx caddy.Context) (err error) {
	v.server, err = find(ctx, v.Server)
	return err
}

// VerifyClientCertificate implements caddytls.ClientCertificateVerifier. Caddy calls it for resumed sessions too.
func (v *Verifier) VerifyClientCertificate(rawCerts [][]byte, _ [][]*x509.Certificate) error {
	if len(rawCerts) == 0 {
		return errors.New("the peer shows no certificate")
	}
	cert, err := x509.ParseCertificate(rawCerts[0])
	if err != nil {
		return fmt.Errorf("reading the peer's certificate: %w", err)
	}
	u, err := v.server.use()
	if err != nil {
		return err
	}
	defer u.release()
	_, err = u.Trust.ServerOf(cert)
	return err
}

// UnmarshalCaddyfile sets up the verifier from Caddyfile tokens. Syntax:
//
//	verifier xroad [NAME]
func (v *Verifier) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return parseName(d, &v.Server)
}

// Interface guards
var (
	_ caddy.Provisioner                  = (*Verifier)(nil)
	_ caddytls.ClientCertificateVerifier = (*Verifier)(nil)
	_ caddyfile.Unmarshaler              = (*Verifier)(nil)
)
