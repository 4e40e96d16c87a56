// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// faults makes single operations of files fail.
type faults struct {
	create, allocate, write, flush, settle, truncate, close error
	room                                                    int // octets that are written before write fails
}

type faultyFile struct {
	diskFile
	*faults
}

func (f faultyFile) allocate(offset, n int64) error {
	return cmp.Or(f.faults.allocate, f.diskFile.allocate(offset, n))
}
func (f faultyFile) flush(offset, n int64) error {
	return cmp.Or(f.faults.flush, f.diskFile.flush(offset, n))
}
func (f faultyFile) settle(offset, n int64) error {
	return cmp.Or(f.faults.settle, f.diskFile.settle(offset, n))
}
func (f faultyFile) Truncate(size int64) error { return cmp.Or(f.truncate, f.diskFile.Truncate(size)) }

func (f faultyFile) Close() error {
	err := f.diskFile.Close()
	return cmp.Or(f.close, err)
}

func (f faultyFile) Write(p []byte) (int, error) {
	if f.write == nil {
		return f.diskFile.Write(p)
	}
	n, err := f.diskFile.Write(p[:min(len(p), f.room)])
	f.room -= n
	if err == nil && n < len(p) {
		err = f.write
	}
	return n, err
}

// openFaulty opens a store all of whose files break as f says.
func openFaulty(t *testing.T, f *faults) *store {
	s := open(t, t.TempDir(), Options{Memory: 10, Free: freeOfTests()})
	create := s.disk.create
	s.disk.create = func(name string) (diskFile, error) {
		if f.create != nil {
			return nil, f.create
		}
		file, err := create(name)
		return faultyFile{file, f}, err
	}
	s.disk.allocates = true
	s.cache.limit = 0
	return s
}

// freeOfTests is a floor that no disk is below, where there may be a floor at all.
func freeOfTests() int64 {
	if knowsFree {
		return 1
	}
	return 0
}

// unused fails the test if anything in s is still counted, or lies on the disk.
func unused(t *testing.T, s *store) {
	t.Helper()
	if s.folder != nil {
		s.disk.settled()
	}
	for _, c := range []struct {
		what string
		n    int64
	}{
		{"octets written", s.Size()},
		{"octets of the quota", s.used.Load()},
		{"octets promised", s.disk.promised},
		{"octets left to the page cache", s.cache.left.Load()},
		{"octets kept in the page cache", s.cache.kept.Load()},
		{"entries", int64(len(s.entries))},
	} {
		if c.n != 0 {
			t.Errorf("%d %s after all was removed", c.n, c.what)
		}
	}
	if s.folder != nil {
		if left := files(t, s); len(left) != 0 {
			t.Errorf("files after all was removed: %v", left)
		}
	}
}

// Whatever breaks, whoever writes is told before the entry can be read, for good, and nothing stays.
func TestFaults(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "op", Path: "file", Err: err} }
	for _, c := range []struct {
		name   string
		faults faults
		fails  string // what fails: Reserve, Write or Done
	}{
		{"create", faults{create: path(syscall.EMFILE)}, "Reserve"},
		{"create on a full disk", faults{create: path(syscall.ENOSPC)}, "Reserve"},
		{"allocate", faults{allocate: syscall.ENOSPC}, "Reserve"},
		{"allocate on a broken disk", faults{allocate: syscall.EIO}, "Reserve"},
		{"nothing can be allocated", faults{allocate: errors.ErrUnsupported}, ""},
		{"write at once", faults{write: path(syscall.ENOSPC)}, "Write"},
		{"write in the middle", faults{write: path(syscall.ENOSPC), room: 5<<20 + 100}, "Write"},
		{"write at the end", faults{write: path(syscall.ENOSPC), room: 40 << 20}, "Done"},
		{"write over the user's quota", faults{write: path(syscall.EDQUOT), room: 100}, "Write"},
		{"write to a broken disk", faults{write: path(syscall.EIO), room: 100}, "Write"},
		{"flush", faults{flush: syscall.EIO}, "Write"},
		{"settle", faults{settle: syscall.EIO}, "Write"},
		{"truncate", faults{truncate: path(syscall.EIO)}, "Done"},
		{"close", faults{close: path(syscall.EIO)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openFaulty(t, &c.faults)
			e := create(t, s)
			failed := ""
			var err error
			step := func(name string, do func() error) {
				if err == nil {
					if err = do(); err != nil {
						failed = name
					}
				}
			}
			step("Reserve", func() error { return e.Reserve(50 << 20) })
			for range 160 {
				step("Write", func() error { _, err := e.Write(make([]byte, pieceSize)); return err })
			}
			step("Write", func() error { _, err := e.Write(make([]byte, 1000)); return err })
			step("Done", e.Done)
			step("Open", func() error {
				r, err := e.Open()
				if err == nil {
					r.Close()
				}
				return err
			})
			if failed != c.fails {
				t.Fatalf("%q failed (%v), want %q", failed, err, c.fails)
			}
			if err != nil && errors.Is(err, ErrFull) != noRoom(err) {
				t.Errorf("%v: is it ErrFull?", err)
			}
			if failed == "Reserve" {
				if s.used.Load() != 0 || len(files(t, s)) != 0 || s.disk.promised != 0 {
					t.Errorf("a refusal leaves %d octets, %d promised, %v", s.used.Load(), s.disk.promised, files(t, s))
				}
				if n, err := e.Write(make([]byte, 10)); n != 10 || err != nil {
					t.Errorf("a small entry needs no disk: %d, %v", n, err)
				}
			} else if failed != "" {
				if n, again := e.Write([]byte{1}); n != 0 || again != err {
					t.Errorf("Write after an error: %d, %v; want the error again", n, again)
				}
				if again := e.Reserve(1); again != err {
					t.Errorf("Reserve after an error: %v; want the error again", again)
				}
				if again := e.Done(); again != err {
					t.Errorf("Done after an error: %v; want the error again", again)
				}
				if _, again := e.Open(); again != err {
					t.Errorf("Open after an error: %v; want the error again", again)
				}
			}
			if err := e.Remove(); err != nil {
				t.Errorf("Remove: %v", err)
			}
			unused(t, s)
		})
	}
}

