// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sort"
	"sync"
)

// archive is a folder of segments and how it is read. One who writes and one who only reads both have one.
//
// Of a segment that others follow it keeps only a summary in memory, and opens files only while it reads in them.
type archive struct {
	root   *os.Root
	writes bool // and may make indexes

	mu       sync.RWMutex
	segments []*segment // ascending

	indexing sync.Mutex // held while an index is made; mu is not taken then
	spare    *live      // the latest that was made so,
	spareOf  *segment   // and of what

	tree latestTree // of the time-stamp that was looked up last
}

// load reads what the folder holds and the archive does not, and forgets what it holds no more. The segment that was
// the last so far is read to its end first. The archive's lock must be held, or nobody else must know the archive.
func (a *archive) load(mode scanMode) error {
	entries, err := fs.ReadDir(a.root.FS(), ".")
	if err != nil {
		return err
	}
	var numbers []uint64
	for _, e := range entries {
		if n := numberOf(e.Name()); n > 0 && e.Type().IsRegular() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	if n := len(numbers); n > 0 {
		if _, stub, _ := a.preamble(numbers[n-1]); stub {
			numbers = numbers[:n-1] // its maker crashed, or is about to write it
		}
	}
	a.segments = slices.DeleteFunc(a.segments, func(s *segment) bool {
		_, there := slices.BinarySearch(numbers, s.number)
		return !there
	})
	if n := len(a.segments); n > 0 {
		was := a.segments[n-1]
		i, _ := slices.BinarySearch(numbers, was.number)
		numbers = numbers[i+1:]
		err := a.catchUp(was, len(numbers) == 0, mode)
		if errors.Is(err, fs.ErrNotExist) && !a.writes {
			a.segments, err = a.segments[:n-1], nil // removed meanwhile
		}
		if err != nil {
			return err
		}
	}
	for i, n := range numbers {
		isLast := i == len(numbers)-1
		s, _, err := a.preamble(n)
		if err == nil {
			err = a.learn(s, isLast, mode)
		}
		if !a.writes && errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
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
	f, err := openFile(a.root, fmt.Sprintf(segmentName, number))
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
	return err == nil && info.Mode().IsRegular() && info.Size() <= preambleSize
}

// learn finds out what is in a segment that follows those that are known: from its index, where others follow it.
func (a *archive) learn(s *segment, isLast bool, mode scanMode) error {
	if n := len(a.segments); n > 0 && s.first < a.segments[n-1].known().Next {
		return errors.New("its records have numbers of earlier ones")
	}
	if isLast {
		s.live = s.newLive()
		return a.catchUp(s, true, mode)
	}
	v, err := a.open(s)
	if err != nil {
		return err
	}
	s.sealed = *v.known()
	return v.close()
}

// catchUp reads on in the segment that was the last. Where others follow it now, its entries are let go.
func (a *archive) catchUp(s *segment, isLast bool, mode scanMode) error {
	if !isLast {
		mode = scanSealed
	}
	if err := a.scan(s, s.live, mode); err != nil {
		return err
	}
	if !isLast {
		s.sealed, s.live = s.live.summary, nil
	}
	return nil
}

func (a *archive) scan(s *segment, l *live, mode scanMode) error {
	f, err := openFile(a.root, s.name())
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := s.scan(l, f, info.Size(), mode); err != nil {
		return err
	}
	if mode == scanSealed && l.End < l.Size {
		l.Damaged = append(l.Damaged, DamageError{s.name(), l.End, l.Size})
	}
	return nil
}

// look returns a view of the records of a segment, which the caller closes.
func (a *archive) look(s *segment) (view, error) {
	a.mu.RLock()
	if s.live != nil {
		defer a.mu.RUnlock()
		return s.live.snapshot(), nil
	}
	a.mu.RUnlock()
	return a.open(s)
}

// open opens the index of a segment, which it makes again where it must.
func (a *archive) open(s *segment) (view, error) {
	v, err := openIndex(a.root, s)
	if errors.Is(err, errIndex) {
		return a.relook(s)
	}
	return v, err
}

// relook makes the index of a segment again, from its records.
func (a *archive) relook(s *segment) (view, error) {
	a.indexing.Lock()
	defer a.indexing.Unlock()
	if a.spareOf == s && !a.writes {
		return a.spare, nil
	}
	l := s.newLive()
	if err := a.scan(s, l, scanSealed); err != nil {
		return nil, err
	}
	a.spare, a.spareOf = l, s
	if a.writes {
		writeIndex(a.root, s, l) // where that fails, it is tried again the next time
	}
	return l.snapshot(), nil
}

// makeIndex writes the index of a segment.
func (a *archive) makeIndex(s *segment, l *live) error {
	a.indexing.Lock()
	defer a.indexing.Unlock()
	return writeIndex(a.root, s, l)
}

// Get implements Store.Get.
func (a *archive) Get(ctx context.Context, number uint64) (*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("evidence: getting record %d: %w", number, err)
	}
	s, w, err := a.fetch(number)
	if err == nil && !w.isMessage() {
		err = ErrNotFound
	}
	var r *Record
	if err == nil {
		r = w.record(a.opener(s, w))
		r.Timestamp, err = a.timestamp(s, w)
	}
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, ErrNotFound) || a.removed(s, err):
		return nil, fmt.Errorf("%w: %d", ErrNotFound, number)
	}
	return nil, fmt.Errorf("evidence: getting record %d: %w", number, err)
}

