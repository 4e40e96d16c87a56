// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// span is the octets from one offset to another.
type span struct{ from, to int64 }

// tracedFile notes what it is asked about the page cache.
type tracedFile struct {
	diskFile
	flushed, settled, dropped span
	broken                    error
}

func (f *tracedFile) flush(offset, n int64) error  { return f.note(&f.flushed, offset, n) }
func (f *tracedFile) settle(offset, n int64) error { return f.note(&f.settled, offset, n) }
func (f *tracedFile) drop(offset, n int64) {
	if f.note(&f.dropped, offset, n) != nil {
		panic("dropped after an error")
	}
}

// note lengthens a span; there must be no gap in it.
func (f *tracedFile) note(s *span, offset, n int64) error {
	if *s == (span{}) {
		*s = span{offset, offset}
	}
	if n <= 0 {
		return errors.New("the system takes that for all there is")
	}
	if s.to != offset {
		return errors.New("a gap")
	}
	s.to += n
	return f.broken
}

// The head of a file is left to the system, what follows is written and kept, and the rest written and dropped.
func TestCache(t *testing.T) {
	all := cache{limit: 64 << 20}
	const window = 8 << 20
	write := func(c *cached, f *tracedFile, size int64) {
		t.Helper()
		for at := c.seen; at < size; at += pieceSize {
			if err := c.wrote(f, at+pieceSize); err != nil {
				t.Fatal(err)
			}
			if waiting := c.started - c.gone; c.started > c.left && waiting > 3*window {
				t.Fatalf("%d octets are on their way to the disk", waiting)
			}
			if c.seen-c.started > window {
				t.Fatalf("%d octets wait to be written", c.seen-c.started)
			}
		}
	}
	first, f := cached{cache: &all, begun: time.Now()}, new(tracedFile)
	write(&first, f, 32<<20)
	if f.flushed != (span{}) {
		t.Errorf("flushed %v of what is left to the system", f.flushed)
	}
	write(&first, f, 64<<20)
	if f.flushed != (span{32 << 20, 64 << 20}) || f.settled != (span{32 << 20, 48 << 20}) || f.dropped != (span{}) {
		t.Errorf("of what is kept: flushed %v, settled %v, dropped %v", f.flushed, f.settled, f.dropped)
	}
	write(&first, f, 128<<20)
	if f.flushed != (span{32 << 20, 128 << 20}) || f.settled != (span{32 << 20, 112 << 20}) || f.dropped != (span{64 << 20, 112 << 20}) {
		t.Errorf("in the end: flushed %v, settled %v, dropped %v", f.flushed, f.settled, f.dropped)
	}

	// While one has it all, another has none; what is forgotten is there for the next.
	second, g := cached{cache: &all, begun: time.Now()}, new(tracedFile)
	write(&second, g, 32<<20)
	if g.flushed != (span{0, 32 << 20}) || g.dropped != (span{0, 16 << 20}) {
		t.Errorf("without any cache: flushed %v, dropped %v", g.flushed, g.dropped)
	}
	first.forget()
	second.forget()
	if all.left.Load() != 0 || all.kept.Load() != 0 {
		t.Errorf("after all is forgotten: %d and %d octets", all.left.Load(), all.kept.Load())
	}
	third, h := cached{cache: &all, begun: time.Now()}, new(tracedFile)
	write(&third, h, 32<<20)
	if h.flushed != (span{}) {
		t.Errorf("flushed %v, want nothing", h.flushed)
	}

	h.broken = syscall.EIO
	if err := third.wrote(h, 48<<20); !errors.Is(err, syscall.EIO) {
		t.Errorf("a broken disk: %v", err)
	}
}

// TestWindow: in little memory little is on its way to the disk, in steps that are worth a system call.
func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		name        string
		limit, want int64
	}{
		{"none", 0, minWindow},
		{"a container of 32 MiB", 7 << 20, minWindow},
		{"a container of 128 MiB", 28 << 20, 28 << 20 / 8},
		{"64 MiB", 64 << 20, maxWindow},
		{"much", 8 << 30, maxWindow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cache{limit: tt.limit}
			if got := c.window(); got != tt.want {
				t.Errorf("%d octets, want %d", got, tt.want)
			}
			f, w := cached{cache: &c, begun: time.Now()}, new(tracedFile)
			for at := int64(0); at < tt.limit+4*tt.want; at += pieceSize {
				if err := f.wrote(w, at+pieceSize); err != nil {
					t.Fatal(err)
				}
			}
			if waiting := f.seen - w.settled.to; w.flushed.to < f.seen-tt.want-pieceSize || waiting > 3*tt.want+3*pieceSize {
				t.Errorf("of %d octets %v are on their way, %v have arrived", f.seen, w.flushed, w.settled)
			}
		})
	}
}

// TestSteadily: what has long been left to the system is written, no more than two steps at a time, as long as the disk keeps up.
func TestSteadily(t *testing.T) {
	for _, tt := range []struct {
		name string
		age  time.Duration
		slow bool
		want span
	}{
		{"a young file", 0, false, span{}},
		{"an old one", patience, false, span{0, 32 << 20}},
		{"an old one, on a slow disk", patience, true, span{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := cached{cache: &cache{limit: 1 << 30}, begun: time.Now().Add(-tt.age), slow: tt.slow}
			f := new(tracedFile)
			for at := int64(0); at < 32<<20; at += pieceSize {
				if err := c.wrote(f, at+pieceSize); err != nil {
					t.Fatal(err)
				}
				if waiting := f.flushed.to - f.settled.to; waiting > 4*steadyStep && f.settled.to > 0 {
					t.Fatalf("%d octets are on their way to the disk", waiting)
				}
			}
			if f.flushed != tt.want || f.dropped != (span{}) {
				t.Errorf("flushed %v, want %v; dropped %v", f.flushed, tt.want, f.dropped)
			}
		})
	}
	c, f := cached{cache: &cache{limit: 1 << 30}}, &tracedFile{broken: syscall.EIO}
	if err := c.wrote(f, 8<<20); !errors.Is(err, syscall.EIO) {
		t.Errorf("a broken disk: %v", err)
	}
}

// slowFile is on a disk that takes a mebibyte a second.
type slowFile struct{ *tracedFile }

func (f slowFile) settle(offset, n int64) error {
	time.Sleep(time.Duration(n) * time.Second >> 20)
	return f.tracedFile.settle(offset, n)
}

// TestSlowDisk_FR55: beyond the share of the cache a message is taken as fast as the disk takes it, and no faster (FR-55).
func TestSlowDisk_FR55(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 256 << 20
		c := cache{limit: 64 << 20}
		f, w := cached{cache: &c, begun: time.Now()}, new(tracedFile)
		began := time.Now()
		for at := int64(0); at < size; at += pieceSize {
			if err := f.wrote(slowFile{w}, at+pieceSize); err != nil {
				t.Fatal(err)
			}
			waits := at + pieceSize - max(w.settled.to, c.limit/2)
			if waits > 3*maxWindow {
				t.Fatalf("%d octets wait for the disk", waits)
			}
			if took, least := time.Since(began), time.Duration(at-c.limit/2-3*maxWindow)*time.Second>>20; took < least {
				t.Fatalf("%d octets have been taken in %v", at, took)
			}
		}
	})
}
