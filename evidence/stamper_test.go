// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Stamp has all stamped before it is time for that.
func TestStampNow(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
		asked   int // of the authority
		covered uint64
	}{
		{"nothing", 0, 0, 0},
		{"one", 1, 2, 1}, // its own, and one for the links
		{"several", 5, 1, 5},
		{"more than a batch", 25, 3, 25 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, a := stamping(t, dir, Options{})
				s.disk.batchLimit = 10
				for range c.records {
					put(t, s, realRecord("it"))
				}
				began := time.Now()
				for range 2 { // the second time there is nothing to do
					if err := Stamp(t.Context(), dir); err != nil {
						t.Fatal(err)
					}
				}
				if !time.Now().Equal(began) {
					t.Error("it has waited for the next round")
				}
				if n := len(a.take()); n != c.asked {
					t.Errorf("the authority was asked %d times, want %d", n, c.asked)
				}
				for n := range c.records {
					stamped(t, s, uint64(n)+1)
				}
				if st := status(t, s); st.Signed != c.records || st.Unstamped != 0 || !st.Oldest.IsZero() {
					t.Errorf("Status = %+v", st)
				}
				if r, err := s.Check(t.Context(), genuine); err != nil || r.Covered.Number != c.covered || r.Refused != nil {
					t.Errorf("Check = %+v, %v", r, err)
				}
				put(t, s, small("later"))
				time.Sleep(minInterval)
				synctest.Wait()
				if status(t, s).Unstamped != 0 {
					t.Error("there are no rounds any more")
				}
				s.Close()
			})
		})
	}
}

// Stamp tells of an outage, which counts as every other, and stamps all when it is over.
func TestStampNowInAnOutage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, dir, Options{})
		for range 3 {
			put(t, s, small("it"))
		}
		a.fail(errOut)
		if err := Stamp(t.Context(), dir); !errors.Is(err, errOut) {
			t.Errorf("while the authority fails: %v", err)
		}
		if st := status(t, s); st.Unstamped != 3 || st.Failing.IsZero() {
			t.Errorf("Status = %+v", st)
		}
		a.fail(nil)
		answers := make(chan error)
		for range 2 {
			go func() { answers <- Stamp(t.Context(), dir) }()
		}
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if st := status(t, s); st.Unstamped != 0 || !st.Failing.IsZero() {
			t.Errorf("Status = %+v", st)
		}
		s.Close()
	})
}

// Stamp ends with its context, and with the Timestamper.
func TestStampNowEnds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, dir, Options{})
		put(t, s, small("it"))
		a.hangs = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Stamp(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its time: %v", err)
		}
		answer := make(chan error)
		for range 2 {
			go func() { answer <- Stamp(t.Context(), dir) }()
		}
		synctest.Wait()
		s.Close()
		for range 2 {
			if err := <-answer; !errors.Is(err, errStamperGone) {
				t.Errorf("of a store that was closed: %v", err)
			}
		}
	})
}

// Stamp needs a store that this process writes with a Timestamper.
func TestStampNowNowhere(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	if err := Stamp(t.Context(), missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no folder: %v", err)
	}
	if err := Stamp(t.Context(), dir); err == nil {
		t.Error("of a folder that nobody has open")
	}
	openAt(t, dir, 0)
	if err := Stamp(t.Context(), dir); err == nil {
		t.Error("of a store without Timestamper")
	}
}

var errOut = errors.New("out of order")

