// SPDX-License-Identifier: Apache-2.0

// Package softkey reads signing and authentication keys from PEM and PKCS#12 files.
package softkey

import (
	"crypto"
	"crypto/x509"
)

// Key is a private key with its certificate and those above it.
type Key struct {
	Private crypto.Signer
	Chain   []*x509.Certificate // leaf first; the root may be left out
	File    string              // where it was read
}

// CanSign reports whether the certificate is for signing messages (keyUsage nonRepudiation).
func CanSign(cert *x509.Certificate) bool { panic("stub") }

// CanAuthenticate reports whether the certificate is for TLS between security servers (section 8.5).
func CanAuthenticate(cert *x509.Certificate) bool { panic("stub") }

// Load reads one PEM file (a key and its certificates) or PKCS#12 file. The password of FILE.p12 is the first line of
// FILE.pass beside it; without that file it is empty.
func Load(file string) (*Key, error) { panic("stub") }

// LoadDir reads every *.pem and *.p12 of a folder, in order of name. Files others may read are refused.
func LoadDir(dir string) ([]*Key, error) { panic("stub") }
