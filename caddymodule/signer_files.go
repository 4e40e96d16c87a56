// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/exchange"
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
// clients nor services.
func (f *FileSigner) OpenKeys(_ context.Context, h Host) (exchange.Keys, error) {
	dir := absolute(f.Dir)
	loaded, err := softkey.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	keys := NewKeyRing(h)
	for _, k := range loaded {
		if err := keys.Add(k, false); err != nil {
			return nil, err
		}
	}
	if err := keys.Complete(dir); err != nil {
		return nil, err
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
	_ caddy.Validator       = (*FileSigner)(nil)
	_ caddyfile.Unmarshaler = (*FileSigner)(nil)
)
