// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// segmentRecords is how many records a segment has before the next begins: those of the last one have entries in
// memory, of some 60 octets each.
const segmentRecords = 1 << 17

// output is the open file of the last segment.
type output interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// disk is the one writer of a folder. How a record becomes durable:
//
//	Put        large contents: to a file of their own, and fsync;
//	           its turn: pwrite the record behind the last one; join the next commit; end of turn
//	committer  take all who joined; fdatasync; wake them
//	ahead      now and then: its turn: write zeros where records will be; end of turn; fdatasync
//
// So an idle committer syncs at once, and all who come during a sync share the next one. A record that cannot be
// written as a whole is cut off again before the turn ends. When a sync fails nobody knows what the disk holds:
// all who wait get the error and every later Put is refused. Closing then cuts off what was never acknowledged.
type disk struct {
	archive
	folder  os.FileInfo
	release func() error                          // gives the folder back
	create  func(name string) (outputFile, error) // a file of contents
	shares  []*shared                             // guarded by held; in order of their opening
	options atomic.Pointer[Options]               // of the last of them

	turn   chan struct{} // of capacity 1: who has sent into it may use the fields below
	closed bool
	out    output
	last   *segment // and what is in it may be read then

	commits    commits
	ahead      ahead
	caretaker  caretaker
	stamper    stamper
	batchLimit int
}

// openDisk takes hold of a folder that exists. It takes over root. The options are said after it.
func openDisk(root *os.Root) (_ *disk, err error) {
	d := &disk{archive: archive{root: root, writes: true}, turn: make(chan struct{}, 1), batchLimit: batchLimit}
	d.release, d.create = root.Close, d.createFile
	d.ahead.open, d.ahead.least = d.openSegment, leastAhead
	defer func() {
		if err != nil {
			d.release()
		}
	}()
	if d.folder, err = root.Stat("."); err != nil {
		return nil, err
	}
	if worldWritable(d.folder) {
		return nil, fmt.Errorf("everybody may write to it (mode %04o)", d.folder.Mode().Perm())
	}
	unlock, err := holdFolder(root)
	if err != nil {
		return nil, err
	}
	d.release = func() error { return errors.Join(unlock(), root.Close()) }
	if err := d.load(scanLast); err != nil {
		return nil, err
	}
	if err := errors.Join(d.tidy(), makeFolderIn(root, arriving)); err != nil {
		return nil, err
	}
	if n := len(d.segments); n == 0 {
		err = d.beginSegment(1, 1, link{})
	} else {
		err = d.resume(d.segments[n-1])
	}
	if err != nil {
		return nil, err
	}
	d.commits.start()
	d.ahead.start(d)
	d.caretaker.start(d)
	return d, nil
}

// obey makes options count, and no others any more.
func (d *disk) obey(o Options) {
	d.options.Store(&o)
	d.stamper.start(d, o)
}

// resume goes on with the last segment of an earlier process: it cuts off zeros and a torn record, and makes the others
// durable. Where that process did not come to write a segment it had created, that one is begun instead.
func (d *disk) resume(s *segment) error {
	l := s.live
	if err := makeFolderIn(d.root, fmt.Sprintf(contentsFolder, s.number)); err != nil {
		return err
	}
	f, err := d.root.OpenFile(s.name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(l.End), f.Sync(), d.tidyContents(s, f)); err != nil {
		f.Close()
		return err
	}
	l.Size = l.End
	if d.isStub(s.number + 1) {
		f.Close()
		if err := d.beginSegment(s.number+1, l.Next, l.Head); err != nil {
			return err
		}
		return d.settle(s)
	}
	d.out, d.last = segmentFile{f}, s
	d.ahead.begins(l.End)
	d.commits.begins(place{s.number, l.End}, l.Next)
	return nil
}

