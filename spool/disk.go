// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// disk gives out the room on the disk, so that what all files of a store have been promised fits above the floor.
type disk struct {
	floor     int64 // octets that must stay free; 0: none, nothing is asked
	share     int64 // octets above it, for small entries
	allocates bool  // whether allocating room is worth trying
	free      func() (free, all int64, err error)
	create    func(name string) (diskFile, error)

	mu       sync.Mutex
	promised int64 // octets that have a promise of room and are neither allocated nor written
	closing  int   // removed files whose room the system is still taking back
	closed   sync.Cond
}

// diskFile is what an entry asks of its file. Where the system cannot do one of the lower-case things, doing nothing
// is right.
type diskFile interface {
	io.WriteCloser
	Truncate(size int64) error
	// allocate takes n octets of the disk for what will be written from offset on. It wraps errors.ErrUnsupported
	// where the file system has no such thing.
	allocate(offset, n int64) error
	// flush starts writing n octets from offset on to the disk.
	flush(offset, n int64) error
	// settle waits until they are written. It returns an error also if any other part of the file was lost.
	settle(offset, n int64) error
	// drop takes n octets from offset on out of the page cache; they must have been written.
	drop(offset, n int64)
}

// promise promises room for n more octets, or none.
func (d *disk) promise(n int64, large bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.has(n, large); err != nil {
		return err
	}
	d.promised += n
	return nil
}

// room says whether n more octets could be promised.
func (d *disk) room(n int64, large bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.has(n, large)
}

// has is room, for who holds mu. It waits for what the system is taking back.
func (d *disk) has(n int64, large bool) error {
	if d.floor == 0 {
		return nil
	}
	floor := d.floor
	if large {
		floor += d.share
	}
	for {
		free, _, err := d.free()
		if err != nil {
			return fmt.Errorf("spool: asking how much is free: %w", err)
		}
		if n <= free-d.promised-floor {
			return nil
		}
		if d.closing == 0 {
			return &noRoomError{n, fmt.Sprintf("the disk has %d octets free, %d of them for others and %d to be kept free, and %d more are needed (setting: free of the spool)",
				free, d.promised, floor, n)}
		}
		d.closed.Wait()
	}
}

// release closes a removed file, whose octets nobody needs, on a goroutine of its own.
func (d *disk) release(f diskFile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing++
	go func() {
		f.Close()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.closing--
		d.closed.Broadcast()
	}()
}

// settled waits until every file that was released is closed.
func (d *disk) settled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.closing > 0 {
		d.closed.Wait()
	}
}

// keep takes back promises that have been kept or are not needed.
func (d *disk) keep(n int64) {
	d.mu.Lock()
	d.promised -= n
	d.mu.Unlock()
}

// allocate turns a promise of n octets into room that is the file's, from offset on. It says whether it did.
func (d *disk) allocate(f diskFile, offset, n int64) (bool, error) {
	err := f.allocate(offset, n)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	d.keep(n)
	if err != nil {
		return false, fmt.Errorf("spool: taking room on the disk: %w", full(err))
	}
	return true, nil
}
