// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Supported tells whether the system has such locks.
const Supported = true

// Try takes the lock of an open file, without waiting, and reports whether nobody else had it. Where locks are not
// Supported the error is errors.ErrUnsupported.
func Try(f *os.File) (bool, error) {
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
