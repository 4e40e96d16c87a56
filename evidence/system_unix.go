// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package evidence

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/caddy-fairway/fairway/internal/filelock"
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
	locked, err := filelock.Try(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	if !locked {
		defer f.Close()
		holder, _ := io.ReadAll(io.LimitReader(f, 100))
		return nil, fmt.Errorf("process %s writes to it; one at a time may: %w", strings.TrimSpace(string(holder)), syscall.EWOULDBLOCK)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintln(f, os.Getpid())
	}
	return f.Close, nil
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
