// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// commits makes records durable, all those together that have come since the last time.
type commits struct {
	wake chan struct{} // something is pending
	over chan struct{} // closed when the committer has ended

	mu      sync.Mutex
	pending *commit
	broken  error // by what all from now on is refused

	syncing sync.Mutex // held during a sync, before mu
	synced  place      // up to here all is durable

	next atomic.Uint64 // all records before this number are durable
}

// place is an offset in a segment.
type place struct {
	segment uint64
	at      int64
}

func (p place) after(q place) bool {
	return p.segment > q.segment || p.segment == q.segment && p.at > q.at
}

// commit is one sync and all who wait for it.
type commit struct {
	out  output
	end  place
	last uint64 // the number of the last record
	done chan struct{}
	err  error // when done
}

func (c *commits) start() {
	c.wake, c.over = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(c.over)
		for range c.wake {
			c.mu.Lock()
			next := c.pending
			c.pending = nil
			c.mu.Unlock()
			if next != nil {
				if next.err = c.sync(next.out, next.end); next.err == nil {
					c.durable(next.last + 1)
				}
				close(next.done)
			}
		}
	}()
}

// stop ends the committer after a last commit and returns what broke it, if anything.
// Nobody may join any more.
func (c *commits) stop() error {
	close(c.wake)
	<-c.over
	return c.failure()
}

// join lets the record of a number, which has been written up to end, become durable with the next commit, and returns
// its waiting.
func (c *commits) join(ctx context.Context, out output, end place, number uint64) func() error {
	c.mu.Lock()
	if c.pending == nil {
		c.pending = &commit{done: make(chan struct{})}
	}
	mine := c.pending
	mine.out, mine.end, mine.last = out, end, number // an earlier segment was synced before this one began
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // already woken
	}
	return func() error {
		select {
		case <-mine.done:
			return mine.err
		default:
		}
		select {
		case <-mine.done:
			return mine.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sync makes what was written to the last segment durable up to end, if it is not yet. After a failure it is never
// tried again: the system reports a lost write once, and a second sync would only seem to succeed.
func (c *commits) sync(out output, end place) error {
	c.syncing.Lock()
	defer c.syncing.Unlock()
	if err := c.failure(); err != nil {
		return err
	}
	if !end.after(c.synced) {
		return nil // by whoever began the next segment, which closed this one
	}
	if err := out.Sync(); err != nil {
		return c.fail(fmt.Errorf("making records durable: %w", err))
	}
	c.synced = end
	return nil
}

// begins says that a segment is durable up to here and takes the records from now on, which begin with a number.
func (c *commits) begins(at place, number uint64) {
	c.syncing.Lock()
	c.synced = at
	c.syncing.Unlock()
	c.durable(number)
}

// durable notes that all records before a number are durable.
func (c *commits) durable(next uint64) {
	for was := c.next.Load(); next > was && !c.next.CompareAndSwap(was, next); was = c.next.Load() {
	}
}

// pendingFrom returns the number before which all records are durable.
func (c *commits) pendingFrom() uint64 { return c.next.Load() }

// fail refuses all from now on.
func (c *commits) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = fmt.Errorf("the store must be opened again after a failure: %w", err)
	}
	return c.broken
}

func (c *commits) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}
