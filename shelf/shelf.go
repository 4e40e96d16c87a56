// SPDX-License-Identifier: Apache-2.0

// Package shelf puts files where another program of this machine reads them, complete or not at all, and takes them away
// again.
//
// The files of one purpose lie in a folder of their own, which nobody else can look into before it is complete. A folder
// ends when it is removed or, where it is to be kept, a time after that was said, and after a crash at the latest then.
package shelf

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/internal/filelock"
)

// Store is a shelf: a directory of somebody else's, in which folders come and go. It is safe for concurrent use.
type Store struct {
	dir    string
	keep   time.Duration
	parent *os.Root
	mode   fs.FileMode // of complete folders
	create func(root *os.Root, name string) (File, error)
	report func(error)
	stop   chan struct{}
	swept  sync.WaitGroup
}

// File is what a Folder writes a file with. An *os.File is one.
type File interface {
	io.WriteCloser
	Chmod(fs.FileMode) error
}

// Modes of what others may read, by their group. Where the group may write in the directory, it may in folders, too:
// it may move files away, or remove them.
const (
	fileMode   = 0o440
	folderMode = 0o750
	groupWrite = 0o020
	unfinished = 0o700
)

// longest is the longest time that a name can say.
const longest = 999_999_999 * time.Second

// sweepEvery bounds how late a folder goes whose time has come.
const sweepEvery = 10 * time.Minute

// abandoned is the age of an unfinished folder that nobody is making any more.
const abandoned = time.Minute

// lockName is the file in a folder that is locked while its maker is alive and has not let go of it.
const lockName = ".lock"

// folderName is what the sweep looks at: fairway-<seconds to keep>s-<random>. All else is somebody else's.
var folderName = regexp.MustCompile(`^fairway-([0-9]{1,9})s-[A-Z2-7]{26}$`)

// Open opens the shelf in dir, which must be there, by an absolute path without symbolic links, and not writable for
// everybody. Folders that are kept stay for keep, a second at least. Those of earlier processes go when their time has
// come, which is in their names. report is told what cannot be removed; it may be nil.
func Open(dir string, keep time.Duration, report func(error)) (*Store, error) {
	s := &Store{dir: filepath.Clean(dir), keep: min(max(keep, time.Second), longest), create: createFile, report: report, stop: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, err)
	}
	s.sweep()
	s.swept.Go(s.sweepOnAndOn)
	return s, nil
}

func (s *Store) open() (err error) {
	if !filelock.Supported { // nothing could be swept safely, nor shown to one group only
		return errors.New("files for other programs need a Unix system")
	}
	if err := CheckPath(s.dir); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("it is not there: make it, readable for the group of the program that takes files from it")
	case err != nil:
		return err
	case real != s.dir:
		return fmt.Errorf("there is a symbolic link in it: write %s", real)
	}
	if s.parent, err = os.OpenRoot(s.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.parent.Close()
		}
	}()
	info, err := s.parent.Stat(".")
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("everybody may write to it (mode %04o)", info.Mode().Perm())
	}
	s.mode = folderMode | info.Mode().Perm()&groupWrite
	return nil
}

// CheckPath returns an error for a dir that cannot be that of a Store, whatever the file system says: paths in it are
// told to others, in a header.
func CheckPath(dir string) error {
	if !strings.HasPrefix(dir, "/") {
		return errors.New("the path is not absolute: begin it with /")
	}
	if strings.ContainsFunc(dir, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the path must be in ASCII, without spaces")
	}
	return nil
}

// Close ends the sweeping. Folders that are not removed stay for the sweep of another store.
func (s *Store) Close() error {
	close(s.stop)
	s.swept.Wait()
	return s.parent.Close()
}

// Folder is a folder of files on its way to another program. It is not safe for concurrent use.
type Folder struct {
	store *Store
	name  string
	root  *os.Root
	lock  *os.File
}

