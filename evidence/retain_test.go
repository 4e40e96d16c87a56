// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// aged returns a record of noon and so many hours later, with contents in a file of their own.
func aged(id string, hours int) *Record {
	r := keeping(id, make([]byte, inside+1))
	r.Time = noon.Add(time.Duration(hours) * time.Hour)
	return r
}

func at(hours int) func() time.Time {
	return func() time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
}

// keepingFor opens a store that keeps records for so many hours, at an hour.
func keepingFor(t testing.TB, dir string, hours, now int) (*shared, Options) {
	t.Helper()
	s, err := openShared(dir, Options{SegmentSize: 1200, Keep: time.Duration(hours) * time.Hour, Clock: at(now)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, s.options
}

// retain removes what is too old, when the indexes are there.
func (s *shared) retain(t testing.TB, o Options) {
	t.Helper()
	s.disk.settleAll()
	if err := s.disk.retain(o); err != nil {
		t.Fatal(err)
	}
}

// from expects that the records from a number on are there, and that those before were removed on purpose.
func from(t testing.TB, s Store, number uint64, want ...string) {
	t.Helper()
	if got := ids(t, s, Query{}); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	r, err := s.Check(t.Context(), nil)
	if err != nil || r.Removed != number-1 || r.First != number {
		t.Errorf("Check = %+v, %v", r, err)
	}
	if number > 1 {
		if _, err := s.Get(t.Context(), number-1); !errors.Is(err, ErrNotFound) {
			t.Errorf("Get of what was removed: %v", err)
		}
	}
	for record, err := range s.Find(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		drain(t, record)
	}
}

// files lists what there is of segments and beside them.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	s, o := keepingFor(t, dir, 24, 30)
	reader, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for n := range 8 { // two in a segment
		put(t, s, aged(fmt.Sprint(n), 2*n))
	}
	from(t, reader, 1, "0", "1", "2", "3", "4", "5", "6", "7")
	s.retain(t, o) // older than hour 6: that is the first segment; the second has one of hour 6
	from(t, s, 3, "2", "3", "4", "5", "6", "7")
	from(t, reader, 3, "2", "3", "4", "5", "6", "7")
	if got := files(t, dir); got[0] != "00000002.contents" || len(got) != 3*4 {
		t.Errorf("left: %q", got)
	}
	s.retain(t, o)
	from(t, s, 3, "2", "3", "4", "5", "6", "7")
	s.Close()

	s, o = keepingFor(t, dir, 24, 37)
	s.retain(t, o)
	from(t, s, 7, "6", "7")
	s.Close()
	from(t, reader, 7, "6", "7")
	s, o = keepingFor(t, dir, 24, 100)
	s.retain(t, o)
	from(t, s, s.disk.segments[0].first)
	before := len(files(t, dir))
	for hours := range 100 { // a store to which nobody writes does not grow
		o.Clock = at(100 + hours)
		s.retain(t, o)
	}
	if after := len(files(t, dir)); after > before {
		t.Errorf("%d files, and then %d", before, after)
	}
	r := aged("new", 200)
	put(t, s, r)
	if r.Number < 9 {
		t.Errorf("number %d is given again", r.Number)
	}
	if _, err := s.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Where little is written, segments end by their age: nothing stays for much longer than it is to be kept.
func TestRetentionOfAFewRecords(t *testing.T) {
	s, o := keepingFor(t, t.TempDir(), 24, 0)
	o.SegmentSize = 1 << 20
	s.disk.obey(o)
	for hour := range 100 {
		if hour%2 == 0 {
			r := small(fmt.Sprint(hour))
			r.Time = at(hour)()
			put(t, s, r)
		}
		o.Clock = at(hour)
		s.retain(t, o)
		for r, err := range s.Find(t.Context(), Query{To: at(hour - 24 - 24/segmentsKept - 1)()}) {
			t.Fatalf("in hour %d there is still %+v, %v", hour, r, err)
		}
		n := 0
		for range s.Find(t.Context(), Query{From: at(hour - 24)()}) {
			n++
		}
		if n != hour/2-(max(hour-24, 0)+1)/2+1 {
			t.Fatalf("in hour %d there are %d records that are to be kept", hour, n)
		}
	}
	if n := len(s.disk.segments); n > segmentsKept+3 {
		t.Errorf("%d segments", n)
	}
	if _, err := s.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// With a Timestamper, nothing that is signed goes without a time-stamp.
func TestRetentionWaitsForTimestamps(t *testing.T) {
	dir := t.TempDir()
	s, _ := keepingFor(t, dir, 24, 0)
	for n := range 6 {
		put(t, s, aged(fmt.Sprint(n), 0))
	}
	s.Close()
	synctest.Test(t, func(t *testing.T) {
		a := &authority{fails: errors.New("out")}
		s, err := openShared(dir, Options{SegmentSize: 1200, Keep: time.Hour, Clock: at(100), Timestamper: a})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		s.retain(t, s.options)
		from(t, s, 1, "0", "1", "2", "3", "4", "5")
		a.fail(nil)
		time.Sleep(minInterval)
		synctest.Wait()
		s.retain(t, s.options)
		from(t, s, 7)
		put(t, s, small("new"))
		if r, err := s.Check(t.Context(), genuine); err != nil || r.Refused != nil {
			t.Errorf("Check = %+v, %v", r, err)
		}
	})
}

// A crash anywhere in a removal leaves one that is finished when the store is opened again.
func TestCrashInARemoval(t *testing.T) {
	for steps := range 7 {
		dir := t.TempDir()
		s, _ := keepingFor(t, dir, 24, 0)
		for n := range 8 {
			put(t, s, aged(fmt.Sprint(n), 0))
		}
		s.disk.settleAll()
		last := s.disk.segments[1]
		w, err := (&header{Removal: &removal{last.known().Next - 1, last.known().Head, time.Hour}}).encode(0)
		if err == nil {
			err = s.disk.putOwn(t.Context(), w)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		names := []string{"1.evidence", "1.index", "1.contents", "2.evidence", "2.index", "2.contents"}
		for _, name := range names[:steps] {
			if err := os.RemoveAll(filepath.Join(dir, "0000000"+name)); err != nil {
				t.Fatal(err)
			}
		}
		reader, err := OpenRead(dir)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := reader.Check(t.Context(), nil); err != nil {
			t.Errorf("after %d steps: a reader's Check = %+v, %v", steps, r, err)
		}
		reader.Close()
		s, _ = keepingFor(t, dir, 24, 0)
		from(t, s, 5, "4", "5", "6", "7")
		if got := files(t, dir); len(got) < 3 || got[0] != "00000003.contents" {
			t.Errorf("after %d steps: left %q", steps, got)
		}
		s.Close()
	}
}

// Who removes more than the store says it has removed is noticed.
func TestRemovalByHand(t *testing.T) {
	dir := t.TempDir()
	s, o := keepingFor(t, dir, 24, 30)
	for n := range 8 {
		put(t, s, aged(fmt.Sprint(n), 2*n))
	}
	s.retain(t, o)
	from(t, s, 3, "2", "3", "4", "5", "6", "7")
	s.Close()
	if err := os.Remove(filepath.Join(dir, "00000002.evidence")); err != nil {
		t.Fatal(err)
	}
	breaks(t, dir, 1, "one more segment removed")
}

// Nobody who reads, and nobody who writes, is disturbed by what goes away.
func TestReadingWhileRemoving(t *testing.T) {
	dir := t.TempDir()
	var hour atomic.Int64
	clock := func() time.Time { return at(int(hour.Load()))() }
	s, err := openShared(dir, Options{SegmentSize: 2500, Keep: 24 * time.Hour, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reader, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	put(t, s, small("first"))
	stop := make(chan struct{})
	var group sync.WaitGroup
	until := func(f func()) {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if t.Failed() {
					return
				}
				f()
			}
		})
	}
	for _, store := range []Store{s, reader} {
		until(func() {
			last := uint64(0)
			for r, err := range store.Find(t.Context(), Query{}) {
				if err != nil {
					t.Errorf("finding: %v", err)
					return
				}
				if r.Number <= last {
					t.Errorf("found %d after %d", r.Number, last)
				}
				last = r.Number
			}
		})
		until(func() {
			first, err := firstOf(store)
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := store.Get(t.Context(), first); err != nil && !errors.Is(err, ErrNotFound) {
				t.Errorf("getting %d: %v", first, err)
			} else if err == nil && r.Number != first {
				t.Errorf("got %d, want %d", r.Number, first)
			}
		})
		until(func() {
			if r, err := store.Check(t.Context(), nil); err != nil || r.Indexes != nil {
				t.Errorf("Check = %+v, %v", r, err)
			}
		})
	}
	for n := range 150 {
		r := small(fmt.Sprint(n))
		if n%20 == 0 {
			r = keeping(fmt.Sprint(n), make([]byte, inside+1))
		}
		r.Time = clock()
		put(t, s, r)
		hour.Add(1)
		if n%10 == 0 {
			s.retain(t, s.options)
		}
	}
	close(stop)
	group.Wait()
	if r, err := s.Check(t.Context(), nil); err != nil || r.Removed < 100 {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

// firstOf returns the number of the first record.
func firstOf(s Store) (uint64, error) {
	for r, err := range s.Find(context.Background(), Query{}) {
		if err != nil {
			return 0, err
		}
		return r.Number, nil
	}
	return 0, nil
}
