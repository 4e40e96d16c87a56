// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// smallDisk lets a store believe in a disk of so many octets. It allocates; what is written is not kept.
type smallDisk struct {
	mu        sync.Mutex
	all, free int64
	asked     int
	broken    error
	no        bool // nothing can be allocated
}

type smallFile struct {
	diskFile
	*smallDisk
	size, allocated *int64
}

func (d *smallDisk) below(s *store) {
	create := s.disk.create
	s.disk.allocates = true
	s.disk.free = func() (int64, int64, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.asked++
		return d.free, d.all, d.broken
	}
	s.disk.create = func(name string) (diskFile, error) {
		f, err := create(name)
		return smallFile{f, d, new(int64), new(int64)}, err
	}
}

func (f smallFile) allocate(offset, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.no {
		return errors.ErrUnsupported
	}
	if n > f.free {
		return syscall.ENOSPC
	}
	f.free -= n
	*f.allocated += n
	return nil
}

func (f smallFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int64(len(p))
	fits := min(n, *f.allocated)
	if n-fits > f.free {
		return 0, syscall.ENOSPC
	}
	*f.allocated -= fits
	f.free -= n - fits
	*f.size += n
	return len(p), nil
}

func (f smallFile) Truncate(int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free += *f.allocated
	*f.allocated = 0
	return nil
}

func (f smallFile) Close() error {
	f.Truncate(0)
	f.mu.Lock()
	f.free += *f.size
	f.mu.Unlock()
	return f.diskFile.Close()
}

// Four messages of 4 GiB for a disk of 10 GiB: two are admitted, the others are refused before they begin.
func TestReserveOnASmallDisk(t *testing.T) {
	for _, c := range []struct {
		name string
		no   bool
	}{{"allocating", false}, {"promising", true}} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{})
			d := &smallDisk{all: 10 << 30, free: 10 << 30, no: c.no}
			d.below(s)
			s.disk.floor, s.disk.share = 1<<30, 64<<20
			var entries []*entry
			for i := range 4 {
				e := create(t, s)
				entries = append(entries, e)
				for range 2 { // asking takes nothing
					if err := s.Room(4 << 30); (err == nil) != (i < 2) || err != nil && !errors.Is(err, ErrFull) {
						t.Errorf("room for entry %d: %v", i, err)
					}
				}
				err := e.Reserve(4 << 30)
				if i < 2 && err != nil || i >= 2 && !errors.Is(err, ErrFull) {
					t.Errorf("entry %d: %v", i, err)
				}
			}
			if n := len(files(t, s)); n != 2 {
				t.Errorf("%d files, want those of the two", n)
			}
			// The one that gets less than it asked for gives back the rest when it is done.
			if _, err := entries[0].Write(make([]byte, 4<<20)); err != nil {
				t.Fatal(err)
			}
			if err := entries[0].Done(); err != nil {
				t.Fatal(err)
			}
			if err := entries[2].Reserve(4 << 30); err != nil {
				t.Errorf("room given back is not found: %v", err)
			}
			for _, e := range entries {
				e.Remove()
			}
			unused(t, s)
			if d.free != d.all {
				t.Errorf("%d octets of the disk are still taken", d.all-d.free)
			}
		})
	}
}

// Without a word on how much comes, those that find no more room are refused, the disk never goes below the floor,
// and small entries find room still.
func TestFloor(t *testing.T) {
	for _, no := range []bool{false, true} {
		s := open(t, t.TempDir(), Options{Memory: 10})
		d := &smallDisk{all: 1 << 30, free: 1 << 30, no: no}
		d.below(s)
		s.disk.floor, s.disk.share = 100<<20, 16<<20
		var group sync.WaitGroup
		var total atomic.Int64
		for range 8 {
			group.Go(func() {
				e, piece := create(t, s), make([]byte, 1<<20)
				var err error
				for err == nil {
					_, err = e.Write(piece)
				}
				if !errors.Is(err, ErrFull) {
					t.Errorf("want ErrFull, got %v", err)
				}
				total.Add(e.Size())
			})
		}
		group.Wait()
		if d.free < 108<<20 { // 8 of them may have been small until then
			t.Errorf("large entries leave %d octets free", d.free)
		}
		if total.Load() < 1<<30/2 {
			t.Errorf("the entries came to %d octets together: steps must become small near the limit", total.Load())
		}
		for range 8 {
			if _, err := create(t, s).Write(make([]byte, 900<<10)); err != nil {
				t.Fatalf("a small entry on a disk that is full for large ones: %v", err)
			}
		}
		var err error
		for n := 0; err == nil && n < 1000; n++ {
			_, err = create(t, s).Write(make([]byte, 900<<10))
		}
		if !errors.Is(err, ErrFull) || d.free < 100<<20 {
			t.Errorf("small entries end in %v and leave %d octets free", err, d.free)
		}
		if _, err := create(t, s).Write(make([]byte, 10)); err != nil {
			t.Errorf("what fits into memory needs no disk: %v", err)
		}
		for e := range s.entries {
			e.Remove()
		}
		unused(t, s)

		d.broken = errors.New("broken")
		e := create(t, s)
		if _, err := e.Write(make([]byte, 100)); !errors.Is(err, d.broken) || errors.Is(err, ErrFull) {
			t.Errorf("a disk that does not tell: %v", err)
		}
	}
}

