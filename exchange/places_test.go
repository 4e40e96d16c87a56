// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// soon is a wait that ends in a test, and late one that does not.
const (
	soon = 5 * time.Millisecond
	late = time.Hour
)

func placesFor(all, one int, wait time.Duration) *places {
	return newPlaces(Admission{All: all, Peer: one, Wait: wait}, "%d are here", "%d are here of %s")
}

// queue has somebody wait, and returns when he does. His error comes.
func queue(t *testing.T, p *places, ctx context.Context, who string) (came chan error) {
	t.Helper()
	came = make(chan error, 1)
	var waits atomic.Bool
	go func() { came <- p.take(ctx, who, &waits) }()
	for !waits.Load() {
		select {
		case err := <-came:
			t.Fatalf("%s did not wait: %v", who, err)
		case <-time.After(time.Millisecond):
		}
	}
	return came
}

// now takes places that are free.
func now(t *testing.T, p *places, all ...string) {
	t.Helper()
	for _, who := range all {
		if err := p.take(t.Context(), who, nil); err != nil { // to wait would be to panic
			t.Fatalf("%s: %v", who, err)
		}
	}
}

// empty fails the test unless everything has been given back.
func empty(t *testing.T, p *places) {
	t.Helper()
	if l := p.load(); l.Exchanges != 0 || l.Waiting != 0 || len(p.shares) != 0 {
		t.Errorf("%+v, shares %v", l, p.shares)
	}
}

func TestPlacesRefuse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		taken   string
		waiting string
		who     string
		want    string
		limit   int
	}{
		{"all taken", "abcd", "", "e", "4 are here, as many as may be at once: try again after 5ms (setting: exchanges)", 4},
		{"a share taken", "aa", "", "a", "2 are here of a, as many as may be at once: try again after 5ms (setting: peer in exchanges)", 2},
		{"both", "aabc", "", "a", "2 are here of a, as many as may be at once: try again after 5ms (setting: peer in exchanges)", 2},
		{"as many wait", "abcd", "efgh", "i", "4 are here, as many as may be at once: try again after 1h0m0s (setting: exchanges)", 4},
		{"as many of one wait", "aa", "aa", "a", "2 are here of a, as many as may be at once: try again after 1h0m0s (setting: peer in exchanges)", 2},
		{"as many of one wait for another's place", "abcd", "ee", "e", "4 are here, as many as may be at once: try again after 1h0m0s (setting: exchanges)", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait := soon
			if tt.waiting != "" {
				wait = late
			}
			p := placesFor(4, 2, wait)
			now(t, p, strings.Split(tt.taken, "")...)
			ctx, cancel := context.WithCancelCause(t.Context())
			var waiting []chan error
			for _, who := range strings.Split(tt.waiting, "") {
				if who != "" {
					waiting = append(waiting, queue(t, p, ctx, who))
				}
			}
			var waits atomic.Bool
			err := p.take(t.Context(), tt.who, &waits)
			busy, ok := errors.AsType[*BusyError](err)
			if !ok || err.Error() != tt.want || busy.Limit != tt.limit || busy.Retry != wait || busy.Cause() != "io_error" || waits.Load() {
				t.Errorf("refused with %v (%+v), waiting %v", err, busy, waits.Load())
			}
			gone := errors.New("gone")
			cancel(gone)
			for _, came := range waiting {
				if err := <-came; err != gone {
					t.Errorf("who waited and went got %v", err)
				}
			}
			for _, who := range strings.Split(tt.taken, "") {
				p.leave(who)
			}
			empty(t, p)
		})
	}
}

// queued is who waits, in order.
func queued(p *places) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var who strings.Builder
	for at := p.waiting.Front(); at != nil; at = at.Next() {
		who.WriteString(at.Value.(*waiter).who)
	}
	return who.String()
}

