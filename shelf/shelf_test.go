// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package shelf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// directory returns a directory for a shelf, with that mode.
func directory(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(dir, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string, keep time.Duration) *Store {
	t.Helper()
	s, err := Open(dir, keep, func(err error) { t.Errorf("report: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func create(t *testing.T, s *Store) *Folder {
	t.Helper()
	f, err := s.Create()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func text(words string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, words)
		return err
	}
}

// list returns the names in a directory.
func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// age makes a folder, or what else lies in a directory, that old.
func age(t *testing.T, path string, old time.Duration) {
	t.Helper()
	then := time.Now().Add(-old)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestFolder(t *testing.T) {
	for _, c := range []struct {
		name              string
		directory, folder fs.FileMode
	}{
		{"the group reads", 0o750, 0o750},
		{"the group may write", 0o770, 0o770},
		{"no group", 0o700, 0o750},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := syscall.Umask(0o077)
			defer syscall.Umask(old)
			dir := directory(t, c.directory)
			s := open(t, dir, time.Hour)
			f := create(t, s)
			folder := filepath.Dir(f.Path("x"))
			if filepath.Dir(folder) != dir || !folderName.MatchString(filepath.Base(folder)) {
				t.Fatalf("the folder is %s", folder)
			}
			if err := f.Write(t.Context(), "one", strings.NewReader("12345"), 3); err != nil {
				t.Fatal(err)
			}
			if err := f.Write(t.Context(), "empty", iotest.ErrReader(errors.New("not needed")), 0); err != nil {
				t.Fatal(err)
			}
			if err := f.Complete("last", func(w io.Writer) error {
				if names := list(t, folder); slices.Contains(names, "last") || modeOf(t, folder) != 0o700 {
					t.Errorf("before the end: %v, %o", names, modeOf(t, folder))
				}
				return text("all")(w)
			}); err != nil {
				t.Fatal(err)
			}
			if got := modeOf(t, folder); got != c.folder {
				t.Errorf("the folder has mode %o, want %o", got, c.folder)
			}
			for name, want := range map[string]string{"one": "123", "empty": "", "last": "all"} {
				got, err := os.ReadFile(f.Path(name))
				if err != nil || string(got) != want || modeOf(t, f.Path(name)) != 0o440 {
					t.Errorf("%s: %q, %v, mode %o", name, got, err, modeOf(t, f.Path(name)))
				}
			}
			if err := f.Remove(); err != nil {
				t.Fatal(err)
			}
			if names := list(t, dir); len(names) != 0 {
				t.Errorf("left: %v", names)
			}
		})
	}
}

// TestGroup has what is made belong to the directory's group, where the directory hands it on.
func TestGroup(t *testing.T) {
	group := 12345
	if os.Getuid() != 0 {
		groups, err := os.Getgroups()
		if err != nil {
			t.Fatal(err)
		}
		own := slices.IndexFunc(groups, func(g int) bool { return g != os.Getegid() })
		if own < 0 {
			t.Skip("this user is in one group only")
		}
		group = groups[own]
	}
	dir := directory(t, 0o750)
	if err := os.Chown(dir, -1, group); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o750|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	f := create(t, open(t, dir, time.Hour))
	defer f.Remove()
	if err := errors.Join(f.Write(t.Context(), "one", strings.NewReader("1"), 1), f.Complete("last", text("all"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(f.Path("one")), f.Path("one"), f.Path("last")} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Gid; int(got) != group {
			t.Errorf("%s belongs to group %d, want %d", path, got, group)
		}
	}
}

// TestLongest: what a store names, it sweeps, and time does not run over.
func TestLongest(t *testing.T) {
	for _, keep := range []time.Duration{-1, 0, time.Second, 24 * time.Hour, 1<<63 - 1} {
		f := create(t, open(t, directory(t, 0o750), keep))
		if !folderName.MatchString(f.name) {
			t.Errorf("%s: %s", keep, f.name)
		}
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
}

// TestFromFile copies from the middle of a file, as the spool's is read.
func TestFromFile(t *testing.T) {
	s := open(t, directory(t, 0o750), time.Hour)
	octets := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, octets, 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	f := create(t, s)
	defer f.Remove()
	for _, c := range []struct {
		name         string
		offset, size int64
	}{{"middle", 1001, 1 << 20}, {"start", 0, 10}, {"end", int64(len(octets)) - 7, 7}} {
		if _, err := source.Seek(c.offset, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(t.Context(), c.name, source, c.size); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Path(c.name)); err != nil || !bytes.Equal(got, octets[c.offset:c.offset+c.size]) {
			t.Errorf("%s: %d octets, %v", c.name, len(got), err)
		}
	}
	if err := f.Write(t.Context(), "beyond", source, 1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("beyond the end: %v", err)
	}
}

// narrowFile is a file on a disk that has room for so many octets only.
type narrowFile struct {
	File
	room *int
}

func (f narrowFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(len(p), *f.room)])
	*f.room -= n
	if err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: "file", Err: syscall.ENOSPC}
	}
	return n, err
}

