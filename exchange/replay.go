// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// How long the id of a request (x-road-request-id) is known, and how many are.
const (
	replayWindow   = 10 * time.Minute
	replayTogether = 2 * time.Minute // ids that come within it are forgotten together
	replaySets     = 7               // such times that 10 minutes can touch
	replayLimit    = replaySlots / 4 * 3
	replaySlots    = 1 << 20 // of a set, 8 octets each: 56 MiB for a peer that sends more than 6,500 requests a second
)

// replays knows the ids of the requests that each security server has sent of late, so that none is served twice: a proxy
// or a balancer on the way may have given it to us again. It is no proof against a security server that means harm, for
// nobody signs the id. A peer that sends more than there is room for is known for less long, and no other peer is.
// It is safe for concurrent use.
//
// Of an id a hash of 64 bits is kept, under a key that nobody knows: two ids of one peer that share it, by which the second
// would be refused, cannot be made, and come about once in 10¹² requests.
type replays struct {
	key   maphash.Seed
	mu    sync.Mutex
	most  int                      // ids in a set
	peers map[ident.Server][]idSet // oldest first
	swept time.Time
}

// idSet is what came within a time.
type idSet struct {
	hashSet
	begun, last time.Time
}

func newReplays() *replays {
	return &replays{key: maphash.MakeSeed(), most: replayLimit, peers: make(map[ident.Server][]idSet)}
}

// used tells whether the peer has used the id. One that gives none ("") is not known.
func (r *replays) used(peer ident.Server, id string, now time.Time) bool {
	if id == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds(peer, maphash.String(r.key, id), now)
}

// use notes that the peer uses the id now, and tells whether it is the first to do so: of two that ask at once, one is.
func (r *replays) use(peer ident.Server, id string, now time.Time) bool {
	if id == "" {
		return true
	}
	hash := maphash.String(r.key, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	if r.holds(peer, hash, now) {
		return false
	}
	sets := r.peers[peer]
	if n := len(sets); n == 0 || now.Sub(sets[n-1].begun) >= replayTogether || sets[n-1].count >= r.most {
		sets = append(sets, idSet{begun: now})
		if len(sets) > replaySets {
			sets = append([]idSet(nil), sets[1:]...)
		}
	}
	newest := &sets[len(sets)-1]
	newest.add(hash)
	newest.last = now
	r.peers[peer] = sets
	return true
}

// holds is used, with r locked.
func (r *replays) holds(peer ident.Server, hash uint64, now time.Time) bool {
	for _, set := range r.peers[peer] {
		if now.Sub(set.last) < replayWindow && set.has(hash) {
			return true
		}
	}
	return false
}

// sweep forgets what is too old, of all peers, every now and then. r is locked.
func (r *replays) sweep(now time.Time) {
	if now.Sub(r.swept) < replayTogether {
		return
	}
	r.swept = now
	for peer, sets := range r.peers {
		for len(sets) > 0 && now.Sub(sets[0].last) >= replayWindow {
			sets = sets[1:]
		}
		if len(sets) == 0 {
			delete(r.peers, peer)
		} else {
			r.peers[peer] = append([]idSet(nil), sets...)
		}
	}
}

// errReplay refuses a request whose id was used before.
func errReplay(peer ident.Server, id string) error {
	return wire.At(wire.AtReceiver, wire.Errorf("invalid_request",
		"security server %s has used the request id %q within the last %s: it has sent this request already, or something between it and us has sent it again. It is not served twice; an information system that sends its message again gets another id", peer, wire.CheckRequestID(id), replayWindow))
}

// hashSet is a set of hashes, in a third of the memory of a map: each in the first free slot from the one that it names.
type hashSet struct {
	slots []uint64 // a power of two, at the most three quarters of them taken; 0 is free
	count int
}

func (s *hashSet) has(hash uint64) bool { return s.count > 0 && s.slots[s.slot(hash)] != 0 }

// add adds a hash that is not there.
func (s *hashSet) add(hash uint64) {
	if s.count >= len(s.slots)/4*3 {
		old := s.slots
		s.slots = make([]uint64, max(64, 2*len(old)))
		for _, h := range old {
			if h != 0 {
				s.slots[s.slot(h)] = h
			}
		}
	}
	s.slots[s.slot(hash)] = max(hash, 1)
	s.count++
}

// slot returns where a hash is, or where it would be.
func (s *hashSet) slot(hash uint64) int {
	hash = max(hash, 1)
	i := int(hash) & (len(s.slots) - 1)
	for s.slots[i] != 0 && s.slots[i] != hash {
		i = (i + 1) & (len(s.slots) - 1)
	}
	return i
}
