// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"crypto/sha1" // names certificates in the OCSP protocol between security servers
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/trust"
)

const (
	retryStatus  = 60 * time.Second // how long a failed fetch rests (signature-and-evidence 8.6)
	remindStatus = time.Hour        // between reports of one trouble
	restStatus   = time.Second      // between fetches for messages that have no fresh response
)

// StatusError says that no new OCSP response comes for one of our certificates. SecurityServer.Report is told when that
// begins, when the last response has become too old for peers, once an hour, and when it is over.
type StatusError struct {
	Certificate *x509.Certificate
	ThisUpdate  time.Time     // of the response that is kept; zero: there is none
	GoodUntil   time.Time     // when peers begin to refuse it
	Limit       time.Duration // how old it may be
	At          time.Time     // when this was found
	Over        bool          // a new response has come after all
	Err         error         // of the last fetch
}

// Error implements error. It names the certificate once, in the words of the last fetch where these do.
func (e *StatusError) Error() string {
	which := "our certificate " + ocsp.Name(e.Certificate)
	if e.Err != nil && strings.Contains(e.Err.Error(), ocsp.Name(e.Certificate)) {
		which = "our certificate"
	}
	switch {
	case e.Over:
		return fmt.Sprintf("OCSP responses for %s come again", which)
	case e.ThisUpdate.IsZero():
		return fmt.Sprintf("there is no OCSP response for %s: %v", which, e.Err)
	case e.Stale():
		return fmt.Sprintf("the OCSP response for %s is too old: it is of %s, %v old, and may be at most %v old; no new one comes: %v",
			which, e.ThisUpdate.UTC().Format(time.RFC3339), e.At.Sub(e.ThisUpdate).Round(time.Second), e.Limit, e.Err)
	}
	return fmt.Sprintf("no new OCSP response comes for %s; the last one is of %s and good until %s: %v",
		which, e.ThisUpdate.UTC().Format(time.RFC3339), e.GoodUntil.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns why the last fetch failed.
func (e *StatusError) Unwrap() error { return e.Err }

// Stale reports whether peers refuse us by now.
func (e *StatusError) Stale() bool { return e.ThisUpdate.IsZero() || !e.At.Before(e.GoodUntil) }

// statuses keeps the OCSP responses of our own certificates fresh, in the background, so that no message waits for a
// responder. It is safe for concurrent use.
type statuses struct {
	trust  trust.Store
	clock  func() time.Time
	report func(error)
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	kept   map[string]*ownStatus
	closed bool
}

// ownStatus is the response to one certificate.
type ownStatus struct {
	cert *x509.Certificate

	mu         sync.Mutex
	der        []byte // nil: none has come yet
	thisUpdate time.Time
	nextUpdate time.Time
	fetch      chan struct{} // closed when the fetch under way has ended; nil: there is none
	ended      time.Time     // the last fetch
	err        error         // of it
	told       time.Time     // when its trouble was reported last; zero: it has none
	toldStale  bool
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
		if s.closed {
			o.err = context.Canceled
			return o
		}
		o.fetch = make(chan struct{}) // by the goroutine that begins now, and nobody else
		s.work.Go(func() {
			s.do(o)
			s.refresh(o)
		})
	}
	return o
}

// refresh fetches a response anew each time half of what is left of its life is over, until the server is closed.
func (s *statuses) refresh(o *ownStatus) {
	for {
		timer := time.NewTimer(s.rest(o))
		select {
		case <-s.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		o.mu.Lock()
		ended := s.begin(o)
		o.mu.Unlock()
		select {
		case <-s.ctx.Done():
			return
		case <-ended:
		}
	}
}

// rest returns how long to wait before the next fetch.
func (s *statuses) rest(o *ownStatus) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := s.goodUntil(o).Sub(s.clock())
	if next := o.nextUpdate.Sub(s.clock()); !o.nextUpdate.IsZero() {
		left = min(left, next) // some peers refuse it from then on
	}
	half := s.trust.Freshness() / 2
	if left > 0 {
		half = min(half, left/2)
	}
	if o.err != nil || left <= 0 {
		half = min(half, retryStatus)
	}
	return max(half, time.Second)
}

// goodUntil returns when what is kept becomes too old for peers. o is locked.
func (s *statuses) goodUntil(o *ownStatus) time.Time {
	if o.der == nil {
		return time.Time{}
	}
	return o.thisUpdate.Add(s.trust.Freshness())
}

// begin returns the end of the fetch under way, and begins one where there is none. o is locked.
func (s *statuses) begin(o *ownStatus) (ended chan struct{}) {
	if o.fetch != nil {
		return o.fetch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.fetch = make(chan struct{})
	ended = o.fetch
	if s.closed {
		o.fetch, o.err = nil, context.Canceled
		close(ended)
		return ended
	}
	s.work.Go(func() { s.do(o) })
	return ended
}

// do fetches a response. Whoever has set o.fetch calls it, once.
func (s *statuses) do(o *ownStatus) {
	der, err := s.trust.Status(s.ctx, o.cert)
	var thisUpdate, nextUpdate time.Time
	if err == nil {
		thisUpdate, nextUpdate, err = ocsp.Times(der)
	}
	o.mu.Lock()
	now := s.clock()
	if err == nil {
		o.der, o.thisUpdate, o.nextUpdate = der, thisUpdate, nextUpdate
		if !now.Before(s.goodUntil(o)) {
			err = fmt.Errorf("the responder gives none that is younger than %s", thisUpdate.UTC().Format(time.RFC3339))
		}
	}
	o.err, o.ended = err, now
	close(o.fetch)
	o.fetch = nil
	news := s.news(o, now)
	o.mu.Unlock()
	if news != nil && s.ctx.Err() == nil {
		s.report(news)
	}
}

// news returns what is to be reported after a fetch, or nil. o is locked.
func (s *statuses) news(o *ownStatus, now time.Time) *StatusError {
	e := s.trouble(o, now)
	if o.err == nil {
		if o.told.IsZero() {
			return nil
		}
		o.told, o.toldStale, e.Over = time.Time{}, false, true
		return e
	}
	stale := e.Stale()
	if !o.told.IsZero() && stale == o.toldStale && now.Sub(o.told) < remindStatus {
		return nil
	}
	o.told, o.toldStale = now, stale
	return e
}

// trouble describes the state of o, which is locked.
func (s *statuses) trouble(o *ownStatus, now time.Time) *StatusError {
	return &StatusError{
		Certificate: o.cert, ThisUpdate: o.thisUpdate, GoodUntil: s.goodUntil(o), Limit: s.trust.Freshness(), At: now, Err: o.err,
	}
}

// response returns a response to cert that peers take. A message waits for a responder only where no fetch has ended
// yet; where the last one failed it hears why at once, and another begins for those who come later.
func (s *statuses) response(ctx context.Context, cert *x509.Certificate) ([]byte, error) {
	o := s.status(cert)
	o.mu.Lock()
	for {
		now := s.clock()
		if o.der != nil && now.Before(s.goodUntil(o)) {
			der := o.der
			o.mu.Unlock()
			return der, nil
		}
		if o.err != nil {
			err := s.trouble(o, now)
			if now.Sub(o.ended) >= restStatus {
				s.begin(o)
			}
			o.mu.Unlock()
			return nil, err
		}
		ended := s.begin(o) // the first one; or the last response has grown too old while nobody looked
		o.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for an OCSP response for our certificate %s: %w", ocsp.Name(cert), ctx.Err())
		}
		o.mu.Lock()
	}
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
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
}

func ocspKey(cert *x509.Certificate) [sha1.Size]byte { return sha1.Sum(cert.Raw) }
