// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// childOf names, in the environment of a child process of these tests, the folder it shall open.
const childOf = "SPOOL_TEST_CHILD_OF"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childOf); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child opens a store, leaves something in it, says so, and waits to be killed.
func child(dir string) {
	s, err := OpenDisk(dir, Options{Memory: 1})
	if err == nil {
		var e Entry
		if e, err = s.Create(context.Background()); err == nil {
			if err = e.Reserve(8 << 20); err == nil {
				_, err = e.Write(make([]byte, 2<<20))
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

func startChild(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childOf+"="+dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); c.Process.Kill(); c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return c
}

// What a killed process leaves is swept by the next one that opens; what a living one holds is not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	dead, alive := startChild(t, dir), startChild(t, dir)
	open(t, dir, Options{}).Close()
	if n := len(subfolders(t, dir)); n != 2 {
		t.Fatalf("%d subfolders, want those of the two living", n)
	}
	dead.Process.Kill()
	dead.Wait()
	s := open(t, dir, Options{})
	left := subfolders(t, dir)
	if len(left) != 2 {
		t.Errorf("subfolders %q, want that of the living and our own", left)
	}
	for _, name := range left {
		if strings.HasPrefix(name, fmt.Sprintf("fairway-%d-", dead.Process.Pid)) {
			t.Errorf("%s of the dead is still there", name)
		}
	}
	s.Close()
	alive.Process.Kill()
	alive.Wait()
	open(t, dir, Options{}).Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A process that died between its steps leaves a lock file alone, or half a removal.
func TestSweepOfHalfASubfolder(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "fairway-1-"+strings.Repeat("A", 26))
	if err := os.WriteFile(name+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{}).Close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Stores that open and close at once in one folder never take each other's subfolder.
func TestSweepWhileOthersOpen(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 30 {
				s, err := OpenDisk(dir, Options{Memory: 1})
				if err != nil {
					t.Error(err)
					return
				}
				e, err := s.Create(t.Context())
				if err == nil {
					_, err = e.Write(make([]byte, 100))
				}
				if err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Whatever the umask, nobody else can read.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "spool")
	s := open(t, dir, Options{Memory: 1})
	if _, err := create(t, s).Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n != 4 {
		t.Errorf("%d files and folders, want the folder, the lock, the subfolder and the entry", n)
	}
}

func TestWorldWritableFolder(t *testing.T) {
	for _, mode := range []fs.FileMode{0o777, 0o702, 0o777 | fs.ModeSticky} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenDisk(dir, Options{}); err == nil {
			s.Close()
			t.Errorf("mode %v is accepted", mode)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestReadOnlyFolder(t *testing.T) {
	asOrdinaryUser(t)
	dir := t.TempDir()
	s := open(t, dir, Options{Memory: 10})
	if err := os.Chmod(filepath.Join(dir, s.folder.name), 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(dir, s.folder.name), 0o700)
	if _, err := create(t, s).Write(make([]byte, 11)); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrFull) {
		t.Errorf("Write: %v, want a refusal", err)
	}
	if _, err := create(t, s).Write(make([]byte, 10)); err != nil {
		t.Errorf("what fits into memory needs no disk: %v", err)
	}

	readOnly := t.TempDir()
	if err := os.Chmod(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(readOnly, 0o700)
	if s, err := OpenDisk(readOnly, Options{}); !errors.Is(err, fs.ErrPermission) {
		if err == nil {
			s.Close()
		}
		t.Errorf("OpenDisk: %v, want a refusal", err)
	}
}

func subfolders(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}