// beginSegment makes a new last segment, durably.
func (d *disk) beginSegment(number, first uint64, previous link) error {
	if number > segmentNumber {
		return errors.New("there is no name for another segment")
	}
	s, preamble := newSegment(number, first, previous)
	if d.isStub(number) {
		if err := d.root.Remove(s.name()); err != nil {
			return err
		}
	}
	if err := makeFolderIn(d.root, fmt.Sprintf(contentsFolder, number)); err != nil {
		return err
	}
	f, err := d.root.OpenFile(s.name(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(preamble, 0)
	if err := errors.Join(err, f.Sync(), syncFolder(d.root, ".")); err != nil {
		f.Close()
		d.root.Remove(s.name())
		return err
	}
	d.commits.begins(place{s.number, s.live.End}, first)
	if d.out != nil {
		d.out.Close()
	}
	d.out, d.last = segmentFile{f}, s
	d.ahead.begins(s.live.End)
	d.mu.Lock()
	d.segments = append(d.segments, s)
	d.mu.Unlock()
	return nil
}

// put implements Store.Put.
func (d *disk) put(ctx context.Context, r *Record) (_ func() error, err error) {
	w, err := encode(r, d.commits.pendingFrom())
	if err != nil {
		return nil, err
	}
	contents := newContents(r.Parts)
	var apart *outsider
	if w.contents <= inside {
		w.frame, err = contents.appendTo(w.frame)
	} else {
		apart, err = d.writeOutside(ctx, contents)
	}
	if err != nil {
		return nil, err
	}
	number, wait, err := d.append(ctx, w, apart)
	if err != nil {
		if apart != nil && d.commits.failure() == nil {
			apart.remove() // where that fails too, the next to open removes it
		}
		return nil, err
	}
	w.forget()
	r.Number = number
	return wait, nil
}

// append writes a record that is encoded, in its turn. Where its contents are apart, they come along.
func (d *disk) append(ctx context.Context, w *draft, apart *outsider) (number uint64, wait func() error, err error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	if d.closed {
		return 0, nil, os.ErrClosed
	}
	if err := d.commits.failure(); err != nil {
		return 0, nil, err
	}
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	if apart != nil {
		w.outside = apart.id
	}
	if l := d.last.live; l.Entries > 0 && (w.end() > d.options.Load().SegmentSize-l.End || l.Entries >= segmentRecords) {
		if err := d.nextSegment(); err != nil {
			return 0, nil, fmt.Errorf("beginning a segment: %w", err)
		}
	}
	if apart != nil {
		if err := apart.moveTo(d.last.number); err != nil {
			return 0, nil, err
		}
	}
	l := d.last.live
	w.at, w.number, w.previous = l.End, l.Next, l.Head
	digest := w.seal(d.last.mark)
	if _, err := d.out.WriteAt(w.frame, w.at); err != nil {
		if undo := d.out.Truncate(w.at); undo != nil {
			d.commits.fail(fmt.Errorf("cutting off half a record: %w", undo))
		}
		d.ahead.begins(w.at)
		return 0, nil, err
	}
	d.mu.Lock()
	l.add(d.last.mark, w.head, w.header, digest)
	d.mu.Unlock()
	d.wrote(w.end())
	return w.number, d.commits.join(ctx, d.out, place{d.last.number, w.end()}, w.number), nil
}

// nextSegment makes all that was written durable and goes on in a new file.
func (d *disk) nextSegment() error {
	l := d.last.live
	if err := d.commits.sync(d.out, place{d.last.number, l.End}); err != nil {
		return err
	}
	if err := d.cut(); err != nil {
		return err
	}
	if err := syncFolder(d.root, fmt.Sprintf(contentsFolder, d.last.number)); err != nil {
		return err
	}
	if err := d.beginSegment(d.last.number+1, l.Next, l.Head); err != nil {
		return err
	}
	d.caretaker.call()
	return nil
}

// close ends the writer: what was written becomes durable, or is cut off where that failed.
func (d *disk) close() error {
	d.stamper.end()
	d.turn <- struct{}{}
	d.closed = true
	<-d.turn
	d.caretaker.stop()
	d.ahead.stop()
	err := d.commits.stop()
	if err != nil {
		d.out.Truncate(d.commits.synced.at)
	} else {
		err = d.cut()
	}
	return errors.Join(err, d.out.Close(), d.release())
}
