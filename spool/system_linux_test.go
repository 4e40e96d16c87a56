// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
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
	n, err := e.Write(make([]byte, 2*pieceSize))
	syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	if n != 0 || !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Write = %d, %v", n, err)
	}
	e.Remove()
	unused(t, s)
}

// resident returns how many octets of a file are in the page cache.
func resident(t *testing.T, f *os.File) (n int64) {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(pages)
	size := os.Getpagesize()
	in := make([]byte, (len(pages)+size-1)/size)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&pages[0])), uintptr(len(pages)), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, p := range in {
		n += int64(p & 1)
	}
	return n * int64(size)
}

// blocks returns how many octets of the disk a file has.
func blocks(t *testing.T, s *store, e *entry) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(s.folder.root.Name(), e.file.name), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// TestPageCache_FR55: what goes beyond the cache's share leaves the memory, its head stays, and it is read as it was written (FR-55).
func TestPageCache_FR55(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name      string
		limit     int64
		low, high int64
	}{
		{"all", 1 << 30, 96 << 20, 96 << 20},
		{"head", 32 << 20, 32 << 20, 64 << 20},
		{"nothing", 0, 0, 32 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, dir, Options{Free: 1})
			if s.folder.onMemory() {
				t.Skip("the temporary folder lies in memory")
			}
			s.cache.limit = c.limit
			e, piece := create(t, s), make([]byte, 1<<20)
			for i := range 96 {
				piece[0] = byte(i)
				if _, err := e.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			r, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if in := resident(t, r.(*os.File)); in < c.low || in > c.high {
				t.Errorf("%d octets of 96 MiB are in the page cache, want %d to %d", in, c.low, c.high)
			}
			for i := range 96 {
				if _, err := io.ReadFull(r, piece); err != nil || piece[0] != byte(i) {
					t.Fatalf("piece %d begins with %d, %v", i, piece[0], err)
				}
			}
			e.Remove()
			unused(t, s)
		})
	}
}

func TestMemoryOfTheProcess(t *testing.T) {
	if n := memory(); n < 1<<20 || n > 1<<50 {
		t.Errorf("the machine has %d octets of memory to give", n)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if s := open(t, t.TempDir(), Options{}); s.cache.limit > 16<<20 || s.cache.limit == 0 {
		t.Errorf("with a limit of 64 MiB, %d octets of files may be in the page cache", s.cache.limit)
	}
}

// onSmallDisk runs the test on a file system of 64 MiB of its own.
func onSmallDisk(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	image := filepath.Join(t.TempDir(), "image")
	dir = t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Skipf("cannot make a small file system: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("unmounting: %v %s", err, out)
		}
	})
	return dir
}

func TestSmallDisk(t *testing.T) {
	s := open(t, filepath.Join(onSmallDisk(t), "spool"), Options{Free: 8 << 20})
	free := func() int64 {
		n, _, err := s.disk.free()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := free()

	e := create(t, s)
	if err := e.Reserve(60 << 20); !errors.Is(err, ErrFull) {
		t.Errorf("Reserve of more than there is = %v, want ErrFull", err)
	}
	if err := e.Reserve(20 << 20); err != nil {
		t.Fatal(err)
	}
	if n := blocks(t, s, e); n < 20<<20 || free() > before-20<<20 {
		t.Errorf("the file has %d octets of the disk, want 20 MiB", n)
	}
	if _, err := e.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if err := e.Done(); err != nil {
		t.Fatal(err)
	}
	if n := blocks(t, s, e); n > 3<<20 {
		t.Errorf("the file has %d octets of the disk when it is done, want 2 MiB", n)
	}
	e.Remove() // and whoever asks for its room at once waits until it has been given back
	if e = create(t, s); e.Reserve(30<<20) != nil {
		t.Error("room that is being given back is not found")
	}
	e.Remove()

	// All together to the floor, and then, without one, to the last block.
	for _, floor := range []int64{8 << 20, 0} {
		s.disk.floor = floor
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				e, err := create(t, s), error(nil)
				for err == nil {
					_, err = e.Write(make([]byte, 100<<10))
				}
				if !errors.Is(err, ErrFull) {
					t.Errorf("floor %d: %v, want ErrFull", floor, err)
				}
			})
		}
		group.Wait()
		if left := free(); left < floor {
			t.Errorf("%d octets are free, %d must stay", left, floor)
		}
		for e := range s.entries {
			if err := e.Remove(); err != nil {
				t.Error(err)
			}
		}
		unused(t, s)
	}
	if after := free(); after < before-1<<20 {
		t.Errorf("%d octets are free, %d were before", after, before)
	}
}

// TestOnMemory_FR55: a folder in memory is known by its file system, and has the limits of any other (FR-55).
func TestOnMemory_FR55(t *testing.T) {
	if OnMemory(filepath.Join(t.TempDir(), "missing")) != "" {
		t.Error("a folder that is not there lies in memory")
	}
	if OnMemory("/proc") != "" {
		t.Error("/proc takes no files")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a file system in memory")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("cannot mount a file system in memory: %v", err)
	}
	defer unix.Unmount(dir, 0)
	if got := OnMemory(dir); got != "tmpfs" {
		t.Errorf("tmpfs is taken for %q", got)
	}
	s := open(t, filepath.Join(dir, "spool"), Options{Free: 1})
	defer s.Close()
	if s.disk.allocates {
		t.Error("room in memory is allocated before it is needed")
	}
	e, err := create(t, s), error(nil)
	for err == nil {
		_, err = e.Write(make([]byte, 100<<10))
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("Write = %v, want ErrFull", err)
	}
	e.Remove()
	unused(t, s)
}
