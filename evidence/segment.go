// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"
	"strconv"
)

// A segment is a file of records in ascending order of their numbers, NNNNNNNN.evidence. Before the first stands
//
//	magic     8
//	first     8  no record here has a smaller number
//	previous 32  the digest of the last record of the segment before; zeros where there never was one
//	mark     16  random
//	check     4  CRC-32C of all before
const (
	magic         = "fairway\x02"
	preambleSize  = 8 + 8 + linkSize + markSize + checkSize
	segmentName   = "%08d.evidence"
	segmentNumber = 99999999 // the last one
)

// segment is one such file. All but its fields below the line never change.
type segment struct {
	number   uint64
	first    uint64
	previous link
	mark     mark

	// With the lock of the archive:
	sealed summary // where live is nil
	live   *live
}

// known returns what is known of its records together.
func (s *segment) known() *summary {
	if s.live != nil {
		return &s.live.summary
	}
	return &s.sealed
}

// DamageError tells of octets in a file of evidence that should be records and are not: after damage to the disk, or
// because somebody changed them.
type DamageError struct {
	File     string
	From, To int64
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("evidence: %s is damaged from octet %d to %d: records are missing", e.File, e.From, e.To)
}

func (s *segment) name() string { return fmt.Sprintf(segmentName, s.number) }

var isSegment = regexp.MustCompile(`^([0-9]{8})\.evidence$`)

// numberOf returns the number of the segment that a file name tells, or 0.
func numberOf(name string) uint64 {
	m := isSegment.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseUint(m[1], 10, 64)
	return n
}

// newSegment returns a segment without records, and its preamble.
func newSegment(number, first uint64, previous link) (*segment, []byte) {
	s := &segment{number: number, first: first, previous: previous}
	rand.Read(s.mark[:])
	s.live = s.newLive()
	b := make([]byte, 0, preambleSize)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, first)
	b = append(b, previous[:]...)
	b = append(b, s.mark[:]...)
	return s, binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readPreamble returns the segment that a file begins. Its records are not known yet.
func readPreamble(number uint64, f io.ReaderAt) (*segment, error) {
	var b [preambleSize]byte
	if err := readAt(f, b[:], 0); err != nil {
		return nil, err
	}
	n := preambleSize - checkSize
	if string(b[:len(magic)]) != magic || binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, fmt.Errorf("%w: this is no file of evidence of this version, or its beginning is damaged", errNotWhole)
	}
	s := &segment{number: number, first: binary.BigEndian.Uint64(b[len(magic):])}
	copy(s.previous[:], b[len(magic)+8:])
	copy(s.mark[:], b[n-markSize:])
	return s, nil
}

// scanMode says how much scan believes.
type scanMode uint8

const (
	scanSealed scanMode = iota // others follow: contents were checked when it was the last
	scanLast                   // the last one, perhaps after a crash
	scanLive                   // the last one, perhaps being written
)

// scan adds the whole records from l.End on. Octets between records that are no record are noted as damage; what
// follows the last record is left alone, for it may be torn or was never durable: l.End is before it. In the last segment
// after a crash it is damage where it was not torn.
func (s *segment) scan(l *live, f io.ReaderAt, size int64, mode scanMode) error {
	l.Size = size
	at := l.End
	for at < size {
		w, end, err := s.readRecord(l, f, at, size, mode != scanSealed)
		if errors.Is(err, errNotWhole) && mode == scanLive && end > size {
			break // most likely just being written
		}
		if errors.Is(err, errNotWhole) {
			found, err := s.search(l, f, at+1, size)
			if err != nil {
				return err
			}
			if found == size && mode == scanLast {
				return s.judge(l, f, size)
			}
			if found == size {
				break
			}
			if mode == scanLive { // its writer may have cut off one record and written others meanwhile
				if _, _, err := s.readRecord(l, f, at, size, true); err == nil {
					continue
				}
			}
			if mode != scanSealed {
				if never, err := s.neverDurable(l, f, found, size); err != nil || never {
					return err
				}
			}
			l.Damaged = append(l.Damaged, DamageError{s.name(), at, found})
			at, l.End = found, found
			continue
		}
		if err != nil {
			return err
		}
		at = end
		l.add(s.mark, w.head, w.header, w.digest)
	}
	return nil
}

// judge notes what follows the last record as damage, if it is none that was being written. Its number is not given again.
func (s *segment) judge(l *live, f io.ReaderAt, size int64) error {
	r, err := s.rest(l, f, size)
	if err == nil && r.damaged {
		l.Damaged = append(l.Damaged, DamageError{s.name(), l.End, r.end})
		l.End = r.end
		l.Next++
	}
	return err
}

// readRecord reads a record that may be the next, and tells where it ends.
func (s *segment) readRecord(l *live, f io.ReaderAt, at, size int64, contents bool) (w *whole, end int64, err error) {
	h, err := readHead(f, at, size, s.mark)
	if err != nil {
		return nil, h.end(), err
	}
	if h.number < l.Next {
		return nil, h.end(), fmt.Errorf("%w: number %d again", errNotWhole, h.number)
	}
	w, err = h.read(f, s.mark)
	if err == nil && contents && h.outside == 0 {
		err = h.checkContents(f)
	}
	return w, h.end(), err
}

// search returns where the next whole record begins, or the end of the file.
func (s *segment) search(l *live, f io.ReaderAt, at, size int64) (int64, error) {
	window := make([]byte, min(copySize, size-at))
	for size-at >= headSize {
		b := window[:min(int64(len(window)), size-at)]
		if err := readAt(f, b, at); errors.Is(err, errNotWhole) {
			break // cut off meanwhile
		} else if err != nil {
			return size, err
		}
		i := bytes.Index(b, s.mark[:])
		if i < 0 {
			at += int64(len(b)) - markSize + 1
			continue
		}
		at += int64(i)
		_, _, err := s.readRecord(l, f, at, size, true)
		if err == nil || !errors.Is(err, errNotWhole) {
			return at, err
		}
		at++
	}
	return size, nil
}