// What the disk lost after it had been written is noticed by Done, or by Open later on, and the entry is not read.
func TestLost(t *testing.T) {
	for _, late := range []bool{false, true} {
		f := new(faults)
		s := openFaulty(t, f)
		s.cache.limit = 1 << 30
		e := create(t, s)
		if _, err := e.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if late {
			if err := e.Done(); err != nil {
				t.Fatal(err)
			}
		}
		f.settle = syscall.EIO
		err := error(nil)
		if !late {
			err = e.Done()
		} else {
			_, err = e.Open()
		}
		if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrFull) {
			t.Errorf("late: %v: %v", late, err)
		}
		f.settle = nil // the system tells it once
		if _, again := e.Open(); again != err {
			t.Errorf("late: %v: Open = %v, want the error again", late, again)
		}
		e.Remove()
		unused(t, s)
	}
}

// A disk that runs full while an entry moves there from memory.
func TestFullWhileSpilling(t *testing.T) {
	s := openFaulty(t, &faults{write: syscall.ENOSPC})
	e := create(t, s)
	if _, err := e.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Write(make([]byte, pieceSize)); n != 0 || !errors.Is(err, ErrFull) {
		t.Errorf("Write = %d, %v", n, err)
	}
	e.Remove()
	unused(t, s)
}

// A symbolic link that waits under the name of a new file is neither followed nor replaced.
func TestLinkInTheWay(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{victim, filepath.Join(t.TempDir(), "missing")} {
		if err := s.folder.root.Symlink(target, "name"); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
		if f, err := s.folder.create("name"); err == nil {
			f.Close()
			t.Errorf("created a file through a link to %s", target)
		}
		if f, err := s.folder.open("name"); err == nil {
			f.Close()
			t.Errorf("opened a link to %s", target)
		}
		if err := s.folder.remove("name"); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(target), "missing")); err == nil {
			t.Error("a file was made where the link pointed")
		}
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "untouched" {
		t.Errorf("the victim is now %q, %v", b, err)
	}
}

// What is not of our naming scheme, or is a link, is never swept.
func TestSweepLeavesOthers(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	random := strings.Repeat("A", 26)
	keep := []string{
		"fairway-1", "fairway-1.lock", "fairway-x-" + random + ".lock", "fairway-1-" + random[1:] + ".lock",
		"xfairway-1-" + random + ".lock", "fairway-1-" + random + ".lock.old", "other",
	}
	for _, name := range keep {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	precious := filepath.Join(elsewhere, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := "fairway-2-" + random
	if err := errors.Join(os.Symlink(precious, filepath.Join(dir, linked+".lock")), os.Symlink(elsewhere, filepath.Join(dir, linked))); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	open(t, dir, Options{}).Close()
	for _, path := range append(keep, linked, linked+".lock") {
		if _, err := os.Lstat(filepath.Join(dir, path)); err != nil {
			t.Errorf("swept %s", path)
		}
	}
	if _, err := os.Lstat(precious); err != nil {
		t.Error("swept through a link")
	}
}

func TestRemoveOfAFileThatIsGone(t *testing.T) {
	s := open(t, t.TempDir(), Options{Memory: 10})
	e := create(t, s)
	if _, err := e.Write(make([]byte, 11)); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.remove(e.file.name); err != nil {
		t.Fatal(err)
	}
	if err := e.Remove(); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

func TestOctetsMoveToTheFile(t *testing.T) {
	s := open(t, t.TempDir(), Options{Memory: 10})
	e := create(t, s)
	for _, p := range []string{"first", "second", "third"} {
		if _, err := e.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if e.memory != nil {
		t.Error("the octets are also still in memory")
	}
	r, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, []byte("firstsecondthird")) {
		t.Errorf("read %q, %v", b, err)
	}
}

func open(t *testing.T, dir string, o Options) *store {
	t.Helper()
	s, err := OpenDisk(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*store)
}

func create(t *testing.T, s Store) *entry {
	t.Helper()
	e, err := s.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e.(*entry)
}

func files(t *testing.T, s *store) []fs.DirEntry {
	t.Helper()
	entries, err := fs.ReadDir(s.folder.root.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
