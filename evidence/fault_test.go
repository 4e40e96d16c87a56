// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// badOutput is a segment on a bad disk.
type badOutput struct {
	output
	room     atomic.Int64  // octets that may still be written
	sync     func() error  // before the true one, where set
	syncs    atomic.Int64  // how many there were
	truncate func() error  // instead of the true one, where set
	writing  chan struct{} // receives before each write, where set
}

func (o *badOutput) WriteAt(p []byte, at int64) (int, error) {
	if o.writing != nil {
		<-o.writing
	}
	n := min(int64(len(p)), max(o.room.Load(), 0))
	o.room.Add(-int64(len(p)))
	if n, err := o.output.WriteAt(p[:n], at); err != nil {
		return n, err
	}
	if n < int64(len(p)) {
		return int(n), &os.PathError{Op: "write", Path: firstSegment, Err: syscall.ENOSPC}
	}
	return len(p), nil
}

func (o *badOutput) Sync() error {
	o.syncs.Add(1)
	if o.sync != nil {
		if err := o.sync(); err != nil {
			return err
		}
	}
	return o.output.Sync()
}

func (o *badOutput) Truncate(size int64) error {
	if o.truncate != nil {
		return o.truncate()
	}
	return o.output.Truncate(size)
}

func openBad(t *testing.T, dir string) (*shared, *badOutput) {
	s := openAt(t, dir, segmentSize)
	bad := &badOutput{output: s.disk.out}
	bad.room.Store(1 << 40)
	s.disk.out = bad
	create := s.disk.create
	s.disk.create = func(name string) (outputFile, error) {
		f, err := create(name)
		return &badFile{outputFile: f, of: bad}, err
	}
	return s, bad
}

// badFile is a file of contents on the same disk.
type badFile struct {
	outputFile
	of *badOutput
}

func (f *badFile) Write(p []byte) (int, error) {
	n := min(int64(len(p)), max(f.of.room.Load(), 0))
	f.of.room.Add(-int64(len(p)))
	if n < int64(len(p)) {
		n, _ := f.outputFile.Write(p[:n])
		return n, &os.PathError{Op: "write", Path: "contents", Err: syscall.ENOSPC}
	}
	return f.outputFile.Write(p)
}

// Where the disk is full nothing of the record is left, and when there is room again the store goes on.
func TestFullDisk(t *testing.T) {
	for _, c := range []struct {
		name       string
		size, room int
	}{
		{"nothing fits", 10, 0},
		{"the head fits", 10, headSize},
		{"all but one octet", 10, -1},
		{"large, nothing fits", 1 << 20, 0},
		{"large, a part of the contents fits", 1 << 20, 500_000},
		{"large, the contents fit", 1 << 20, 1<<20 + checkSize},
		{"large, all but one octet", 1 << 20, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s, bad := openBad(t, dir)
			put(t, s, small("0"))
			bad.room.Store(int64(c.room))
			r := keeping("bad", make([]byte, c.size))
			if c.room < 0 {
				w, err := encode(r, 0)
				if err != nil {
					t.Fatal(err)
				}
				bad.room.Store(w.end() + int64(c.room)) // in one file or in two
			}
			_, err := s.Put(t.Context(), r)
			if e := (*Error)(nil); !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &e) {
				t.Fatalf("Put = %v, want no space", err)
			}
			if info, err := os.Stat(filepath.Join(dir, firstSegment)); err != nil || info.Size() != s.disk.last.live.End {
				t.Errorf("the segment has %d octets, its records %d (%v)", info.Size(), s.disk.last.live.End, err)
			}
			expectFiles(t, dir, 0)
			expect(t, s, 1)
			bad.room.Store(1 << 40)
			put(t, s, small("1"))
			put(t, s, keeping("2", make([]byte, 1<<20)))
			s.Close()
			s = openAt(t, dir, segmentSize)
			expect(t, s, 3)
			expectFiles(t, dir, 1)
			s.Close()
		})
	}
}

// expectFiles counts the files of contents.
func expectFiles(t *testing.T, dir string, want int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.contents", "*"))
	if err != nil || len(files) != want {
		t.Errorf("there are %d files of contents, want %d: %q, %v", len(files), want, files, err)
	}
}

