// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/evidence/evidencetest"
)

func TestDisk(t *testing.T) {
	evidencetest.Run(t, func(t *testing.T, dir string) evidence.Store { return openDisk(t, dir) })
}

func TestDiskTimestamps(t *testing.T) {
	evidencetest.RunTimestamps(t, hashchain.VerifyTimestamp, func(t *testing.T, dir string, stamper evidence.Timestamper) evidence.Store {
		s, err := evidence.Open(dir, evidence.Options{Timestamper: stamper, SegmentSize: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]evidence.Options{
		"a negative size":       {SegmentSize: -1},
		"a negative time":       {Keep: -time.Second},
		"a negative interval":   {Interval: -time.Second},
		"a negative acceptable": {Acceptable: -time.Second},
	} {
		if s, err := evidence.Open(t.TempDir(), o); err == nil {
			t.Errorf("%s is taken", name)
			s.Close()
		}
	}
}

func TestNone(t *testing.T) {
	s := evidence.None()
	for want := range uint64(3) {
		r := evidencetest.Message("m", 10)
		wait, err := s.Put(t.Context(), r)
		if err != nil || wait() != nil || r.Number != want+1 {
			t.Errorf("Put = %v, number %d", err, r.Number)
		}
	}
	if _, err := s.Get(t.Context(), 1); !errors.Is(err, evidence.ErrNotFound) {
		t.Errorf("Get = %v", err)
	}
	for range s.Find(t.Context(), evidence.Query{}) {
		t.Error("found something in nothing")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Two configurations overlap over a reload: A, then A and B, then B, then B and A again.
func TestStoresOfOneFolder(t *testing.T) {
	dir := t.TempDir()
	a := openDisk(t, dir)
	put(t, a, "1")
	b := openDisk(t, filepath.Join(dir, "..", filepath.Base(dir)))
	put(t, b, "2")
	put(t, a, "3")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Put(t.Context(), evidencetest.Message("x", 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Put to the closed one: %v", err)
	}
	put(t, b, "4")
	a = openDisk(t, dir)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, a, "5")
	n := 0
	for r, err := range a.Find(t.Context(), evidence.Query{}) {
		if n++; err != nil || r.MessageID != fmt.Sprint(n) || r.Number != uint64(n) {
			t.Errorf("found %+v, %v", r, err)
		}
	}
	if n != 5 {
		t.Errorf("found %d records, want 5", n)
	}
	a.Close()
}

func TestReader(t *testing.T) {
	dir := t.TempDir()
	if _, err := evidence.OpenRead(filepath.Join(dir, "missing")); err == nil {
		t.Error("opened a folder that is missing")
	}
	r, err := evidence.OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Get(t.Context(), 1); !errors.Is(err, evidence.ErrNotFound) {
		t.Errorf("Get from an empty folder: %v", err)
	}
	if _, err := r.Put(t.Context(), evidencetest.Message("m", 1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Put to a reader: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a reader writes: %v", left)
	}
	w := openDisk(t, dir)
	for n := range uint64(5) {
		put(t, w, "m")
		got, err := r.Get(t.Context(), n+1)
		if err != nil || got.MessageID != "m" {
			t.Fatalf("Get = %+v, %v", got, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Get(t.Context(), 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
}

func TestNothingBecomesAPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := openDisk(t, dir)
	for _, id := range []string{"../../x", "/etc/cron.d/x", "..\\x", "x\x00y", "<x/>"} {
		put(t, s, id)
	}
	s.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{"00000001.contents", "00000001.evidence", "arriving", "lock"}, e.Name()) {
			t.Errorf("there is a file %q", e.Name())
		}
	}
}

// An identifier that is no UTF-8 is found by itself, before and after opening again.
func TestIDsThatAreNoText(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		s := openDisk(t, dir)
		if round == 0 {
			put(t, s, "a\xff\xfeb")
		}
		n := 0
		for _, err := range s.Find(t.Context(), evidence.Query{MessageID: "a\xff\xfeb"}) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("found %d", n)
		}
		s.Close()
	}
}

func openDisk(t testing.TB, dir string) evidence.Store {
	t.Helper()
	s, err := evidence.OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s evidence.Store, id string) {
	t.Helper()
	wait, err := s.Put(t.Context(), evidencetest.Message(id, 10))
	if err == nil {
		err = wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkPut is durable records per second, with a message of 2 KiB and a signature of 6 KiB, beside a bare loop
// that writes as much for all who wait, once, and syncs. "to-bare" is the ratio.
func BenchmarkPut(b *testing.B) {
	const message, signature = 2 << 10, 6 << 10
	text, document := strings.Repeat("x", message), []byte(strings.Repeat("s", signature))
	for _, writers := range []int{1, 8, 64, 128} {
		var bare float64
		b.Run(fmt.Sprintf("%d writers, bare", writers), func(b *testing.B) {
			write := bareCommits(b, make([]byte, message+signature))
			bare = together(b, writers, write)
		})
		b.Run(fmt.Sprintf("%d writers", writers), func(b *testing.B) {
			s := openDisk(b, b.TempDir())
			b.ReportAllocs()
			rate := together(b, writers, func() error {
				r := evidencetest.Message("message", 0)
				r.Parts[0].Content, r.Parts[0].Size = io.Reader(strings.NewReader(text)), message
				r.Signature.XML = document
				wait, err := s.Put(b.Context(), r)
				if err == nil {
					err = wait()
				}
				return err
			})
			if bare > 0 {
				b.ReportMetric(rate/bare, "to-bare")
			}
		})
	}
}

// together lets so many write b.N times in all, and returns how often they did so in a second.
func together(b *testing.B, writers int, write func() error) float64 {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := write(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "records/s")
	return rate
}

// bareCommits returns what writes octets durably, with one write and one sync for all who wait.
func bareCommits(b *testing.B, octets []byte) func() error {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	waiting := make(chan chan error, 1000)
	b.Cleanup(func() {
		close(waiting)
		f.Close()
	})
	go func() {
		for first := range waiting {
			all, batch := []chan error{first}, slices.Clone(octets)
			for more := len(waiting); more > 0; more-- {
				all, batch = append(all, <-waiting), append(batch, octets...)
			}
			_, err := f.Write(batch)
			if err == nil {
				err = evidence.SyncData(f)
			}
			for _, done := range all {
				done <- err
			}
		}
	}()
	return func() error {
		done := make(chan error, 1)
		waiting <- done
		return <-done
	}
}
