// SPDX-License-Identifier: Apache-2.0

package pkcs11

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/miekg/pkcs11"

	"github.com/caddy-fairway/fairway/crypto/softkey"
)

// maxObjects is how many objects of one kind a token may have.
const maxObjects = 1000

// keys returns the private keys that have a certificate of the same CKA_ID, those first whose certificate begins to be
// valid first.
func (t *token) keys(ctx context.Context) ([]*softkey.Key, error) {
	return do(ctx, t, func(s session) ([]*softkey.Key, error) {
		certs, err := s.find(pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_CERTIFICATE))
		if err != nil {
			return nil, fmt.Errorf("looking for certificates: %w", err)
		}
		var found []*softkey.Key
		for _, object := range certs {
			key, err := t.keyOf(s, object)
			if err != nil {
				return nil, err
			}
			if key != nil {
				found = append(found, key)
			}
		}
		slices.SortStableFunc(found, func(a, b *softkey.Key) int { return a.Chain[0].NotBefore.Compare(b.Chain[0].NotBefore) })
		return found, nil
	})
}

// keyOf returns the private key of a certificate, or nil where it has none, as those of authorities.
func (t *token) keyOf(s session, certificate pkcs11.ObjectHandle) (*softkey.Key, error) {
	attributes, err := s.GetAttributeValue(s.handle, certificate, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_ID, nil), pkcs11.NewAttribute(pkcs11.CKA_VALUE, nil),
	})
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	id, der := attributes[0].Value, attributes[1].Value
	switch private, err := s.private(id); {
	case err != nil:
		return nil, err
	case len(private) == 0:
		return nil, nil
	case len(private) > 1:
		return nil, fmt.Errorf("it has %d private keys of CKA_ID %x", len(private), id)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate of key %x: %w", id, err)
	}
	k := &key{token: t, id: id, public: cert.PublicKey}
	if _, err := k.size(); err != nil {
		return nil, fmt.Errorf("key %x: %w", id, err)
	}
	return &softkey.Key{Private: k, Chain: []*x509.Certificate{cert}, File: fmt.Sprintf("%s, key %x", t, id)}, nil
}

// private finds the private keys of that CKA_ID.
func (s session) private(id []byte) ([]pkcs11.ObjectHandle, error) {
	if len(id) == 0 {
		return nil, nil
	}
	keys, err := s.find(pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_PRIVATE_KEY), pkcs11.NewAttribute(pkcs11.CKA_ID, id))
	if err != nil {
		return nil, fmt.Errorf("looking for key %x: %w", id, err)
	}
	return keys, nil
}

// find returns the objects that have the attributes.
func (s session) find(attributes ...*pkcs11.Attribute) ([]pkcs11.ObjectHandle, error) {
	if err := s.FindObjectsInit(s.handle, attributes); err != nil {
		return nil, err
	}
	var all []pkcs11.ObjectHandle
	for {
		some, _, err := s.FindObjects(s.handle, 100)
		if err == nil && len(all)+len(some) > maxObjects {
			err = fmt.Errorf("there are more than %d", maxObjects)
		}
		if err != nil || len(some) == 0 {
			return all, errors.Join(err, s.FindObjectsFinal(s.handle))
		}
		all = append(all, some...)
	}
}

// key is a private key on a token: a crypto.Signer of the standard library. It is safe for concurrent use.
type key struct {
	token  *token
	id     []byte
	public crypto.PublicKey // of the certificate
	proved atomic.Bool      // that it is the private key's

	mu     sync.Mutex
	object object // where it was found last
}

// object is a private key as sessions of one generation know it.
type object struct {
	generation int
	handle     pkcs11.ObjectHandle
	asks       bool // for the PIN before every operation (CKA_ALWAYS_AUTHENTICATE)
	known      bool
}

// Public implements crypto.Signer.
func (k *key) Public() crypto.PublicKey { return k.public }

