// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	_ "crypto/sha1" // certificate hashes, and imprints of the past
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"

	"github.com/caddy-fairway/fairway/crypto"
)

// method is a digest method as CMS names it, alone and in signatures.
type method struct {
	crypto.Digest // 0: SHA-1, of the past
	hash          stdcrypto.Hash
	id            asn1.ObjectIdentifier
	rsaID         asn1.ObjectIdentifier
	rsa           x509.SignatureAlgorithm
	ecdsaID       asn1.ObjectIdentifier
	ecdsa         x509.SignatureAlgorithm
}

var (
	sha1Method = &method{0, stdcrypto.SHA1, asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26},
		asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 5}, x509.SHA1WithRSA,
		asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 1}, x509.ECDSAWithSHA1}
	sha256Method = &method{crypto.SHA256, stdcrypto.SHA256, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1},
		asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, x509.SHA256WithRSA,
		asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}, x509.ECDSAWithSHA256}
	sha384Method = &method{crypto.SHA384, stdcrypto.SHA384, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2},
		asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 12}, x509.SHA384WithRSA,
		asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}, x509.ECDSAWithSHA384}
	sha512Method = &method{crypto.SHA512, stdcrypto.SHA512, asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3},
		asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 13}, x509.SHA512WithRSA,
		asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 4}, x509.ECDSAWithSHA512}

	methods = []*method{sha1Method, sha256Method, sha384Method, sha512Method}

	// rsaEncryption is how many tokens name a signature with RSA, whose digest method they name anyway.
	rsaEncryption = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
)

// methodOf returns the digest method that an identifier names.
func methodOf(a pkix.AlgorithmIdentifier) (*method, error) {
	for _, m := range methods {
		if m.id.Equal(a.Algorithm) && plain(a) {
			return m, nil
		}
	}
	return nil, fmt.Errorf("digest method %v is not accepted", a.Algorithm)
}

// signature returns the algorithm of a signature over a digest of this method.
func (m *method) signature(a pkix.AlgorithmIdentifier) (x509.SignatureAlgorithm, error) {
	switch id := a.Algorithm; {
	case !plain(a):
	case id.Equal(rsaEncryption), id.Equal(m.rsaID):
		return m.rsa, nil
	case id.Equal(m.ecdsaID):
		return m.ecdsa, nil
	}
	return 0, fmt.Errorf("signature algorithm %v, with digest method %v, is not accepted", a.Algorithm, m.id)
}

// identifier returns the identifier that names the digest method.
func (m *method) identifier() pkix.AlgorithmIdentifier {
	return pkix.AlgorithmIdentifier{Algorithm: m.id, Parameters: asn1.NullRawValue}
}

func (m *method) sum(data []byte) []byte {
	h := m.hash.New()
	h.Write(data)
	return h.Sum(nil)
}

// plain reports whether an algorithm has no parameters, or NULL for them.
func plain(a pkix.AlgorithmIdentifier) bool {
	return len(a.Parameters.FullBytes) == 0 || string(a.Parameters.FullBytes) == "\x05\x00"
}

// strong refuses keys that are too short for the era.
func strong(public any, e Era) error {
	bits, least := 0, 2048
	switch key := public.(type) {
	case *rsa.PublicKey:
		bits = key.N.BitLen()
		if e == Past {
			least = 1024
		}
	case *ecdsa.PublicKey:
		bits, least = key.Curve.Params().BitSize, 256
	}
	if bits < least {
		return fmt.Errorf("its key, a %T of %d bits, is too short or of a kind that is not accepted", public, bits)
	}
	return nil
}
