// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

// KeyRing is the keys of a security server, some for each purpose, the preferred ones first. It is for signers: they add
// what they find and hand it out when it is complete. It implements exchange.Keys then.
type KeyRing struct {
	sign    map[ident.Client][]*exchange.SignKey
	auth    []*tls.Certificate
	trust   trust.Store
	members []ident.Client
	clock   func() time.Time
}

// NewKeyRing returns a ring without keys for a security server.
func NewKeyRing(h Host) *KeyRing {
	return &KeyRing{sign: make(map[ident.Client][]*exchange.SignKey), trust: h.Trust, members: h.Members, clock: h.Clock}
}

// Add puts a key behind those for the same purpose, which its certificate tells: a key for signing belongs to the member
// that the certificate names, one for authentication is for TLS. File says in errors where the key is, device that it is
// in a device.
func (k *KeyRing) Add(key *softkey.Key, device bool) error {
	switch leaf := key.Chain[0]; {
	case softkey.CanSign(leaf): // whatever else the certificate allows
		member, err := k.trust.SignMember(leaf)
		if err != nil {
			return fmt.Errorf("%s: whose signing key is it: %w", key.File, err)
		}
		member = member.MemberOf()
		k.sign[member] = append(k.sign[member], &exchange.SignKey{Key: key.Private, Certificate: leaf, Device: device})
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

// Complete returns an error where a key is missing: the one for TLS, or that of a member with clients or services. The
// owner needs none for itself. A key that expires later stops its own member only. where names the place of the keys.
func (k *KeyRing) Complete(where string) error {
	if len(k.auth) == 0 {
		return fmt.Errorf("%s holds no key for TLS: its certificate must allow authentication and not signing", where)
	}
	for _, member := range k.members[1:] {
		if len(k.sign[member]) == 0 {
			return fmt.Errorf("%s holds no signing key of %s, which has clients or services on this server", where, member)
		}
	}
	return nil
}

// Sign implements exchange.Keys.
func (k *KeyRing) Sign(member ident.Client) *exchange.SignKey {
	now := k.clock()
	for _, key := range k.sign[member.MemberOf()] {
		if valid(key.Certificate, now) {
			return key
		}
	}
	return nil
}

// Auth implements exchange.Keys. Where no certificate is valid it returns the first: the handshake will tell.
func (k *KeyRing) Auth() *tls.Certificate {
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

var _ exchange.Keys = (*KeyRing)(nil)