func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	for _, c := range []struct {
		name string
		do   func(f *Folder) error
		want error
	}{
		{"the source breaks", func(f *Folder) error {
			return f.Write(t.Context(), "one", iotest.ErrReader(broken), 1)
		}, broken},
		{"nobody needs it", func(f *Folder) error {
			return f.Write(cancelled, "one", strings.NewReader("1"), 1)
		}, broken},
		{"the name is not new", func(f *Folder) error {
			return errors.Join(f.Write(t.Context(), "one", nil, 0), f.Write(t.Context(), "one", nil, 0))
		}, fs.ErrExist},
		{"the disk is full", func(f *Folder) error {
			return f.Write(t.Context(), "one", strings.NewReader(strings.Repeat("1", 100)), 100)
		}, syscall.ENOSPC},
		{"the disk is full at the end", func(f *Folder) error {
			return f.Complete("last", text(strings.Repeat("1", 100)))
		}, syscall.ENOSPC},
		{"the last one breaks", func(f *Folder) error {
			return f.Complete("last", func(io.Writer) error { return broken })
		}, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := directory(t, 0o750)
			s := open(t, dir, time.Hour)
			room := 99
			s.create = func(root *os.Root, name string) (File, error) {
				f, err := createFile(root, name)
				return narrowFile{f, &room}, err
			}
			f := create(t, s)
			if err := c.do(f); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if folder := filepath.Dir(f.Path("x")); modeOf(t, folder) != 0o700 {
				t.Errorf("others may look into it: %o", modeOf(t, folder))
			}
			if _, err := os.Lstat(f.Path("last")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the last file: %v", err)
			}
			if err := f.Remove(); err != nil || len(list(t, dir)) != 0 {
				t.Errorf("%v; left: %v", err, list(t, dir))
			}
		})
	}
}

