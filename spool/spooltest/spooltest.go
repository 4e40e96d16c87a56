// SPDX-License-Identifier: Apache-2.0

// Package spooltest is the conformance suite of spool.Store.
package spooltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/spool"
)

// Memory is the size around which the suite looks closest: what the stores under test should keep in memory, where
// they make a difference.
const Memory = 4 << 10

// Run holds the stores that open returns to the contract of spool.Store. Each must have room for 64 MiB.
func Run(t *testing.T, open func(t *testing.T) spool.Store) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, spool.Store)
	}{
		{"write and read", writeAndRead},
		{"read while writing", readWhileWriting},
		{"follow", follow},
		{"readers are independent", independentReaders},
		{"caller keeps its buffer", callerKeepsItsBuffer},
		{"closed reader", closedReader},
		{"reserve", reserve},
		{"remove", remove},
		{"remove below a reader", removeBelowReader},
		{"remove below a writer", removeBelowWriter},
		{"cancelled", cancelled},
		{"close", closeStore},
		{"1000 entries at once", manyEntries},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("closing the store: %v", err)
				}
			}()
			c.run(t, s)
		})
	}
}

// RunFull holds stores of a quota of 10 times Memory to what the contract says about room.
func RunFull(t *testing.T, open func(t *testing.T, quota int64) spool.Store) {
	const quota = 10 * Memory
	for _, size := range []int{1, Memory, Memory + 1, 3 * Memory} {
		t.Run(fmt.Sprintf("entries of %d", size), func(t *testing.T) {
			s := open(t, quota)
			defer s.Close()
			fillUp(t, s, quota, size)
		})
	}
	t.Run("one too large", func(t *testing.T) {
		s := open(t, quota)
		defer s.Close()
		e := create(t, s)
		if n, err := e.Write(make([]byte, quota+1)); n != 0 || !errors.Is(err, spool.ErrFull) {
			t.Fatalf("Write = %d, %v; want 0, ErrFull", n, err)
		}
		if s.Size() != 0 {
			t.Errorf("the store holds %d octets after a refusal", s.Size())
		}
		write(t, create(t, s), make([]byte, quota), quota)
	})
	t.Run("reserved", func(t *testing.T) {
		s := open(t, quota)
		defer s.Close()
		first, second := create(t, s), create(t, s)
		for _, n := range []int64{quota + 1, math.MaxInt64} {
			if err := first.Reserve(n); !errors.Is(err, spool.ErrFull) {
				t.Errorf("Reserve(%d) = %v, want ErrFull", n, err)
			}
		}
		for range 2 { // what is reserved already counts
			if err := first.Reserve(quota - Memory); err != nil {
				t.Fatalf("after a refusal: %v", err)
			}
		}
		if err := second.Reserve(Memory + 1); !errors.Is(err, spool.ErrFull) {
			t.Errorf("Reserve of more than is left: %v", err)
		}
		write(t, second, octets(Memory), Memory)
		write(t, first, octets(quota-Memory), 1000)
		if n, err := first.Write([]byte{1}); n != 0 || !errors.Is(err, spool.ErrFull) {
			t.Errorf("Write into a full store = %d, %v; want 0, ErrFull", n, err)
		}
		check(t, second, octets(Memory))
		if err := first.Remove(); err != nil {
			t.Fatal(err)
		}
		third := create(t, s)
		if err := third.Reserve(quota - Memory); err != nil {
			t.Errorf("what was removed is not free: %v", err)
		}
		write(t, third, octets(100), 100)
		check(t, third, octets(100))
		if err := third.Reserve(quota - Memory - 100); err != nil {
			t.Errorf("a reader takes away what was reserved: %v", err)
		}
		if err := create(t, s).Reserve(1); !errors.Is(err, spool.ErrFull) {
			t.Errorf("a reader takes away what was reserved: %v", err)
		}
		if err := third.Done(); err != nil {
			t.Fatal(err)
		}
		check(t, third, octets(100))
		write(t, create(t, s), octets(quota-Memory-100), 1000)
	})
	t.Run("together", func(t *testing.T) {
		s := open(t, quota)
		defer s.Close()
		var group sync.WaitGroup
		for range 32 {
			group.Go(func() {
				e, err := s.Create(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for err == nil {
					_, err = e.Write(make([]byte, 100))
				}
				if !errors.Is(err, spool.ErrFull) {
					t.Errorf("want ErrFull, got %v", err)
				}
				if s.Size() > quota {
					t.Errorf("the store holds %d octets of %d", s.Size(), quota)
				}
				e.Remove()
			})
		}
		group.Wait()
		if s.Size() != 0 {
			t.Errorf("the store holds %d octets after all was removed", s.Size())
		}
	})
}

// fillUp fills the store with entries of one size. The one that crosses the quota fails, for good; the others live,
// and what they leave may be used again.
func fillUp(t *testing.T, s spool.Store, quota, size int) {
	var entries []spool.Entry
	for range quota / size {
		e := create(t, s)
		write(t, e, make([]byte, size), size)
		entries = append(entries, e)
	}
	late := create(t, s)
	for range 2 {
		if n, err := late.Write(make([]byte, size)); n != 0 || !errors.Is(err, spool.ErrFull) {
			t.Fatalf("Write into a full store = %d, %v; want 0, ErrFull", n, err)
		}
	}
	if want := int64(quota / size * size); s.Size() != want {
		t.Errorf("the store holds %d octets, want %d", s.Size(), want)
	}
	if err := entries[0].Remove(); err != nil {
		t.Fatal(err)
	}
	if n, err := late.Write([]byte{1}); n != 0 || !errors.Is(err, spool.ErrFull) {
		t.Errorf("the entry that failed takes writes again: %d, %v", n, err)
	}
	write(t, create(t, s), make([]byte, size), size)
	for _, e := range entries[1:] {
		check(t, e, make([]byte, size))
	}
}

func writeAndRead(t *testing.T, s spool.Store) {
	var total int64
	for _, size := range []int{0, 1, Memory - 1, Memory, Memory + 1, 2*Memory + 1} {
		for _, step := range []int{1, 7, Memory - 1, Memory, Memory + 1, 1 << 20} {
			want := octets(size)
			e := create(t, s)
			write(t, e, want, step)
			check(t, e, want)
			if e.Size() != int64(size) {
				t.Errorf("size %d in steps of %d: Size = %d", size, step, e.Size())
			}
			if total += int64(size); s.Size() != total {
				t.Errorf("size %d in steps of %d: the store holds %d octets, want %d", size, step, s.Size(), total)
			}
		}
	}
	for _, size := range []int{0, 100, 2 * Memory} {
		want := octets(size)
		e := create(t, s)
		write(t, e, want, 1000)
		r := open(t, e)
		if err := iotest.TestReader(r, want); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
		r.Close()
	}
}

func readWhileWriting(t *testing.T, s spool.Store) {
	e, want := create(t, s), octets(3*Memory)
	for n := 0; n < len(want); n += Memory / 4 {
		write(t, e, want[n:n+Memory/4], Memory)
		r := open(t, e)
		defer r.Close()
		got := make([]byte, n+Memory/4)
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want[:len(got)]) {
			t.Fatalf("after %d octets: a reader does not see what was written (%v)", len(got), err)
		}
		// From here on r stays open, over the move from memory to disk and beyond.
		defer func() {
			if _, err := r.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want[:len(got)]) {
				t.Errorf("a reader of %d octets sees others after more was written (%v)", len(got), err)
			}
		}()
	}
}

