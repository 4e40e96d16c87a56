// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
)

const (
	rotateSize = 256 << 20 // a segment of this size is the last no more
	readAhead  = 256 << 10 // contents up to this size are read before the writer's turn comes
	copySize   = 256 << 10
)

// output is the open file of the last segment.
type output interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// disk is the one writer of a folder. How a record becomes durable:
//
//	Put        its turn: pwrite the record behind the last one; join the next commit; end of turn
//	committer  take all who joined; fsync; wake them
//
// So an idle committer syncs at once, and all who come during a sync share the next one. A record that cannot be
// written as a whole is cut off again before the turn ends. When a sync fails nobody knows what the disk holds:
// all who wait get the error and every later Put is refused. Closing then cuts off what was never acknowledged.
type disk struct {
	archive
	folder  os.FileInfo
	release func() error // gives the folder back
	rotate  int64
	handles int // guarded by held

	turn   chan struct{} // of capacity 1: who has sent into it may use the fields below
	closed bool
	out    output
	last   *segment

	commits commits
}

// openDisk takes hold of a folder that exists. It takes over root.
func openDisk(root *os.Root, rotate int64) (_ *disk, err error) {
	d := &disk{archive: archive{root: root}, rotate: rotate, turn: make(chan struct{}, 1)}
	d.release = root.Close
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
	if n := len(d.segments); n == 0 {
		err = d.beginSegment(1, 1)
	} else {
		err = d.resume(d.segments[n-1])
	}
	if err != nil {
		return nil, err
	}
	d.commits.start()
	return d, nil
}

// resume goes on with the last segment of an earlier process: it cuts off a torn record and makes the rest durable.
// Where that process did not come to write a segment it had created, that one is begun instead.
func (d *disk) resume(s *segment) error {
	if d.isStub(s.number + 1) {
		return d.beginSegment(s.number+1, s.next())
	}
	f, err := d.root.OpenFile(s.name(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(s.end), f.Sync()); err != nil {
		f.Close()
		return err
	}
	d.out, d.last = f, s
	d.commits.begins(place{s.number, s.end})
	return nil
}

// beginSegment makes a new last segment, durably.
func (d *disk) beginSegment(number, first uint64) error {
	if number > segmentNumber {
		return errors.New("there is no name for another segment")
	}
	s, preamble := newSegment(number, first)
	if d.isStub(number) {
		if err := d.root.Remove(s.name()); err != nil {
			return err
		}
	}
	f, err := d.root.OpenFile(s.name(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(preamble, 0)
	if err := errors.Join(err, f.Sync(), syncFolder(d.root)); err != nil {
		f.Close()
		d.root.Remove(s.name())
		return err
	}
	d.commits.begins(place{s.number, s.end})
	if d.out != nil {
		d.out.Close()
	}
	d.out, d.last = f, s
	d.mu.Lock()
	d.segments = append(d.segments, s)
	d.mu.Unlock()
	return nil
}

// put implements Store.Put.
func (d *disk) put(ctx context.Context, r *Record) (func() error, error) {
	frame, h, err := encode(r)
	if err != nil {
		return nil, err
	}
	j, err := h.decode(frame[headSize : headSize+h.header]) // what a reader will find
	if err != nil {
		return nil, err
	}
	contents := newContents(r.Parts)
	if h.contents <= readAhead {
		if frame, err = contents.appendTo(frame); err != nil {
			return nil, err
		}
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d.closed {
		return nil, os.ErrClosed
	}
	if err := d.commits.failure(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if h.end() > d.rotate-d.last.end && d.last.end > preambleSize {
		if err := d.nextSegment(); err != nil {
			return nil, fmt.Errorf("beginning a segment: %w", err)
		}
	}
	h.at, h.number = d.last.end, d.last.next()
	h.seal(frame, d.last.mark)
	if err := d.write(ctx, h, frame, contents); err != nil {
		if undo := d.out.Truncate(h.at); undo != nil {
			d.commits.fail(fmt.Errorf("cutting off half a record: %w", undo))
		}
		return nil, err
	}
	d.mu.Lock()
	d.last.add(h, j)
	d.mu.Unlock()
	r.Number = h.number
	return d.commits.join(ctx, d.out, place{d.last.number, h.end()}), nil
}

// nextSegment makes all that was written durable and goes on in a new file.
func (d *disk) nextSegment() error {
	if err := d.commits.sync(d.out, place{d.last.number, d.last.end}); err != nil {
		return err
	}
	return d.beginSegment(d.last.number+1, d.last.next())
}

// write puts a record at its place: the frame, then the contents that are not in it.
func (d *disk) write(ctx context.Context, h head, frame []byte, c *contents) error {
	if _, err := d.out.WriteAt(frame, h.at); err != nil {
		return err
	}
	if c.done {
		return nil
	}
	buffer := make([]byte, copySize)
	at := h.at + int64(len(frame))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := c.Read(buffer)
		if _, err := d.out.WriteAt(buffer[:n], at); err != nil {
			return err
		}
		at += int64(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// close ends the writer: what was written becomes durable, or is cut off where that failed.
func (d *disk) close() error {
	d.turn <- struct{}{}
	d.closed = true
	<-d.turn
	err := d.commits.stop()
	if err != nil {
		d.out.Truncate(d.commits.synced.at)
	}
	return errors.Join(err, d.out.Close(), d.closeSegments(), d.release())
}

// contents reads the kept parts of a record, one after the other, and after them their checksum. It ends in an error
// where a part has not the octets that its size tells.
type contents struct {
	parts []Part
	left  int64 // of the first part
	sum   hash.Hash32
	done  bool // the checksum was read
}

func newContents(parts []Part) *contents {
	c := &contents{parts: parts, sum: crc32.New(castagnoli)}
	c.left = c.size()
	return c
}

func (c *contents) size() int64 {
	if len(c.parts) > 0 && c.parts[0].Content != nil {
		return c.parts[0].Size
	}
	return 0
}

// Read implements io.Reader. b must have room for the checksum.
func (c *contents) Read(b []byte) (n int, err error) {
	for len(c.parts) > 0 && c.left == 0 {
		if err := c.finish(); err != nil {
			return 0, err
		}
	}
	if len(c.parts) == 0 {
		c.done = true
		return len(binary.BigEndian.AppendUint32(b[:0], c.sum.Sum32())), io.EOF
	}
	n, err = io.ReadFull(c.parts[0].Content, b[:min(int64(len(b)), c.left)])
	c.sum.Write(b[:n])
	c.left -= int64(n)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("it ends %d octets early: %w", c.left, io.ErrUnexpectedEOF)
	}
	return n, c.failed(err)
}

// finish sees that the first part is at its end and goes on to the next.
func (c *contents) finish() error {
	if r := c.parts[0].Content; r != nil {
		var more [1]byte
		n, err := io.ReadFull(r, more[:])
		if n > 0 {
			err = errors.New("it has more octets than its size tells")
		}
		if err != io.EOF {
			return c.failed(err)
		}
	}
	c.parts = c.parts[1:]
	c.left = c.size()
	return nil
}

func (c *contents) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading part %s: %w", c.parts[0].Name, err)
}

// appendTo reads all of it.
func (c *contents) appendTo(b []byte) ([]byte, error) {
	for {
		if cap(b)-len(b) < checkSize {
			b = append(b, make([]byte, checkSize)...)[:len(b)]
		}
		n, err := c.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
