// SPDX-License-Identifier: Apache-2.0

// Package spool writes once, reads often, and forgets.
//
// A message that must be verified before anybody sees it waits here: in memory while it is small, in one file when it
// grows. Nothing survives its Store, and nothing of a message ever becomes a file name.
//
// Room is taken before it is promised: of the quota for every octet, on the disk in steps that grow with the file, or
// at once for whoever knows how much will come (Entry.Reserve). What is taken counts for all entries of the store, so
// that those in progress together never want more than there is. Small entries always find room: a part of it is
// theirs alone.
package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// ErrFull is wrapped by errors that say that the quota or the disk has no room left.
var ErrFull = errors.New("spool: full")

// noRoomError wraps ErrFull. How full the spool and its disk are is for the log alone.
type noRoomError struct {
	needed int64
	why    string
}

func (e *noRoomError) Error() string { return ErrFull.Error() + ": " + e.why }
func (e *noRoomError) Unwrap() error { return ErrFull }

// Public returns the words for other organisations.
func (e *noRoomError) Public() string {
	return fmt.Sprintf("the spool of this security server is full: there is no room for %d more octets now", e.needed)
}

// Store makes entries. It is safe for concurrent use.
type Store interface {
	// Create returns a new, empty entry. ctx bounds the creation only.
	Create(ctx context.Context) (Entry, error)
	// Room says whether an entry of n octets would find room now: if not, it returns an error that wraps ErrFull. It
	// takes none, so that whoever only announces what will come keeps nobody else out.
	Room(n int64) error
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
	// Reserve takes room for n more octets at once, so that writing them cannot end in ErrFull. Where there is none it
	// returns an error that wraps ErrFull, and the entry is as it was. Room that is reserved already counts: a second
	// call with the same n takes nothing.
	Reserve(n int64) error
	// Write appends. It returns an error that wraps ErrFull where there is no room. It takes all of p or nothing, and
	// an error is final: the entry is good for nothing but Remove then, so that none with a hole is ever read.
	io.Writer
	// Done says that all has been written. Room that was reserved and not used goes back. A file is written in pieces,
	// so it is Done, or Open before it, that says if the last one failed or if the disk lost one.
	Done() error
	// Open returns a reader of what has been written so far. One of an entry in a file also sees what is written later,
	// at once: from then on there are no pieces. One of an entry in memory does not.
	//
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
	// Quota is how many octets all entries may take together, in memory or on disk; default no limit. The last
	// sixteenth of it, at most 64 MiB, is for entries up to 1 MiB.
	Quota int64
	// Free is how many octets must stay free on the disk; default 1 GiB or a twentieth of the disk, whichever is less.
	// Entries of more than 1 MiB leave another 64 MiB, at most a sixteenth of it, to the smaller ones.
	Free int64
}

const (
	defaultMemory = 64 << 10 // of Options.Memory
	defaultFree   = 1 << 30  // of Options.Free, where that is less than a twentieth of the disk

	// small is the size up to which an entry may use the share that is kept back for small ones.
	small = 1 << 20
	// maxShare bounds that share, which is a sixteenth otherwise.
	maxShare = 64 << 20
)

// NewMemory returns a Store in memory that holds at most limit octets in all, in entries of any size.
func NewMemory(limit int64) Store {
	return newStore(math.MaxInt64, max(limit, 0))
}

// OpenDisk returns a Store that keeps small entries in memory and larger ones in one file each, below a locked
// subfolder of dir. Two live stores may share dir; each sweeps, when opened, the subfolders that nobody has locked:
// those of processes that did not end well. Where the system offers no locks (anything but Linux, macOS and FreeBSD)
// nothing is swept, and Options.Free is refused.
//
// dir is created with mode 0700 where it is missing; one that everybody may write to is refused. Files have mode 0600
// and random names. See OnMemory for a folder that is none of a disk.
//
// On Linux the head of a file, and with it every smaller one, is left to the page cache as long as all files together
// have no more there than a quarter of the memory. What goes beyond is written to the disk as it comes and dropped
// from the cache: a slow disk slows down those who fill it, and nobody else.
func OpenDisk(dir string, o Options) (Store, error) {
	if o.Memory < 0 || o.Quota < 0 || o.Free < 0 {
		return nil, fmt.Errorf("spool: opening %s: a size is negative", dir)
	}
	if o.Free > 0 && !knowsFree {
		return nil, fmt.Errorf("spool: opening %s: this system does not tell how much is free: %w", dir, errors.ErrUnsupported)
	}
	s, err := openDisk(dir, o)
	if err != nil {
		return nil, fmt.Errorf("spool: opening %s: %w", dir, full(err))
	}
	return s, nil
}

func openDisk(dir string, o Options) (*store, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Quota == 0 {
		o.Quota = math.MaxInt64
	}
	if o.Free == 0 && knowsFree {
		_, all, err := f.free()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		o.Free = min(defaultFree, all/20)
	}
	s := newStore(o.Memory, o.Quota)
	s.share = min(o.Quota/16, maxShare)
	s.disk = disk{floor: o.Free, share: min(o.Free/16, maxShare), free: f.free, create: f.create, allocates: !f.onMemory()}
	s.disk.closed.L = &s.disk.mu
	s.cache.limit = memory() / 4
	s.folder = f
	return s, nil
}

// OnMemory names the file system of dir if it lies in memory (tmpfs, ramfs), where a spool keeps nothing out of memory. It is
// empty for any other, and where the system does not tell.
func OnMemory(dir string) (fileSystem string) {
	f, err := os.Open(dir)
	if err != nil {
		return ""
	}
	defer f.Close()
	return onMemory(f)
}
