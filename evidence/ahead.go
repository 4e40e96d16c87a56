// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"os"
)

// A commit costs least where it only overwrites: a file that grows is entered anew in the tables of the file system each
// time. So a segment in use reaches further than its records, with zeros that were made durable before, while others
// wrote. The zeros are as many as what was written before them, up to a limit: a quiet server makes none. They are cut
// off when the next segment begins and when the store is closed. After a crash they stand behind the last record, or
// behind one of which some sectors were not written any more: see rest.
const (
	leastAhead = 64 << 10
	mostAhead  = 4 << 20
	aheadPiece = 256 << 10 // written in one turn
	aheadAlign = 4 << 10
)

var zeros [aheadPiece]byte

// ahead writes the zeros of a disk.
type ahead struct {
	wake chan struct{}
	over chan struct{}                     // closed when it has ended
	open func(name string) (output, error) // opens a segment once more

	// In the turn of the disk:
	from  int64 // the segment had this end when what was written to it began to count
	end   int64 // the file reaches to here
	least int64 // leastAhead
}

func (a *ahead) start(d *disk) {
	a.wake, a.over = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(a.over)
		for range a.wake {
			d.extend()
		}
	}()
}

// stop lets it finish what it is at. Nobody may call any more.
func (a *ahead) stop() {
	close(a.wake)
	<-a.over
}

// begins says where the records of a segment end, and its file.
func (a *ahead) begins(at int64) { a.from, a.end = at, at }

// wrote notes that a record was written, and sees that there will be zeros for others.
func (d *disk) wrote(end int64) {
	d.ahead.end = max(d.ahead.end, end)
	if d.wanted() > d.ahead.end {
		select {
		case d.ahead.wake <- struct{}{}:
		default: // called already
		}
	}
}

// wanted returns how far the last segment should reach, in the turn.
func (d *disk) wanted() int64 {
	end := d.last.live.End
	many := min(end-d.ahead.from, mostAhead)
	if many < d.ahead.least || d.ahead.end-end >= many/2 {
		return 0
	}
	return min(end+many, d.options.Load().SegmentSize) / aheadAlign * aheadAlign
}

// extend writes zeros behind the last record and makes them durable, a piece in each turn. Where there is no room for
// them, records do without.
func (d *disk) extend() {
	d.turn <- struct{}{}
	s, to := d.last, d.wanted()
	if d.closed || d.commits.failure() != nil || to <= d.ahead.end {
		<-d.turn
		return
	}
	f, err := d.ahead.open(s.name())
	<-d.turn
	if err != nil {
		return
	}
	defer f.Close()
	for d.extendBy(s, f, to) {
	}
	// A sync that fails may be the only word of a record that was lost.
	if err := f.Sync(); err != nil {
		d.commits.fail(fmt.Errorf("making room for records durable: %w", err))
	}
}

// extendBy writes a piece of zeros, in a turn of its own, and reports whether there is more to do.
func (d *disk) extendBy(s *segment, f output, to int64) bool {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	at := d.ahead.end
	if d.closed || d.last != s || at >= to {
		return false
	}
	n, err := f.WriteAt(zeros[:min(to-at, aheadPiece)], at)
	d.ahead.end += int64(n)
	if err != nil {
		d.ahead.from = s.live.End // tried anew when as much as at first was written
	}
	return err == nil
}

// cut takes the zeros away, durably, in the turn.
func (d *disk) cut() error {
	end := d.last.live.End
	if d.ahead.end == end {
		return nil
	}
	if err := d.out.Truncate(end); err != nil {
		return err
	}
	d.ahead.begins(end)
	if err := d.out.Sync(); err != nil {
		return d.commits.fail(fmt.Errorf("cutting off zeros: %w", err))
	}
	return nil
}

// segmentFile is the file of a segment that is written.
type segmentFile struct{ *os.File }

// Sync makes its records durable.
func (f segmentFile) Sync() error { return syncData(f.File) }

func (d *disk) openSegment(name string) (output, error) {
	f, err := d.root.OpenFile(name, os.O_WRONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	return segmentFile{f}, nil
}
