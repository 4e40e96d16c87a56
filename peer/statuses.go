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
	maxStatuses        = 1000 // peers whose OCSP responses are kept
)

// statuses keeps the OCSP responses that peers gave for their TLS certificates. They are judged for each message.
type statuses struct {
	client *http.Client
	mu     sync.Mutex
	kept   map[[sha256.Size]byte]status
}

type status struct {
	responses [][]byte
	fetched   time.Time
}

func newStatuses(dial func(context.Context, string, string) (net.Conn, error)) *statuses {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, ocspConnectTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		ResponseHeaderTimeout: ocspReadTimeout,
		DisableCompression:    true,
	}
	return &statuses{client: &http.Client{Transport: transport, Timeout: ocspConnectTimeout + ocspReadTimeout}, kept: make(map[[sha256.Size]byte]status)}
}

// get returns the responses for a chain, from the peer where there are none or where half of their life is over.
// fresh says that they came just now. A peer that does not answer is no error while there are kept ones.
func (s *statuses) get(ctx context.Context, address string, chain []*x509.Certificate, life time.Duration, now time.Time) (responses [][]byte, fresh bool, err error) {
	key := keyOf(chain)
	s.mu.Lock()
	last, ok := s.kept[key]
	s.mu.Unlock()
	if ok && now.Sub(last.fetched) < life/2 {
		return last.responses, false, nil
	}
	responses, err = ocsp.FetchPeer(ctx, s.client, address, chain)
	if err != nil {
		if ok {
			return last.responses, false, nil
		}
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= maxStatuses {
		clear(s.kept)
	}
	s.kept[key] = status{responses, now}
	return responses, true, nil
}

func (s *statuses) forget(chain []*x509.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, keyOf(chain))
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
