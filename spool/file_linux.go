// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// systemFile is a diskFile of the system.
type systemFile struct{ *os.File }

func (f systemFile) allocate(offset, n int64) error {
	err := control(f.File, func(fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, offset, n) })
	if cannot(err) {
		return errors.ErrUnsupported
	}
	return err
}

func (f systemFile) flush(offset, n int64) error {
	return f.syncRange(offset, n, unix.SYNC_FILE_RANGE_WRITE)
}

func (f systemFile) settle(offset, n int64) error {
	return f.syncRange(offset, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE)
}

func (f systemFile) syncRange(offset, n int64, flags int) error {
	err := control(f.File, func(fd int) error { return unix.SyncFileRange(fd, offset, n, flags) })
	if cannot(err) {
		return nil
	}
	return err
}

func (f systemFile) drop(offset, n int64) { advise(f.File, offset, n, unix.FADV_DONTNEED) }

// sequential lets the system read further ahead.
func sequential(f *os.File) { advise(f, 0, 0, unix.FADV_SEQUENTIAL) }

func advise(f *os.File, offset, n int64, advice int) {
	control(f, func(fd int) error { return unix.Fadvise(fd, offset, n, advice) }) // it is only advice
}

// control calls do with the descriptor of f until no signal interrupts it.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = do(int(fd)); failed != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// cannot says whether a file system, or the fence around a container, has no such call.
func cannot(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)
}

func onMemory(f *os.File) string {
	var st unix.Statfs_t
	if err := control(f, func(fd int) error { return unix.Fstatfs(fd, &st) }); err != nil {
		return ""
	}
	switch uint32(st.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	}
	return ""
}

// memory returns how much of it this process may use: no more than the machine can give now, and no more than Go's
// memory limit, which Caddy sets to that of the container.
func memory() int64 {
	limit := debug.SetMemoryLimit(-1)
	f, err := os.Open("/proc/meminfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var available int64
			if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &available); n == 1 {
				return min(limit, available<<10)
			}
		}
	}
	if limit == math.MaxInt64 {
		return 0
	}
	return limit
}
