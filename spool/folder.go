// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/caddy-fairway/fairway/internal/filelock"
)

// folder is the subfolder of one store. Its name, fairway-<pid>-<random>, is owned by whoever holds the lock on the
// file beside it, fairway-<pid>-<random>.lock:
//
//	open:   create the lock file, lock it, see that it is still there; make the subfolder
//	sweep:  open a lock file, lock it (somebody alive? leave it); remove the subfolder, then the lock file
//	close:  remove the subfolder, then the lock file, then unlock
//
// A sweeper that comes between creating and locking takes the lock file away, and the opener tries another name.
// So there is no subfolder without its lock file, and none that is in use and not locked. All paths are relative to
// open folders (os.Root), which neither follow a symbolic link out of them nor care if their own path changes.
type folder struct {
	parent *os.Root
	root   *os.Root
	name   string
	lock   *os.File
}

const lockSuffix = ".lock"

// lockName is what the sweep looks at; everything else in the folder is somebody else's.
var lockName = regexp.MustCompile(`^fairway-[0-9]+-[A-Z2-7]{26}\.lock$`)

func openFolder(dir string) (_ *folder, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f := new(folder)
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if f.parent, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	info, err := f.parent.Stat(".")
	if err != nil {
		return nil, err
	}
	if worldWritable(info) {
		return nil, fmt.Errorf("everybody may write to it (mode %04o)", info.Mode().Perm())
	}
	if err := sweep(f.parent); err != nil {
		return nil, err
	}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	if err := f.parent.Mkdir(f.name, 0o700); err != nil {
		return nil, err
	}
	f.root, err = f.parent.OpenRoot(f.name)
	return f, err
}

// acquire finds a name and locks it.
func (f *folder) acquire() error {
	for range 100 {
		name := fmt.Sprintf("fairway-%d-%s", os.Getpid(), rand.Text())
		lock, err := f.parent.OpenFile(name+lockSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		locked, err := tryLock(lock)
		if err != nil {
			lock.Close()
			f.parent.Remove(name + lockSuffix)
			return fmt.Errorf("locking %s: %w", lock.Name(), err)
		}
		if locked && isAt(f.parent, name+lockSuffix, lock) {
			f.name, f.lock = name, lock
			return nil
		}
		lock.Close() // a sweeper took it in between
	}
	return errors.New("no lock file stays: something else removes them")
}

// tryLock takes the lock of a file where there are locks. Elsewhere none is taken and therefore none judged: a name is
// random, so nobody else uses it, and nothing is swept.
func tryLock(f *os.File) (bool, error) {
	if !filelock.Supported {
		return true, nil
	}
	return filelock.Try(f)
}

func isAt(root *os.Root, name string, f *os.File) bool {
	there, err := root.Lstat(name)
	if err != nil {
		return false
	}
	ours, err := f.Stat()
	return err == nil && os.SameFile(there, ours)
}

// sweep removes the subfolders that nobody holds. What it may not or cannot remove stays for the next one.
func sweep(parent *os.Root) error {
	if !filelock.Supported {
		return nil
	}
	entries, err := fs.ReadDir(parent.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !lockName.MatchString(e.Name()) {
			continue
		}
		lock, err := parent.OpenFile(e.Name(), os.O_RDWR, 0)
		if err != nil {
			continue // gone meanwhile, or of another user
		}
		if locked, err := filelock.Try(lock); locked && err == nil {
			if parent.RemoveAll(strings.TrimSuffix(e.Name(), lockSuffix)) == nil {
				parent.Remove(e.Name())
			}
		}
		lock.Close()
	}
	return nil
}

// create makes a file for writing. The name must be ours and new.
func (f *folder) create(name string) (diskFile, error) {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	return systemFile{file}, nil
}

func (f *folder) open(name string) (*os.File, error) {
	return f.root.OpenFile(name, os.O_RDONLY|noFollow, 0)
}

func (f *folder) remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *folder) free() (free, all int64, err error) { return freeOf(f.lock) }

func (f *folder) onMemory() bool { return onMemory(f.lock) != "" }

// close removes the subfolder and gives back its name. It also undoes an openFolder that failed on its way.
func (f *folder) close() error {
	if f.parent == nil {
		return nil
	}
	var errs []error
	if f.root != nil {
		errs = append(errs, f.root.Close())
	}
	if f.lock != nil {
		errs = append(errs, f.parent.RemoveAll(f.name), f.parent.Remove(f.name+lockSuffix), f.lock.Close())
	}
	errs = append(errs, f.parent.Close())
	return errors.Join(errs...)
}
