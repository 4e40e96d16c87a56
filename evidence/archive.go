// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"

	"github.com/caddy-fairway/fairway/ident"
)

// archive is a folder of segments and how it is read. One who writes and one who only reads both have one.
type archive struct {
	root *os.Root

	mu       sync.RWMutex
	segments []*segment // ascending
}

// load reads the segments that the folder holds and the archive does not. The one that was the last so far is read to
// its end first. The archive's lock must be held, or nobody else must know the archive.
func (a *archive) load(mode scanMode) error {
	entries, err := fs.ReadDir(a.root.FS(), ".")
	if err != nil {
		return err
	}
	var numbers []uint64
	newest := uint64(0)
	if n := len(a.segments); n > 0 {
		newest = a.segments[n-1].number
	}
	for _, e := range entries {
		if n := numberOf(e.Name()); n > newest && e.Type().IsRegular() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	if newest > 0 {
		if err := a.scan(a.segments[len(a.segments)-1], len(numbers) == 0, mode); err != nil {
			return err
		}
	}
	for i, n := range numbers {
		isLast := i == len(numbers)-1
		s, stub, err := a.preamble(n)
		if stub && isLast {
			return nil // its maker crashed, or is about to write it
		}
		if err == nil {
			if len(a.segments) > 0 && s.first < a.segments[len(a.segments)-1].next() {
				err = errors.New("its records have numbers of earlier ones")
			} else {
				err = a.scan(s, isLast, mode)
			}
		}
		if err != nil {
			return fmt.Errorf("reading "+segmentName+": %w", n, err)
		}
		a.segments = append(a.segments, s)
	}
	return nil
}

// preamble reads the beginning of a segment. A stub is one that has, or had a moment ago, less than a preamble.
func (a *archive) preamble(number uint64) (s *segment, stub bool, err error) {
	f, err := a.root.Open(fmt.Sprintf(segmentName, number))
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	s, err = readPreamble(number, f)
	return s, errors.Is(err, errNotWhole) && info.Size() <= preambleSize, err
}

// isStub reports whether a segment's file is there and holds nothing but a preamble, or less.
func (a *archive) isStub(number uint64) bool {
	info, err := a.root.Lstat(fmt.Sprintf(segmentName, number))
	return err == nil && info.Size() <= preambleSize
}

func (a *archive) scan(s *segment, isLast bool, mode scanMode) error {
	f, err := a.root.Open(s.name())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !isLast {
		mode = scanSealed
	}
	if err := s.scan(f, info.Size(), mode); err != nil {
		return err
	}
	if !isLast && s.end < info.Size() {
		s.damaged = append(s.damaged, DamageError{s.name(), s.end, info.Size()})
	}
	return nil
}

func (a *archive) Get(ctx context.Context, number uint64) (*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("evidence: getting record %d: %w", number, err)
	}
	s, e, ok := a.locate(number)
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrNotFound, number)
	}
	return a.read(s, e)
}

// locate finds the entry of a number.
func (a *archive) locate(number uint64) (*segment, entry, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	i, exact := slices.BinarySearchFunc(a.segments, number, func(s *segment, n uint64) int { return cmp.Compare(s.first, n) })
	if !exact {
		i--
	}
	// An empty segment may share its first number with the one after it.
	for ; i >= 0 && i < len(a.segments) && a.segments[i].first <= number; i++ {
		s := a.segments[i]
		if n, ok := slices.BinarySearchFunc(s.entries, number, func(e entry, n uint64) int { return cmp.Compare(e.number, n) }); ok {
			return s, s.entries[n], true
		}
	}
	return nil, entry{}, false
}

func (a *archive) Find(ctx context.Context, q Query) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		a.mu.RLock()
		segments := slices.Clone(a.segments)
		a.mu.RUnlock()
		for _, s := range segments {
			a.mu.RLock()
			entries, damaged := s.candidates(q), s.damaged
			a.mu.RUnlock()
			for _, e := range entries {
				if !e.matches(q) {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(nil, fmt.Errorf("evidence: searching: %w", err))
					return
				}
				r, err := a.read(s, e)
				if err == nil && q.RequestID != "" && r.RequestID != text(q.RequestID) {
					continue
				}
				if !yield(r, err) {
					return
				}
			}
			for i := range damaged {
				if !yield(nil, &damaged[i]) {
					return
				}
			}
		}
	}
}

// matches looks at what the entry tells; ids are looked up before.
func (e entry) matches(q Query) bool {
	if !q.From.IsZero() && e.time.Before(q.From) || !q.To.IsZero() && !e.time.Before(q.To) {
		return false
	}
	return q.Member.IsZero() || belongs(e.client.Value(), q) || belongs(e.provider.Value(), q)
}

func belongs(c ident.Client, q Query) bool {
	return c == q.Member || c.MemberOf() == q.Member
}

func (a *archive) read(s *segment, e entry) (*Record, error) {
	r, err := a.readFrom(s, e)
	if err != nil {
		return nil, fmt.Errorf("evidence: reading record %d from %s: %w", e.number, s.name(), err)
	}
	return r, nil
}

func (a *archive) readFrom(s *segment, e entry) (*Record, error) {
	f, err := s.file(a.root)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h, err := readHead(f, e.at, info.Size(), s.mark)
	if err != nil {
		return nil, err
	}
	j, documents, err := h.read(f, s.mark)
	if err != nil {
		return nil, err
	}
	return h.record(j, documents, f), nil
}

func (a *archive) closeSegments() error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var errs []error
	for _, s := range a.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
