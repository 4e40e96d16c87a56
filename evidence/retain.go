// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Records that are older than they are to be kept go by whole segments, the oldest first. Before a segment goes, a
// record says so and names the last record that goes with it. So the links of what is left have a beginning, and whoever
// checks them knows what was removed on purpose.
const (
	retentionPeriod = time.Minute // between two looks
	// A segment is the last for an eighth of the time at most: records go not much later than they must.
	segmentsKept = 8
)

// removal is what the header of such a record has.
type removal struct {
	Last   uint64        `json:"last"`   // all records up to this one are removed
	Digest link          `json:"digest"` // of that one
	Keep   time.Duration `json:"keep"`   // how long records were to be kept, in nanoseconds
}

// lastRemoval returns the last of these records, or nil. It needs the lock of the archive.
func lastRemoval(segments []*segment) *removal {
	for _, s := range slices.Backward(segments) {
		if r := s.known().Removal; r != nil {
			return r
		}
	}
	return nil
}

// retain removes what is older than it is to be kept.
func (d *disk) retain(o Options) error {
	if o.Keep == 0 {
		return nil
	}
	now := o.Clock()
	if err := d.endOldSegment(now.Add(-o.Keep / segmentsKept)); err != nil {
		return err
	}
	last := d.removable(now.Add(-o.Keep), o.Timestamper != nil)
	if last == nil {
		return nil
	}
	w, err := (&header{Time: now.UTC(), Pending: d.commits.pendingFrom(), Removal: &removal{last.known().Next - 1, last.known().Head, o.Keep}}).encode(0)
	if err == nil {
		err = d.putOwn(context.Background(), w)
	}
	if err != nil {
		return fmt.Errorf("noting a removal: %w", err)
	}
	return d.finishRemoval()
}

// removable returns the last segment of those that may go, or nil. The last segment of all is none of them.
func (d *disk) removable(limit time.Time, stampedOnly bool) (last *segment) {
	upTo := d.stampedUpTo()
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, s := range d.segments[:len(d.segments)-1] {
		k := s.known()
		if s.live != nil || !k.Newest.Before(limit) || stampedOnly && k.LastSigned > upTo {
			break
		}
		last = s
	}
	return last
}

// finishRemoval removes the segments that a record says are removed.
func (d *disk) finishRemoval() error {
	var gone []*segment
	d.mu.Lock()
	r := lastRemoval(d.segments)
	for r != nil && len(d.segments) > 1 && d.segments[0].known().Next-1 <= r.Last {
		gone = append(gone, d.segments[0])
		d.segments = d.segments[1:]
	}
	d.mu.Unlock()
	var errs []error
	for _, s := range gone {
		errs = append(errs, d.removeSegment(s)) // what stays is removed when the store is opened again
	}
	return errors.Join(errs...)
}

// removeSegment removes a segment and what is beside it. A reader finds all of it or no segment.
func (d *disk) removeSegment(s *segment) error {
	if err := d.root.Remove(s.name()); err != nil {
		return err
	}
	err := d.root.Remove(fmt.Sprintf(indexName, s.number))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.root.RemoveAll(fmt.Sprintf(contentsFolder, s.number)))
}

// endOldSegment begins another segment where the last one has messages that are older than since.
func (d *disk) endOldSegment(since time.Time) error {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if l := d.last.live; d.closed || l.LastMessage == 0 || !l.Oldest.Before(since) {
		return nil
	}
	if err := d.commits.failure(); err != nil {
		return err
	}
	return d.nextSegment()
}
