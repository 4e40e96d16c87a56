// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTry has a lock held by one opening of a file at a time, and given back with it.
func TestTry(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first, second := open(), open()
	defer second.Close()
	if !Supported {
		if locked, err := Try(first); locked || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, %v", locked, err)
		}
		return
	}
	if locked, err := Try(first); !locked || err != nil {
		t.Errorf("a free lock: %v, %v", locked, err)
	}
	if locked, err := Try(second); locked || err != nil {
		t.Errorf("a lock that is held: %v, %v", locked, err)
	}
	first.Close()
	if locked, err := Try(second); !locked || err != nil {
		t.Errorf("a lock that was given back: %v, %v", locked, err)
	}
	if locked, err := Try(first); locked || err == nil {
		t.Errorf("a closed file: %v, %v", locked, err)
	}
}
