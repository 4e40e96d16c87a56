// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
)

// eager lets a store write zeros ahead of few records.
func eager(s *shared) {
	s.disk.turn <- struct{}{}
	s.disk.ahead.least = 1
	<-s.disk.turn
}

// extended writes the zeros that are wanted, and returns where they end.
func extended(t testing.TB, dir string, s *shared) (size int64) {
	t.Helper()
	s.disk.extend()
	s.disk.turn <- struct{}{}
	defer func() { <-s.disk.turn }()
	info, err := os.Stat(filepath.Join(dir, s.disk.last.name()))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() <= s.disk.last.live.End {
		t.Fatalf("no zeros behind the records: the file has %d octets, its records %d", info.Size(), s.disk.last.live.End)
	}
	return info.Size()
}

// Records are found, read and checked in front of zeros, which are gone when the next segment begins and at the end.
func TestZerosAhead(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 100_000)
	eager(s)
	reader, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for n := range 150 {
		put(t, s, keeping(fmt.Sprint(n), make([]byte, 1500)))
		if n%10 != 9 {
			continue
		}
		extended(t, dir, s)
		for _, store := range []Store{s, reader} {
			if r, err := store.Check(t.Context(), nil); err != nil || r.Torn != 0 || r.Records != uint64(n+1) {
				t.Fatalf("after %d records: Check = %+v, %v", n+1, r, err)
			}
		}
	}
	expect(t, s, 150)
	expect(t, reader, 150)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names := segments(t, dir)
	if len(names) < 3 {
		t.Errorf("%d segments", len(names))
	}
	s = openAt(t, dir, 100_000)
	expect(t, s, 150)
	for i, segment := range s.disk.segments {
		if info, err := os.Stat(filepath.Join(dir, names[i])); err != nil || info.Size() != segment.known().End {
			t.Errorf("%s has %d octets, its records %d (%v)", names[i], info.Size(), segment.known().End, err)
		}
	}
	if r, err := check(t, dir); err != nil || r.Torn != 0 || r.Indexes != nil {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

// A store that has little to write makes no zeros, and one with much makes no more than it has written.
func TestZerosAreFew(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	for s.disk.last.live.End < preambleSize+leastAhead-5000 {
		put(t, s, keeping("little", make([]byte, 4000)))
	}
	s.disk.extend()
	path := filepath.Join(dir, firstSegment)
	if info, err := os.Stat(path); err != nil || info.Size() != s.disk.last.live.End {
		t.Errorf("%v, %v", info, err)
	}
	for s.disk.last.live.End < 3*mostAhead {
		if _, err := s.Put(t.Context(), keeping("much", make([]byte, inside))); err != nil {
			t.Fatal(err)
		}
		s.disk.extend()
		info, err := os.Stat(path)
		if end := s.disk.last.live.End; err != nil || info.Size() > end+min(end, mostAhead) {
			t.Errorf("the file has %d octets, its records %d (%v)", info.Size(), end, err)
		}
	}
}

// inZeros returns a folder with a segment of three records and zeros behind, as a crash leaves it, and where they end.
func inZeros(t *testing.T, last *Record) (dir string, image []byte, ends []int64) {
	t.Helper()
	dir = t.TempDir()
	s := openAt(t, dir, segmentSize)
	ends = []int64{preambleSize}
	for _, r := range []*Record{small("0"), small("1"), last} {
		put(t, s, r)
		ends = append(ends, s.disk.last.live.End)
	}
	s.Close()
	image, err := os.ReadFile(filepath.Join(dir, firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	return dir, append(image, make([]byte, 20_000)...), ends
}

func setImage(t *testing.T, dir string, image []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, firstSegment), image, 0o600); err != nil {
		t.Fatal(err)
	}
}

// varied returns octets none of which is zero.
func varied(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + i%255)
	}
	return b
}

