// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"os"
	"syscall"
)

// syncData makes the octets of a file durable, and of what the file system notes about it only what finds them: the
// time of the last change alone would cost another write with each commit.
func syncData(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			failed = syscall.Fdatasync(int(fd))
		}
	})
	if err != nil {
		return err
	}
	if failed != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: failed}
	}
	return nil
}
