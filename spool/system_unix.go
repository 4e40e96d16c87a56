// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package spool

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	knowsFree   = true
	removesOpen = true // a file that is open can be removed
	noFollow    = syscall.O_NOFOLLOW
)

// freeOf returns the octets that an ordinary user may still write to the file system of f, and those of all of it.
func freeOf(f *os.File) (free, all int64, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var st syscall.Statfs_t
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fstatfs(int(fd), &st); failed != syscall.EINTR {
				return
			}
		}
	})
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), errors.Join(err, failed)
}

func worldWritable(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }

func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
