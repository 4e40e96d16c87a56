// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// signers makes the signer of each member once.
type signers struct {
	server *SecurityServer
	mu     sync.Mutex
	made   map[ident.Client]crypto.Signer
}

func newSigners(s *SecurityServer) *signers {
	return &signers{server: s, made: make(map[ident.Client]crypto.Signer)}
}

// of returns the signer of the client's member.
func (s *signers) of(client ident.Client) (crypto.Signer, error) {
	member := client.MemberOf()
	s.mu.Lock()
	defer s.mu.Unlock()
	if signer, ok := s.made[member]; ok {
		return signer, nil
	}
	key := s.server.Keys.Sign(member)
	if key == nil {
		return nil, wire.Errorf("cannot_create_signature", "there is no signing key for member %s", member)
	}
	extra := s.server.Trust.Extra(key.Certificate)
	chain := append([]*x509.Certificate{key.Certificate}, extra...)
	signer := batch.New(&xades.Signer{
		Key:         key.Key,
		Certificate: key.Certificate,
		Extra:       extra,
		OCSP: func(ctx context.Context) ([][]byte, error) {
			return s.server.statuses.responses(ctx, chain)
		},
		Clock: s.server.Clock,
	}, s.server.Local.batchFor(member, key))
	s.made[member] = signer
	return signer, nil
}

// authChain returns our TLS certificates but the root, leaf first.
func (s *SecurityServer) authChain() []*x509.Certificate {
	leaf := s.Keys.Auth().Leaf
	return append([]*x509.Certificate{leaf}, s.Trust.Extra(leaf)...)
}

// form chooses the form of a signature (architecture, decision 1; signature-and-evidence 2): direct, so that every name
// is inside SignedInfo, unless the peer could not read it or would try to log what is too long for it, as X-Road does.
// A message of one part has no other names. It may share a signature with others, unless a rule of the peer says direct or
// its envelope begins like a list of digests (signature-and-evidence 14.2).
func (s *SecurityServer) form(w *wrapping, parts []wire.Part) crypto.Form {
	rule := s.Local.ruleFor(w.peer)
	limit := rule.DirectLimit
	if limit == 0 {
		limit = DefaultDirectLimit
	}
	form := crypto.Direct
	if len(parts) == 1 {
		form = crypto.Chain
	}
	if rule.Form != nil {
		form = *rule.Form
	}
	if len(parts) == 1 && w.keeper.digests {
		return crypto.Direct
	}
	if len(parts)-1 > xades.DirectAttachments || wire.OlderThan(w.version, 7, 6) {
		form = crypto.Chain
	}
	for _, p := range parts[1:] {
		if p.Size > limit && !w.akin {
			form = crypto.Chain
		}
	}
	return form
}

// sign signs the parts for the client's member.
func (s *SecurityServer) sign(ctx context.Context, client ident.Client, parts []wire.Part, form crypto.Form) (*crypto.Signature, error) {
	signer, err := s.signers.of(client)
	if err != nil {
		return nil, err
	}
	signature, err := signer.Sign(ctx, wire.SignedParts(parts), form)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the key may be well
	}
	if err != nil {
		return nil, wire.Because("cannot_create_signature", fmt.Errorf("signing for %s: %w", client.MemberOf(), err))
	}
	return signature, nil
}
