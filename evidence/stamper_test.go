// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Stamp needs nobody to wait, and leaves the Timestamper of an open store in use.
func TestStampNow(t *testing.T) {
	for _, c := range []struct {
		name             string
		records          int
		limit            int
		asked            int // of the authority
		stamped, covered uint64
	}{
		{"nothing", 0, 10, 0, 0, 0},
		{"one", 1, 10, 2, 1, 1}, // its own, and one for the links
		{"several", 5, 10, 1, 5, 5},
		{"more than a batch", 25, 10, 3, 25, 25 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, inUse := stamping(t, dir, Options{})
				s.disk.batchLimit = c.limit
				for range c.records {
					put(t, s, realRecord("it"))
				}
				now := new(authority)
				for range 2 { // the second time there is nothing to do
					if err := Stamp(t.Context(), dir, now); err != nil {
						t.Fatal(err)
					}
				}
				if n := len(now.take()); n != c.asked {
					t.Errorf("the authority was asked %d times, want %d", n, c.asked)
				}
				for n := range c.stamped {
					stamped(t, s, n+1)
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
				if len(inUse.take()) == 0 || status(t, s).Unstamped != 0 {
					t.Error("the authority of the open store is not in use any more")
				}
				s.Close()
			})
		})
	}
}

// Stamp says why it could not.
func TestStampNowFails(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 0)
	put(t, s, small("0"))
	a := new(authority)
	a.fail(errOut)
	if err := Stamp(t.Context(), dir, a); !errors.Is(err, errOut) {
		t.Errorf("an authority that fails: %v", err)
	}
	if st := status(t, s); st.Unstamped != 1 || !st.Failing.IsZero() {
		t.Errorf("Status = %+v: the store itself has not failed", st)
	}
	s.Close()
	a.fail(nil)
	if err := Stamp(t.Context(), dir, a); err != nil {
		t.Errorf("of a folder that nobody has open: %v", err)
	}
	r, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if st := status(t, r); st.Signed != 1 || st.Unstamped != 0 {
		t.Errorf("Status = %+v", st)
	}
	missing := filepath.Join(dir, "missing")
	if err := Stamp(t.Context(), missing, a); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no folder: %v", err)
	}
}

var errOut = errors.New("out of order")