// follow reads an entry in a file with one reader, while it is written.
func follow(t *testing.T, s spool.Store) {
	e, want := create(t, s), octets(1<<20)
	write(t, e, want[:2*Memory], Memory)
	r := open(t, e)
	defer r.Close()
	if _, file := r.(*os.File); !file {
		return // nothing is in a file here
	}
	got := make([]byte, len(want))
	for n, next := 0, 2*Memory; n < len(want); {
		if _, err := io.ReadFull(r, got[n:next]); err != nil || !bytes.Equal(got[n:next], want[n:next]) {
			t.Fatalf("after %d octets: a reader does not see what was written after it was opened (%v)", next, err)
		}
		n, next = next, min(next+1000+next/10, len(want))
		write(t, e, want[n:next], next-n+1)
	}
}

func independentReaders(t *testing.T, s spool.Store) {
	for _, size := range []int{100, 4 * Memory} {
		e, want := create(t, s), octets(size)
		write(t, e, want, size)
		first := open(t, e)
		io.ReadFull(first, make([]byte, 10))
		check(t, e, want)
		rest, err := io.ReadAll(first)
		if err != nil || !bytes.Equal(rest, want[10:]) {
			t.Errorf("size %d: a reader is moved by another (%v)", size, err)
		}
		first.Close()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { check(t, e, want) })
		}
		group.Wait()
	}
}

func callerKeepsItsBuffer(t *testing.T, s spool.Store) {
	e := create(t, s)
	buffer := []byte("first")
	write(t, e, buffer, len(buffer))
	copy(buffer, "other")
	check(t, e, []byte("first"))
}

func closedReader(t *testing.T, s spool.Store) {
	for _, size := range []int{100, 2 * Memory} {
		e := create(t, s)
		write(t, e, octets(size), size)
		r := open(t, e)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
			t.Errorf("size %d: Read after Close = %d, %v; want an error that is not the end", size, n, err)
		}
	}
}

