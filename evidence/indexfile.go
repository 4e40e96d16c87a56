// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"slices"
)

// An index is a file beside a segment that others follow, NNNNNNNN.index. It has what finds a record, and can be made
// again from the segment at any time: it is no evidence. It consists of pages of 4 KiB; in the last four octets of each
// is a CRC-32C of the segment's mark, the page's number and the rest of the page. The pages hold together
//
//	length    4  of the summary
//	summary      JSON
//	entries      one for each record
//	stamps   20 for each time-stamp of records: the first and the last number it covers, and its entry; ascending
//	then for each kind of id, message ids first
//	starts       4 each: where a bucket begins in the rows; the first bits of a hash are its bucket
//	rows         8 each: a hash, and the entry that has it; ascending
const (
	indexName   = "%08d.index"
	pageSize    = 4 << 10
	pageRoom    = pageSize - checkSize
	entrySize   = 8 + 8 + 8 + 4 + 4 + 4*4
	stampSize   = 8 + 8 + 4
	rowSize     = 8
	bucketRows  = 256      // about so many rows are in a bucket
	maxSummary  = 64 << 20 // most of it tells of damage
	indexBuffer = 256 << 10
)

// errIndex is wrapped where an index cannot be used, and must be made again.
var errIndex = errors.New("the index is damaged")

func (e entry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, e.number)
	b = binary.BigEndian.AppendUint64(b, uint64(e.at))
	b = binary.BigEndian.AppendUint64(b, uint64(e.seconds))
	for _, n := range [...]uint32{e.nanos, e.flags, e.client[0], e.client[1], e.provider[0], e.provider[1]} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

func readEntry(b []byte) entry {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[24+4*i:]) }
	return entry{
		number: binary.BigEndian.Uint64(b), at: int64(binary.BigEndian.Uint64(b[8:])),
		seconds: int64(binary.BigEndian.Uint64(b[16:])), nanos: word(0), flags: word(1),
		client: [2]uint32{word(2), word(3)}, provider: [2]uint32{word(4), word(5)},
	}
}

// writeTo writes the index.
func (l *live) writeTo(to io.Writer, m mark) error {
	b, err := json.Marshal(l.summary)
	if err != nil {
		return err
	}
	if len(b) > maxSummary {
		return fmt.Errorf("a summary of %d octets", len(b))
	}
	w := &pageWriter{to: bufio.NewWriterSize(to, indexBuffer), mark: m}
	w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
	w.Write(b)
	for _, e := range l.entries {
		b = e.append(b[:0])
		w.Write(b)
	}
	for _, r := range l.stamps {
		b = binary.BigEndian.AppendUint64(b[:0], r.From)
		b = binary.BigEndian.AppendUint64(b, r.To)
		w.Write(binary.BigEndian.AppendUint32(b, r.entry))
	}
	type row struct{ hash, entry uint32 }
	rows := make([]row, len(l.ids))
	for kind := range idKinds {
		for i := range l.ids {
			rows[i] = row{l.ids[i][kind], uint32(i)}
		}
		slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.entry, b.entry)) })
		shift := bucketShift(len(rows))
		at := 0
		for bucket := range buckets(len(rows)) + 1 {
			for at < len(rows) && int(rows[at].hash>>shift) < bucket {
				at++
			}
			w.Write(binary.BigEndian.AppendUint32(b[:0], uint32(at)))
		}
		for _, r := range rows {
			b = binary.BigEndian.AppendUint32(b[:0], r.hash)
			w.Write(binary.BigEndian.AppendUint32(b, r.entry))
		}
	}
	return w.finish()
}

// bucketShift tells how many bits of a hash do not count for its bucket. A shift by 32 leaves one bucket.
func bucketShift(rows int) int { return 32 - bits.Len32(uint32(rows/bucketRows)) }

func buckets(rows int) int { return 1 << (32 - bucketShift(rows)) }

// pageWriter writes pages. Errors come from finish.
type pageWriter struct {
	to   *bufio.Writer
	mark mark
	page uint64 // its number
	b    []byte // its octets so far
}

func (w *pageWriter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(pageRoom-len(w.b), len(rest))
		w.b, rest = append(w.b, rest[:n]...), rest[n:]
		if len(w.b) == pageRoom {
			w.end()
		}
	}
	return len(b), nil
}

func (w *pageWriter) end() {
	w.b = binary.BigEndian.AppendUint32(w.b, pageCheck(w.mark, w.page, w.b))
	w.to.Write(w.b) // errors stick
	w.page, w.b = w.page+1, w.b[:0]
}

func (w *pageWriter) finish() error {
	if len(w.b) > 0 {
		w.b = append(w.b, make([]byte, pageRoom-len(w.b))...)
		w.end()
	}
	return w.to.Flush()
}

func pageCheck(m mark, page uint64, b []byte) uint32 {
	start := binary.BigEndian.AppendUint64(m[:len(m):len(m)], page)
	return crc32.Update(crc32.Checksum(start, castagnoli), castagnoli, b)
}

// pages reads what is in the pages. It remembers the last one.
type pages struct {
	f    io.ReaderAt
	mark mark
	page int64 // its number, if it is not empty
	b    []byte
}