func TestRefused(t *testing.T) {
	dir := directory(t, 0o750)
	for name, err := range map[string]error{
		"link":     os.Symlink(dir, filepath.Join(dir, "link")),
		"open":     errors.Join(os.Mkdir(filepath.Join(dir, "open"), 0o777), os.Chmod(filepath.Join(dir, "open"), 0o777)),
		"sticky":   errors.Join(os.Mkdir(filepath.Join(dir, "sticky"), 0o777), os.Chmod(filepath.Join(dir, "sticky"), 0o777|fs.ModeSticky)),
		"file":     os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		"in a row": os.MkdirAll(filepath.Join(dir, "below", "it"), 0o750),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ name, dir, want string }{
		{"relative", "below/it", "not absolute"},
		{"nothing", "", "not absolute"},
		{"absent", dir + "/absent", "it is not there"},
		{"a link", dir + "/link", "there is a symbolic link in it: write " + dir},
		{"beyond a link", dir + "/link/below/it", "there is a symbolic link in it: write " + dir + "/below/it"},
		{"for everybody", dir + "/open", "everybody may write to it (mode 0777)"},
		{"for everybody, sticky", dir + "/sticky", "everybody may write to it (mode 0777)"},
		{"a file", dir + "/file", "not a directory"},
		{"with a space", dir + "/a b", "be in ASCII"},
		{"with a line feed", dir + "/a\nX-Evil: b", "be in ASCII"},
		{"not ASCII", dir + "/väylä", "be in ASCII"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(c.dir, time.Hour, nil)
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestSweep starts on a directory with everything in it, and keeps what is somebody's.
func TestSweep(t *testing.T) {
	const random = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	dir, elsewhere := directory(t, 0o770), directory(t, 0o750)
	s := open(t, dir, time.Hour)
	complete := func() *Folder {
		f := create(t, s)
		if err := errors.Join(f.Write(t.Context(), "one", strings.NewReader("1"), 1), f.Complete("last", text("all"))); err != nil {
			t.Fatal(err)
		}
		return f
	}
	kept, expired, moved := complete(), complete(), complete()
	for _, f := range []*Folder{kept, expired} {
		if err := f.Keep(); err != nil {
			t.Fatal(err)
		}
	}
	age(t, filepath.Join(dir, expired.name), 61*time.Minute)
	age(t, filepath.Join(dir, kept.name), 59*time.Minute)
	late := complete() // kept after long work: the time counts from then
	age(t, filepath.Join(dir, late.name), 100*time.Hour)
	if err := late.Keep(); err != nil {
		t.Fatal(err)
	}
	used, made := complete(), create(t, s)
	age(t, filepath.Join(dir, used.name), 100*time.Hour)
	age(t, filepath.Join(dir, made.name), 100*time.Hour)
	crashed := create(t, s)
	crashed.close()
	age(t, filepath.Join(dir, crashed.name), 2*time.Minute)
	fresh := create(t, s)
	fresh.close()

	others := []string{"fairway", "fairway-3600s", "fairway-3600s-" + random[1:], "xfairway-3600s-" + random,
		"fairway-3600s-" + random + "x", "fairway--1s-" + random, "fairway-9999999999s-" + random, "fairway-3600-" + random, "other"}
	for _, name := range others {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		age(t, filepath.Join(dir, name), 10000*time.Hour)
	}
	precious := filepath.Join(elsewhere, "precious")
	link, file := "fairway-1s-"+random, "fairway-2s-"+random
	if err := errors.Join(
		os.WriteFile(precious, nil, 0o600),
		os.Symlink(elsewhere, filepath.Join(dir, link)),
		os.WriteFile(filepath.Join(dir, file), nil, 0o600),
		os.Rename(filepath.Join(dir, moved.name), filepath.Join(elsewhere, "taken")),
	); err != nil {
		t.Fatal(err)
	}
	age(t, filepath.Join(dir, file), 10000*time.Hour)
	age(t, elsewhere, 10000*time.Hour)

	// Another store, as after a reload, with another idea of how long to keep.
	open(t, dir, time.Second)
	want := append([]string{kept.name, late.name, used.name, made.name, fresh.name, link, file}, others...)
	got := list(t, dir)
	for _, name := range want {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("swept: %s", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if _, err := os.Lstat(precious); err != nil {
		t.Error(err)
	}

	// What was in use goes at its end, what was taken away stays with its taker.
	if err := errors.Join(used.Remove(), made.Remove(), moved.Remove()); err != nil {
		t.Error(err)
	}
	if got := list(t, filepath.Join(elsewhere, "taken")); len(got) != 3 {
		t.Errorf("taken: %v", got)
	}
}

// TestSweepOnAndOn has a kept folder go while the store is open.
func TestSweepOnAndOn(t *testing.T) {
	dir := directory(t, 0o750)
	s := open(t, dir, time.Second)
	f := create(t, s)
	if err := errors.Join(f.Complete("last", text("all")), f.Keep()); err != nil {
		t.Fatal(err)
	}
	age(t, filepath.Join(dir, f.name), time.Hour)
	for deadline := time.Now().Add(15 * time.Second); len(list(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", list(t, dir))
		}
	}
}

// TestLinkInTheWay: a symbolic link under the name of a file of ours is not followed.
func TestLinkInTheWay(t *testing.T) {
	s := open(t, directory(t, 0o770), time.Hour)
	f := create(t, s)
	defer f.Remove()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.Symlink(victim, f.Path("one")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), "one", strings.NewReader("1"), 1); err == nil {
		t.Error("written through a link")
	}
	if _, err := os.Lstat(victim); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
