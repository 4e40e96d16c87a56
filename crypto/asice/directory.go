// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of the ZIP file. A container of X-Road has at most 40 entries.
const (
	maxEntries   = 1000
	maxDirectory = 1 << 20 // octets of the directory
	maxName      = 1 << 10
	maxSize      = 1 << 40 // octets of one entry

	// How many octets may come out of one: what is smaller than freeSize may be packed as well as it can be.
	freeSize = 64 << 20
	maxRatio = 250
)

// Signatures and lengths of the records of a ZIP file.
const (
	localSignature      = "PK\x03\x04"
	directorySignature  = "PK\x01\x02"
	endSignature        = "PK\x05\x06"
	end64Signature      = "PK\x06\x06"
	locator64Signature  = "PK\x06\x07"
	descriptorSignature = "PK\x07\x08"

	localLength     = 30
	directoryLength = 46
	endLength       = 22
	end64Length     = 56
	locator64Length = 20
	maxComment      = 1<<16 - 1
)

// Flags of an entry that may be set. All others mean encryption or other ways to pack.
const (
	flagLevel      = 1<<1 | 1<<2
	flagDescriptor = 1 << 3
	flagUTF8       = 1 << 11
	knownFlags     = flagLevel | flagDescriptor | flagUTF8
)

// Extra fields that matter.
const (
	extraZIP64       = 0x0001
	extraUnicodePath = 0x7075 // another name than the entry's own
)

// Ways to pack.
const (
	stored   = 0
	deflated = 8
)

const unknown32 = 1<<32 - 1 // a length or offset that stands in a ZIP64 field

// entry is a file in a ZIP file, as the directory and its own header agree about it.
type entry struct {
	name          string
	flags, method uint16
	crc           uint32
	packed, size  int64
	header, data  int64 // offsets
}

// readEntries reads what is in a ZIP file, so strictly that every program that reads it finds the same: the file is nothing
// but entries one behind the other, their directory, and its end; directory and entries agree. What does not begin as a ZIP
// file has no entries.
func readEntries(r io.ReaderAt, size int64) ([]*entry, error) {
	begin := make([]byte, len(localSignature))
	if _, err := r.ReadAt(begin, 0); err != nil && err != io.EOF {
		return nil, &Error{unreadable, err}
	}
	if size < int64(len(begin)) || string(begin) != localSignature {
		return nil, nil
	}
	z := zipReader{r, size}
	end, err := z.end()
	if err != nil {
		return nil, fmt.Errorf("reading the end of the ZIP directory: %w", err)
	}
	entries, err := z.directory(end)
	if err != nil {
		return nil, fmt.Errorf("reading the ZIP directory: %w", err)
	}
	slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(a.header, b.header) })
	at := int64(0)
	for i, e := range entries {
		next := end.offset
		if i+1 < len(entries) {
			next = entries[i+1].header
		}
		if e.header != at {
			return nil, fmt.Errorf("%q does not begin where what is before it ends", e.name)
		}
		if err := z.local(e, next); err != nil {
			return nil, fmt.Errorf("reading the header of %q: %w", e.name, err)
		}
		at = next
	}
	if err := checkSizes(entries, size); err != nil {
		return nil, err
	}
	return entries, nil
}

// checkSizes refuses what is packed so well that nothing honest would be.
func checkSizes(entries []*entry, size int64) error {
	var total int64
	for _, e := range entries {
		if e.size > maxSize {
			return fmt.Errorf("%q has %d octets, more than %d", e.name, e.size, int64(maxSize))
		}
		if e.size > freeSize && e.size/maxRatio > e.packed {
			return fmt.Errorf("%q has %d octets, packed into %d", e.name, e.size, e.packed)
		}
		total += e.size
	}
	if total > freeSize && total/maxRatio > size {
		return fmt.Errorf("%d octets, packed into %d", total, size)
	}
	return nil
}

type zipReader struct {
	r    io.ReaderAt
	size int64
}

// read reads n octets at an offset.
func (z zipReader) read(at int64, n int) (fields, error) {
	if at < 0 || at > z.size-int64(n) {
		return nil, errors.New("it is not inside the file")
	}
	b := make([]byte, n)
	if got, err := z.r.ReadAt(b, at); got < n {
		return nil, &Error{unreadable, err}
	}
	return b, nil
}

// directoryEnd is where the directory is.
type directoryEnd struct {
	entries      uint64
	size, offset int64
}

