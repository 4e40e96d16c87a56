// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// sectorSize is what a disk writes as a whole: after a crash it is there or is not, whatever became of its neighbours.
const sectorSize = 512

// rest is what stands in the last segment behind its last whole record, where no other follows: zeros that were to
// become records, and before them perhaps octets of one that is not whole.
type rest struct {
	end     int64 // behind the last octet that is not zero
	damaged bool  // its writing was not interrupted: it was written to its end, and has changed
}

// rest looks at what follows l.End. A record whose writing was interrupted lacks sectors, for there were zeros before,
// or no file. One that lacks none was written to its end and is damaged. Where its beginning cannot be read, that is
// known only if zeros follow.
func (s *segment) rest(l *live, f io.ReaderAt, size int64) (rest, error) {
	at := l.End
	there, err := scanBlank(f, at, size)
	if err != nil || there.end == at {
		return rest{end: at}, err
	}
	r := rest{end: there.end}
	inZeros := size-r.end >= sectorSize
	h, known, err := s.promised(f, at, size)
	if err != nil {
		return r, err
	}
	if !known {
		// Where only its first sectors are there, they are full: of text, or of a head that may end in zeros.
		cutShort := r.end%sectorSize == 0 || r.end-at < headSize && nextSector(r.end) < at+headSize
		r.damaged = inZeros && !cutShort && !there.blankBefore(r.end)
		return r.withZeros(size), nil
	}
	end := h.end()
	if end > size {
		return r, nil
	}
	_, err = h.read(f, s.mark)
	if err == nil && h.outside == 0 {
		err = h.checkContents(f)
	}
	if err == nil {
		return r, nil // it is whole, and has no place here
	}
	if !errors.Is(err, errNotWhole) {
		return r, err
	}
	var last [checkSize]byte
	if err := readAt(f, last[:], end-checkSize); err != nil {
		return r, ignoreCut(err)
	}
	var behind [markSize]byte
	again := end+markSize <= size && readAt(f, behind[:], end) == nil && mark(behind) == s.mark
	r.damaged = last != [checkSize]byte{} && !there.blankBefore(end) && (end == size || inZeros || again)
	if r.damaged {
		r.end = max(r.end, end)
	}
	return r.withZeros(size), nil
}

// withZeros lets damage end behind a sector of zeros, where there is one: so it is told again when others are cut off.
func (r rest) withZeros(size int64) rest {
	if r.damaged && size-r.end >= sectorSize {
		r.end += sectorSize
	}
	return r
}

// neverDurable reports whether no record from l.End on was ever acknowledged, though a whole one stands at found: for
// until a sync has ended, sectors become durable in any order. So it is where sectors are missing before found, and
// none of the records behind was written when the one that is missing was durable. Records up to the very end of the
// file tell of no crash.
func (s *segment) neverDurable(l *live, f io.ReaderAt, found, size int64) (bool, error) {
	hole, err := scanBlank(f, l.End, found)
	if err != nil || !hole.blankBefore(found) {
		return false, err
	}
	later := &live{summary: l.summary}
	for later.End = found; later.End < size; {
		w, end, err := s.readRecord(later, f, later.End, size, true)
		if errors.Is(err, errNotWhole) {
			next, err := s.search(later, f, later.End+1, size)
			if err != nil {
				return false, err
			}
			if next == size {
				break
			}
			later.End = next
			continue
		}
		if err != nil || w.Pending == 0 || w.Pending > l.Next {
			return false, err
		}
		later.End, later.Next = end, w.number+1
	}
	there, err := scanBlank(f, later.End, size)
	return size-there.end >= sectorSize, err
}

// promised returns the head of a record that stands at an offset, if its lengths are those that its header tells.
func (s *segment) promised(f io.ReaderAt, at, size int64) (h head, known bool, err error) {
	h, err = readHead(f, at, math.MaxInt64, s.mark)
	if err != nil || h.header > size-at-headSize {
		return h, false, ignoreCut(err)
	}
	b := make([]byte, h.header)
	if err := readAt(f, b, at+headSize); err != nil {
		return h, false, ignoreCut(err)
	}
	_, err = h.decode(b)
	return h, err == nil, nil
}

// ignoreCut returns nil where octets are missing.
func ignoreCut(err error) error {
	if errors.Is(err, errNotWhole) {
		return nil
	}
	return err
}

// blank is which sectors of a stretch of a file have no octet but zeros.
type blank struct {
	end   int64 // behind the last octet that is not zero; else where the stretch begins
	first int64 // where the first such sector begins, or the part of it that is in the stretch
}

// blankBefore reports whether there is a blank sector that begins before an offset.
func (b blank) blankBefore(at int64) bool { return b.first < at }

func nextSector(at int64) int64 { return (at + sectorSize - 1) / sectorSize * sectorSize }

func scanBlank(f io.ReaderAt, from, to int64) (blank, error) {
	found := blank{from, to}
	window := make([]byte, min(copySize, to-from))
	for at := from; at < to; {
		b := window[:min(int64(len(window)), to-at)]
		if n := (at + int64(len(b))) % sectorSize; n > 0 && int64(len(b)) > n && at+int64(len(b)) < to {
			b = b[:int64(len(b))-n]
		}
		if err := readAt(f, b, at); err != nil {
			return found, ignoreCut(err)
		}
		for len(b) > 0 {
			sector := b[:min(int64(len(b)), sectorSize-at%sectorSize)]
			if some := len(bytes.TrimRight(sector, "\x00")); some > 0 {
				found.end = at + int64(some)
			} else if found.first == to {
				found.first = at
			}
			at, b = at+int64(len(sector)), b[len(sector):]
		}
	}
	return found, nil
}