// TestReport: who opens a store is told what changes, and of what goes on once an hour.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []Status
		take := func() []Status {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			taken := told
			told = nil
			return taken
		}
		s, a := stamping(t, t.TempDir(), Options{Acceptable: 90 * time.Minute, Report: func(st Status) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, st)
		}})
		put(t, s, realRecord("0"))
		time.Sleep(time.Hour)
		if all := take(); len(all) != 0 {
			t.Errorf("told when all is well: %+v", all)
		}
		put(t, s, realRecord("1"))
		put(t, s, realRecord("2"))
		a.fail(errors.New("the authority is out"))
		time.Sleep(time.Minute)
		began := time.Now()
		for _, want := range []struct {
			after time.Duration
			told  int
		}{
			{0, 1},
			{59 * time.Minute, 0},
			{60 * time.Minute, 1}, // still
			{90 * time.Minute, 0},
			{91 * time.Minute, 1}, // Put refuses
			{150 * time.Minute, 0},
			{151 * time.Minute, 1}, // still
		} {
			time.Sleep(time.Until(began.Add(want.after)))
			all := take()
			if len(all) != want.told {
				t.Fatalf("after %v: told %+v", want.after, all)
			}
			for _, st := range all {
				if st.Unstamped != 2 || !st.Failing.Equal(began) || !st.Refusing.Equal(began.Add(90*time.Minute)) || st.Reason == nil {
					t.Errorf("after %v: told %+v", want.after, st)
				}
			}
		}
		a.fail(nil)
		time.Sleep(10 * time.Minute)
		if all := take(); len(all) != 1 || !all[0].Failing.IsZero() || all[0].Reason != nil {
			t.Errorf("when it is over: told %+v", all)
		}
	})
}

// slowAuthority refuses, or answers half a minute later.
type slowAuthority struct {
	refuses atomic.Bool
	asked   atomic.Int64
}

func (a *slowAuthority) Stamp(_ context.Context, imprint []byte) ([]byte, error) {
	a.asked.Add(1)
	if a.refuses.Load() {
		return nil, errOut
	}
	time.Sleep(30 * time.Second)
	return append([]byte(tokenPrefix), imprint...), nil
}

// TestCatchUp_FR86: after an outage of three hours the backlog of two security servers is stamped by a slow authority while messages
// go on, which never wait for it. However often a time-stamp is asked for meanwhile, each record has one in the end, and only
// one; and until then it is known how much time is left (FR-86).
func TestCatchUp_FR86(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		a := new(slowAuthority)
		a.refuses.Store(true)
		var nodes []*shared
		for _, dir := range dirs {
			openAt(t, dir, 0).disk.batchLimit = 50
			s, err := openShared(dir, Options{Timestamper: a})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			nodes = append(nodes, s)
		}
		records := uint64(0)
		at := make(map[*shared][]uint64)
		add := func() {
			t.Helper()
			records++
			began := time.Now()
			for _, s := range nodes {
				r := small("it")
				put(t, s, r)
				at[s] = append(at[s], r.Number)
			}
			if !time.Now().Equal(began) {
				t.Errorf("record %d has waited for %v", records, time.Since(began))
			}
		}
		const outage = 3 * time.Hour
		for range outage / time.Minute {
			for range 3 {
				add()
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		for _, s := range nodes {
			st := status(t, s)
			if left := time.Until(st.Refusing); st.Unstamped != len(at[s]) || left <= 0 || left > DefaultAcceptable-outage+2*time.Minute {
				t.Errorf("in the outage: %+v, with %v left", st, left)
			}
		}

		a.refuses.Store(false)
		a.asked.Store(0)
		answers := make(chan error)
		for _, dir := range dirs {
			for range 3 {
				go func() { answers <- Stamp(t.Context(), dir) }()
			}
		}
		behind := func() bool { return status(t, nodes[0]).Unstamped+status(t, nodes[1]).Unstamped > 0 }
		for began := time.Now(); behind(); time.Sleep(10 * time.Second) {
			if time.Since(began) > time.Hour {
				t.Fatal("it is never done")
			}
			if time.Since(began) < 3*time.Minute {
				add()
			}
		}
		for range 3 * len(dirs) {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		for i, s := range nodes {
			times := make(map[uint64]int)
			for n := uint64(1); ; n++ {
				_, w, err := s.disk.fetch(n)
				if errors.Is(err, ErrNotFound) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if w.header.Stamp == nil {
					continue
				}
				batch, err := w.batch()
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range batch {
					times[l.number]++
				}
			}
			for _, n := range at[s] {
				if times[n] != 1 {
					t.Errorf("record %d of server %d is under %d time-stamps", n, i, times[n])
				}
				stamped(t, s, n)
			}
			if len(times) != len(at[s]) {
				t.Errorf("%d records of server %d are under time-stamps, and there are %d", len(times), i, len(at[s]))
			}
		}
		if n := a.asked.Load(); n > 2*(540/50+10) {
			t.Errorf("the authority was asked %d times", n)
		}
	})
}
