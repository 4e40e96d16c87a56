// SPDX-License-Identifier: Apache-2.0

// Package spool writes once, reads often, and forgets.
package spool

import (
	"context"
	"errors"
	"io"
)

// ErrFull is wrapped by errors that say that the quota or the disk has no room left.
var ErrFull = errors.New("spool: full")

// Store makes entries. It is safe for concurrent use.
type Store interface {
	// Create returns a new, empty entry. ctx bounds the creation only.
	Create(ctx context.Context) (Entry, error)
	// Size returns the octets held by all entries now.
	Size() int64
	// Close removes what is left. Entries must not be used afterwards.
	Close() error
}

// Entry is a run of octets that is written first and then read any number of times.
// Its writer is not safe for concurrent use; readers are independent of each other.
type Entry interface {
	// Write appends. It returns an error that wraps ErrFull where there is no room.
	io.Writer
	// Open returns a reader of what has been written so far. Close it before Remove.
	Open() (io.ReadSeekCloser, error)
	// Size returns the octets written.
	Size() int64
	// Remove forgets the entry and frees its room. It may be called again.
	Remove() error
}

// Options configures OpenDisk. A zero field means its default.
type Options struct {
	Memory int64 // an entry up to this size stays in memory; default 64 KiB
	Quota  int64 // octets of all entries together; default no limit
	Free   int64 // octets that must stay free on the disk; default 0
}

// NewMemory returns a Store in memory that holds at most limit octets in all.
func NewMemory(limit int64) Store { panic("stub") }

// OpenDisk returns a Store that keeps small entries in memory and larger ones in one file each, below a locked
// subfolder of dir. Two live stores may share dir; each sweeps only subfolders that nobody has locked.
func OpenDisk(dir string, o Options) (Store, error) { panic("stub") }
