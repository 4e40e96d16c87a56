// SPDX-License-Identifier: Apache-2.0

package spool

import "time"

// These bound how much of a file is on its way to the disk at a time. Less than the least is not to be dropped from the page
// cache, where the system has put it into large pages, and is hardly worth a system call.
const (
	minWindow = 1 << 20
	maxWindow = 8 << 20
)

// patience is how long what is left to the system is left alone. After half a minute Linux begins to write it, all that there is,
// and then whoever else needs the disk, as evidence does, waits until that is done. So before that it is written steadily, two
// small steps for each that comes; unless a step takes the disk longer than tooSlow, for nobody should wait for what need not
// be written at all.
const (
	patience   = 10 * time.Second
	steadyStep = 1 << 20
	tooSlow    = time.Second / 4
)

// cache is how much of a store's files may be in the page cache.
//
// Of each file the head: reading begins there, so the head is what saves reading from the disk. Half of the limit is
// left to the system, which may never write it, for a file that is removed soon is forgotten before; a quarter of the
// memory would be too much for that: where some 15 % of it wait to be written, Linux slows down everybody who writes.
// The other half is written as it comes, and stays. What goes beyond is written as it comes and dropped, at most two
// windows behind: so the disk slows down the sender.
//
// Where the limit is low, as in a small container, so is the window: what waits for the disk there is written steadily, or
// whoever writes stands still while the memory is full of it, and with him the line.
type cache struct {
	limit int64
	left  account // octets left to the system
	kept  account // octets written and kept
}

// window is how much of a file is on its way to the disk at a time.
func (c *cache) window() int64 { return min(max(c.limit/8, minWindow), maxWindow) }

// cached is the part that one file has in it: from its beginning left octets are left to the system, further ones up
// to kept are written and kept, and those up to gone are written and dropped.
type cached struct {
	*cache
	seen    int64 // the file's size
	left    int64
	kept    int64
	started int64 // up to here the file is on its way to the disk, or left
	gone    int64 // up to here it has arrived, or is left

	begun         time.Time
	slow          bool  // the disk does not keep up
	looked        int64 // the size when that was last looked at
	sent, arrived int64 // up to here what is left to the system is on its way all the same, and has arrived
}

// wrote is told that the file has grown to size.
func (c *cached) wrote(f diskFile, size int64) error {
	n := size - c.seen
	if c.left == c.seen && c.cache.left.take(n, c.limit/2) {
		c.seen, c.left, c.kept, c.started, c.gone = size, size, size, size, size
		return c.steadily(f)
	}
	if c.kept == c.seen && c.cache.kept.take(n, c.limit-c.limit/2) {
		c.kept = size
	}
	c.seen = size
	window := c.window()
	if size-c.started < window {
		return nil
	}
	if err := f.flush(c.started, size-c.started); err != nil {
		return err
	}
	c.started = size
	behind := size - 2*window
	if behind <= c.gone {
		return nil
	}
	if err := f.settle(c.gone, behind-c.gone); err != nil {
		return err
	}
	if from := max(c.gone, c.kept); from < behind {
		f.drop(from, behind-from)
	}
	c.gone = behind
	return nil
}

// steadily writes a step of what has been left to the system for long.
func (c *cached) steadily(f diskFile) error {
	step := min(c.left-c.sent, 2*steadyStep)
	if c.slow || step < steadyStep || c.left-c.looked < steadyStep {
		return nil
	}
	c.looked = c.left
	now := time.Now()
	if now.Sub(c.begun) < patience {
		return nil
	}
	if c.sent > c.arrived { // for the system a length of 0 is all there is
		if err := f.settle(c.arrived, c.sent-c.arrived); err != nil {
			return err
		}
		c.arrived = c.sent
	}
	if err := f.flush(c.sent, step); err != nil {
		return err
	}
	c.sent += step
	c.slow = time.Since(now) > tooSlow
	return nil
}

// forget gives back what the file had.
func (c *cached) forget() {
	c.cache.left.give(c.left)
	c.cache.kept.give(c.kept - c.left)
	c.left, c.kept = 0, 0
}
