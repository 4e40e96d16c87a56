// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

var errClosed = fmt.Errorf("spool: %w", fs.ErrClosed)

// store is both kinds of Store: the one in memory has no folder and never needs one.
type store struct {
	memory int64 // an entry up to this size stays in memory
	quota  int64
	share  int64 // of the quota, for small entries
	folder *folder
	disk   disk
	cache  cache

	size atomic.Int64 // octets written to all entries
	used account      // octets of the quota

	mu      sync.Mutex
	entries map[*entry]struct{} // nil once closed
}

func newStore(memory, quota int64) *store {
	return &store{memory: memory, quota: quota, entries: make(map[*entry]struct{})}
}

func (s *store) Create(ctx context.Context) (Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("spool: creating an entry: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		return nil, errClosed
	}
	e := &entry{store: s}
	s.entries[e] = struct{}{}
	return e, nil
}

func (s *store) Size() int64 { return s.size.Load() }

func (s *store) Close() error {
	s.mu.Lock()
	left := s.entries
	s.entries = nil
	s.mu.Unlock()
	if left == nil {
		return nil
	}
	var errs []error
	for e := range left {
		errs = append(errs, e.Remove())
	}
	if s.folder != nil {
		s.disk.settled()
		errs = append(errs, s.folder.close())
	}
	return errors.Join(errs...)
}

func (s *store) Room(n int64) error {
	large := n > small
	if n > s.limit(large)-s.used.Load() {
		return s.missing(n)
	}
	if n <= s.memory {
		return nil
	}
	return s.disk.room(n, large)
}

// forget takes back what a removed entry had of the quota.
func (s *store) forget(e *entry) {
	s.mu.Lock()
	delete(s.entries, e)
	s.mu.Unlock()
	s.size.Add(-e.size.Load())
	s.used.give(e.taken)
}

// take takes n octets of the quota for an entry, or none.
func (s *store) take(n int64, large bool) error {
	if !s.used.take(n, s.limit(large)) {
		return s.missing(n)
	}
	return nil
}

// limit returns what an entry may use of the quota. A large one leaves the share of the small ones.
func (s *store) limit(large bool) int64 {
	if large {
		return s.quota - s.share
	}
	return s.quota
}

func (s *store) missing(n int64) error {
	return &noRoomError{n, fmt.Sprintf("%d of %d octets are in use and %d more are needed (setting: quota of the spool)", s.used.Load(), s.quota, n)}
}

// account counts octets that are shared by many.
type account struct{ atomic.Int64 }

// take takes n octets, or none where that would make more than limit.
func (a *account) take(n, limit int64) bool {
	for {
		taken := a.Load()
		if n > limit-taken {
			return false
		}
		if a.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

func (a *account) give(n int64) { a.Add(-n) }

// full makes an error of a disk that has no room wrap ErrFull.
func full(err error) error {
	if err != nil && noRoom(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