// end reads the records at the end of the file. The directory must end where they begin, and the file where they end.
func (z zipReader) end() (*directoryEnd, error) {
	tail, err := z.read(max(0, z.size-endLength-maxComment), int(min(z.size, endLength+maxComment)))
	if err != nil {
		return nil, err
	}
	p := bytes.LastIndex(tail, []byte(endSignature))
	if p < 0 || len(tail)-p < endLength {
		return nil, errors.New("it is missing")
	}
	at := z.size - int64(len(tail)-p)
	f := tail[p+len(endSignature):]
	disks := [2]uint16{f.uint16(), f.uint16()}
	here, entries := uint64(f.uint16()), uint64(f.uint16())
	size, offset := uint64(f.uint32()), uint64(f.uint32())
	if comment := int(f.uint16()); comment != len(f) {
		return nil, fmt.Errorf("%d octets behind it, not %d", len(f), comment)
	}
	if entries == 1<<16-1 || size == unknown32 || offset == unknown32 {
		if at, f, err = z.end64(at); err != nil {
			return nil, err
		}
		disks64 := [2]uint32{f.uint32(), f.uint32()}
		here64, entries64, size64, offset64 := f.uint64(), f.uint64(), f.uint64(), f.uint64()
		if disks64 != [2]uint32{} || entries != 1<<16-1 && entries != entries64 || size != unknown32 && size != size64 ||
			offset != unknown32 && offset != offset64 || here != entries {
			return nil, errors.New("it contradicts itself")
		}
		here, entries, size, offset = here64, entries64, size64, offset64
	}
	switch {
	case disks != [2]uint16{} || here != entries:
		return nil, errors.New("the file is in several pieces")
	case entries > maxEntries || size > maxDirectory:
		return nil, fmt.Errorf("%d entries in %d octets, more than %d in %d", entries, size, maxEntries, maxDirectory)
	case offset > uint64(at) || size != uint64(at)-offset:
		return nil, errors.New("the directory does not end where it begins")
	}
	return &directoryEnd{entries, int64(size), int64(offset)}, nil
}

// end64 reads the ZIP64 records before the end record, and returns the fields from the disk numbers on.
func (z zipReader) end64(end int64) (at int64, f fields, err error) {
	locator, err := z.read(end-locator64Length, locator64Length)
	if err != nil {
		return 0, nil, err
	}
	at = end - locator64Length - end64Length
	if locator.string(4) != locator64Signature || locator.uint32() != 0 || locator.uint64() != uint64(at) || locator.uint32() != 1 {
		return 0, nil, errors.New("there is no ZIP64 end before it")
	}
	if f, err = z.read(at, end64Length); err != nil {
		return 0, nil, err
	}
	if f.string(4) != end64Signature || f.uint64() != end64Length-12 {
		return 0, nil, errors.New("its ZIP64 end is not one")
	}
	f.uint32() // versions
	return at, f, nil
}

// directory reads the directory.
func (z zipReader) directory(end *directoryEnd) ([]*entry, error) {
	f, err := z.read(end.offset, int(end.size))
	if err != nil {
		return nil, err
	}
	var entries []*entry
	seen := make(map[string]bool)
	for n := range end.entries {
		if len(f) < directoryLength {
			return nil, fmt.Errorf("it ends in entry %d", n)
		}
		e, err := f.entry()
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
		if err := checkName(e.name); err != nil {
			return nil, err
		}
		folded := strings.ToLower(strings.ToUpper(strings.TrimSuffix(e.name, "/")))
		if seen[folded] {
			return nil, fmt.Errorf("there are two entries %.128q", e.name)
		}
		seen[folded] = true
		entries = append(entries, e)
	}
	if len(f) > 0 {
		return nil, fmt.Errorf("%d octets behind its last entry", len(f))
	}
	return entries, nil
}

// entry reads an entry of the directory. There are at least directoryLength octets.
func (f *fields) entry() (*entry, error) {
	if f.string(4) != directorySignature {
		return nil, errors.New("it is not one")
	}
	creator := f.uint16() >> 8
	f.uint16() // version
	e := &entry{flags: f.uint16(), method: f.uint16()}
	f.uint32() // time and date
	e.crc = f.uint32()
	packed, size := uint64(f.uint32()), uint64(f.uint32())
	nameLength, extraLength, commentLength := int(f.uint16()), int(f.uint16()), int(f.uint16())
	disk := f.uint16()
	f.uint16() // what its maker thinks it is
	attributes := f.uint32()
	header := uint64(f.uint32())
	if len(*f) < nameLength+extraLength+commentLength {
		return nil, errors.New("it ends in its name")
	}
	e.name = f.string(nameLength)
	extra := fields(f.string(extraLength))
	f.string(commentLength)
	if err := extra.zip64(&size, &packed, &header); err != nil {
		return nil, err
	}
	const unix, fileType, regular, folder = 3, 0xf000, 0x8000, 0x4000
	mode := attributes >> 16 & fileType
	switch isFolder := strings.HasSuffix(e.name, "/"); {
	case disk != 0:
		return nil, errors.New("it is in another piece of the file")
	case e.flags&^knownFlags != 0:
		return nil, fmt.Errorf("%.128q is encrypted or packed in an unknown way (flags %#x)", e.name, e.flags)
	case e.method != stored && e.method != deflated:
		return nil, fmt.Errorf("%.128q is packed in an unknown way (method %d)", e.name, e.method)
	case e.method == stored && (packed != size || e.flags&flagDescriptor != 0):
		return nil, fmt.Errorf("%.128q is stored, but not as long as its data", e.name)
	case packed > maxSize || size > 1<<62 || header > 1<<62:
		return nil, fmt.Errorf("%.128q cannot be so large", e.name)
	case creator == unix && mode != 0 && mode != regular && (mode != folder || !isFolder):
		return nil, fmt.Errorf("%.128q is not a file", e.name)
	case isFolder && size != 0:
		return nil, fmt.Errorf("%.128q is a folder with %d octets", e.name, size)
	}
	e.packed, e.size, e.header = int64(packed), int64(size), int64(header)
	return e, nil
}