func (p *pages) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		if page := at / pageRoom; len(p.b) == 0 || page != p.page {
			if err := p.read(page); err != nil {
				return n, err
			}
		}
		copied := copy(b[n:], p.b[at%pageRoom:])
		n, at = n+copied, at+int64(copied)
	}
	return n, nil
}

func (p *pages) read(page int64) error {
	b := append(p.b[:0], make([]byte, pageSize)...)
	p.b = p.b[:0]
	if n, err := p.f.ReadAt(b, page*pageSize); n < pageSize {
		return fmt.Errorf("%w: page %d: %w", errIndex, page, err)
	}
	if pageCheck(p.mark, uint64(page), b[:pageRoom]) != binary.BigEndian.Uint32(b[pageRoom:]) {
		return fmt.Errorf("%w: the check of page %d does not match", errIndex, page)
	}
	p.page, p.b = page, b[:pageRoom]
	return nil
}

// indexFile is a view of an index.
type indexFile struct {
	summary
	f       fs.File
	pages   pages
	entries int64          // where they begin
	stamps  int64          // where they begin
	starts  [idKinds]int64 // where each table begins
}

// openIndex opens the index of a segment.
func openIndex(root *os.Root, s *segment) (view, error) {
	info, err := root.Lstat(s.name())
	if err != nil {
		return nil, err
	}
	f, err := openFile(root, fmt.Sprintf(indexName, s.number))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	x, err := readIndex(f, s, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	return x, nil
}

// readIndex reads the index of a segment whose file has so many octets.
func readIndex(f fs.File, s *segment, size int64) (*indexFile, error) {
	x := &indexFile{f: f, pages: pages{f: f.(io.ReaderAt), mark: s.mark}}
	var b [4]byte
	if _, err := x.pages.ReadAt(b[:], 0); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(b[:]))
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	if length > min(maxSummary, info.Size()) {
		return nil, fmt.Errorf("%w: a summary of %d octets", errIndex, length)
	}
	text := make([]byte, length)
	if _, err := x.pages.ReadAt(text, int64(len(b))); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &x.summary); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	n := x.Entries
	if n < 0 || int64(n) > size/headSize || x.Stamps < 0 || x.Stamps > n || x.Size != size || x.End > size || x.Next < s.first {
		return nil, fmt.Errorf("%w: it is that of a file of %d octets with %d records", errIndex, x.Size, n)
	}
	at := int64(len(b)) + length
	x.entries = at
	at += int64(n) * entrySize
	x.stamps = at
	at += int64(x.Stamps) * stampSize
	for kind := range x.starts {
		x.starts[kind] = at
		at += int64(buckets(n)+1)*4 + int64(n)*rowSize
	}
	if whole := (at + pageRoom - 1) / pageRoom * pageSize; info.Size() != whole {
		return nil, fmt.Errorf("%w: it has %d octets, not %d", errIndex, info.Size(), whole)
	}
	return x, nil
}

func (x *indexFile) known() *summary { return &x.summary }
func (x *indexFile) close() error    { return x.f.Close() }

func (x *indexFile) entry(i int) (entry, error) {
	var b [entrySize]byte
	_, err := x.pages.ReadAt(b[:], x.entries+int64(i)*entrySize)
	return readEntry(b[:]), err
}

func (x *indexFile) stamp(i int) (stampRow, error) {
	var b [stampSize]byte
	_, err := x.pages.ReadAt(b[:], x.stamps+int64(i)*stampSize)
	r := stampRow{span{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}, binary.BigEndian.Uint32(b[16:])}
	if err == nil && int(r.entry) >= x.Entries {
		err = fmt.Errorf("%w: a stamp of entry %d", errIndex, r.entry)
	}
	return r, err
}

func (x *indexFile) withID(kind int, hash uint32) (found []int, err error) {
	var bucket [8]byte
	shift := bucketShift(x.Entries)
	if _, err := x.pages.ReadAt(bucket[:], x.starts[kind]+int64(hash>>shift)*4); err != nil {
		return nil, err
	}
	from, to := binary.BigEndian.Uint32(bucket[:]), binary.BigEndian.Uint32(bucket[4:])
	if from > to || int(to) > x.Entries {
		return nil, fmt.Errorf("%w: a bucket from %d to %d", errIndex, from, to)
	}
	rows := x.starts[kind] + int64(buckets(x.Entries)+1)*4
	var row [rowSize]byte
	for i := from; i < to; i++ {
		if _, err := x.pages.ReadAt(row[:], rows+int64(i)*rowSize); err != nil {
			return nil, err
		}
		if binary.BigEndian.Uint32(row[:]) != hash {
			continue
		}
		n := int(binary.BigEndian.Uint32(row[4:]))
		if n >= x.Entries {
			return nil, fmt.Errorf("%w: a row of entry %d", errIndex, n)
		}
		found = append(found, n)
	}
	return found, nil
}

// writeIndex makes the index of a segment, or makes it again. After a crash there is a whole one, or none.
func writeIndex(root *os.Root, s *segment, l *live) error {
	name := fmt.Sprintf(indexName, s.number)
	draft := name + ".new"
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = l.writeTo(f, s.mark)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		root.Remove(draft)
		return err
	}
	return root.Rename(draft, name)
}