// A disk that neither takes a record nor lets it be cut off again is left alone.
func TestFullDiskThatCannotBeCut(t *testing.T) {
	dir := t.TempDir()
	s, bad := openBad(t, dir)
	put(t, s, small("0"))
	broken := errors.New("broken")
	bad.truncate = func() error { return broken }
	bad.room.Store(100)
	if _, err := s.Put(t.Context(), small("1")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put = %v", err)
	}
	bad.room.Store(1 << 40)
	if _, err := s.Put(t.Context(), small("1")); !errors.Is(err, broken) {
		t.Errorf("the next Put = %v", err)
	}
	s.Close()
	s = openAt(t, dir, segmentSize)
	expect(t, s, 1)
	put(t, s, small("1"))
	expect(t, s, 2)
	s.Close()
}

// After a sync that failed nothing is taken, nobody is told that something is durable, and opening again finds what
// was acknowledged and nothing else.
func TestSyncFails(t *testing.T) {
	dir := t.TempDir()
	s, bad := openBad(t, dir)
	put(t, s, small("0"))
	put(t, s, small("1"))
	broken := errors.New("broken")
	started, goOn := make(chan struct{}), make(chan struct{})
	bad.sync = func() error {
		close(started)
		<-goOn
		return broken
	}
	var waits []func() error
	for n := range 5 {
		wait, err := s.Put(t.Context(), small(fmt.Sprint("lost ", n)))
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
		if n == 0 {
			<-started // the others share the commit after this one
		}
	}
	syncs := bad.syncs.Load()
	close(goOn)
	for _, wait := range waits {
		for range 2 {
			if err := wait(); !errors.Is(err, broken) {
				t.Errorf("waiting: %v", err)
			}
		}
	}
	bad.sync = nil
	if _, err := s.Put(t.Context(), small("late")); !errors.Is(err, broken) {
		t.Errorf("Put after a failure: %v", err)
	}
	if got := bad.syncs.Load(); got != syncs {
		t.Errorf("%d syncs after the one that failed", got-syncs)
	}
	if again, err := OpenDisk(dir); !errors.Is(err, broken) {
		t.Errorf("OpenDisk beside a store that failed: %v", err)
		again.Close()
	}
	if err := s.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: %v", err)
	}
	s = openAt(t, dir, segmentSize)
	expect(t, s, 2)
	put(t, s, small("2"))
	expect(t, s, 3)
	s.Close()
}

