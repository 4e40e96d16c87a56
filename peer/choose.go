// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/trust"
)

const (
	rememberWinner = time.Hour
	maxWinners     = 10000 // sets of addresses that are remembered
)

// choose picks the security server for a message: the only one, or the first to accept a connection
// (message-and-transport 5.7 steps 4 to 6). The connection that the race left open comes with it.
func (p *Pool) choose(ctx context.Context, endpoints []trust.Endpoint) (trust.Endpoint, *raced, error) {
	switch len(endpoints) {
	case 0:
		return trust.Endpoint{}, nil, &Error{"unknown_member", errors.New("no security server serves the provider")}
	case 1:
		return endpoints[0], nil, nil
	}
	e, conn, err := p.race(ctx, endpoints)
	if err != nil {
		return trust.Endpoint{}, nil, err
	}
	p.winners.remember(endpoints, e, p.config.Clock())
	return e, &raced{conn: conn}, nil
}

// race connects to all and takes the first.
func (p *Pool) race(ctx context.Context, endpoints []trust.Endpoint) (trust.Endpoint, net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	type result struct {
		trust.Endpoint
		net.Conn
		error
	}
	results := make(chan result, len(endpoints))
	for _, i := range rand.Perm(len(endpoints)) {
		go func(e trust.Endpoint) {
			conn, err := p.dial(ctx, "tcp", p.address(e))
			results <- result{e, conn, err}
		}(endpoints[i])
	}
	var failures []error
	for n := range endpoints {
		r := <-results
		if r.error != nil {
			failures = append(failures, fmt.Errorf("security server %s: %w", r.Server, r.error))
			continue
		}
		cancel()
		go func() { // the losers
			for range len(endpoints) - n - 1 {
				if r := <-results; r.error == nil {
					r.Close()
				}
			}
		}()
		return r.Endpoint, r.Conn, nil
	}
	return trust.Endpoint{}, nil, &Error{"network_error", fmt.Errorf("no security server of the provider can be reached: %w", errors.Join(failures...))}
}

// dialPeer is the transport's dialer: it uses the connection that won a race, if that is for this request.
func (p *Pool) dialPeer(ctx context.Context, network, address string) (net.Conn, error) {
	if r, ok := ctx.Value(racedKey{}).(*raced); ok {
		if won := r.take(); won != nil {
			return p.secure(ctx, won, address)
		}
	}
	dialled, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return p.secure(ctx, dialled, address)
}

type racedKey struct{}

// raced is a connection that waits to be taken. A nil *raced has none.
type raced struct {
	mu   sync.Mutex
	conn net.Conn
}

func (r *raced) take() net.Conn {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	conn := r.conn
	r.conn = nil
	return conn
}

func (r *raced) close() {
	if conn := r.take(); conn != nil {
		conn.Close()
	}
}

// winners remembers who won the last race among a set of addresses.
type winners struct {
	mu   sync.Mutex
	sets map[string]winner
}

type winner struct {
	address string
	until   time.Time
}

func newWinners() *winners { return &winners{sets: make(map[string]winner)} }

func setOf(endpoints []trust.Endpoint) string {
	addresses := make([]string, len(endpoints))
	for i, e := range endpoints {
		addresses[i] = e.Address
	}
	slices.Sort(addresses)
	return strings.Join(addresses, " ")
}

func (w *winners) of(endpoints []trust.Endpoint, now time.Time) (trust.Endpoint, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.sets[setOf(endpoints)]
	if ok && now.Before(last.until) {
		for _, e := range endpoints {
			if e.Address == last.address {
				return e, true
			}
		}
	}
	return trust.Endpoint{}, false
}

func (w *winners) remember(endpoints []trust.Endpoint, e trust.Endpoint, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sets) >= maxWinners {
		clear(w.sets)
	}
	w.sets[setOf(endpoints)] = winner{e.Address, now.Add(rememberWinner)}
}

func (w *winners) forget(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for set, last := range w.sets {
		if last.address == address {
			delete(w.sets, set)
		}
	}
}
