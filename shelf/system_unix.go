// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package shelf

import (
	"errors"
	"os"
	"syscall"
)

const supported = true

// tryLock takes the lock of an open file, without waiting. The system gives it back when the process ends, however
// it ends.
func tryLock(f *os.File) (bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); failed != syscall.EINTR {
				return
			}
		}
	})
	if failed == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil && failed == nil, errors.Join(err, failed)
}
