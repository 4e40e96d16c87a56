// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package evidence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

const (
	lockName    = "lock"
	nonBlocking = syscall.O_NONBLOCK // opening a pipe waits for nobody
)

// holdFolder takes the lock of a folder and returns what gives it back. The system gives it back when the process
// ends, however it ends. The file of the lock stays, and names its latest holder.
func holdFolder(root *os.Root) (release func() error, err error) {
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		holder, _ := io.ReadAll(io.LimitReader(f, 100))
		return nil, fmt.Errorf("process %s writes to it; one at a time may: %w", strings.TrimSpace(string(holder)), err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintln(f, os.Getpid())
	}
	return f.Close, nil
}

func flock(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); failed != syscall.EINTR {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// syncFolder makes the names in a folder durable.
func syncFolder(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func worldWritable(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }
