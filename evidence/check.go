// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// VerifyToken judges a time-stamp token: whether it is one of a trusted authority over data with that SHA-512 digest.
// It returns the token's time.
type VerifyToken func(token, imprint []byte) (time.Time, error)

// Link is a record as the next one names it. Whoever has kept the link of a record elsewhere can tell later that
// neither this record nor one before it was changed, added or removed.
type Link struct {
	Number uint64
	Digest []byte // SHA-256 of all but the contents, for which the digests of the parts stand
}

// Report is what Check has found to be whole.
type Report struct {
	Records uint64 // how many there are, those that the store makes for itself included
	First   uint64 // their numbers; 0: there are none
	Head    Link   // the last one
	// Torn is how many octets follow the last record and are none: of a record that is being written, that a crash has
	// left unfinished, or that was damaged or cut.
	Torn int64
	// Indexes are the files of indexes that did not fit their segments, so that a search might have missed records.
	// Where the store is open for writing they have been made again.
	Indexes []string
}

// Unnoticed says in words what a check like this cannot notice.
func (r *Report) Unnoticed() string {
	return "no time-stamp covers the links of the records: that the newest were removed cannot be noticed, nor that " +
		"records were made anew with all that follow them"
}

// BreakError tells where the linking of the records ends: from this number on, a record was removed, changed, added
// or moved, or damaged with the disk.
type BreakError struct {
	Number uint64
	Err    error
}

// Error implements error.
func (e *BreakError) Error() string {
	return fmt.Sprintf("evidence: the records are whole up to number %d and not further: %v", e.Number-1, e.Err)
}

// Unwrap returns the reason.
func (e *BreakError) Unwrap() error { return e.Err }

// checker walks through the records.
type checker struct {
	*archive
	report *Report
	buffer []byte
	begun  bool
	next   uint64 // the number that must come now,
	head   link   // naming this
}

func (c *checker) broken(format string, args ...any) error {
	return &BreakError{c.next, fmt.Errorf(format, args...)}
}