// A record of which any sectors are missing was torn by a crash. It is cut off, and nothing else is said of it.
func TestCrashInZeros(t *testing.T) {
	for _, last := range []*Record{keeping("2", varied(3000)), keeping("2", make([]byte, 3000)), small("2")} {
		dir, image, ends := inZeros(t, last)
		begin, end := ends[2], ends[3]
		first, sectors := begin/sectorSize, (end+sectorSize-1)/sectorSize-begin/sectorSize
		for missing := 1; missing < 1<<sectors; missing++ {
			torn := bytes.Clone(image)
			for n := range sectors {
				if missing>>n&1 > 0 {
					from := max(begin, (first+n)*sectorSize)
					clear(torn[from:min(end, (first+n+1)*sectorSize)])
				}
			}
			if bytes.Equal(torn, image) {
				continue // it had zeros there
			}
			setImage(t, dir, torn)
			what := fmt.Sprintf("%d octets, sectors %b of %d missing", end-begin, missing, sectors)
			if r, err := check(t, dir); err != nil || r.Records != 2 || r.Torn > end-begin {
				t.Errorf("%s: Check = %+v, %v", what, r, err)
			}
			s := openAt(t, dir, segmentSize)
			expect(t, s, 2)
			if info, err := os.Stat(filepath.Join(dir, firstSegment)); err != nil || info.Size() != begin {
				t.Errorf("%s: it is still there (%v)", what, err)
			}
			r := small("2")
			if put(t, s, r); r.Number != 3 {
				t.Errorf("%s: the next number is %d", what, r.Number)
			}
			s.Close()
			if r, err := check(t, dir); err != nil || r.Records != 3 {
				t.Errorf("%s: Check = %+v, %v", what, r, err)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// found returns the message ids of the records that a store finds, and the last damage that it tells of.
func found(t *testing.T, s Store) (ids []string, damage *DamageError) {
	t.Helper()
	for r, err := range s.Find(t.Context(), Query{}) {
		if err != nil && !errors.As(err, &damage) {
			t.Error(err)
		} else if err == nil {
			ids = append(ids, r.MessageID)
		}
	}
	return ids, damage
}

// An octet of the last record that has changed is damage, whichever it is, and stays damage.
func TestDamageInZeros(t *testing.T) {
	for _, size := range []int{1, 1000} {
		dir, image, ends := inZeros(t, keeping("2", varied(size)))
		begin, end := ends[2], ends[3]
		want := DamageError{firstSegment, begin, 0}
		damaged := func(s Store, records []string) {
			t.Helper()
			got, damage := found(t, s)
			if damage == nil || damage.From != want.From || damage.To < end || want.To != 0 && *damage != want {
				t.Errorf("told of %+v, want %+v", damage, want)
			} else {
				want = *damage
			}
			if !slices.Equal(got, records) {
				t.Errorf("found %q", got)
			}
		}
		for at := begin; at < end; at++ {
			if size > 1 && at%7 > 0 {
				continue
			}
			for bit := range 8 {
				if bit != int(at)%8 && at%50 > 0 {
					continue
				}
				changed := bytes.Clone(image)
				changed[at] ^= 1 << bit
				setImage(t, dir, changed)
				want.To = 0
				if (at+int64(bit))%80 == 0 { // it looks again and again
					breaks(t, dir, 3, "before it is opened")
				}
				s := openAt(t, dir, segmentSize)
				damaged(s, []string{"0", "1"})
				s.Close()
				s = openAt(t, dir, segmentSize)
				damaged(s, []string{"0", "1"})
				r := small("new")
				if put(t, s, r); r.Number != 4 {
					t.Errorf("the next number is %d", r.Number)
				}
				s.Close()
				s = openAt(t, dir, segmentSize)
				damaged(s, []string{"0", "1", "new"})
				s.Close()
				breaks(t, dir, 3, "after another record")
				if t.Failed() {
					t.Fatalf("octet %d of %d, bit %d", at-begin, end-begin, bit)
				}
			}
		}
	}
}

// A damaged record keeps its file of contents.
func TestDamageKeepsContents(t *testing.T) {
	dir, image, ends := inZeros(t, keeping("2", make([]byte, inside+1)))
	image[ends[2]+headSize] ^= 1
	setImage(t, dir, image)
	openAt(t, dir, segmentSize).Close()
	expectFiles(t, dir, 1)
	breaks(t, dir, 3, "damaged")
}

// Zeros with a record behind them are no end.
func TestHoleInZeros(t *testing.T) {
	dir, image, ends := inZeros(t, small("2"))
	clear(image[ends[1]:ends[2]])
	setImage(t, dir, image)
	breaks(t, dir, 2, "before it is opened")
	s := openAt(t, dir, segmentSize)
	got, damage := found(t, s)
	if damage == nil || *damage != (DamageError{firstSegment, ends[1], ends[2]}) || !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("found %q, told of %v", got, damage)
	}
	s.Close()
	breaks(t, dir, 2, "after it was opened")
}

// Of records that wait for one sync a crash may leave later ones and not earlier ones. None of them was acknowledged,
// and that is no damage; where one that was written later shows that they were, it is.
func TestHoleThatNobodyAcknowledged(t *testing.T) {
	dir := t.TempDir()
	s, bad := openBad(t, dir)
	put(t, s, small("0"))
	ends := []int64{preambleSize, s.disk.last.live.End}
	started, goOn := make(chan struct{}, 9), make(chan struct{})
	bad.sync = func() error {
		started <- struct{}{}
		<-goOn
		return nil
	}
	var waits []func() error
	for n := range 3 {
		wait, err := s.Put(t.Context(), keeping(fmt.Sprint(n+1), varied(600)))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, s.disk.last.live.End)
		if waits = append(waits, wait); n == 0 {
			<-started
		}
	}
	close(goOn)
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, small("4"))
	s.Close()
	whole, err := os.ReadFile(filepath.Join(dir, firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	behind := make([]byte, 5000)
	for _, c := range []struct {
		name   string
		upTo   int64
		behind []byte
		hole   [2]int64
		number uint64 // that is missing first
		damage bool
	}{
		{"the first of three", ends[4], behind, [2]int64{ends[1], ends[2]}, 2, false},
		{"the second of three", ends[4], behind, [2]int64{ends[2], ends[3]}, 3, false},
		{"two of three", ends[4], behind, [2]int64{ends[1], ends[3]}, 2, false},
		{"a sector of the first", ends[4], behind, [2]int64{nextSector(ends[1]), nextSector(ends[1]) + sectorSize}, 2, false},
		{"the one before", ends[4], behind, [2]int64{ends[0], ends[1]}, 1, true},
		{"a few octets of the first", ends[4], behind, [2]int64{ends[2] - 20, ends[2] - 10}, 2, true},
		{"no zeros behind", ends[4], nil, [2]int64{ends[1], ends[2]}, 2, true},
		{"one was written later", int64(len(whole)), behind, [2]int64{ends[1], ends[2]}, 2, true},
		{"one was written later, without its neighbour", int64(len(whole)), behind, [2]int64{ends[2], ends[4]}, 3, true},
	} {
		image := append(bytes.Clone(whole[:c.upTo]), c.behind...)
		clear(image[c.hole[0]:c.hole[1]])
		setImage(t, dir, image)
		if r, err := check(t, dir); c.damage {
			breaks(t, dir, c.number, c.name)
		} else if err != nil || r.Records != c.number-1 || r.Torn == 0 {
			t.Errorf("%s: Check = %+v, %v", c.name, r, err)
		}
		s := openAt(t, dir, segmentSize)
		var damage error
		for _, err := range s.Find(t.Context(), Query{}) {
			damage = errors.Join(damage, err)
		}
		if (damage != nil) != c.damage {
			t.Errorf("%s: told of %v", c.name, damage)
		}
		if !c.damage {
			expect(t, s, int(c.number-1))
			put(t, s, small(fmt.Sprint(c.number-1)))
			expect(t, s, int(c.number))
		}
		s.Close()
	}
}

// zerosOutput is a segment that was opened for zeros, on a disk with little room where room is set, and with its own
// word on syncs where sync is set.
type zerosOutput struct {
	output
	room *atomic.Int64
	sync func() error
}

func (o *zerosOutput) WriteAt(p []byte, at int64) (int, error) {
	if o.room == nil {
		return o.output.WriteAt(p, at)
	}
	b := &badOutput{output: o.output}
	b.room.Store(o.room.Add(-int64(len(p))) + int64(len(p)))
	return b.WriteAt(p, at)
}

func (o *zerosOutput) Sync() error {
	if o.sync != nil {
		return o.sync()
	}
	return o.output.Sync()
}

// onZeros lets zeros be written by way of such a disk.
func onZeros(s *shared, room *atomic.Int64, sync func() error) {
	s.disk.turn <- struct{}{}
	open := s.disk.ahead.open
	s.disk.ahead.open = func(name string) (output, error) {
		f, err := open(name)
		return &zerosOutput{f, room, sync}, err
	}
	<-s.disk.turn
}

// Where the disk has no room for zeros, records do without, and use what there is.
func TestNoRoomForZeros(t *testing.T) {
	for _, room := range []int64{0, 100, 5000} {
		dir := t.TempDir()
		s := openAt(t, dir, segmentSize)
		var left atomic.Int64
		left.Store(room)
		onZeros(s, &left, nil)
		eager(s)
		for n := range 20 {
			put(t, s, keeping(fmt.Sprint(n), make([]byte, 1000)))
			s.disk.extend()
		}
		expect(t, s, 20)
		left.Store(1 << 40)
		for n := range 20 {
			put(t, s, keeping(fmt.Sprint(20+n), make([]byte, 1000)))
		}
		extended(t, dir, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		expect(t, openAt(t, dir, segmentSize), 40)
	}
}

// A record that finds no room takes the zeros behind it away, and the store goes on.
func TestFullDiskInZeros(t *testing.T) {
	dir := t.TempDir()
	s, bad := openBad(t, dir)
	eager(s)
	put(t, s, keeping("0", make([]byte, 10_000)))
	extended(t, dir, s)
	bad.room.Store(700)
	if _, err := s.Put(t.Context(), keeping("bad", make([]byte, 1000))); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put = %v", err)
	}
	bad.room.Store(1 << 40)
	expect(t, s, 1)
	put(t, s, keeping("1", make([]byte, 10_000)))
	extended(t, dir, s)
	put(t, s, small("2"))
	expect(t, s, 3)
	s.Close()
	if r, err := check(t, dir); err != nil || r.Records != 3 || r.Torn != 0 {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

// Nobody waits for zeros. A sync of them that fails may hide the loss of a record, and breaks the store.
func TestSlowZeros(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	started, goOn, broken := make(chan struct{}, 9), make(chan struct{}), errors.New("broken")
	onZeros(s, nil, func() error {
		started <- struct{}{}
		<-goOn
		return broken
	})
	eager(s)
	put(t, s, keeping("0", make([]byte, 10_000)))
	<-started
	for n := range 9 {
		put(t, s, small(fmt.Sprint(n+1)))
	}
	expect(t, s, 10)
	close(goOn)
	for s.disk.commits.failure() == nil {
		s.Put(context.Background(), small("bad")) // may come before
	}
	if _, err := s.Put(t.Context(), small("late")); !errors.Is(err, broken) {
		t.Errorf("Put = %v", err)
	}
	if err := s.Close(); !errors.Is(err, broken) {
		t.Errorf("Close = %v", err)
	}
	s = openAt(t, dir, segmentSize)
	if got := ids(t, s, Query{}); len(got) < 10 {
		t.Errorf("found %q", got)
	}
}
