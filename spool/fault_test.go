// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// narrowFile is a file on a disk that has room for so many octets only.
type narrowFile struct {
	io.WriteCloser
	room *int
	err  error
}

func (f narrowFile) Write(p []byte) (int, error) {
	n, err := f.WriteCloser.Write(p[:min(len(p), *f.room)])
	*f.room -= n
	if err == nil && n < len(p) {
		err = f.err
	}
	return n, err
}

func openNarrow(t *testing.T, room int, failure error) *store {
	s := open(t, t.TempDir(), Options{Memory: 10})
	create := s.create
	s.create = func(name string) (io.WriteCloser, error) {
		f, err := create(name)
		return narrowFile{f, &room, failure}, err
	}
	return s
}

func TestFullDisk(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "write", Path: "file", Err: err} }
	for _, c := range []struct {
		name    string
		failure error
		full    bool
	}{
		{"no space", path(syscall.ENOSPC), true},
		{"disk quota", path(syscall.EDQUOT), true},
		{"broken disk", path(syscall.EIO), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openNarrow(t, 25, c.failure)
			e := create(t, s)
			if n, err := e.Write(make([]byte, 20)); n != 20 || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
			for _, want := range []int{5, 0, 0} {
				n, err := e.Write(make([]byte, 20))
				if n != want || errors.Is(err, ErrFull) != c.full || !errors.Is(err, c.failure) {
					t.Errorf("Write to a full disk = %d, %v; want %d", n, err, want)
				}
			}
			if e.Size() != 25 || s.Size() != 25 {
				t.Errorf("sizes are %d and %d, want what is really there, 25", e.Size(), s.Size())
			}
			small := create(t, s)
			if _, err := small.Write(make([]byte, 10)); err != nil {
				t.Errorf("what fits into memory needs no disk: %v", err)
			}
			// The move from memory to disk fails: nothing is left of it.
			if n, err := small.Write([]byte{1}); n != 0 || errors.Is(err, ErrFull) != c.full {
				t.Errorf("moving to a full disk: %d, %v", n, err)
			}
			if n := len(files(t, s)); n != 1 {
				t.Errorf("%d files, want that of the first entry only", n)
			}
			e.Remove()
			small.Remove()
			if s.Size() != 0 || len(files(t, s)) != 0 {
				t.Errorf("left: %d octets, %v", s.Size(), files(t, s))
			}
		})
	}
}

func TestFullAtCreation(t *testing.T) {
	s := open(t, t.TempDir(), Options{Memory: 10})
	s.create = func(string) (io.WriteCloser, error) { return nil, syscall.ENOSPC }
	if _, err := create(t, s).Write(make([]byte, 11)); !errors.Is(err, ErrFull) {
		t.Errorf("Write = %v, want ErrFull", err)
	}
	if s.Size() != 0 {
		t.Errorf("the store holds %d octets", s.Size())
	}
}

func TestFloor(t *testing.T) {
	s := open(t, t.TempDir(), Options{Memory: 10})
	asked, free := 0, int64(1000)
	s.floor, s.free = 500, func() (int64, error) { asked++; return free, nil }

	e := create(t, s)
	if _, err := e.Write(make([]byte, 100)); err != nil || asked != 1 {
		t.Fatalf("the first octets: %v, asked %d times", err, asked)
	}
	for range 10 {
		if _, err := e.Write(make([]byte, 100)); err != nil || asked != 1 {
			t.Fatalf("a few more octets: %v, asked %d times", err, asked)
		}
	}
	free = 550
	if _, err := create(t, s).Write(make([]byte, 100)); !errors.Is(err, ErrFull) || asked != 2 {
		t.Fatalf("a new file below the floor: %v, asked %d times", err, asked)
	}
	if _, err := create(t, s).Write(make([]byte, 10)); err != nil || asked != 2 {
		t.Fatalf("a small entry: %v, asked %d times", err, asked)
	}
	if _, err := e.Write(make([]byte, 100)); !errors.Is(err, ErrFull) || asked != 3 {
		t.Fatalf("an old file after the floor was seen: %v, asked %d times", err, asked)
	}
	free = 100 << 20
	e = create(t, s)
	if _, err := e.Write(make([]byte, 100)); err != nil || asked != 4 {
		t.Fatalf("room again: %v, asked %d times", err, asked)
	}
	for range 40 {
		if _, err := e.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 4+2 {
		t.Errorf("asked %d times for 40 MiB, want once in 16", asked-4)
	}

	broken := errors.New("broken")
	s.free = func() (int64, error) { return 0, broken }
	if _, err := create(t, s).Write(make([]byte, 100)); !errors.Is(err, broken) || errors.Is(err, ErrFull) {
		t.Errorf("a disk that does not tell: %v", err)
	}
}

func TestFloorOfTheRealDisk(t *testing.T) {
	if !knowsFree {
		t.Skip("this system does not tell how much is free")
	}
	s := open(t, t.TempDir(), Options{Memory: 10, Free: 1 << 60})
	if _, err := create(t, s).Write(make([]byte, 11)); !errors.Is(err, ErrFull) {
		t.Errorf("Write = %v, want ErrFull", err)
	}
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
	if err := s.folder.remove(e.name); err != nil {
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
