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
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
	"unique"

	"github.com/caddy-fairway/fairway/ident"
)

// A segment is a file of records in ascending order of their numbers, NNNNNNNN.evidence. Before the first stands
//
//	magic  8
//	first  8  no record here has a smaller number
//	mark  16  random
//	check  4  CRC-32C of all before
const (
	magic         = "fairway\x01"
	preambleSize  = 8 + 8 + markSize + checkSize
	segmentName   = "%08d.evidence"
	segmentNumber = 99999999 // the last one
)

var isSegment = regexp.MustCompile(`^([0-9]{8})\.evidence$`)

// segment is one such file and what is known of it. Only file is safe without the lock of its archive.
type segment struct {
	number uint64
	first  uint64
	mark   mark
	end    int64 // of the last whole record

	entries   []entry // ascending; what is in it never changes
	messages  map[string][]int32
	requests  map[string][]int32
	damaged   []DamageError
	opened    sync.Mutex
	reader    *os.File
	hasClosed bool
}

// entry is what is known of a record without reading it.
type entry struct {
	number   uint64
	at       int64
	time     time.Time
	client   unique.Handle[ident.Client]
	provider unique.Handle[ident.Client]
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

// numberOf returns the number of a segment by its file name, or 0.
func numberOf(name string) uint64 {
	m := isSegment.FindStringSubmatch(name)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseUint(m[1], 10, 64)
	return n
}

// newSegment returns a segment without records, and its preamble.
func newSegment(number, first uint64) (*segment, []byte) {
	s := &segment{number: number, first: first, end: preambleSize}
	rand.Read(s.mark[:])
	b := append(make([]byte, 0, preambleSize), magic...)
	b = binary.BigEndian.AppendUint64(b, first)
	b = append(b, s.mark[:]...)
	return s, binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readPreamble begins a segment from its file. Its records are not known yet.
func readPreamble(number uint64, f io.ReaderAt) (*segment, error) {
	var b [preambleSize]byte
	if err := readAt(f, b[:], 0); err != nil {
		return nil, err
	}
	n := preambleSize - checkSize
	if string(b[:len(magic)]) != magic || binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, fmt.Errorf("%w: this is no file of evidence, or its beginning is damaged", errNotWhole)
	}
	first := binary.BigEndian.Uint64(b[len(magic):])
	return &segment{number: number, first: first, mark: mark(b[len(magic)+8 : n]), end: preambleSize}, nil
}

// next returns the least number that a following record may have.
func (s *segment) next() uint64 {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].number + 1
	}
	return s.first
}

// scanMode says how much scan believes.
type scanMode uint8

const (
	scanSealed scanMode = iota // others follow: contents were checked when it was the last
	scanLast                   // the last one, perhaps after a crash
	scanLive                   // the last one, perhaps being written
)

// scan adds the whole records from s.end to size. Octets between records that are no record are noted as damage;
// what follows the last record is left alone, for it may be torn: s.end is before it.
func (s *segment) scan(f io.ReaderAt, size int64, mode scanMode) error {
	at := s.end
	for at < size {
		h, j, err := s.readRecord(f, at, size, mode != scanSealed)
		if errors.Is(err, errNotWhole) && mode == scanLive && h.end() > size {
			break // most likely just being written
		}
		if errors.Is(err, errNotWhole) {
			found, err := s.search(f, at+1, size)
			if err != nil {
				return err
			}
			if found == size {
				break
			}
			if mode == scanLive { // its writer may have cut off one record and written others meanwhile
				if _, _, err := s.readRecord(f, at, size, true); err == nil {
					continue
				}
			}
			s.damaged = append(s.damaged, DamageError{s.name(), at, found})
			at, s.end = found, found
			continue
		}
		if err != nil {
			return err
		}
		at = h.end()
		s.add(h, j)
	}
	return nil
}

// readRecord reads a record that may be the next.
func (s *segment) readRecord(f io.ReaderAt, at, size int64, contents bool) (head, *header, error) {
	h, err := readHead(f, at, size, s.mark)
	if err != nil {
		return h, nil, err
	}
	if h.number < s.next() {
		return h, nil, fmt.Errorf("%w: number %d again", errNotWhole, h.number)
	}
	j, _, err := h.read(f, s.mark)
	if err == nil && contents {
		err = h.checkContents(f)
	}
	return h, j, err
}

// search returns where the next whole record begins, or size.
func (s *segment) search(f io.ReaderAt, at, size int64) (int64, error) {
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
		_, _, err := s.readRecord(f, at, size, true)
		if err == nil || !errors.Is(err, errNotWhole) {
			return at, err
		}
		at++
	}
	return size, nil
}

// add notes a record that is whole.
func (s *segment) add(h head, j *header) {
	if s.messages == nil {
		s.messages, s.requests = make(map[string][]int32), make(map[string][]int32)
	}
	i := int32(len(s.entries))
	s.entries = append(s.entries, entry{
		number: h.number, at: h.at, time: j.Time,
		client: unique.Make(j.client()), provider: unique.Make(j.service().Client),
	})
	if j.MessageID != "" {
		s.messages[j.MessageID] = append(s.messages[j.MessageID], i)
	}
	if j.RequestID != "" {
		s.requests[j.RequestID] = append(s.requests[j.RequestID], i)
	}
	s.end = h.end()
}

// candidates returns the entries among which those that the query selects are.
func (s *segment) candidates(q Query) []entry {
	var found []int32
	switch {
	case q.MessageID != "":
		found = s.messages[text(q.MessageID)]
	case q.RequestID != "":
		found = s.requests[text(q.RequestID)]
	default:
		return s.entries
	}
	entries := make([]entry, len(found))
	for i, n := range found {
		entries[i] = s.entries[n]
	}
	return entries
}

// file opens the segment for reading, once.
func (s *segment) file(root *os.Root) (*os.File, error) {
	s.opened.Lock()
	defer s.opened.Unlock()
	if s.hasClosed {
		return nil, os.ErrClosed
	}
	if s.reader != nil {
		return s.reader, nil
	}
	f, err := root.Open(s.name())
	if err != nil {
		return nil, err
	}
	s.reader = f
	return f, nil
}

func (s *segment) close() error {
	s.opened.Lock()
	defer s.opened.Unlock()
	s.hasClosed = true
	if s.reader == nil {
		return nil
	}
	return s.reader.Close()
}