// Check implements Store.Check.
func (a *archive) Check(ctx context.Context, _ VerifyToken) (*Report, error) {
	a.mu.RLock()
	segments := slices.Clone(a.segments)
	var end int64
	if n := len(segments); n > 0 {
		end = segments[n-1].known().End
	}
	a.mu.RUnlock()
	c := &checker{archive: a, report: new(Report), buffer: make([]byte, copySize)}
	for i, s := range segments {
		err := c.segment(ctx, s, i == len(segments)-1, end)
		var b *BreakError
		if err != nil && !errors.As(err, &b) {
			err = fmt.Errorf("evidence: checking %s: %w", s.name(), err)
		}
		if err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

// segment checks a segment, up to end where it is the last.
func (c *checker) segment(ctx context.Context, s *segment, isLast bool, end int64) error {
	f, err := c.root.Open(s.name())
	if errors.Is(err, fs.ErrNotExist) {
		return c.broken("%s is missing", s.name())
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.begin(s, f); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !isLast {
		end = info.Size()
	}
	l := s.newLive()
	l.Size = end
	for l.End < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.record(s, l, f, end); err != nil {
			return err
		}
	}
	if isLast {
		return c.tail(s, l, f, info.Size())
	}
	return c.index(s, l)
}

// tail looks at what follows the last record that is known: nothing, or records that are being written. Where there
// are whole ones behind others that are not, the others are not torn but damaged.
func (c *checker) tail(s *segment, l *live, f *os.File, size int64) error {
	if l.End >= size {
		return nil
	}
	found, err := s.search(l, f, l.End, size)
	if err != nil {
		return err
	}
	if found == size {
		c.report.Torn = size - l.End
		return nil
	}
	if _, _, err := s.readRecord(l, f, l.End, size, true); err != nil {
		return c.broken("in %s at octet %d: %w", s.name(), l.End, err)
	}
	return nil
}

// begin checks that a segment follows the one before.
func (c *checker) begin(s *segment, f *os.File) error {
	if !c.begun {
		c.begun, c.next = true, 1
	}
	now, err := readPreamble(s.number, f)
	if errors.Is(err, errNotWhole) || err == nil && (now.first != s.first || now.previous != s.previous || now.mark != s.mark) {
		return c.broken("the beginning of %s is damaged or changed", s.name())
	}
	switch {
	case err != nil:
		return err
	case s.first != c.next:
		return c.broken("the next in %s has number %d", s.name(), s.first)
	case s.previous != c.head:
		return c.broken("%s does not name the record before it", s.name())
	}
	return nil
}

// record checks the record at l.End.
func (c *checker) record(s *segment, l *live, f *os.File, end int64) error {
	h, err := readHead(f, l.End, end, s.mark)
	if err == nil && h.number != c.next {
		return c.broken("the next in %s has number %d", s.name(), h.number)
	}
	if err == nil && h.previous != c.head {
		return c.broken("it does not name the record before it")
	}
	var w *whole
	if err == nil {
		w, err = h.read(f, s.mark)
	}
	if err == nil {
		err = c.contents(s, w)
	}
	if errors.Is(err, errNotWhole) {
		return c.broken("in %s at octet %d: %w", s.name(), l.End, err)
	}
	if err != nil {
		return err
	}
	l.add(s.mark, w.head, w.header, w.digest)
	if c.report.Records++; c.report.First == 0 {
		c.report.First = w.number
	}
	c.report.Head = Link{w.number, w.digest[:]}
	c.next, c.head = w.number+1, w.digest
	return nil
}

// contents checks the parts that are kept against their digests.
func (c *checker) contents(s *segment, w *whole) error {
	f, err := c.opener(s, w)()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: its contents are missing", errNotWhole)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(w.contentsIn(), io.SeekStart); err != nil {
		return err
	}
	check := crc32.New(castagnoli)
	for _, p := range w.Parts {
		if !p.Kept {
			continue
		}
		sum := crypto.DigestByName(p.Digest).New()
		n, err := io.CopyBuffer(io.MultiWriter(sum, check), io.LimitReader(f, p.Size), c.buffer)
		if err != nil {
			return err
		}
		if n != p.Size || !bytes.Equal(sum.Sum(nil), p.Sum) {
			return fmt.Errorf("%w: what is kept of %s has another digest", errNotWhole, p.Name)
		}
	}
	var b [checkSize]byte
	if _, err := io.ReadFull(f, b[:]); err != nil || binary.BigEndian.Uint32(b[:]) != check.Sum32() {
		return fmt.Errorf("%w: the checksum of its contents does not match (%v)", errNotWhole, err)
	}
	return nil
}

// index compares the index of a segment with what its records say.
func (c *checker) index(s *segment, l *live) error {
	c.indexing.Lock()
	defer c.indexing.Unlock()
	c.mu.RLock()
	unsettled := s.live != nil
	c.mu.RUnlock()
	if unsettled {
		return nil
	}
	f, err := c.root.Open(fmt.Sprintf(indexName, s.number))
	if err == nil {
		defer f.Close()
		compare := &comparer{with: f}
		if err = l.writeTo(compare, s.mark); err == nil {
			err = compare.atEnd()
		}
		if err == nil {
			return nil
		}
	}
	c.report.Indexes = append(c.report.Indexes, fmt.Sprintf(indexName, s.number))
	if !c.writes {
		return nil
	}
	return writeIndex(c.root, s, l)
}

// comparer is written to, and fails where a file has other octets.
type comparer struct {
	with io.Reader
	b    []byte
}

var errDiffers = errors.New("it differs")

func (c *comparer) Write(b []byte) (int, error) {
	c.b = append(c.b[:0], b...)
	if _, err := io.ReadFull(c.with, c.b); err != nil || !bytes.Equal(b, c.b) {
		return 0, errDiffers
	}
	return len(b), nil
}

func (c *comparer) atEnd() error {
	if n, _ := c.with.Read(make([]byte, 1)); n > 0 {
		return errDiffers
	}
	return nil
}
