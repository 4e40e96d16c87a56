// SPDX-License-Identifier: Apache-2.0

package xades

import (
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"

	"github.com/caddy-fairway/fairway/crypto"
)

// Sizes of RSA keys in bits. The upper bound keeps a stranger's key from costing too much.
const (
	minRSA = 2048
	maxRSA = 16384
)

// scheme is a family of signature methods.
type scheme uint8

const (
	rsaPKCS1 scheme = iota + 1
	rsaPSS
	ecdsaRS
)

// method is a signature method.
type method struct {
	scheme scheme
	digest crypto.Digest
}

// methods are the signature methods that are accepted (section 1.2 without SHA-1 and SHA-224).
var methods = map[string]method{
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256":      {rsaPKCS1, crypto.SHA256},
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha384":      {rsaPKCS1, crypto.SHA384},
	"http://www.w3.org/2001/04/xmldsig-more#rsa-sha512":      {rsaPKCS1, crypto.SHA512},
	"http://www.w3.org/2007/05/xmldsig-more#sha256-rsa-MGF1": {rsaPSS, crypto.SHA256},
	"http://www.w3.org/2007/05/xmldsig-more#sha384-rsa-MGF1": {rsaPSS, crypto.SHA384},
	"http://www.w3.org/2007/05/xmldsig-more#sha512-rsa-MGF1": {rsaPSS, crypto.SHA512},
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256":    {ecdsaRS, crypto.SHA256},
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384":    {ecdsaRS, crypto.SHA384},
	"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512":    {ecdsaRS, crypto.SHA512},
}

// signatureMethod returns the URI of the method that Sign uses with a key.
func signatureMethod(key stdcrypto.PublicKey) string {
	if _, ok := key.(*ecdsa.PublicKey); ok {
		return "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512"
	}
	return "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"
}

// checkKey accepts the keys of section 7.5 rule 5.
func checkKey(key stdcrypto.PublicKey) error {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if n := key.N.BitLen(); n < minRSA || n > maxRSA {
			return fmt.Errorf("RSA key of %d bits", n)
		}
		return nil
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return fmt.Errorf("ECDSA key on %s", key.Curve.Params().Name)
		}
		return nil
	default:
		return fmt.Errorf("key of type %T", key)
	}
}

var (
	errNoKeyUsage     = errors.New("the certificate has no key usage")
	errNonRepudiation = errors.New("the certificate is not for signing: its key usage has no nonRepudiation")
)

// checkUsage accepts signing certificates (section 8.5).
func checkUsage(cert *x509.Certificate) error {
	for _, e := range cert.Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 15}) {
			if cert.KeyUsage&x509.KeyUsageContentCommitment == 0 {
				return errNonRepudiation
			}
			return nil
		}
	}
	return errNoKeyUsage
}

// sign returns the signature value over a digest (section 4 step 7).
func sign(key stdcrypto.Signer, sum []byte) ([]byte, error) {
	value, err := key.Sign(rand.Reader, sum, crypto.SHA512.Hash())
	if err != nil {
		return nil, err
	}
	public, ok := key.Public().(*ecdsa.PublicKey)
	if !ok {
		return value, nil
	}
	var der struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(value, &der); err != nil || len(rest) > 0 {
		return nil, errors.New("the key's signature is not DER")
	}
	half := (public.Curve.Params().BitSize + 7) / 8
	for _, n := range []*big.Int{der.R, der.S} {
		if n.Sign() <= 0 || n.BitLen() > 8*half {
			return nil, errors.New("the key's signature is out of range")
		}
	}
	value = make([]byte, 2*half)
	der.R.FillBytes(value[:half])
	der.S.FillBytes(value[half:])
	return value, nil
}

// verify checks a signature value over a digest. The key has passed checkKey.
func (m method) verify(key stdcrypto.PublicKey, sum, value []byte) error {
	hash := m.digest.Hash()
	switch key := key.(type) {
	case *rsa.PublicKey:
		switch m.scheme {
		case rsaPKCS1:
			return rsa.VerifyPKCS1v15(key, hash, sum, value)
		case rsaPSS:
			return rsa.VerifyPSS(key, hash, sum, value, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		}
	case *ecdsa.PublicKey:
		if m.scheme != ecdsaRS {
			break
		}
		// X-Road sometimes emits shorter halves, but always equal ones (section 4 step 7).
		half := len(value) / 2
		if len(value)%2 != 0 || half == 0 || half > (key.Curve.Params().BitSize+7)/8 {
			return fmt.Errorf("ECDSA value of %d octets", len(value))
		}
		r, s := new(big.Int).SetBytes(value[:half]), new(big.Int).SetBytes(value[half:])
		if !ecdsa.Verify(key, sum, r, s) {
			return errors.New("ECDSA verification error")
		}
		return nil
	}
	return fmt.Errorf("the method does not belong to a key of type %T", key)
}
