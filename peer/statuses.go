// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
)

const (
	ocspConnectTimeout = 20 * time.Second
	ocspReadTimeout    = 30 * time.Second
	ocspRest           = time.Second // how long the end of a fetch counts as just now
	ocspRetry          = time.Minute // between fetches that fail, while the kept ones are good
	maxStatuses        = 1000        // peers whose OCSP responses are kept
)

// statuses keeps the OCSP responses that peers gave for their TLS certificates. They are judged for each message.
type statuses struct {
	client *http.Client
	clock  func() time.Time
	mu     sync.Mutex
	kept   map[[sha256.Size]byte]*status
}

// status is what is kept of one peer. The lock of statuses guards it.
type status struct {
	responses [][]byte      // nil: none have come yet
	fetched   time.Time     // they
	fetch     chan struct{} // closed when the fetch under way has ended; nil: there is none
	ended     time.Time     // the last fetch
	err       error         // of it
}

func newStatuses(dial func(context.Context, string, string) (net.Conn, error), clock func() time.Time) *statuses {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, ocspConnectTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		ResponseHeaderTimeout: ocspReadTimeout,
		DisableCompression:    true,
	}
	return &statuses{
		client: &http.Client{Transport: transport, Timeout: ocspConnectTimeout + ocspReadTimeout},
		clock:  clock,
		kept:   make(map[[sha256.Size]byte]*status),
	}
}

// get returns the responses for a chain. Where there are none it waits for the peer to give them. Where half of their
// life is over it has them fetched anew, and nobody waits for that: a peer that does not answer is no error while the
// kept ones are good.
func (s *statuses) get(ctx context.Context, address string, chain []*x509.Certificate, life time.Duration) ([][]byte, error) {
	s.mu.Lock()
	st := s.of(chain)
	if st.responses == nil {
		s.mu.Unlock()
		return s.renew(ctx, address, chain)
	}
	defer s.mu.Unlock()
	if now := s.clock(); now.Sub(st.fetched) >= life/2 && now.Sub(st.ended) >= min(life/2, ocspRetry) {
		s.begin(st, address, chain)
	}
	return st.responses, nil
}

// renew returns responses that came just now, for who finds no use for the kept ones. Messages that come together wait
// for one fetch.
func (s *statuses) renew(ctx context.Context, address string, chain []*x509.Certificate) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(chain)
	if st.fetch != nil || st.ended.IsZero() || s.clock().Sub(st.ended) >= ocspRest {
		ended := s.begin(st, address, chain)
		s.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return st.responses, st.err
}

// of returns what is kept of a chain. s is locked.
func (s *statuses) of(chain []*x509.Certificate) *status {
	key := keyOf(chain)
	st, ok := s.kept[key]
	if !ok {
		if len(s.kept) >= maxStatuses {
			clear(s.kept)
		}
		st = new(status)
		s.kept[key] = st
	}
	return st
}

// begin returns the end of the fetch under way, and begins one where there is none. It is nobody's message that ends
// it, for others may wait, too: the time limits of the client do. s is locked.
func (s *statuses) begin(st *status, address string, chain []*x509.Certificate) (ended chan struct{}) {
	if st.fetch != nil {
		return st.fetch
	}
	ended = make(chan struct{})
	st.fetch = ended
	go func() {
		responses, err := ocsp.FetchPeer(context.Background(), s.client, address, chain)
		s.mu.Lock()
		defer s.mu.Unlock()
		st.ended, st.err, st.fetch = s.clock(), err, nil
		if err == nil {
			st.responses, st.fetched = responses, st.ended
		}
		close(ended)
	}()
	return ended
}

func (s *statuses) close() { s.client.CloseIdleConnections() }

func keyOf(chain []*x509.Certificate) [sha256.Size]byte {
	h := sha256.New()
	for _, cert := range chain {
		sum := sha256.Sum256(cert.Raw)
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}
