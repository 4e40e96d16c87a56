// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// asOrdinaryUser lets the rest of the test meet permissions as an ordinary user does, also where root runs it.
func asOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	dir := t.TempDir() // makes the parent of all other folders of the test
	runtime.LockOSThread()
	if err := os.Chmod(dir+"/..", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setfsuid(65534); err != nil {
		runtime.UnlockOSThread()
		t.Skipf("cannot become an ordinary user: %v", err)
	}
	t.Cleanup(func() {
		syscall.Setfsuid(0)
		runtime.UnlockOSThread()
	})
}

// shortWrites is set in the process that limits its files.
const shortWrites = "SPOOL_TEST_SHORT_WRITES"

// A limit on the size of files makes the kernel itself cut a write short.
func TestShortWriteOfTheKernel(t *testing.T) {
	// The limit holds for the whole process, the log that the go command lets tests write included.
	if os.Getenv(shortWrites) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), shortWrites+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Skip(err)
	}
	s := open(t, t.TempDir(), Options{})
	e := create(t, s)
	limit := old
	limit.Cur = 100 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skip(err)
	}
	n, err := e.Write(make([]byte, 200<<10))
	syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	if n != 100<<10 || !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Write = %d, %v", n, err)
	}
	if e.Size() != 100<<10 || s.Size() != 100<<10 {
		t.Errorf("sizes are %d and %d", e.Size(), s.Size())
	}
}
