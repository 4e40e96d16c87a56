// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Admission says how many exchanges there may be at once. Those that are sent and those that are received are counted
// apart, so that a security server that calls itself does not wait for itself.
type Admission struct {
	All  int           // in each direction; 0 is DefaultExchanges, or fewer where there is little memory
	Peer int           // of these with one other security server; 0 is a quarter of All
	Wait time.Duration // for a place, of as many more; 0 is DefaultWait
}

const (
	// DefaultExchanges is how many exchanges there may be at once.
	DefaultExchanges = 2048
	// DefaultWait is how long one more waits for a place.
	DefaultWait = 2 * time.Second

	// exchangeMemory is how much memory there is to be for one exchange in each direction. A large one takes some 600 KiB in
	// either: 256 KiB are read ahead, and there are the buffers of two connections, the stacks of half a dozen goroutines and what
	// the collector has not found yet; and some 850 KiB while what it sends is not taken. So all places can be taken by large ones
	// that stand still, and a quarter is left for those who wait for a place or have not told whom they call, and for the system.
	exchangeMemory = 2560 << 10
	// leastExchanges are possible with any memory.
	leastExchanges = 16
)

// WithDefaults returns a with what it leaves open.
func (a Admission) WithDefaults() Admission {
	if a.All == 0 { // Caddy sets Go's limit to the memory that there is, in a container too
		a.All = int(min(max(debug.SetMemoryLimit(-1)/exchangeMemory, leastExchanges), DefaultExchanges))
	}
	a.Peer = cmp.Or(a.Peer, max(a.All/4, 1))
	a.Wait = cmp.Or(a.Wait, DefaultWait)
	return a
}

// places are so many that exchanges take, in all and for each of those who take them. Who finds none waits, in the order of
// coming, where no more than as many again do, and is refused in the end. So whoever takes long, or comes often, is in the
// way of himself first, and who gets a place has waited no longer than the limit.
type places struct {
	limits   Admission
	all, one string // what is too many, with %d, and that of one, with %d and who

	mu      sync.Mutex
	taken   int
	refused int64
	waiting list.List // of *waiter, none of whom could have a place
	shares  map[string]share
}

// share is what one of them has.
type share struct{ taken, waiting int }

type waiter struct {
	who   string
	taken chan struct{} // closed with the place
}

func newPlaces(limits Admission, all, one string) *places {
	return &places{limits: limits.WithDefaults(), all: all, one: one, shares: make(map[string]share)}
}

// take takes a place, which is given back by leave, with the same who. While it waits, waits says so.
func (p *places) take(ctx context.Context, who string, waits *atomic.Bool) error {
	p.mu.Lock()
	if p.free(who) {
		p.give(who)
		p.mu.Unlock()
		return nil
	}
	if p.waiting.Len() >= p.limits.All || p.shares[who].waiting >= p.limits.Peer {
		defer p.mu.Unlock()
		return p.refuse(who)
	}
	w := &waiter{who, make(chan struct{})}
	at := p.waiting.PushBack(w)
	p.waits(who, 1)
	p.mu.Unlock()

	waits.Store(true)
	defer waits.Store(false)
	timer := time.NewTimer(p.limits.Wait)
	defer timer.Stop()
	select {
	case <-w.taken:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.taken: // just now
		return nil
	default:
	}
	p.waiting.Remove(at)
	p.waits(who, -1)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.refuse(who)
}

// try takes a place if there is one.
func (p *places) try(who string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.free(who)
	if free {
		p.give(who)
	}
	return free
}

// leave gives a place back, to the first who may have it: any of them, where all had been taken, else one of the same.
func (p *places) leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.taken == p.limits.All
	p.taken--
	s := p.shares[who]
	s.taken--
	p.keep(who, s)
	if !full && s.waiting == 0 {
		return
	}
	for at := p.waiting.Front(); at != nil; at = at.Next() {
		if w := at.Value.(*waiter); p.free(w.who) {
			p.waiting.Remove(at)
			p.waits(w.who, -1)
			p.give(w.who)
			close(w.taken)
			return
		}
	}
}

func (p *places) free(who string) bool {
	return p.taken < p.limits.All && p.shares[who].taken < p.limits.Peer
}

func (p *places) give(who string) {
	p.taken++
	s := p.shares[who]
	s.taken++
	p.keep(who, s)
}

func (p *places) waits(who string, n int) {
	s := p.shares[who]
	s.waiting += n
	p.keep(who, s)
}

// keep remembers a share, unless there is nothing to remember.
func (p *places) keep(who string, s share) {
	if s == (share{}) {
		delete(p.shares, who)
		return
	}
	p.shares[who] = s
}

// refuse is the error of one who does not get a place.
func (p *places) refuse(who string) error {
	p.refused++
	e := &BusyError{Limit: p.limits.Peer, Setting: "peer in exchanges", Retry: p.limits.Wait}
	if p.shares[who].taken >= p.limits.Peer {
		e.what = fmt.Sprintf(p.one, e.Limit, who)
		return e
	}
	e.Limit, e.Setting = p.limits.All, "exchanges"
	e.what = fmt.Sprintf(p.all, e.Limit)
	return e
}

// BusyError is why an exchange was refused that could go well at another time: there are too many. Nothing has been done.
type BusyError struct {
	Limit   int           // how many there are, and may be
	Setting string        // that has the limit
	Retry   time.Duration // after which it may be tried again
	what    string
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s, as many as may be at once: try again after %s (setting: %s)", e.what, e.Retry, e.Setting)
}

// Cause returns X-Road's cause: that of time-outs, and of what passes.
func (e *BusyError) Cause() string { return "io_error" }

// retryAfter says in the header of a fault when to try again, where that makes sense. Who reads HTTP alone understands it.
func retryAfter(h http.Header, err error) (busy bool) {
	e, busy := errors.AsType[*BusyError](err)
	if busy {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.Retry.Seconds()))))
	}
	return busy
}

// admissions are the places of a security server. Information systems whose envelope has not told yet whom they call have
// some of their own, so that those who never tell are in the way of nobody who did; and so do requests that have been answered
// and are thrown away, so that those who send on do not pile up.
type admissions struct{ asking, sending, receiving, lingering *places }

func newAdmissions(limits Admission) admissions {
	return admissions{
		asking: newPlaces(limits, "%d information systems are being read", "%d requests of the information system at %s are being read"),
		sending: newPlaces(limits, "this security server has %d exchanges as the sender",
			"this security server has %d exchanges as the sender with security server %s"),
		receiving: newPlaces(limits, "this security server has %d exchanges as the receiver",
			"this security server has %d exchanges as the receiver with security server %s"),
		lingering: newPlaces(limits, "", ""),
	}
}

// Load is how much there is at once of something that is bounded by Admission.
type Load struct {
	Exchanges int
	Waiting   int
	Refused   int64 // since the start
}

func (p *places) load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Load{p.taken, p.waiting.Len(), p.refused}
}

// Load returns the load of the security server: with requests of information systems that have not told whom they call,
// as the sender, and as the receiver.
func (s *SecurityServer) Load() (asking, sending, receiving Load) {
	return s.admissions.asking.load(), s.admissions.sending.load(), s.admissions.receiving.load()
}

// hostOf returns the address of an information system without its port.
func hostOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