func reserve(t *testing.T, s spool.Store) {
	for _, n := range []int64{math.MinInt64, -1, 0, 1, Memory, Memory + 1, 2 << 20} {
		for _, size := range []int{0, 1, Memory, Memory + 1, 1 << 20} {
			e, want := create(t, s), octets(size)
			write(t, e, want[:size/2], Memory)
			if err := e.Reserve(n); err != nil {
				t.Errorf("Reserve(%d): %v", n, err)
			}
			if e.Size() != int64(size/2) || s.Size() != int64(size/2) {
				t.Errorf("Reserve(%d) counts as written: %d, %d", n, e.Size(), s.Size())
			}
			write(t, e, want[size/2:], Memory)
			check(t, e, want)
			for range 2 {
				if err := e.Done(); err != nil {
					t.Errorf("Done: %v", err)
				}
			}
			check(t, e, want)
			if err := e.Remove(); err != nil {
				t.Error(err)
			}
			if err := e.Reserve(n); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Reserve after Remove: %v", err)
			}
		}
	}
}

func remove(t *testing.T, s spool.Store) {
	for _, size := range []int{0, 1, Memory, Memory + 1} {
		e := create(t, s)
		write(t, e, octets(size), Memory)
		for range 3 {
			if err := e.Remove(); err != nil {
				t.Errorf("size %d: Remove: %v", size, err)
			}
		}
		if s.Size() != 0 {
			t.Errorf("size %d: the store holds %d octets after Remove", size, s.Size())
		}
		gone(t, e)
	}
}

func removeBelowReader(t *testing.T, s spool.Store) {
	for _, size := range []int{Memory, 4 * Memory} {
		e, want := create(t, s), octets(size)
		write(t, e, want, Memory)
		r := open(t, e)
		if err := e.Remove(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("size %d: an open reader lost its octets (%v)", size, err)
		}
		r.Close()
	}
}

func removeBelowWriter(t *testing.T, s spool.Store) {
	var group sync.WaitGroup
	for range 16 {
		e := create(t, s)
		started := make(chan struct{})
		group.Go(func() {
			var err error
			for n := 0; err == nil; n++ {
				_, err = e.Write(make([]byte, 100))
				if n == 0 {
					close(started)
				}
			}
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("writing to a removed entry: %v", err)
			}
		})
		<-started
		if err := e.Remove(); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
	if s.Size() != 0 {
		t.Errorf("the store holds %d octets after all was removed", s.Size())
	}
}

func cancelled(t *testing.T, s spool.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	e, err := s.Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	write(t, e, octets(2*Memory), Memory) // ctx bounds the creation only
	if _, err := s.Create(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Create with a cancelled context: %v", err)
	}
}

func closeStore(t *testing.T, s spool.Store) {
	small, large := create(t, s), create(t, s)
	write(t, small, octets(1), 1)
	write(t, large, octets(2*Memory), Memory)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, small)
	gone(t, large)
	if s.Size() != 0 {
		t.Errorf("a closed store holds %d octets", s.Size())
	}
	if _, err := s.Create(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Create after Close: %v", err)
	}
}

func manyEntries(t *testing.T, s spool.Store) {
	var group sync.WaitGroup
	for i := range 1000 {
		group.Go(func() {
			e, err := s.Create(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			want := octets(i * 17)
			write(t, e, want, 1000)
			check(t, e, want)
			if err := e.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if s.Size() != 0 {
		t.Errorf("the store holds %d octets after all was removed", s.Size())
	}
}

func gone(t *testing.T, e spool.Entry) {
	t.Helper()
	if _, err := e.Write([]byte{1}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write to what is gone: %v", err)
	}
	if err := e.Reserve(1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Reserve for what is gone: %v", err)
	}
	if err := e.Done(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Done of what is gone: %v", err)
	}
	if _, err := e.Open(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Open of what is gone: %v", err)
	}
	if err := e.Remove(); err != nil {
		t.Errorf("Remove of what is gone: %v", err)
	}
}

func octets(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func create(t *testing.T, s spool.Store) spool.Entry {
	t.Helper()
	e, err := s.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func write(t *testing.T, e spool.Entry, b []byte, step int) {
	t.Helper()
	for len(b) > 0 {
		n, err := e.Write(b[:min(step, len(b))])
		if err != nil || n != min(step, len(b)) {
			t.Errorf("Write of %d octets = %d, %v", min(step, len(b)), n, err)
			return
		}
		b = b[n:]
	}
}

func open(t *testing.T, e spool.Entry) io.ReadSeekCloser {
	t.Helper()
	r, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := r.(*os.File); ok {
		if _, err := f.Write([]byte{1}); err == nil {
			t.Error("a reader can write")
		}
	}
	return r
}

func check(t *testing.T, e spool.Entry, want []byte) {
	t.Helper()
	r, err := e.Open()
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d octets (%v), want the %d that were written", len(got), err, len(want))
	}
}