// Create makes an empty folder with a name that nobody can guess. Its owner must call Remove or Keep.
func (s *Store) Create() (_ *Folder, err error) {
	f := &Folder{store: s, name: fmt.Sprintf("fairway-%ds-%s", int64(s.keep.Seconds()), rand.Text())}
	if err := s.parent.Mkdir(f.name, unfinished); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Remove()
		}
	}()
	if f.root, err = s.parent.OpenRoot(f.name); err != nil {
		return nil, err
	}
	if f.lock, err = f.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	locked, err := filelock.Try(f.lock)
	if err == nil && !locked {
		err = errors.New("somebody else has it")
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", f.lock.Name(), err)
	}
	return f, nil
}

// Path returns the absolute path of a file in the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.store.dir, f.name, name) }

// step is how much of a file is written before anybody asks whether it is still needed.
const step = 64 << 20

// Write makes a file of the next n octets of r: where r is an *os.File the kernel copies, or shares, them. The name must
// be ours, and new.
func (f *Folder) Write(ctx context.Context, name string, r io.Reader, n int64) error {
	return f.write(name, func(w io.Writer) error {
		for n > 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			copied, err := io.CopyN(w, r, min(n, step))
			if n -= copied; err == io.EOF {
				return io.ErrUnexpectedEOF
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *Folder) write(name string, content func(io.Writer) error) (err error) {
	file, err := f.store.create(f.root, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := content(file); err != nil {
		return err
	}
	return file.Chmod(fileMode)
}

// Complete makes the last file, which is there as a whole or not at all, and shows the folder to the directory's group.
func (f *Folder) Complete(name string, content func(io.Writer) error) error {
	const fresh = ".last"
	if err := f.write(fresh, func(w io.Writer) error {
		buffered := bufio.NewWriter(w)
		if err := content(buffered); err != nil {
			return err
		}
		return buffered.Flush()
	}); err != nil {
		return err
	}
	if err := f.root.Rename(fresh, name); err != nil {
		return err
	}
	self, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	return self.Chmod(f.store.mode)
}

// Keep lets go of a complete folder: it stays for the time of its store.
func (f *Folder) Keep() error {
	now := time.Now()
	err := f.root.Chtimes(".", now, now)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // it was taken away
	}
	return errors.Join(err, f.close())
}

// Remove removes the folder with all that is in it.
func (f *Folder) Remove() error {
	return errors.Join(f.store.parent.RemoveAll(f.name), f.close())
}

func (f *Folder) close() (err error) {
	if f.lock != nil {
		err = f.lock.Close()
	}
	if f.root != nil {
		err = errors.Join(err, f.root.Close())
	}
	return err
}

func createFile(root *os.Root, name string) (File, error) {
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (s *Store) sweepOnAndOn() {
	tick := time.NewTicker(max(time.Second, min(s.keep/8, sweepEvery)))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sweep()
		case <-s.stop:
			return
		}
	}
}

// sweep removes the folders whose time has come and that nobody holds. What it cannot remove stays for the next one.
func (s *Store) sweep() {
	entries, err := fs.ReadDir(s.parent.FS(), ".")
	s.tell(err)
	for _, e := range entries {
		if match := folderName.FindStringSubmatch(e.Name()); match != nil && e.IsDir() {
			seconds, _ := strconv.Atoi(match[1])
			s.tell(s.sweepFolder(e.Name(), time.Duration(seconds)*time.Second))
		}
	}
}

func (s *Store) tell(err error) {
	if err != nil && s.report != nil {
		s.report(fmt.Errorf("sweeping %s: %w", s.dir, err))
	}
}

func (s *Store) sweepFolder(name string, keep time.Duration) error {
	info, err := s.parent.Lstat(name)
	if err != nil {
		return unlessGone(err)
	}
	if info.Mode().Perm() == unfinished {
		keep = abandoned
	}
	if time.Since(info.ModTime()) < keep {
		return nil
	}
	lock, err := s.parent.OpenFile(filepath.Join(name, lockName), os.O_RDWR, 0)
	switch {
	case err == nil:
		defer lock.Close()
		if locked, err := filelock.Try(lock); err != nil || !locked {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.parent.RemoveAll(name)
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