// Sign implements crypto.Signer: PKCS#1 v1.5, PSS, and ECDSA as DER. The first signature is verified, for nothing else says
// that the certificate beside a key is that key's.
func (k *key) Sign(_ io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	mechanism, input, err := k.mechanism(digest, o)
	if err != nil {
		return nil, err
	}
	value, err := do(context.Background(), k.token, func(s session) ([]byte, error) {
		private, err := k.find(s)
		if err != nil {
			return nil, err
		}
		if err := s.SignInit(s.handle, []*pkcs11.Mechanism{mechanism}, private.handle); err != nil {
			return nil, fmt.Errorf("signing with key %x: %w", k.id, err)
		}
		if private.asks {
			if err := k.token.confirm(s); err != nil {
				return nil, err
			}
		}
		value, err := s.Ctx.Sign(s.handle, input)
		if err != nil {
			return nil, fmt.Errorf("signing with key %x: %w", k.id, err)
		}
		return value, nil
	})
	if err == nil {
		value, err = k.finish(value)
	}
	if err == nil && !k.proved.Load() {
		if err = k.verify(digest, value, o); err == nil {
			k.proved.Store(true)
		}
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

// find returns the object of the key in a session.
func (k *key) find(s session) (object, error) {
	k.mu.Lock()
	found := k.object
	k.mu.Unlock()
	if found.known && found.generation == s.generation {
		return found, nil
	}
	private, err := s.private(k.id)
	if err != nil {
		return object{}, err
	}
	if len(private) != 1 {
		return object{}, fmt.Errorf("it has %d private keys of CKA_ID %x", len(private), k.id)
	}
	found = object{generation: s.generation, handle: private[0], known: true}
	// Modules without that attribute do not ask.
	if a, err := s.GetAttributeValue(s.handle, found.handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_ALWAYS_AUTHENTICATE, nil)}); err == nil {
		found.asks = bytes.Equal(a[0].Value, []byte{1})
	}
	k.mu.Lock()
	k.object = found
	k.mu.Unlock()
	return found, nil
}

// prefixes are the heads of a DigestInfo (signature-and-evidence 4 step 6).
var prefixes = map[crypto.Hash]string{
	crypto.SHA256: "\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20",
	crypto.SHA384: "\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30",
	crypto.SHA512: "\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40",
}

// generators are the hashes and mask generation functions of PSS.
var generators = map[crypto.Hash][2]uint{
	crypto.SHA256: {pkcs11.CKM_SHA256, pkcs11.CKG_MGF1_SHA256},
	crypto.SHA384: {pkcs11.CKM_SHA384, pkcs11.CKG_MGF1_SHA384},
	crypto.SHA512: {pkcs11.CKM_SHA512, pkcs11.CKG_MGF1_SHA512},
}

// size returns the octets of one half of an ECDSA signature, 0 for RSA.
func (k *key) size() (int, error) {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return 0, nil
	case *ecdsa.PublicKey:
		return (public.Curve.Params().N.BitLen() + 7) / 8, nil
	}
	return 0, fmt.Errorf("a key of type %T is not known", k.public)
}

// mechanism returns how the token signs a digest, and what it gets.
func (k *key) mechanism(digest []byte, o crypto.SignerOpts) (*pkcs11.Mechanism, []byte, error) {
	hash := o.HashFunc()
	prefix, ok := prefixes[hash]
	if !ok || len(digest) != hash.Size() {
		return nil, nil, fmt.Errorf("key %x: a digest of %d octets of %v cannot be signed", k.id, len(digest), hash)
	}
	half, err := k.size()
	if err != nil {
		return nil, nil, err
	}
	if half > 0 {
		// The leftmost octets are what ECDSA uses; tokens differ in whether they cut.
		return pkcs11.NewMechanism(pkcs11.CKM_ECDSA, nil), digest[:min(len(digest), half)], nil
	}
	if _, ok := o.(*rsa.PSSOptions); ok {
		// Of the salt's length only that of the digest is in use, in TLS as in signatures.
		params := pkcs11.NewPSSParams(generators[hash][0], generators[hash][1], uint(hash.Size()))
		return pkcs11.NewMechanism(pkcs11.CKM_RSA_PKCS_PSS, params), digest, nil
	}
	return pkcs11.NewMechanism(pkcs11.CKM_RSA_PKCS, nil), append([]byte(prefix), digest...), nil
}

// finish makes of what the token returned what crypto.Signer does.
func (k *key) finish(value []byte) ([]byte, error) {
	half, err := k.size()
	if err != nil || half == 0 {
		return value, err
	}
	if len(value) == 0 || len(value)%2 != 0 || len(value) > 2*half {
		return nil, fmt.Errorf("%s: key %x gave an ECDSA signature of %d octets", k.token, k.id, len(value))
	}
	middle := len(value) / 2
	return asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(value[:middle]), new(big.Int).SetBytes(value[middle:])})
}

func (k *key) verify(digest, value []byte, o crypto.SignerOpts) error {
	good := false
	switch public := k.public.(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(public, digest, value)
	case *rsa.PublicKey:
		if _, ok := o.(*rsa.PSSOptions); ok {
			good = rsa.VerifyPSS(public, o.HashFunc(), digest, value, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		} else {
			good = rsa.VerifyPKCS1v15(public, o.HashFunc(), digest, value) == nil
		}
	}
	if !good {
		return fmt.Errorf("%s: the certificate of key %x is of another key", k.token, k.id)
	}
	return nil
}

var _ crypto.Signer = (*key)(nil)
