// SPDX-License-Identifier: Apache-2.0

// Package softkey reads signing and authentication keys from PEM and PKCS#12 files.
package softkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
)

// minRSA is the shortest RSA key that is taken, in bits.
const minRSA = 2048

// Key is a private key with its certificate and those above it.
type Key struct {
	Private crypto.Signer
	Chain   []*x509.Certificate // leaf first; the root may be left out
	File    string              // where it was read
}

// CanSign reports whether the certificate is for signing messages (keyUsage nonRepudiation).
func CanSign(cert *x509.Certificate) bool { return cert.KeyUsage&x509.KeyUsageContentCommitment != 0 }

// CanAuthenticate reports whether the certificate is for TLS between security servers (signature-and-evidence 8.5).
func CanAuthenticate(cert *x509.Certificate) bool {
	for _, usage := range cert.ExtKeyUsage {
		if usage == x509.ExtKeyUsageClientAuth {
			return true
		}
	}
	const any = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageDataEncipherment
	return cert.KeyUsage&any != 0
}

// assemble finds the certificate of the private key and puts those above it in order. Every certificate must belong
// to the chain; repeated ones count once.
func assemble(private any, certs []*x509.Certificate) (*Key, error) {
	key, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("its private key, a %T, cannot sign", private)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, fmt.Errorf("its private key, a %T, is of a kind that is not known", private)
	}
	var chain []*x509.Certificate
	for _, c := range certs {
		if public.Equal(c.PublicKey) {
			chain = []*x509.Certificate{c}
			break
		}
	}
	if chain == nil {
		return nil, fmt.Errorf("none of its %d certificates is of its private key", len(certs))
	}
	for next := above(chain[0], certs); next != nil && !contains(chain, next); next = above(next, certs) {
		chain = append(chain, next)
	}
	for _, c := range certs {
		if !contains(chain, c) {
			return nil, fmt.Errorf("its certificate %q is neither of its private key nor above the one that is", c.Subject)
		}
	}
	if err := suitable(key.Public(), chain[0]); err != nil {
		return nil, err
	}
	return &Key{Private: key, Chain: chain}, nil
}

func above(c *x509.Certificate, certs []*x509.Certificate) *x509.Certificate {
	for _, issuer := range certs {
		if bytes.Equal(c.RawIssuer, issuer.RawSubject) &&
			issuer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil {
			return issuer
		}
	}
	return nil
}

func contains(certs []*x509.Certificate, c *x509.Certificate) bool {
	for _, one := range certs {
		if one.Equal(c) {
			return true
		}
	}
	return false
}

// suitable refuses keys that are too short, and for signing all that X-Road's signature cannot be made with.
func suitable(public crypto.PublicKey, cert *x509.Certificate) error {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSA {
			return fmt.Errorf("its RSA key has %d bits; at least %d are needed", bits, minRSA)
		}
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
	}
	if CanSign(cert) {
		return errors.New("its certificate is for signing; that takes an RSA, P-256 or P-384 key")
	}
	return nil
}
