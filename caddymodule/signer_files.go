// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

func init() {
	caddy.RegisterModule(FileSigner{})
}

// FileSigner takes keys from PEM and PKCS#12 files.
//
// A key whose certificate is for signing belongs to the member that the certificate names; one whose certificate is
// for authentication is the key for TLS. Of several keys for one purpose the first that is valid by the day is used,
// in the order of their files' names: put the new key beside the old one before that expires. A reload with changed
// files opens them anew.
type FileSigner struct {
	// The folder of the files: `*.pem` with a key and its certificates, `*.p12` with its password in `*.pass`. Required.
	Dir string `json:"dir,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (FileSigner) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.signers.files",
		New: func() caddy.Module { return new(FileSigner) },
	}
}

// Validate checks the configuration.
func (f *FileSigner) Validate() error {
	if f.Dir == "" {
		return errors.New("the folder of the keys is missing: write signer files DIR")
	}
	return nil
}

// OpenKeys implements Signer. Every member of the host must have a signing key, except the owner where it has neither
// clients nor services; a key that expires later stops its own member only.
func (f *FileSigner) OpenKeys(_ context.Context, h Host) (exchange.Keys, error) {
	dir := absolute(f.Dir)
	loaded, err := softkey.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	keys := &fileKeys{sign: make(map[ident.Client][]*exchange.SignKey), clock: h.Clock}
	for _, k := range loaded {
		if err := keys.add(k, h.Trust); err != nil {
			return nil, err
		}
	}
	if len(keys.auth) == 0 {
		return nil, fmt.Errorf("%s holds no key for TLS: its certificate must allow authentication and not signing", dir)
	}
	for _, member := range h.Members[1:] {
		if len(keys.sign[member]) == 0 {
			return nil, fmt.Errorf("%s holds no signing key of %s, which has clients or services on this server", dir, member)
		}
	}
	return keys, nil
}

// Version implements Versioned.
func (f *FileSigner) Version() (string, error) {
	entries, err := os.ReadDir(absolute(f.Dir))
	if err != nil {
		return "", fmt.Errorf("signer files: %w", err)
	}
	var version strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return "", fmt.Errorf("signer files: %w", err)
		}
		version.WriteString(fileVersion(info))
	}
	return version.String(), nil
}

// fileVersion tells one state of a file from another, as far as its folder knows.
func fileVersion(info os.FileInfo) string {
	return fmt.Sprintf("%q %d %d\n", info.Name(), info.Size(), info.ModTime().UnixNano())
}

// fileKeys is some keys for each purpose, the preferred ones first.
type fileKeys struct {
	sign  map[ident.Client][]*exchange.SignKey
	auth  []*tls.Certificate
	clock func() time.Time
}

func (k *fileKeys) add(key *softkey.Key, t trust.Store) error {
	switch leaf := key.Chain[0]; {
	case softkey.CanSign(leaf): // whatever else the certificate allows
		member, err := t.SignMember(leaf)
		if err != nil {
			return fmt.Errorf("%s: whose signing key is it: %w", key.File, err)
		}
		member = member.MemberOf()
		k.sign[member] = append(k.sign[member], &exchange.SignKey{Key: key.Private, Certificate: leaf})
	case softkey.CanAuthenticate(leaf):
		cert := &tls.Certificate{PrivateKey: key.Private, Leaf: leaf}
		for _, c := range key.Chain {
			cert.Certificate = append(cert.Certificate, c.Raw)
		}
		k.auth = append(k.auth, cert)
	default:
		return fmt.Errorf("%s: the certificate is neither for signing nor for authentication", key.File)
	}
	return nil
}

// Sign implements exchange.Keys.
func (k *fileKeys) Sign(member ident.Client) *exchange.SignKey {
	now := k.clock()
	for _, key := range k.sign[member.MemberOf()] {
		if valid(key.Certificate, now) {
			return key
		}
	}
	return nil
}

// Auth implements exchange.Keys. Where no certificate is valid it returns the first: the handshake will tell.
func (k *fileKeys) Auth() *tls.Certificate {
	now := k.clock()
	for _, cert := range k.auth {
		if valid(cert.Leaf, now) {
			return cert
		}
	}
	return k.auth[0]
}

func valid(cert *x509.Certificate, at time.Time) bool {
	return !at.Before(cert.NotBefore) && !at.After(cert.NotAfter)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	signer files DIR
func (f *FileSigner) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return oneArgument(d, &f.Dir)
}

// Interface guards
var (
	_ Signer                = (*FileSigner)(nil)
	_ Versioned             = (*FileSigner)(nil)
	_ exchange.Keys         = (*fileKeys)(nil)
	_ caddy.Validator       = (*FileSigner)(nil)
	_ caddyfile.Unmarshaler = (*FileSigner)(nil)
)