// TestPlacesTurns: who waits comes in the order of coming, past those whose share is taken.
func TestPlacesTurns(t *testing.T) {
	for _, tt := range []struct {
		name           string
		taken, waiting string
		leave          string
		want           []string // who waits after each has left
	}{
		{"in order", "abcd", "efgh", "abcd", []string{"fgh", "gh", "h", ""}},
		{"others pass whose share is taken", "aabc", "aadd", "bc", []string{"aad", "aa"}},
		{"and he comes when it is not", "aabc", "aad", "ab", []string{"ad", "a"}},
		{"a share is taken, and not all", "aa", "aa", "aa", []string{"a", ""}},
		{"who goes frees only his own", "aab", "a", "ba", []string{"a", ""}},
		{"the first of those who may", "aabb", "bac", "b", []string{"ac"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := placesFor(4, 2, late)
			in := strings.Split(tt.taken, "")
			now(t, p, in...)
			ctx, cancel := context.WithCancel(t.Context())
			var waiting []chan error
			for _, who := range strings.Split(tt.waiting, "") {
				waiting = append(waiting, queue(t, p, ctx, who))
			}
			for i, who := range strings.Split(tt.leave, "") {
				p.leave(who)
				if got := queued(p); got != tt.want[i] {
					t.Errorf("when %d have left, %q wait, want %q", i+1, got, tt.want[i])
				}
			}
			cancel()
			came := 0
			for _, c := range waiting {
				if <-c == nil {
					came++
				}
			}
			if want := len(tt.waiting) - len(tt.want[len(tt.want)-1]); came != want {
				t.Errorf("%d came in, want %d", came, want)
			}
		})
	}
}

// TestPlacesCrowd has many come, wait, give up and go at once: there are never too many in, none of one has too many, and
// all is given back.
func TestPlacesCrowd(t *testing.T) {
	const all, one, names, each = 8, 3, 5, 200
	p := placesFor(all, one, 2*time.Millisecond)
	var in atomic.Int64
	var of [names]atomic.Int64
	var served, refused, gone atomic.Int64
	var crowd sync.WaitGroup
	for i := range names * 4 {
		crowd.Go(func() {
			n := i % names
			for range each {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
				}
				var waits atomic.Bool
				err := p.take(ctx, fmt.Sprint(n), &waits)
				if waits.Load() {
					t.Error("it still waits")
				}
				switch _, busy := errors.AsType[*BusyError](err); {
				case err == nil:
					if in.Add(1) > all || of[n].Add(1) > one {
						t.Error("too many are in")
					}
					time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
					of[n].Add(-1)
					in.Add(-1)
					p.leave(fmt.Sprint(n))
					served.Add(1)
				case busy:
					refused.Add(1)
				case errors.Is(err, context.Canceled):
					gone.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	crowd.Wait()
	if served.Load() == 0 || p.load().Refused != refused.Load() || served.Load()+refused.Load()+gone.Load() != names*4*each {
		t.Errorf("%d served, %d refused, %d gone", served.Load(), refused.Load(), gone.Load())
	}
	empty(t, p)
}

// TestPlacesFree: nothing is allocated where nobody waits.
func TestPlacesFree(t *testing.T) {
	p := newPlaces(Admission{}, "", "")
	if n := testing.AllocsPerRun(100, func() {
		if p.take(t.Context(), "DEV/GOV/1111/ss1", nil) != nil {
			t.Fail()
		}
		p.leave("DEV/GOV/1111/ss1")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAdmissionDefaults: what is left open follows from what is said.
func TestAdmissionDefaults(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, tt := range map[string]struct {
		memory   int64
		is, want Admission
	}{
		"nothing":             {8 << 30, Admission{}, Admission{2048, 512, 2 * time.Second}},
		"nothing, no limit":   {math.MaxInt64, Admission{}, Admission{2048, 512, 2 * time.Second}},
		"in 256 MiB":          {230 << 20, Admission{}, Admission{92, 23, 2 * time.Second}},
		"in nearly no memory": {16 << 20, Admission{}, Admission{16, 4, 2 * time.Second}},
		"few":                 {8 << 30, Admission{All: 3}, Admission{3, 1, 2 * time.Second}},
		"all of it":           {230 << 20, Admission{4000, 4000, time.Second}, Admission{4000, 4000, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(tt.memory)
			if got := tt.is.WithDefaults(); got != tt.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// BenchmarkPlaces takes a place and leaves it, where there are some.
func BenchmarkPlaces(b *testing.B) {
	p := newPlaces(Admission{}, "", "")
	b.ReportAllocs()
	for b.Loop() {
		p.take(b.Context(), "DEV/GOV/1111/ss1", nil)
		p.leave("DEV/GOV/1111/ss1")
	}
}
