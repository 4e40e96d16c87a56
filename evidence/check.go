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
	Removed uint64 // records up to this number were removed because of their age, as a record says; 0: none
	Head    Link   // the last one

	Timestamps int       // how many there are
	Covered    Link      // a time-stamp covers the links up to this record; number 0: there is none
	CoveredAt  time.Time // the time of that time-stamp, where it was judged
	// Refused are the time-stamps that were judged and are no good, the first hundred. They cover nothing.
	Refused []error

	// Torn is how many octets follow the last record and are none: of a record that is being written, that a crash has
	// left unfinished, or that was damaged or cut.
	Torn int64
	// Indexes are the files of indexes that did not fit their segments, so that a search might have missed records.
	// Where the store is open for writing they have been made again.
	Indexes []string
}

// Unnoticed says in words what a check like this cannot notice.
func (r *Report) Unnoticed() string {
	if r.Covered.Number == 0 {
		return "No time-stamp covers the links of the records: that the newest were removed cannot be noticed, nor that " +
			"records were made anew with all that follow them."
	}
	when := "at a time that was not judged"
	if !r.CoveredAt.IsZero() {
		when = "on " + r.CoveredAt.UTC().Format(time.RFC1123)
	}
	return fmt.Sprintf("A time-stamp covers the links of the records up to number %d, %s. That records after it were removed "+
		"cannot be noticed, nor that the newest were removed together with the time-stamps that cover them, unless the "+
		"digest of a later record is known from elsewhere.", r.Covered.Number, when)
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
	verify  VerifyToken
	report  *Report
	buffer  []byte
	first   uint64   // where the records begin
	next    uint64   // the number that must come now,
	head    link     // naming this
	removed *removal // what an index says of a removal,
	told    bool     // and the record that says so was there
}

func (c *checker) broken(format string, args ...any) error {
	return &BreakError{c.next, fmt.Errorf(format, args...)}
}

// errGone: a segment is not there any more.
var errGone = errors.New("a segment is missing")

// Check implements Store.Check.
func (a *archive) Check(ctx context.Context, verify VerifyToken) (*Report, error) {
	for {
		a.mu.RLock()
		segments := slices.Clone(a.segments)
		var end int64
		if n := len(segments); n > 0 {
			end = segments[n-1].known().End
		}
		removed := lastRemoval(segments)
		a.mu.RUnlock()
		c := &checker{archive: a, verify: verify, report: new(Report), removed: removed, buffer: make([]byte, copySize)}
		err := c.segments(ctx, segments, end)
		if (errors.Is(err, errGone) || err != nil && c.report.Records == 0) && ctx.Err() == nil && !a.unchanged(segments) {
			continue // the first were removed meanwhile
		}
		if b := (*BreakError)(nil); err != nil && !errors.As(err, &b) {
			err = fmt.Errorf("evidence: checking: %w", err)
		}
		return c.report, err
	}
}

// unchanged reports whether the segments are still these.
func (a *archive) unchanged(segments []*segment) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.writes && a.load(scanLive) != nil {
		return true
	}
	return slices.Equal(a.segments, segments)
}

// segments checks all, the last one up to end.
func (c *checker) segments(ctx context.Context, segments []*segment, end int64) error {
	for i, s := range segments {
		err := c.segment(ctx, s, i == len(segments)-1, end)
		if _, gone := c.root.Lstat(s.name()); errors.Is(gone, fs.ErrNotExist) {
			return c.broken("%w: %s", errGone, s.name()) // whatever else was found
		}
		if err != nil {
			return err
		}
	}
	if c.report.Removed > 0 && !c.told {
		return &BreakError{1, errors.New("no record says that the first ones were removed on purpose")}
	}
	return nil
}

// segment checks a segment, up to end where it is the last.
func (c *checker) segment(ctx context.Context, s *segment, isLast bool, end int64) error {
	f, err := openFile(c.root, s.name())
	if err != nil {
		return err
	}
	defer f.Close()
	if c.first == 0 {
		c.begin(s)
	}
	if err := c.follows(s, f); err != nil {
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
		if err := c.record(ctx, s, l, f, end); err != nil {
			return err
		}
	}
	if isLast {
		return c.tail(s, l, f, info.Size())
	}
	return c.index(s, l)
}

