// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd)

package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	lockName    = "lock"
	nonBlocking = 0
)

// holdFolder makes a file that only one can make, and returns what removes it. After a crash somebody must remove it
// by hand: refusing is safer than two who write.
func holdFolder(root *os.Root) (release func() error, err error) {
	f, err := root.OpenFile(lockName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("another process writes to it, or crashed and left the file %q, which may then be removed: %w", lockName, err)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	return func() error { return root.Remove(lockName) }, nil
}

// syncFolder has nothing to do: this system offers no way to.
func syncFolder(*os.Root, string) error { return nil }

// worldWritable cannot tell: the mode bits say nothing about access lists.
func worldWritable(fs.FileInfo) bool { return false }