// The file system is asked in steps that grow, not at every write.
func TestFloorIsAskedSeldom(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	d := &smallDisk{all: 1 << 40, free: 1 << 40}
	d.below(s)
	s.disk.floor = 1
	e, record := create(t, s), make([]byte, 16<<10)
	for range 512 << 20 / len(record) {
		if _, err := e.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if d.asked > 20 {
		t.Errorf("asked %d times for 512 MiB", d.asked)
	}
}

func TestFloorOfTheRealDisk(t *testing.T) {
	if !knowsFree {
		t.Skip("this system does not tell how much is free")
	}
	s := open(t, t.TempDir(), Options{Memory: 10, Free: 1 << 60})
	if _, err := create(t, s).Write(make([]byte, 11)); !errors.Is(err, ErrFull) {
		t.Errorf("Write = %v, want ErrFull", err)
	}
	s = open(t, t.TempDir(), Options{})
	if _, all, err := s.disk.free(); err != nil || s.disk.floor != min(1<<30, all/20) || s.disk.floor == 0 {
		t.Errorf("the default floor is %d of %d octets, %v", s.disk.floor, all, err)
	}
}

// The last part of the quota is for small entries, and one that has reserved is not disturbed by others.
func TestShareOfTheQuota(t *testing.T) {
	const quota = 32 << 20
	s := open(t, t.TempDir(), Options{Quota: quota, Free: freeOfTests()})
	bulk := create(t, s)
	if err := bulk.Reserve(quota); !errors.Is(err, ErrFull) {
		t.Errorf("a large entry may take all: %v", err)
	}
	if err := bulk.Reserve(quota - 2<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t, s).Write(make([]byte, 1<<20+1)); !errors.Is(err, ErrFull) {
		t.Errorf("a large entry takes of the share of the small ones: %v", err)
	}
	for n, want := range map[int64]error{-1: nil, 1 << 20: nil, 1<<20 + 1: ErrFull, quota: ErrFull, math.MaxInt64: ErrFull} {
		if err := s.Room(n); !errors.Is(err, want) {
			t.Errorf("room for %d octets: %v", n, err)
		}
	}
	for range 2 {
		if _, err := create(t, s).Write(make([]byte, 1<<20)); err != nil {
			t.Errorf("a small entry finds no room: %v", err)
		}
	}
	if _, err := create(t, s).Write([]byte{1}); !errors.Is(err, ErrFull) {
		t.Errorf("more than the quota: %v", err)
	}
	if _, err := bulk.Write(make([]byte, quota-2<<20)); err != nil {
		t.Errorf("what was reserved is not there: %v", err)
	}
	for e := range s.entries {
		e.Remove()
	}
	unused(t, s)
}

// Many at once reach the quota in every way there is. Nobody gets more, and nothing stays counted.
func TestTogether(t *testing.T) {
	const quota = 8 << 20
	s := open(t, t.TempDir(), Options{Quota: quota, Free: freeOfTests()})
	var group sync.WaitGroup
	var refused atomic.Int64
	for i := range 64 {
		group.Go(func() {
			for j := range 8 {
				e := create(t, s)
				size := 100 << (uint(i+j) % 15) // 100 octets to 1.6 MiB
				var err error
				if i%3 == 0 {
					before := e.taken
					if err = e.Reserve(int64(size)); err != nil && e.taken != before {
						t.Error("a refused entry has changed")
					}
				}
				for n := 0; err == nil && n < size; n += 50 << 10 {
					_, err = e.Write(make([]byte, min(50<<10, size-n)))
				}
				if err == nil && j%3 == 0 {
					err = e.Done()
				}
				if err == nil && j%2 == 0 {
					var r io.ReadCloser
					if r, err = e.Open(); err == nil {
						r.Close()
					}
				}
				if errors.Is(err, ErrFull) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
				}
				if used := s.used.Load(); used > quota {
					t.Errorf("%d octets of %d are in use", used, quota)
				}
				if j%4 != 0 {
					e.Remove()
				}
			}
		})
	}
	group.Wait()
	if refused.Load() == 0 {
		t.Error("nobody was refused: the test shows nothing")
	}
	for e := range s.entries {
		e.Remove()
	}
	unused(t, s)
}
