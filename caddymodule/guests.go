// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// Host is what a guest may know of the security server that opens it.
type Host struct {
	Name       string            // of the server in the configuration
	ID         ident.Server      // its identifier
	Members    []ident.Client    // its owner, then the members whose clients and services it has
	Storage    certmagic.Storage // Caddy's, for small shared state
	Clock      func() time.Time
	Trust      trust.Store  // nil while the trust store itself is being opened
	Neighbours []dev.Server // the servers of this process that share the development instance

	Stamper    evidence.Timestamper // of the evidence that is being opened; nil: none
	Acceptable time.Duration        // how long it may fail; 0: as evidence has it
}

// Signer is a guest in the namespace xroad.signers.
type Signer interface {
	// OpenKeys opens the keys of a security server. ctx bounds the opening only.
	OpenKeys(ctx context.Context, h Host) (exchange.Keys, error)
}

// TrustStore is a guest in the namespace xroad.trust_stores.
type TrustStore interface {
	// OpenTrust opens a trust store, which the caller closes. ctx bounds the opening only.
	OpenTrust(ctx context.Context, h Host) (trust.Store, error)
}

// Spool is a guest in the namespace xroad.spools.
type Spool interface {
	// OpenSpool opens a spool, which the caller closes. ctx bounds the opening only.
	OpenSpool(ctx context.Context, h Host) (spool.Store, error)
}

// EvidenceStore is a guest in the namespace xroad.evidence_stores.
type EvidenceStore interface {
	// OpenEvidence opens an evidence store, which the caller closes, and says what to keep in it.
	// ctx bounds the opening only.
	OpenEvidence(ctx context.Context, h Host) (evidence.Store, exchange.Keep, error)
}

// Timestamper is a guest in the namespace xroad.timestampers.
type Timestamper interface {
	// OpenTimestamper says who stamps the evidence, nil for nobody, and how long that may have been failing before
	// exchanges are refused, 0 for evidence.DefaultAcceptable. ctx bounds the opening only.
	OpenTimestamper(ctx context.Context, h Host) (evidence.Timestamper, time.Duration, error)
}

// Versioned is implemented by a guest that reads files: a server whose files have changed is opened anew on a reload,
// although its configuration is the same.
type Versioned interface {
	// Version returns a text that changes with the files.
	Version() (string, error)
}

// developer is implemented by the guests that are for development only.
type developer interface {
	// anywhere reports whether the operator wrote that sites may listen beyond loopback.
	anywhere() bool
}
