// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// pace keeps what passes in one direction between us and one peer below its rate, over all messages together. Large ones
// take turns, so that they share it evenly. Small ones do not wait for large ones, which make room for them, and have
// three quarters of it at the most, so that large ones get on whatever comes.
type pace struct {
	rate  float64 // octets a second
	now   func() time.Time
	mu    sync.Mutex
	all   time.Time // until then what has passed takes, at the rate
	small time.Time // likewise what small ones have of it, at theirs
}

const (
	smallShare  = 0.75
	paceBehind  = 5 * time.Millisecond // that may be made up for
	paceQuantum = 64 << 10             // that a large message passes in a turn, or more where its piece is longer
)

// reserve returns how long n octets have to wait.
func (p *pace) reserve(n int, small bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	take := func(until *time.Time, rate float64) (wait time.Duration) {
		if earliest := now.Add(-paceBehind); until.Before(earliest) {
			*until = earliest
		}
		wait = until.Sub(now)
		*until = until.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		return wait
	}
	wait := take(&p.all, p.rate)
	if small {
		return take(&p.small, p.rate*smallShare)
	}
	return wait
}

// paced is one message under a pace; a nil pace is none.
type paced struct {
	pace   *pace
	ctx    context.Context
	octets int64
	owed   int
}

// passes waits until n more octets may pass, or the exchange ends.
func (p *paced) passes(n int) error {
	p.octets += int64(n)
	p.owed += n
	small := p.octets <= bulkFrom
	if p.pace == nil || n == 0 || !small && p.owed < paceQuantum {
		return nil
	}
	wait := p.pace.reserve(p.owed, small)
	p.owed = 0
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

type pacedReader struct {
	io.Reader
	paced
}

func (r *pacedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if late := r.passes(n); err == nil {
		err = late
	}
	return n, err
}

type pacedWriter struct {
	io.Writer
	paced
}

func (w *pacedWriter) Write(b []byte) (int, error) {
	if err := w.passes(len(b)); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}

// paces are those of the peers that have a rate. The zero value is ready.
type paces struct {
	mu    sync.Mutex
	peers map[ident.Server]*[2]pace // what we send, what they send
}

func (s *SecurityServer) pace(peer ident.Server, direction int) *pace {
	rate := s.Local.ruleFor(peer).Rate
	if rate <= 0 {
		return nil
	}
	s.paces.mu.Lock()
	defer s.paces.mu.Unlock()
	both := s.paces.peers[peer]
	if both == nil {
		both = &[2]pace{{rate: float64(rate), now: time.Now}, {rate: float64(rate), now: time.Now}}
		if s.paces.peers == nil {
			s.paces.peers = make(map[ident.Server]*[2]pace)
		}
		s.paces.peers[peer] = both
	}
	return &both[direction]
}

// to returns w with the pace of what is written to the peer.
func (s *SecurityServer) to(ctx context.Context, peer ident.Server, w io.Writer) io.Writer {
	if p := s.pace(peer, 0); p != nil {
		return &pacedWriter{w, paced{pace: p, ctx: ctx}}
	}
	return w
}

// from returns r with the pace of what is read from the peer.
func (s *SecurityServer) from(ctx context.Context, peer ident.Server, r io.Reader) io.Reader {
	if p := s.pace(peer, 1); p != nil {
		return &pacedReader{r, paced{pace: p, ctx: ctx}}
	}
	return r
}
