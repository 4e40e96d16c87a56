// SPDX-License-Identifier: Apache-2.0

// Package spool writes once, reads often, and forgets.
//
// A message that must be verified before anybody sees it waits here: in memory while it is small, in one file when it
// grows. Nothing survives its Store, and nothing of a message ever becomes a file name.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrFull is wrapped by errors that say that the quota or the disk has no room left.
var ErrFull = errors.New("spool: full")

// Store makes entries. It is safe for concurrent use.
type Store interface {
	// Create returns a new, empty entry. ctx bounds the creation only.
	Create(ctx context.Context) (Entry, error)
	// Size returns the octets held by all entries now, those in memory included.
	Size() int64
	// Close removes what is left. Entries must not be used afterwards; they answer with an error that wraps
	// fs.ErrClosed, as Create does. It may be called again.
	Close() error
}

// Entry is a run of octets that is written first and then read any number of times.
// Its writer is not safe for concurrent use; readers are independent of each other, and Open, Size and Remove may be
// called while it is written.
type Entry interface {
	// Write appends. It returns an error that wraps ErrFull where there is no room; then nothing of p has been kept,
	// except where the disk itself ran full in the middle. An error is final: later writes return it again, so that
	// no entry ever has a hole.
	io.Writer
	// Open returns a reader of what has been written so far; octets written later may or may not be seen.
	// The reader of an entry that lies in a file is an *os.File, which io.Copy can hand to the kernel as a whole.
	// Close it before Remove: what a reader still holds open is not counted any more. A reader is for one goroutine,
	// but where it stands, Seek(0, io.SeekCurrent), may be asked by another meanwhile.
	Open() (io.ReadSeekCloser, error)
	// Size returns the octets written.
	Size() int64
	// Remove forgets the entry and frees its room. It may be called again, and readers that are still open read on.
	Remove() error
}

// Options configures OpenDisk. A zero field means its default.
type Options struct {
	Memory int64 // an entry up to this size stays in memory; default 64 KiB
	Quota  int64 // octets of all entries together, in memory or on disk; default no limit
	// Free is how many octets must stay free on the disk; default 0. The file system is asked at every new file and
	// every 16 MiB, so it may be undercut by about that much.
	Free int64
}

// defaultMemory is the default of Options.Memory.
const defaultMemory = 64 << 10

// NewMemory returns a Store in memory that holds at most limit octets in all.
func NewMemory(limit int64) Store {
	return newStore(math.MaxInt64, max(limit, 0))
}

// OpenDisk returns a Store that keeps small entries in memory and larger ones in one file each, below a locked
// subfolder of dir. Two live stores may share dir; each sweeps, when opened, the subfolders that nobody has locked:
// those of processes that did not end well. Where the system offers no locks (anything but Linux, macOS and FreeBSD)
// nothing is swept, and Options.Free is refused.
//
// dir is created with mode 0700 where it is missing; one that everybody may write to is refused. Files have mode 0600
// and random names.
func OpenDisk(dir string, o Options) (Store, error) {
	if o.Memory < 0 || o.Quota < 0 || o.Free < 0 {
		return nil, fmt.Errorf("spool: opening %s: a size is negative", dir)
	}
	if o.Free > 0 && !knowsFree {
		return nil, fmt.Errorf("spool: opening %s: this system does not tell how much is free: %w", dir, errors.ErrUnsupported)
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Quota == 0 {
		o.Quota = math.MaxInt64
	}
	f, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("spool: opening %s: %w", dir, full(err))
	}
	s := newStore(o.Memory, o.Quota)
	s.folder, s.floor = f, o.Free
	s.create, s.free = f.create, f.free
	return s, nil
}