// checkName refuses names that mean different files to different programs, or files elsewhere.
func checkName(name string) error {
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, isControl):
		return fmt.Errorf("%.128q is no name of an entry", name)
	case strings.HasPrefix(name, "/") || strings.Contains(name, "..") || strings.ContainsAny(name, `\:`):
		return fmt.Errorf("the name %.128q leads elsewhere", name)
	}
	return nil
}

// local reads the entry's own header, which must agree with the directory, and its end, which must be where the next
// record begins.
func (z zipReader) local(e *entry, next int64) error {
	f, err := z.read(e.header, localLength)
	if err != nil {
		return err
	}
	if f.string(4) != localSignature {
		return errors.New("it is not one")
	}
	f.uint16() // version
	flags, method := f.uint16(), f.uint16()
	f.uint32() // time and date
	crc, packed, size := f.uint32(), uint64(f.uint32()), uint64(f.uint32())
	nameLength, extraLength := int(f.uint16()), int(f.uint16())
	more, err := z.read(e.header+localLength, nameLength+extraLength)
	if err != nil {
		return err
	}
	if more.string(nameLength) != e.name || flags != e.flags || method != e.method {
		return errors.New("the directory says something else")
	}
	if err := more.zip64(&size, &packed); err != nil {
		return err
	}
	e.data = e.header + int64(localLength+nameLength+extraLength)
	rest := next - e.data
	if rest < e.packed {
		return errors.New("it reaches into what is behind it")
	}
	rest -= e.packed
	// What its maker did not know beforehand stands behind the data.
	unknown := flags&flagDescriptor != 0
	agree := func(here, there uint64) bool { return here == there || unknown && here == 0 }
	if !agree(uint64(crc), uint64(e.crc)) || !agree(packed, uint64(e.packed)) || !agree(size, uint64(e.size)) {
		return errors.New("the directory says something else")
	}
	if unknown {
		return z.descriptor(e, rest)
	}
	if rest != 0 {
		return fmt.Errorf("%d octets behind it", rest)
	}
	return nil
}

// descriptor reads what stands behind the data of an entry: check sum and lengths in four or eight octets each, perhaps
// after a signature.
func (z zipReader) descriptor(e *entry, length int64) error {
	switch length {
	case 12, 16, 20, 24:
	default:
		return fmt.Errorf("%d octets behind its data", length)
	}
	f, err := z.read(e.data+e.packed, int(length))
	if err != nil {
		return err
	}
	if length%8 == 0 && f.string(4) != descriptorSignature {
		return errors.New("the octets behind its data say something else")
	}
	crc := f.uint32()
	number := func() int64 { return int64(f.uint32()) }
	if length >= 20 {
		number = func() int64 { return int64(f.uint64()) }
	}
	if crc != e.crc || number() != e.packed || number() != e.size {
		return errors.New("the octets behind its data say something else")
	}
	return nil
}

// fields is a run of little-endian numbers and texts. Who takes from it knows that it is long enough.
type fields []byte

func (f *fields) string(n int) string {
	s := string((*f)[:n])
	*f = (*f)[n:]
	return s
}

func (f *fields) uint16() uint16 { return binary.LittleEndian.Uint16([]byte(f.string(2))) }
func (f *fields) uint32() uint32 { return binary.LittleEndian.Uint32([]byte(f.string(4))) }
func (f *fields) uint64() uint64 { return binary.LittleEndian.Uint64([]byte(f.string(8))) }

// zip64 goes through extra fields, and fills in from that of ZIP64 the numbers that do not fit into four octets.
func (f fields) zip64(numbers ...*uint64) error {
	found := false
	for len(f) > 0 {
		if len(f) < 4 {
			return errors.New("its extra fields are cut off")
		}
		id, length := f.uint16(), int(f.uint16())
		if len(f) < length {
			return errors.New("its extra fields are cut off")
		}
		field := fields(f.string(length))
		switch {
		case id == extraUnicodePath:
			return errors.New("it has a second name")
		case id == extraZIP64 && found:
			return errors.New("it has two ZIP64 fields")
		case id == extraZIP64:
			found = true
			for _, n := range numbers {
				if *n != unknown32 {
					continue
				}
				if len(field) < 8 {
					return errors.New("its ZIP64 field is cut off")
				}
				*n = field.uint64()
			}
		}
	}
	if !found && slices.ContainsFunc(numbers, func(n *uint64) bool { return *n == unknown32 }) {
		return errors.New("it has no ZIP64 field")
	}
	return nil
}
