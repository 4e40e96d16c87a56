// SPDX-License-Identifier: Apache-2.0

// Package peer keeps connections to other security servers: chooses one, dials, judges it, remembers.
package peer

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/caddy-fairway/fairway/trust"
)

// Pool is the connections of one security server to its peers. It is safe for concurrent use.
type Pool struct{}

// Config is what a Pool needs.
type Config struct {
	Trust       trust.Store
	Certificate func() *tls.Certificate // ours, shown to peers
	Transport   *http.Transport         // whose dialing, keep-alive and timeouts are taken; it is not used itself
	Port        int                     // of peers, where their address has none
	OCSPPort    int                     // of peers' OCSP responses
	Clock       func() time.Time
}

// New returns a Pool.
func New(c Config) *Pool { panic("stub") }

// Close closes idle connections.
func (p *Pool) Close() { panic("stub") }