// begin looks where the records begin: with the first of all, or behind those that were removed.
func (c *checker) begin(s *segment) {
	c.next = 1
	if r := c.removed; s.first > 1 && r != nil && s.first-1 <= r.Last {
		c.next, c.head = s.first, s.previous
		if s.first-1 == r.Last {
			c.head = r.Digest
		}
		c.report.Removed = s.first - 1
	}
	c.first = c.next
}

// follows checks that a segment follows the one before.
func (c *checker) follows(s *segment, f *os.File) error {
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

// tail looks at what follows the last record that is known: nothing, zeros, or records that are being written. Where there
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
		return c.torn(s, l, f, size)
	}
	if _, _, err = s.readRecord(l, f, l.End, size, true); err == nil {
		return nil
	}
	never, failed := s.neverDurable(l, f, found, size)
	if failed != nil {
		return failed
	}
	if !never {
		return c.broken("in %s at octet %d: %w", s.name(), l.End, err)
	}
	there, err := scanBlank(f, l.End, size)
	c.report.Torn = there.end - l.End
	return err
}

// torn looks at what follows the last record where no other does: one that is being written, that a crash has left
// unfinished, or that is damaged. What is being written is so for a moment only.
func (c *checker) torn(s *segment, l *live, f *os.File, size int64) error {
	const looks = 10
	for n := range looks {
		r, err := s.rest(l, f, size)
		if err != nil {
			return err
		}
		if !r.damaged {
			c.report.Torn = r.end - l.End
			return nil
		}
		_, _, err = s.readRecord(l, f, l.End, size, true)
		if err == nil || !errors.Is(err, errNotWhole) {
			return err
		}
		if n == looks-1 {
			return c.broken("in %s at octet %d: %w", s.name(), l.End, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// record checks the record at l.End.
func (c *checker) record(ctx context.Context, s *segment, l *live, f *os.File, end int64) error {
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
	if err == nil && w.Stamp != nil {
		err = c.timestamp(ctx, w)
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
	if w.Removal != nil && c.removed != nil && *w.Removal == *c.removed {
		c.told = true
	}
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

// timestamp checks that a time-stamp is over what it says it is over, and has it judged.
func (c *checker) timestamp(ctx context.Context, w *whole) error {
	t, err := newTree(w)
	if err != nil {
		return fmt.Errorf("%w: the time-stamp: %w", errNotWhole, err)
	}
	var document []byte
	for _, l := range t.batch {
		if l.number < c.first {
			continue // it is not there any more
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		_, of, err := c.fetch(l.number)
		if err == nil {
			if document = of.document(0); l.number < w.number && bytes.Equal(sumMethod.Sum(document), l.sum) {
				continue
			}
		} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, errNotWhole) {
			return err
		}
		return fmt.Errorf("%w: the time-stamp is not that of the signature of record %d (%v)", errNotWhole, l.number, err)
	}
	st := w.Stamp
	if st.Head > 0 && st.Head >= c.first {
		_, of, err := c.fetch(st.Head)
		if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, errNotWhole) {
			return err
		}
		if err != nil || st.Head >= w.number || of.digest != st.Digest {
			return fmt.Errorf("%w: the time-stamp covers other links than those of record %d (%v)", errNotWhole, st.Head, err)
		}
	}
	c.report.Timestamps++
	data := w.document(1)
	switch {
	case data != nil:
	case len(t.batch) == 0:
		data = statement(st.Head, st.Digest)
	case document == nil:
		return nil // its record is not there any more, and with it what was stamped
	default:
		if data, err = singleValue(document); err != nil {
			return fmt.Errorf("%w: the time-stamp: %w", errNotWhole, err)
		}
	}
	var at time.Time
	if c.verify != nil {
		if at, err = c.verify(w.document(0), sumMethod.Sum(data)); err != nil {
			if len(c.report.Refused) < 100 {
				c.report.Refused = append(c.report.Refused, fmt.Errorf("evidence: the time-stamp in record %d: %w", w.number, err))
			}
			return nil
		}
	}
	if st.Head > 0 {
		c.report.Covered, c.report.CoveredAt = Link{st.Head, st.Digest[:]}, at
	}
	return nil
}

// index compares the index of a segment with what its records say.
func (c *checker) index(s *segment, l *live) error {
	c.mu.RLock()
	unsettled := s.live != nil
	c.mu.RUnlock()
	if unsettled {
		return nil // it is in memory
	}
	f, err := openFile(c.root, fmt.Sprintf(indexName, s.number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it misleads nobody
	}
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
	return c.makeIndex(s, l)
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
