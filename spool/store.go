// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
)

// askEvery is how many octets may go into files before the file system is asked again what is free.
const askEvery = 16 << 20

var errClosed = fmt.Errorf("spool: %w", fs.ErrClosed)

// store is both kinds of Store: the one in memory has no folder and never needs one.
type store struct {
	memory int64 // an entry up to this size stays in memory
	quota  int64
	floor  int64 // octets that must stay free on the disk
	folder *folder
	create func(name string) (io.WriteCloser, error) // folder.create
	free   func() (int64, error)                     // folder.free

	used    atomic.Int64 // octets of all entries
	unasked atomic.Int64 // octets written into files since the file system was asked what is free

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

func (s *store) Size() int64 { return s.used.Load() }

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
		errs = append(errs, s.folder.close())
	}
	return errors.Join(errs...)
}

func (s *store) forget(e *entry) {
	s.mu.Lock()
	delete(s.entries, e)
	s.mu.Unlock()
	s.used.Add(-e.size.Load())
}

// reserve takes n octets of the quota, or none.
func (s *store) reserve(n int64) error {
	for {
		used := s.used.Load()
		if n > s.quota-used {
			return fmt.Errorf("%w: %d of %d octets are in use and %d more are needed", ErrFull, used, s.quota, n)
		}
		if s.used.CompareAndSwap(used, used+n) {
			return nil
		}
	}
}

// room refuses n more octets in a file where that would leave too little free on the disk. It asks the file system now
// and then, always for the first octets of a file, and for every write from a refusal on until there is room again.
func (s *store) room(n int64, first bool) error {
	if s.floor == 0 || s.unasked.Add(n) < askEvery && !first {
		return nil
	}
	free, err := s.free()
	if err != nil {
		return fmt.Errorf("spool: asking how much is free: %w", err)
	}
	if free-n < s.floor {
		s.unasked.Store(askEvery)
		return fmt.Errorf("%w: the disk has %d octets free, %d of them reserved, and %d more are needed", ErrFull, free, s.floor, n)
	}
	s.unasked.Store(0)
	return nil
}

// full makes an error of a disk that has no room wrap ErrFull.
func full(err error) error {
	if err != nil && noRoom(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
