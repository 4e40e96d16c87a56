// SPDX-License-Identifier: Apache-2.0

// Package xades writes signature documents by template and verifies them strictly.
// (signature-and-evidence sections 3, 4 and 7)
package xades

import (
	"context"
	stdcrypto "crypto"
	"crypto/x509"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// Signer signs with one key: a crypto.Signer.
type Signer struct {
	Key         stdcrypto.Signer    // RSA of at least 2048 bits, or ECDSA on P-256 or P-384
	Certificate *x509.Certificate   // of Key
	Extra       []*x509.Certificate // between Certificate and its root, nearest first, the root left out
	// OCSP returns a response for Certificate and each of Extra, in that order, DER.
	OCSP  func(ctx context.Context) ([][]byte, error)
	Clock func() time.Time
}

// Sign implements crypto.Signer.
func (s *Signer) Sign(ctx context.Context, parts []crypto.Part, form crypto.Form) (*crypto.Signature, error) {
	panic("stub")
}

// Verified is what a signature proves about its signer, to be judged by trust.
type Verified struct {
	Certificate *x509.Certificate
	Extra       []*x509.Certificate
	OCSP        [][]byte
	SigningTime time.Time // informative
	Form        crypto.Form
}

// Verify checks that sig is a signature of the profile, by the certificate inside it, over exactly the parts:
// structure, coverage, digests, value (7.2 steps 1 to 6 except the member, 7.5). It does not judge the certificate
// chain, its member or the OCSP responses; that is for trust. Errors have the causes of section 7.1.
func Verify(sig *crypto.Signature, parts []crypto.Part) (*Verified, error) { panic("stub") }