// While one commit is on its way, all who come share the next.
func TestGroupCommit(t *testing.T) {
	s, bad := openBad(t, t.TempDir())
	started, goOn := make(chan struct{}, 10), make(chan struct{})
	bad.sync = func() error {
		started <- struct{}{}
		<-goOn
		return nil
	}
	first, err := s.Put(t.Context(), small("0"))
	if err != nil {
		t.Fatal(err)
	}
	<-started // at once, with nobody else there
	var waits []func() error
	for n := range 100 {
		wait, err := s.Put(t.Context(), small(fmt.Sprint(n+1)))
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	close(goOn)
	for _, wait := range append(waits, first) {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	if got := bad.syncs.Load(); got != 2 {
		t.Errorf("%d syncs for 101 records, want 2", got)
	}
}

// Rotation does not disturb those who wait for the segment before.
func TestRotationDuringCommit(t *testing.T) {
	s := openAt(t, t.TempDir(), 1500)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for n := range 30 {
				put(t, s, small(fmt.Sprint(w, n)))
			}
		})
	}
	group.Wait()
	if got := ids(t, s, Query{}); len(got) != 16*30 {
		t.Errorf("found %d records", len(got))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A commit of an earlier segment that comes late has nothing to do: that segment was synced, and closed.
func TestLateCommit(t *testing.T) {
	var c commits
	out := &badOutput{sync: func() error { return os.ErrClosed }}
	c.begins(place{2, preambleSize}, 1)
	if err := c.sync(out, place{1, 5000}); err != nil || out.syncs.Load() != 0 {
		t.Errorf("sync = %v, after %d syncs", err, out.syncs.Load())
	}
	if err := c.sync(out, place{2, 5000}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("sync = %v", err)
	}
}

// The context of Put ends the waiting, not the record.
func TestWaitingEnds(t *testing.T) {
	s, bad := openBad(t, t.TempDir())
	goOn := make(chan struct{})
	bad.sync = func() error { <-goOn; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := s.Put(ctx, small("0"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting: %v", err)
	}
	close(goOn)
	put(t, s, small("1"))
	if err := wait(); err != nil {
		t.Errorf("waiting when it is durable: %v", err)
	}
	expect(t, s, 2)
}

// Who cannot have its turn in time gives up, and leaves nothing.
func TestTurnDoesNotCome(t *testing.T) {
	s, bad := openBad(t, t.TempDir())
	bad.writing = make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := s.Put(context.Background(), small("0"))
		done <- err
	}()
	for len(s.disk.turn) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := s.Put(ctx, small("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v", err)
	}
	close(bad.writing)
	if err := <-done; err != nil {
		t.Error(err)
	}
	expect(t, s, 1)
}

// A large content that is cancelled on its way is cut off.
func TestCancelledInBetween(t *testing.T) {
	s := openAt(t, t.TempDir(), segmentSize)
	put(t, s, small("0"))
	ctx, cancel := context.WithCancel(t.Context())
	r := keeping("large", make([]byte, 4<<20))
	r.Parts[0].Content = &callAfter{Reader: r.Parts[0].Content, left: 1 << 20, call: cancel}
	if _, err := s.Put(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v", err)
	}
	put(t, s, small("1"))
	expect(t, s, 2)
}

type callAfter struct {
	io.Reader
	left int
	call func()
}

func (c *callAfter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.left -= n; c.left <= 0 {
		c.call()
	}
	return n, err
}

func TestPutRefuses(t *testing.T) {
	s := openAt(t, t.TempDir(), segmentSize)
	for name, spoil := range map[string]func(*Record){
		"an unknown digest":   func(r *Record) { r.Parts[0].Digest = 77 },
		"too long an id":      func(r *Record) { r.MessageID = string(bytes.Repeat([]byte("x"), maxHeader)) },
		"too large documents": func(r *Record) { r.Signature.HashChain = make([]byte, maxDocuments) },
		"sizes that overflow": func(r *Record) {
			r.Parts = append(r.Parts, Part{Size: 1 << 62, Content: bytes.NewReader(nil)}, Part{Size: 1 << 62, Content: bytes.NewReader(nil)})
		},
		"a time without year": func(r *Record) { r.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		r := small("bad")
		r.Signature = crypto.Signature{XML: []byte("<s/>")}
		spoil(r)
		if _, err := s.Put(t.Context(), r); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	put(t, s, small("0"))
	expect(t, s, 1)
}

// Readers see whole records only, in order, while others write, cut off, and begin segments.
func TestReadWhileWriting(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 20_000)
	r, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var last atomic.Uint64
	var group sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if t.Failed() {
					return
				}
				if n%5 == w { // one that fails on its way
					bad := keeping("bad", make([]byte, inside+5000))
					bad.Parts[0].Content = io.LimitReader(bad.Parts[0].Content, inside)
					if _, err := s.Put(t.Context(), bad); err == nil {
						t.Error("a bad record is taken")
					}
				}
				good := small("good")
				put(t, s, good)
				for was := last.Load(); good.Number > was && !last.CompareAndSwap(was, good.Number); was = last.Load() {
				}
			}
		})
	}
	for last.Load() < 400 && !t.Failed() {
		least := last.Load()
		var numbers []uint64
		for record, err := range r.Find(t.Context(), Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			drain(t, record)
			numbers = append(numbers, record.Number)
		}
		if !slices.IsSorted(numbers) || uint64(len(numbers)) < least {
			t.Fatalf("found %d records when there were at least %d", len(numbers), least)
		}
		if n := len(numbers); n > 0 && numbers[n-1] != uint64(n) {
			t.Fatalf("%d records, and the last is number %d", n, numbers[n-1])
		}
	}
	close(stop)
	group.Wait()
}
