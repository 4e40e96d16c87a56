// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

func init() {
	caddy.RegisterModule(Verifier{})
}

// Verifier lets a TLS handshake go on only with a security server that is registered in the X-Road instance. Use it in
// `client_auth` with `mode require`, for certificate authorities of an instance are not those of the web.
//
// In an HTTP server it also has the connections that it judges show the authentication key of its security server.
// Caddy would first look whether it manages a certificate for the name or the address that the peer asked for, such as
// that of a site for information systems on the same host, and would ask the managers of all sites together.
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
	if v.server, err = find(ctx, v.Server); err != nil {
		return err
	}
	site, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if site == nil {
		return nil
	}
	for _, policy := range site.TLSConnPolicies {
		// The policy that is being provisioned is the one that has its configuration and still has its verifiers to load.
		if policy.TLSConfig != nil && policy.ClientAuthentication != nil && policy.ClientAuthentication.VerifiersRaw != nil {
			policy.TLSConfig.GetCertificate = v.server.authKey
		}
	}
	return nil
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