// fetch reads the record of a number. ErrNotFound: there is none.
func (a *archive) fetch(number uint64) (*segment, *whole, error) {
	s := a.holder(number)
	if s == nil {
		return nil, nil, ErrNotFound
	}
	v, err := a.look(s)
	for again := false; err == nil; again = true {
		var w *whole
		if w, err = a.fetchFrom(s, v, number); err == nil {
			return s, w, v.close()
		}
		v.close()
		if _, inMemory := v.(*live); again || inMemory || !doubtful(err) {
			break
		}
		v, err = a.relook(s)
	}
	if a.removed(s, err) {
		err = ErrNotFound
	}
	return s, nil, err
}

// removed reports whether an error tells that a segment is gone because it was too old.
func (a *archive) removed(s *segment, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return !a.writes || !slices.Contains(a.segments, s) // who only reads learns it the next time
}

// doubtful reports whether an error may come of an index that is wrong.
func doubtful(err error) bool { return errors.Is(err, errIndex) || errors.Is(err, errNotWhole) }

func (a *archive) fetchFrom(s *segment, v view, number uint64) (*whole, error) {
	i, err := search(v, func(e entry) bool { return e.number >= number })
	if err != nil {
		return nil, err
	}
	if i == v.known().Entries {
		return nil, ErrNotFound
	}
	e, err := v.entry(i)
	if err != nil {
		return nil, err
	}
	if e.number != number {
		return nil, ErrNotFound
	}
	f, err := openFile(a.root, s.name())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.read(f, e)
}

// holder returns the segment that has the record of a number, if any has.
func (a *archive) holder(number uint64) *segment {
	a.mu.RLock()
	defer a.mu.RUnlock()
	i := sort.Search(len(a.segments), func(i int) bool { return a.segments[i].first > number })
	if i == 0 {
		return nil
	}
	return a.segments[i-1]
}

// read reads the record of an entry.
func (s *segment) read(f *os.File, e entry) (*whole, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h, err := readHead(f, e.at, info.Size(), s.mark)
	if err == nil && h.number != e.number {
		err = fmt.Errorf("%w: it has number %d", errNotWhole, h.number)
	}
	var w *whole
	if err == nil {
		w, err = h.read(f, s.mark)
	}
	if err != nil {
		return nil, fmt.Errorf("reading record %d from %s: %w", e.number, s.name(), err)
	}
	return w, nil
}

// opener returns what opens the file in which the contents of a record are.
func (a *archive) opener(s *segment, w *whole) func() (*os.File, error) {
	name := s.name()
	if w.outside != 0 {
		name = (&outsider{a.root, fmt.Sprintf(contentsFolder, s.number), w.outside}).name()
	}
	return func() (*os.File, error) { return openFile(a.root, name) }
}

// Find implements Store.Find.
func (a *archive) Find(ctx context.Context, q Query) iter.Seq2[*Record, error] {
	q.MessageID, q.RequestID = text(q.MessageID), text(q.RequestID)
	return func(yield func(*Record, error) bool) {
		a.mu.RLock()
		segments := slices.Clone(a.segments)
		a.mu.RUnlock()
		for _, s := range segments {
			err := a.findIn(ctx, s, q, yield)
			if errors.Is(err, errStop) {
				return
			}
			if err != nil && !a.removed(s, err) && !yield(nil, fmt.Errorf("evidence: searching: %w", err)) || ctx.Err() != nil {
				return
			}
		}
	}
}

var errStop = errors.New("no more is wanted")

// findIn finds in one segment.
func (a *archive) findIn(ctx context.Context, s *segment, q Query, yield func(*Record, error) bool) error {
	v, err := a.look(s)
	if err != nil {
		return err
	}
	defer func() { v.close() }()
	var f *os.File // is opened when there is something to read
	defer func() { f.Close() }()
	_, trusted := v.(*live)
	upTo := uint64(0) // what has been looked at
	for again := true; again; {
		again = false
		for e, err := range candidates(v, s.mark, q) {
			if err == nil && e.number <= upTo {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if f == nil {
				var err error
				if f, err = openFile(a.root, s.name()); err != nil {
					return err
				}
			}
			var w *whole
			if err == nil {
				w, err = s.read(f, e)
			}
			if err != nil && !trusted && doubtful(err) {
				again, trusted = true, true
				break
			}
			upTo = e.number
			var r *Record
			if err == nil {
				r = w.record(a.opener(s, w))
			} else {
				err = fmt.Errorf("evidence: searching: %w", err)
			}
			if (err != nil || q.selects(r)) && !yield(r, err) {
				return errStop
			}
		}
		if again {
			made, err := a.relook(s)
			if err != nil {
				return err
			}
			v.close()
			v = made
		}
	}
	for _, d := range v.known().Damaged {
		if !yield(nil, &d) {
			return errStop
		}
	}
	return nil
}

// candidates yields the entries among which those that the query selects are.
func candidates(v view, m mark, q Query) iter.Seq2[entry, error] {
	of := m.hashClient(q.Member)[0]
	return func(yield func(entry, error) bool) {
		if v.known().outOf(q) {
			return
		}
		var with []int
		var err error
		n := v.known().Entries
		switch {
		case q.MessageID != "":
			with, err = v.withID(messageID, m.hash(messageID, q.MessageID))
			n = len(with)
		case q.RequestID != "":
			with, err = v.withID(requestID, m.hash(requestID, q.RequestID))
			n = len(with)
		}
		if err != nil {
			yield(entry{}, err)
			return
		}
		for i := range n {
			if with != nil {
				i = with[i]
			}
			e, err := v.entry(i)
			if (err != nil || e.flags&ours == 0 && e.may(q, of)) && !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// openFile opens a file for reading that must be an ordinary one: others may let us wait, or read for ever.
func openFile(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%w: it is no ordinary file", errNotWhole)}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
