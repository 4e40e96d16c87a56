// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"crypto/sha1" // names certificates in the OCSP protocol between security servers
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/trust"
)

// retryStatus is how long a failed fetch rests (signature-and-evidence 8.6).
const retryStatus = 60 * time.Second

// statuses keeps the OCSP responses of our own certificates fresh, in the background, so that no message waits for a
// responder. It is safe for concurrent use.
type statuses struct {
	trust  trust.Store
	clock  func() time.Time
	report func(error)
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu   sync.Mutex
	kept map[string]*ownStatus
}

// ownStatus is the response to one certificate.
type ownStatus struct {
	cert     *x509.Certificate
	fetching sync.Mutex // held while a new one is fetched
	mu       sync.Mutex // guards what follows
	der      []byte
	fetched  time.Time
}

// younger returns the kept response if it is younger than age.
func (o *ownStatus) younger(age time.Duration, now time.Time) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.der == nil || now.Sub(o.fetched) >= age {
		return nil
	}
	return o.der
}

func newStatuses(store trust.Store, clock func() time.Time, report func(error)) *statuses {
	if report == nil {
		report = func(error) {}
	}
	s := &statuses{trust: store, clock: clock, report: report, kept: make(map[string]*ownStatus)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// keep begins to keep the responses to cert and to those above it fresh.
func (s *statuses) keep(cert *x509.Certificate) {
	for _, c := range append([]*x509.Certificate{cert}, s.trust.Extra(cert)...) {
		s.status(c)
	}
}

// status returns what is kept of a certificate, and begins to keep it.
func (s *statuses) status(cert *x509.Certificate) *ownStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.kept[string(cert.Raw)]
	if !ok {
		o = &ownStatus{cert: cert}
		s.kept[string(cert.Raw)] = o
		s.work.Go(func() { s.refresh(o) })
	}
	return o
}

// refresh fetches a response anew each time half of its life is over.
func (s *statuses) refresh(o *ownStatus) {
	for {
		wait := max(s.trust.Freshness()/2, time.Second)
		if _, err := s.fetch(s.ctx, o, wait); err != nil {
			wait = min(wait, retryStatus)
			if s.ctx.Err() == nil {
				s.report(fmt.Errorf("no OCSP response for our certificate %q; trying again in %s: %w", o.cert.Subject, wait, err))
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// fetch gets a new response unless the kept one is younger than age.
func (s *statuses) fetch(ctx context.Context, o *ownStatus, age time.Duration) ([]byte, error) {
	o.fetching.Lock()
	defer o.fetching.Unlock()
	if der := o.younger(age, s.clock()); der != nil {
		return der, nil
	}
	der, err := s.trust.Status(ctx, o.cert)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.der, o.fetched = der, s.clock()
	return der, nil
}

// response returns a response to cert that is not too old, and fetches one only where there is none.
func (s *statuses) response(ctx context.Context, cert *x509.Certificate) ([]byte, error) {
	o := s.status(cert)
	if der := o.younger(s.trust.Freshness(), s.clock()); der != nil {
		return der, nil
	}
	der, err := s.fetch(ctx, o, s.trust.Freshness())
	if err != nil {
		return nil, fmt.Errorf("no fresh OCSP response for our certificate %q (serial %s): %w", cert.Subject, cert.SerialNumber, err)
	}
	return der, nil
}

// responses returns one for each certificate, in order.
func (s *statuses) responses(ctx context.Context, chain []*x509.Certificate) ([][]byte, error) {
	responses := make([][]byte, len(chain))
	for i, cert := range chain {
		var err error
		if responses[i], err = s.response(ctx, cert); err != nil {
			return nil, err
		}
	}
	return responses, nil
}

func (s *statuses) close() {
	s.stop()
	s.work.Wait()
}

func ocspKey(cert *x509.Certificate) [sha1.Size]byte { return sha1.Sum(cert.Raw) }
