// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

var (
	peerA = ident.Server{Instance: "DEV", Class: "GOV", Member: "1", Code: "a"}
	peerB = ident.Server{Instance: "DEV", Class: "GOV", Member: "1", Code: "b"}
	noon  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func TestReplays(t *testing.T) {
	type step struct {
		peer  ident.Server
		id    string
		after time.Duration // since noon
		first bool
	}
	for name, steps := range map[string][]step{
		"once":                       {{peerA, "x", 0, true}},
		"again at once":              {{peerA, "x", 0, true}, {peerA, "x", 0, false}, {peerA, "x", 0, false}},
		"another id":                 {{peerA, "x", 0, true}, {peerA, "y", 0, true}, {peerA, "x", 1, false}},
		"in another case":            {{peerA, "x", 0, true}, {peerA, "X", 0, true}},
		"another security server":    {{peerA, "x", 0, true}, {peerB, "x", 0, true}, {peerB, "x", 0, false}},
		"none":                       {{peerA, "", 0, true}, {peerA, "", 0, true}},
		"just within 10 minutes":     {{peerA, "x", 0, true}, {peerA, "x", replayWindow - 1, false}},
		"after 10 minutes":           {{peerA, "x", 0, true}, {peerA, "x", replayWindow, true}, {peerA, "x", replayWindow + 1, false}},
		"others in the meantime":     {{peerA, "x", 0, true}, {peerA, "y", 9 * time.Minute, true}, {peerA, "x", replayWindow - 1, false}, {peerA, "y", 19*time.Minute - 1, false}},
		"a refusal begins no window": {{peerA, "x", 0, true}, {peerA, "x", 9 * time.Minute, false}, {peerA, "x", 12 * time.Minute, true}},
		"the clock is set back":      {{peerA, "x", 0, true}, {peerA, "y", -time.Hour, true}, {peerA, "x", -time.Hour, false}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplays()
			for i, s := range steps {
				at := noon.Add(s.after)
				if s.id != "" && r.used(s.peer, s.id, at) == s.first {
					t.Errorf("step %d: %q is used: %v", i, s.id, s.first)
				}
				if r.use(s.peer, s.id, at) != s.first {
					t.Errorf("step %d: %q is used for the first time: %v", i, s.id, !s.first)
				}
			}
		})
	}
}

// TestReplaysAreForgotten: what is kept goes, with the peers that sent it, and ids that come all the time are known for
// as long as they must be and not much longer.
func TestReplaysAreForgotten(t *testing.T) {
	r := newReplays()
	r.use(peerB, "x", noon)
	const each = time.Second
	for i := range 2000 {
		now := noon.Add(time.Duration(i) * each)
		if !r.use(peerA, strconv.Itoa(i), now) {
			t.Fatalf("id %d was used before", i)
		}
		for _, past := range []int{1, 300, 599} {
			if i >= past && !r.used(peerA, strconv.Itoa(i-past), now) {
				t.Fatalf("id %d is forgotten after %d seconds", i-past, past)
			}
		}
		if i >= 720 && r.used(peerA, strconv.Itoa(i-720), now) {
			t.Fatalf("id %d is known after 12 minutes", i-720)
		}
		if n := len(r.peers[peerA]); n > replaySets {
			t.Fatalf("%d sets are kept", n)
		}
	}
	if _, ok := r.peers[peerB]; ok {
		t.Error("a peer that sends nothing any more is remembered")
	}
}

// TestReplaysOfTooMany: a peer that sends more than there is room for is known for less long, and others are not.
func TestReplaysOfTooMany(t *testing.T) {
	r := newReplays()
	r.most = 100
	r.use(peerB, "x", noon)
	const most = replaySets * 100
	for i := range most + 1 {
		r.use(peerA, strconv.Itoa(i), noon)
	}
	if r.used(peerA, "0", noon) || r.used(peerA, "99", noon) {
		t.Error("what came first is known still")
	}
	if !r.used(peerA, "100", noon) || !r.used(peerA, strconv.Itoa(most), noon) {
		t.Error("what came last is not known")
	}
	if !r.used(peerB, "x", noon) {
		t.Error("another peer lost its ids")
	}
}

// TestReplaysTakeLittle has a set filled as far as it goes.
func TestReplaysTakeLittle(t *testing.T) {
	r := newReplays()
	for i := range replayLimit {
		r.use(peerA, strconv.Itoa(i), noon)
	}
	if sets := r.peers[peerA]; len(sets) != 1 || sets[0].count != replayLimit || len(sets[0].slots) != replaySlots {
		t.Errorf("%d sets, the first with %d ids in %d slots", len(sets), sets[0].count, len(sets[0].slots))
	}
}

func TestHashSet(t *testing.T) {
	var s hashSet
	for _, h := range []uint64{0, 1} { // 0 counts as 1
		if s.has(h) {
			t.Errorf("%d is in an empty set", h)
		}
	}
	s.add(0)
	if !s.has(0) || !s.has(1) || s.has(2) {
		t.Error("0 is not 1 alone")
	}
	for i := uint64(1); i < 5000; i++ { // all that name one slot, and the last one
		for _, h := range []uint64{i << 32, i<<32 - 1} {
			if s.has(h) {
				t.Fatalf("%x is there before it came", h)
			}
			s.add(h)
		}
	}
	for i := uint64(1); i < 5000; i++ {
		if !s.has(i<<32) || !s.has(i<<32-1) || s.has(i<<32+1) {
			t.Fatalf("%d is not what it was", i)
		}
	}
}

func TestReplaysAtOnce(t *testing.T) {
	r := newReplays()
	var first atomic.Int32
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for id := range 100 {
				if r.use(peerA, fmt.Sprint(id), noon.Add(time.Duration(i)*time.Second)) {
					first.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := first.Load(); n != 100 {
		t.Errorf("%d of 100 ids were used for the first time", n)
	}
}

func BenchmarkReplays(b *testing.B) {
	r := newReplays()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.use(peerA, strconv.Itoa(i), noon)
	}
}
