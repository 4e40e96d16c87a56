// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// Transfer is a message exchange in progress as an operator sees it: who, and how far, but nothing of the content.
type Transfer struct {
	ID        string // for Cancel: the request id and the role, where no other exchange has these
	Role      string // "send" or "receive"
	RequestID string // chosen by the sending security server, "" where it has none
	MessageID string // these three come with the envelope's header
	Client    ident.Client
	Service   ident.Service
	Peer      string // the other security server, once it is known
	Phase     string // one of the phases below
	Octets    int64  // that have passed of what the phase moves: the request, or the answer
	Total     int64  // octets that it will have, -1 where nobody has told
	Rate      float64
	Begun     time.Time
	Cancelled bool // it is about to end
}

// Left estimates how long the phase will take at the present rate; ok is false where nothing can be said.
func (t *Transfer) Left() (left time.Duration, ok bool) {
	if t.Total < 0 || t.Rate <= 0 {
		return 0, false
	}
	seconds := float64(max(t.Total-t.Octets, 0)) / t.Rate
	if seconds > 100*365*24*3600 {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// phase is where an exchange stands. An exchange only goes on, never back.
type phase uint8

const (
	readingEnvelope phase = iota
	connecting
	uploading
	waitingForAnswer
	receivingAnswer
	delivering

	receivingRequest
	verifying
	forwarding
	waitingForService
	answering
)

var phases = [...]string{
	"reading envelope", "connecting", "uploading", "waiting for answer", "receiving answer", "delivering",
	"receiving", "verifying", "forwarding", "waiting for service", "answering",
}

// waitingForPlace is what every phase is while the exchange waits to go on with it.
const waitingForPlace = "waiting for its turn"

func (p phase) String() string { return phases[p] }

// Transfers returns the exchanges in progress, the oldest first.
func (s *SecurityServer) Transfers() []Transfer {
	now := time.Now()
	var all []Transfer
	for _, t := range s.transfers.list() {
		all = append(all, t.look(now))
	}
	slices.SortFunc(all, func(a, b Transfer) int {
		return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Cancel ends the exchange of that id: whoever waits for its answer gets a fault that says so, or, where the answer has
// been begun, sees it broken off. It reports whether there is such an exchange, and does not wait for its end.
func (s *SecurityServer) Cancel(id string) bool {
	t := s.transfers.of(id)
	if t == nil {
		return false
	}
	t.stopped.Store(true)
	t.cancel(t.reason)
	return true
}

// transfers are the exchanges in progress of a security server. The zero value is ready.
type transfers struct {
	mu      sync.Mutex
	all     map[string]*transfer
	ticking bool
}

// transfer is one of them. What passes is counted where it passes, without a lock.
type transfer struct {
	of      *transfers
	reason  error // of a fault after Cancel; it has its place
	stopped atomic.Bool
	cancel  context.CancelCauseFunc
	answer  atomic.Int64 // octets of the answer that have come

	waits atomic.Bool // for a place

	mu      sync.Mutex
	seen    Transfer // but Octets, Rate and Cancelled
	phase   phase
	octets  func() int64
	samples samples
	in      *places // where it has a place; nil: nowhere
	who     string  // whose that is
}

// begin enters an exchange. The context that it returns ends with the exchange, which Cancel may do early.
func (s *SecurityServer) begin(ctx context.Context, role, requestID string, request *tracked, length int64) (context.Context, *transfer) {
	t := &transfer{of: &s.transfers, octets: request.octets.Load}
	at := wire.AtSender
	if role == "receive" {
		at, t.phase = wire.AtReceiver, receivingRequest
	}
	t.reason = wire.At(at, wire.Errorf("io_error", "the transfer was cancelled by the operator of security server %s", s.ID))
	t.seen = Transfer{Role: role, RequestID: requestID, Total: length, Begun: time.Now()}
	t.samples.restart(t.seen.Begun, 0)
	request.transfer = t
	ctx, t.cancel = context.WithCancelCause(ctx)
	s.transfers.enter(t)
	return ctx, t
}

// take takes a place in p for the exchange, once it has left the one that it has. The end of the exchange gives it back.
func (t *transfer) take(ctx context.Context, p *places, who string) error {
	t.leave()
	if err := p.take(ctx, who, &t.waits); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in, t.who = p, who
	return nil
}

func (t *transfer) leave() {
	t.mu.Lock()
	p, who := t.in, t.who
	t.in = nil
	t.mu.Unlock()
	if p != nil {
		p.leave(who)
	}
}

// end takes the exchange off the list and gives its place back. It may be called again.
func (t *transfer) end() {
	t.leave()
	t.of.leave(t)
	t.cancel(nil)
}

// cancelled returns the reason after Cancel, before it nil.
func (t *transfer) cancelled() error {
	if t != nil && t.stopped.Load() {
		return t.reason
	}
	return nil
}

// explain replaces the error in which Cancel ended an exchange, unless it begins with the reason.
func (t *transfer) explain(err error) error {
	if reason := t.cancelled(); reason != nil && !strings.HasPrefix(err.Error(), reason.Error()) {
		return reason
	}
	return err
}

// names notes what the envelope's header says.
func (t *transfer) names(o *Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.MessageID, t.seen.Client, t.seen.Service, t.seen.Peer = o.MessageID, o.Client, o.Service, o.Peer
}

// meets notes the other security server.
func (t *transfer) meets(peer ident.Server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Peer = peer.String()
}

// enter begins a phase that moves what the phase before has moved.
func (t *transfer) enter(p phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = max(t.phase, p)
}

// moves begins a phase that moves something else: total octets, or -1, of which so many have passed. octets is called by
// others at any time, even when the exchange has ended.
func (t *transfer) moves(p phase, total int64, octets func() int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p < t.phase {
		return
	}
	t.phase, t.seen.Total, t.octets = p, total, octets
	t.samples.restart(time.Now(), octets())
}

// look returns what an operator sees.
func (t *transfer) look(now time.Time) Transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen, phase := t.seen, t.phase
	seen.Octets, seen.Cancelled = t.octets(), t.stopped.Load()
	seen.Rate = t.samples.rate(now, seen.Octets)
	if seen.Total >= 0 {
		seen.Octets = min(seen.Octets, seen.Total) // what frames a message between security servers was not declared
	}
	if phase == forwarding && seen.Octets >= seen.Total {
		phase = waitingForService // which the kernel does not tell us
	}
	seen.Phase = phase.String()
	if t.waits.Load() {
		seen.Phase = waitingForPlace
	}
	return seen
}

func (t *transfer) sample(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.samples.add(now, t.octets())
}

// position tells how much of octets, which end at total, has been read since now. Those that are closed have been.
func position(octets io.Seeker, total int64) func() int64 {
	from, _ := octets.Seek(0, io.SeekCurrent)
	return func() int64 {
		if at, err := octets.Seek(0, io.SeekCurrent); err == nil {
			return at - from
		}
		return total
	}
}

// lengthOf returns what a header says on the length of the body, or -1.
func lengthOf(h http.Header) int64 {
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

// plainID is a request id that can stand in a URL and on a command line. Peers choose theirs.
var plainID = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z-]*$`)

func (r *transfers) enter(t *transfer) {
	id := t.seen.RequestID
	if !plainID.MatchString(id) {
		id = wire.NewRequestID()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[id+"-"+t.seen.Role] != nil { // the peer has used it before
		id = wire.NewRequestID()
	}
	t.seen.ID = fmt.Sprintf("%s-%s", id, t.seen.Role)
	if r.all == nil {
		r.all = make(map[string]*transfer)
	}
	r.all[t.seen.ID] = t
	if !r.ticking {
		r.ticking = true
		time.AfterFunc(sampleEvery, r.tick)
	}
}

func (r *transfers) leave(t *transfer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, t.seen.ID)
}

func (r *transfers) of(id string) *transfer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

func (r *transfers) list() []*transfer {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*transfer, 0, len(r.all))
	for _, t := range r.all {
		all = append(all, t)
	}
	return all
}

// tick looks how far each exchange is, as long as there are any.
func (r *transfers) tick() {
	now := time.Now()
	for _, t := range r.list() {
		t.sample(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticking = len(r.all) > 0; r.ticking {
		time.AfterFunc(sampleEvery, r.tick)
	}
}

// A rate is that of the last seconds.
const (
	sampleEvery = time.Second
	sampleCount = 5
)

// samples are how far something was at the last looks, the oldest first.
type samples struct {
	n      int
	at     [sampleCount]time.Time
	octets [sampleCount]int64
}

func (s *samples) restart(now time.Time, octets int64) {
	s.n = 0
	s.add(now, octets)
}

func (s *samples) add(now time.Time, octets int64) {
	if s.n == sampleCount {
		copy(s.at[:], s.at[1:])
		copy(s.octets[:], s.octets[1:])
		s.n--
	}
	s.at[s.n], s.octets[s.n] = now, octets
	s.n++
}

// rate is how many octets a second have passed since the oldest look.
func (s *samples) rate(now time.Time, octets int64) float64 {
	since := now.Sub(s.at[0])
	if since <= 0 {
		return 0
	}
	return float64(max(octets-s.octets[0], 0)) / since.Seconds()
}
