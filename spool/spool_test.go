// SPDX-License-Identifier: Apache-2.0

package spool_test

import (
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/spool/spooltest"
)

func TestMemory(t *testing.T) {
	spooltest.Run(t, func(*testing.T) spool.Store { return spool.NewMemory(64 << 20) })
	spooltest.RunFull(t, func(_ *testing.T, quota int64) spool.Store { return spool.NewMemory(quota) })
}

func TestDisk(t *testing.T) {
	options := spool.Options{Memory: spooltest.Memory}
	spooltest.Run(t, func(t *testing.T) spool.Store { return openDisk(t, t.TempDir(), options) })
	spooltest.RunFull(t, func(t *testing.T, quota int64) spool.Store {
		return openDisk(t, t.TempDir(), spool.Options{Memory: spooltest.Memory, Quota: quota})
	})
}

func TestMemoryOfNothing(t *testing.T) {
	for _, limit := range []int64{0, -1} {
		e, err := spool.NewMemory(limit).Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write([]byte{1}); err == nil {
			t.Errorf("a store of %d octets takes one", limit)
		}
	}
}

// One file exists while an entry above the threshold does, none below it, and nothing stays.
func TestFilesOfEntries(t *testing.T) {
	for _, c := range []struct {
		name        string
		size, files int
	}{
		{"empty", 0, 0},
		{"one octet", 1, 0},
		{"threshold", 64 << 10, 0},
		{"above", 64<<10 + 1, 1},
		{"far above", 1 << 20, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "var", "spool")
			s := openDisk(t, dir, spool.Options{})
			for range 20 {
				e := write(t, s, c.size)
				if got := filesBelow(t, dir); len(got) != c.files {
					t.Errorf("files while the entry lives: %q, want %d", got, c.files)
				}
				if err := e.Remove(); err != nil {
					t.Fatal(err)
				}
				if got := filesBelow(t, dir); len(got) != 0 {
					t.Errorf("files after Remove: %q", got)
				}
			}
			write(t, s, c.size)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left after Close: %v", left)
			}
		})
	}
}

func TestTwoStoresShareAFolder(t *testing.T) {
	dir := t.TempDir()
	first := openDisk(t, dir, spool.Options{Memory: 1})
	e := write(t, first, 100)
	second := openDisk(t, dir, spool.Options{Memory: 1})
	other := write(t, second, 200)
	third := openDisk(t, dir, spool.Options{Memory: 1})
	if got := filesBelow(t, dir); len(got) != 2 {
		t.Errorf("files of two live stores: %q", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if e.Size() != 100 || other.Size() != 200 || second.Size() != 200 || third.Size() != 0 {
		t.Error("stores that share a folder share more than that")
	}
	r, err := other.Open()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); n != 200 || err != nil {
		t.Errorf("read %d octets, %v", n, err)
	}
	r.Close()
	second.Close()
	third.Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left after all are closed: %v", left)
	}
}

func TestOpenDiskRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		options   spool.Options
	}{
		{"a file", file, spool.Options{}},
		{"a folder below a file", filepath.Join(file, "x"), spool.Options{}},
		{"a negative threshold", t.TempDir(), spool.Options{Memory: -1}},
		{"a negative quota", t.TempDir(), spool.Options{Quota: -1}},
		{"a negative floor", t.TempDir(), spool.Options{Free: -1}},
	} {
		if s, err := spool.OpenDisk(c.dir, c.options); err == nil {
			s.Close()
			t.Errorf("%s: no error", c.name)
		} else if !strings.HasPrefix(err.Error(), "spool: opening ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The kernel copies from a reader of a file to a connection, if it gets hold of both.
func TestReaderIsAFile(t *testing.T) {
	s := openDisk(t, t.TempDir(), spool.Options{})
	e := write(t, s, 1<<20)
	r, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, ok := r.(*os.File); !ok {
		t.Fatalf("the reader is a %T", r)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("no network here: %v", err)
	}
	defer l.Close()
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if n, err := io.Copy(c, r); n != 1<<20 || err != nil {
			t.Errorf("copied %d octets, %v", n, err)
		}
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); n != 1<<20 || err != nil {
		t.Errorf("received %d octets, %v", n, err)
	}
}

func openDisk(t testing.TB, dir string, o spool.Options) spool.Store {
	t.Helper()
	s, err := spool.OpenDisk(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t testing.TB, s spool.Store, size int) spool.Entry {
	t.Helper()
	e, err := s.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	return e
}

// filesBelow lists the files below dir that are no locks.
func filesBelow(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// BenchmarkEntry is the life of an entry: create, write, read, remove.
func BenchmarkEntry(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"256KiB", 256 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			s := openDisk(b, b.TempDir(), spool.Options{})
			octets, buffer := make([]byte, c.size), make([]byte, 256<<10)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			for b.Loop() {
				e, _ := s.Create(b.Context())
				e.Write(octets)
				r, err := e.Open()
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = r.Read(buffer)
				}
				r.Close()
				e.Remove()
			}
		})
	}
}
