// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"testing"
	"time"
)

// paceOf returns a pace with a clock that the test moves.
func paceOf(rate float64) (p *pace, now *time.Time) {
	at := time.Unix(1e9, 0)
	return &pace{rate: rate, now: func() time.Time { return at }}, &at
}

// TestPace lets large messages reserve for a second of a clock that moves from one to the next that may pass.
func TestPace(t *testing.T) {
	const rate, quantum = 10e6, 64 << 10
	p, now := paceOf(rate)
	begin := *now
	ready := make([]time.Time, 4) // when each of four messages may pass its next
	var passed [4]int
	for {
		next := 0
		for i := range ready {
			if ready[i].Before(ready[next]) {
				next = i
			}
		}
		if ready[next].After(*now) {
			*now = ready[next]
		}
		if now.Sub(begin) >= time.Second {
			break
		}
		ready[next] = now.Add(max(p.reserve(quantum, false), 0))
		passed[next] += quantum
	}
	total := 0
	for i, n := range passed {
		total += n
		if n < passed[0]-quantum || n > passed[0]+quantum {
			t.Errorf("message %d passed %d octets, the first %d", i, n, passed[0])
		}
	}
	// What had been reserved at the end has not all passed, and what lay behind at the beginning was made up for.
	if low, high := int(rate), int(rate*(1+paceBehind.Seconds()))+5*quantum; total < low || total > high {
		t.Errorf("%d octets in a second, want %d to %d", total, low, high)
	}
}

// TestPaceOfSmallMessages: they do not wait behind large ones, and large ones make room for them.
func TestPaceOfSmallMessages(t *testing.T) {
	const rate = 1e6
	p, _ := paceOf(rate)
	for range 16 {
		p.reserve(256<<10, false) // four seconds
	}
	if wait := p.reserve(10_000, true); wait > 0 {
		t.Errorf("a small message waits for %s behind large ones", wait)
	}
	if wait, least := p.reserve(1, false), time.Duration(16*256<<10*int64(time.Second)/1e6)+9*time.Millisecond; wait < least-paceBehind {
		t.Errorf("a large message waits for %s, want %s", wait, least)
	}

	// Small ones beyond their share wait for each other, and leave large ones a quarter.
	p, now := paceOf(rate)
	begin, small, large := *now, 0, 0
	var smallReady, largeReady time.Time
	for now.Sub(begin) < 10*time.Second {
		if !smallReady.After(*now) {
			smallReady = now.Add(max(p.reserve(1000, true), 0))
			small += 1000
		}
		if !largeReady.After(*now) {
			largeReady = now.Add(max(p.reserve(1000, false), 0))
			large += 1000
		}
		*now = now.Add(100 * time.Microsecond)
	}
	if small > 7_600_000 || large < 2_300_000 || small+large > 10_100_000 {
		t.Errorf("%d octets of small messages, %d of large ones", small, large)
	}
}

// TestPaceEnds: an exchange that ends waits no longer.
func TestPaceEnds(t *testing.T) {
	p, _ := paceOf(1)
	p.reserve(1<<20, false)
	reason := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(reason)
	m := &paced{pace: p, ctx: ctx, octets: bulkFrom}
	if err := m.passes(paceQuantum); !errors.Is(err, reason) {
		t.Errorf("it ends with %v", err)
	}
}
