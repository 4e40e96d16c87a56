// SPDX-License-Identifier: Apache-2.0

// Package dev is an authority for development: a CA, an OCSP responder and keys, kept in a storage.
package dev

import (
	"context"
	"crypto/tls"
	"time"

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
	Exists(ctx context.Context, key string) bool
}

// Authority is the CA of one instance with its OCSP responder. It is safe for concurrent use.
type Authority struct{}

// Open loads the authority of an instance from the storage, and makes it there first where there is none.
func Open(ctx context.Context, s Storage, instance string, clock func() time.Time) (*Authority, error) {
	panic("stub")
}

// SignKey returns the signing key of a member, made on first use (FiVRK profile, P-256).
func (a *Authority) SignKey(ctx context.Context, member ident.Client, server ident.Server) (*softkey.Key, error) {
	panic("stub")
}

// AuthKey returns the authentication key of a security server, made on first use.
func (a *Authority) AuthKey(ctx context.Context, server ident.Server) (*tls.Certificate, error) {
	panic("stub")
}

// Server is a security server that the development instance knows.
type Server struct {
	ID      ident.Server
	Address string // host or host:port
	Clients []ident.Client
}

// Trust returns a trust.Store in which these servers are registered with their authentication keys and clients.
func (a *Authority) Trust(ctx context.Context, servers []Server) (trust.Store, error) { panic("stub") }
