// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd)

package spool

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	knowsFree   = false
	removesOpen = false
	noFollow    = 0 // os.Root follows no link out of the folder
)

func freeOf(*os.File) (free, all int64, err error) { return 0, 0, errors.ErrUnsupported }

// worldWritable cannot tell: the mode bits say nothing about access lists.
func worldWritable(fs.FileInfo) bool { return false }

// diskFull is Windows' ERROR_DISK_FULL.
const diskFull = syscall.Errno(112)

func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, diskFull) }
