// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// pieceSize is in how large pieces a file is written. Records of TLS are of 16 KiB, and for a file system every
	// write costs: see BenchmarkWrite.
	pieceSize = 256 << 10
	// maxStep is how much more room than is needed a file takes at a time.
	maxStep = 64 << 20
)

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// file is the file of one entry, written in pieces. Its entry locks it.
type file struct {
	store *store
	disk  diskFile
	name  string

	piece    *[pieceSize]byte // what comes next; nil while empty
	filled   int64            // octets in piece
	shown    bool             // there are readers, who want to see everything at once
	size     int64            // octets in the file
	room     int64            // octets that have room on the disk
	promised int64            // those of them that have only a promise
	excess   bool             // the file may hold more room than octets
	cached   cached
}

// create makes a file that begins with head and has room for n more octets.
func (s *store) create(head []byte, n int64) (*file, error) {
	f := &file{store: s, name: rand.Text()}
	f.cached.cache, f.cached.begun = &s.cache, time.Now()
	var err error
	if f.disk, err = s.disk.create(f.name); err != nil {
		return nil, fmt.Errorf("spool: creating a file: %w", full(err))
	}
	if err = f.makeRoom(int64(len(head)) + n); err == nil {
		err = f.write(head)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// makeRoom sees to room for n more octets, and for as many again as there are, if they are to be had.
func (f *file) makeRoom(n int64) error {
	missing := n - (f.room - f.size - f.filled)
	if missing <= 0 {
		return nil
	}
	if step := min(f.room, maxStep); step > missing && f.take(step) == nil {
		return nil
	}
	return f.take(missing)
}

// take takes n octets of the disk. Small files live on promises, for they are gone before the file system knows
// where it would put them.
func (f *file) take(n int64) error {
	d := &f.store.disk
	large := n > small-f.room
	if err := d.promise(n, large); err != nil {
		return err
	}
	allocated := false
	if large && d.allocates {
		f.excess = true // also what failed half-way
		var err error
		if allocated, err = d.allocate(f.disk, f.room, n); err != nil {
			return err
		}
	}
	if !allocated {
		f.promised += n
	}
	f.room += n
	return nil
}

// write appends what has room.
func (f *file) write(p []byte) error {
	for len(p) > 0 {
		if f.piece == nil && (f.shown || len(p) >= pieceSize) {
			return f.put(p)
		}
		if f.piece == nil {
			f.piece = pieces.Get().(*[pieceSize]byte)
		}
		n := copy(f.piece[f.filled:], p)
		p, f.filled = p[n:], f.filled+int64(n)
		if f.filled < pieceSize {
			return nil
		}
		if err := f.putPiece(); err != nil {
			return err
		}
	}
	return nil
}

func (f *file) putPiece() error {
	if f.piece == nil {
		return nil
	}
	err := f.put(f.piece[:f.filled])
	pieces.Put(f.piece)
	f.piece, f.filled = nil, 0
	return err
}

func (f *file) put(p []byte) error {
	n, err := f.disk.Write(p)
	f.size += int64(n)
	kept := min(f.promised, int64(n))
	f.promised -= kept
	f.store.disk.keep(kept)
	if err != nil {
		return fmt.Errorf("spool: writing: %w", full(err))
	}
	if err := f.cached.wrote(f.disk, f.size); err != nil {
		return fmt.Errorf("spool: writing to the disk: %w", full(err))
	}
	return nil
}

// show writes what is not written yet, sees that nothing was lost, and lets readers see from now on.
func (f *file) show() error {
	f.shown = true
	if err := f.putPiece(); err != nil {
		return err
	}
	if err := f.disk.settle(0, 1); err != nil {
		return fmt.Errorf("spool: writing to the disk: %w", full(err))
	}
	return nil
}

// finish is show for what will not grow any more: it gives back the room that was not needed.
func (f *file) finish() error {
	if err := f.show(); err != nil {
		return err
	}
	if f.excess && f.room > f.size {
		if err := f.disk.Truncate(f.size); err != nil {
			return fmt.Errorf("spool: giving back room: %w", err)
		}
	}
	f.store.disk.keep(f.promised)
	f.promised, f.room, f.excess = 0, f.size, false
	return nil
}

func (f *file) open() (*os.File, error) {
	r, err := f.store.folder.open(f.name)
	if err != nil {
		return nil, fmt.Errorf("spool: opening a file: %w", err)
	}
	if f.cached.gone > f.cached.kept {
		sequential(r) // what was dropped is read from the disk, one octet after the other
	}
	return r, nil
}

func (f *file) remove() error {
	if f.piece != nil {
		pieces.Put(f.piece)
		f.piece = nil
	}
	f.store.disk.keep(f.promised)
	f.cached.forget()
	f.promised = 0
	if removesOpen && f.size > small {
		defer f.store.disk.release(f.disk) // the system takes its time to give back a large file: 0.1 s for 1 GiB
	} else {
		f.disk.Close() // nobody needs what it could not write
	}
	if err := f.store.folder.remove(f.name); err != nil {
		return fmt.Errorf("spool: removing a file: %w", err)
	}
	return nil
}
