// SPDX-License-Identifier: Apache-2.0

// Package dev is an authority for development: a CA, an OCSP responder, a time-stamper and keys, kept in a storage.
package dev

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

// Storage is where keys are kept: the part of certmagic.Storage that is used.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Store(ctx context.Context, key string, value []byte) error
	Load(ctx context.Context, key string) ([]byte, error)
}

// freshness is how old the OCSP responses of the authority may be, and when the next one is due.
const freshness = time.Hour

// Authority is the CA of one instance with its OCSP responder and its time-stamping authority. It is safe for concurrent use. Several may work on one
// storage, in one process or in many: they have the same keys.
type Authority struct {
	storage                Storage
	instance               string
	clock                  func() time.Time
	ca, responder, stamper *softkey.Key

	mu      sync.Mutex
	revoked map[string]time.Time // by serial number
}

// Open loads the authority of an instance from the storage, and makes it there first where there is none, or where it
// is about to expire. Keys are kept unencrypted below xroad/dev.
func Open(ctx context.Context, s Storage, instance string, clock func() time.Time) (*Authority, error) {
	if instance == "" {
		return nil, errors.New("opening a development authority: it needs an instance")
	}
	a := &Authority{storage: s, instance: instance, clock: clock, revoked: make(map[string]time.Time)}
	var err error
	if a.ca, err = a.kept(ctx, yearsOfAuthority, certificateOfCA(instance), "ca"); err != nil {
		return nil, err
	}
	if a.responder, err = a.kept(ctx, yearsOfAuthority, certificateOfResponder(instance), "ocsp"); err != nil {
		return nil, err
	}
	if a.stamper, err = a.kept(ctx, yearsOfAuthority, certificateOfStamper(instance), "tsa"); err != nil {
		return nil, err
	}
	return a, nil
}

// SignKey returns the signing key of a member on a server, made on first use (FiVRK profile, P-256).
func (a *Authority) SignKey(ctx context.Context, member ident.Client, server ident.Server) (*softkey.Key, error) {
	if err := a.knows(member.Instance, server); err != nil {
		return nil, err
	}
	template, err := certificateForSigning(member, server)
	if err != nil {
		return nil, err
	}
	return a.kept(ctx, yearsOfKey, template, "sign", server.Class, server.Member, server.Code, member.Class, member.Member)
}

// AuthKey returns the authentication key of a security server, made on first use. The certificate is also good for
// localhost, so that ordinary tools can look at the server.
func (a *Authority) AuthKey(ctx context.Context, server ident.Server) (*tls.Certificate, error) {
	if err := a.knows(server.Instance, server); err != nil {
		return nil, err
	}
	template, err := certificateForAuthentication(server)
	if err != nil {
		return nil, err
	}
	key, err := a.kept(ctx, yearsOfKey, template, "auth", server.Class, server.Member, server.Code)
	if err != nil {
		return nil, err
	}
	leaf := key.Chain[0]
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Private, Leaf: leaf}, nil
}

func (a *Authority) knows(instance string, server ident.Server) error {
	if instance != a.instance || server.Instance != a.instance {
		return fmt.Errorf("the development authority of instance %s has no keys for instance %q on security server %s", a.instance, instance, server)
	}
	return nil
}

// Server is a security server that the development instance knows.
type Server struct {
	ID          ident.Server
	Address     string         // host or host:port
	OCSPAddress string         // host:port of its OCSP responses, where not the usual port of that host
	Clients     []ident.Client // besides its owner
}

// Trust returns a trust.Store in which these servers are registered with their authentication keys and clients. Its OCSP
// responses are made on the spot.
func (a *Authority) Trust(ctx context.Context, servers []Server) (trust.Store, error) {
	p, err := a.Parameters(ctx, servers)
	if err != nil {
		return nil, err
	}
	if err := a.publish(ctx, p); err != nil {
		return nil, err
	}
	return trust.New(p, a.status)
}

// publish puts the parameters beside the keys (shared-params.xml), for whoever has to prove evidence.
func (a *Authority) publish(ctx context.Context, p trust.Parameters) error {
	text, err := p.XML()
	if err != nil {
		return err
	}
	file := a.file() + "/shared-params.xml"
	if known, err := a.storage.Load(ctx, file); err == nil && bytes.Equal(known, text) {
		return nil
	}
	if err := a.storage.Store(ctx, file, text); err != nil {
		return fmt.Errorf("storing %q: %w", file, err)
	}
	return nil
}

// Parameters returns what Trust is made of. Others can verify by it what was signed, and cannot ask for OCSP responses.
func (a *Authority) Parameters(ctx context.Context, servers []Server) (trust.Parameters, error) {
	p := trust.Parameters{
		Instance: a.instance,
		CAs: []trust.CA{{
			Name:    a.ca.Chain[0].Subject.CommonName,
			Profile: trust.FiVRK,
			Authorities: []trust.Authority{{
				Certificate: a.ca.Chain[0],
				Responders:  []trust.Responder{{Certificate: a.responder.Chain[0]}},
			}},
		}},
		TSAs:      []trust.TSA{{Name: a.stamper.Chain[0].Subject.CommonName, Certificate: a.stamper.Chain[0]}},
		Freshness: freshness,
		Members:   members(servers),
	}
	for _, s := range servers {
		key, err := a.AuthKey(ctx, s.ID)
		if err != nil {
			return trust.Parameters{}, err
		}
		p.Servers = append(p.Servers, trust.Server{
			ID:             s.ID,
			Address:        s.Address,
			OCSPAddress:    s.OCSPAddress,
			AuthCertHashes: [][32]byte{hashOf(key.Leaf)},
			Clients:        s.Clients,
		})
	}
	return p, nil
}

// status makes a fresh OCSP response.
func (a *Authority) status(_ context.Context, cert, issuer *x509.Certificate) ([]byte, error) {
	ca := a.ca.Chain[0]
	if !issuer.Equal(ca) {
		return nil, fmt.Errorf("the development authority of instance %s did not issue certificate %s", a.instance, ocsp.Name(cert))
	}
	a.mu.Lock()
	revoked := a.revoked[cert.SerialNumber.String()]
	a.mu.Unlock()
	now := a.clock()
	return ocsp.Respond(cert, ca, a.responder.Chain[0], a.responder.Private, now, now.Add(freshness), revoked)
}

// Revoke lets this Authority call the certificate revoked from now on, until the process ends: tests need it.
func (a *Authority) Revoke(cert *x509.Certificate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked[cert.SerialNumber.String()] = a.clock()
}
