// SPDX-License-Identifier: Apache-2.0

// Package pkcs11 has a security server sign with keys in a PKCS#11 token: a hardware security module, a smart card or a
// USB token. It is a Go module of its own because it needs cgo.
package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/caddymodule"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/exchange"
)

func init() {
	caddy.RegisterModule(Signer{})
}

// Signer takes keys from a PKCS#11 token, and from files those that are not there.
//
// The token has the certificates beside the keys, of the same CKA_ID. A key whose certificate is for signing belongs to the
// member that the certificate names; one whose certificate is for authentication is the key for TLS, which may be a file as
// well. Of several keys for one purpose the first that is valid by the day is used, those of the token before the files, in
// the order in which their certificates begin to be valid. Keys that were put on the token are found when the server is
// opened anew.
type Signer struct {
	// The file of the PKCS#11 module: the library that speaks to the token. Required.
	Library string `json:"library,omitempty"`

	// The label of the token. Required.
	Token string `json:"token,omitempty"`

	// A file whose first line is the user's PIN, readable by its owner only. Required.
	PINFile string `json:"pin_file,omitempty"`

	// A folder of keys that are not on the token, such as that for TLS, as `files` has them. Default: none.
	Files string `json:"files,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (Signer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.signers.pkcs11",
		New: func() caddy.Module { return new(Signer) },
	}
}

// Validate checks the configuration.
func (s *Signer) Validate() error {
	switch {
	case s.Library == "":
		return errors.New("signer pkcs11: the module is missing: write module FILE")
	case s.Token == "":
		return errors.New("signer pkcs11: the token is missing: write token LABEL")
	case s.PINFile == "":
		return errors.New("signer pkcs11: the file of the PIN is missing: write pin_file FILE")
	}
	return nil
}

// OpenKeys implements caddymodule.Signer. What it opens stays open for the life of the process, for all who name the same
// token: a reload finds it open.
func (s *Signer) OpenKeys(ctx context.Context, h caddymodule.Host) (exchange.Keys, error) {
	t := tokenAt(place{s.Library, s.Token, s.PINFile})
	found, err := t.keys(ctx)
	if err != nil {
		return nil, t.explained(err)
	}
	ring := caddymodule.NewKeyRing(h)
	for _, k := range found {
		k.Chain = append(k.Chain, h.Trust.Extra(k.Chain[0])...)
		if err := ring.Add(k, true); err != nil {
			return nil, err
		}
	}
	where := t.String()
	if s.Files != "" {
		where += " and " + s.Files
		files, err := softkey.LoadDir(s.Files)
		if err != nil {
			return nil, err
		}
		for _, k := range files {
			if err := ring.Add(k, false); err != nil {
				return nil, err
			}
		}
	}
	if err := ring.Complete(where); err != nil {
		return nil, err
	}
	return ring, nil
}

// Version implements caddymodule.Versioned: with another PIN, or other files, a reload opens the keys anew.
func (s *Signer) Version() (string, error) {
	info, err := os.Stat(s.PINFile)
	if err != nil {
		return "", fmt.Errorf("signer pkcs11: %w", err)
	}
	version := fmt.Sprintf("%q %d %d\n", filepath.Base(s.PINFile), info.Size(), info.ModTime().UnixNano())
	if s.Files != "" {
		files, err := (&caddymodule.FileSigner{Dir: s.Files}).Version()
		if err != nil {
			return "", err
		}
		version += files
	}
	return version, nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	signer pkcs11 {
//		module   FILE
//		token    LABEL
//		pin_file FILE
//		files    DIR
//	}
func (s *Signer) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var into *string
		switch word := d.Val(); word {
		case "module":
			into = &s.Library
		case "token":
			into = &s.Token
		case "pin_file":
			into = &s.PINFile
		case "files":
			into = &s.Files
		default:
			return d.Errf("'%s' is unknown here: use files, module, pin_file, token", word)
		}
		if *into != "" {
			return d.Errf("'%s' stands twice", d.Val())
		}
		if !d.AllArgs(into) {
			return d.ArgErr()
		}
	}
	return nil
}

// Interface guards
var (
	_ caddymodule.Signer    = (*Signer)(nil)
	_ caddymodule.Versioned = (*Signer)(nil)
	_ caddy.Validator       = (*Signer)(nil)
	_ caddyfile.Unmarshaler = (*Signer)(nil)
)
