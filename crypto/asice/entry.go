// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bufio"
	"compress/flate"
	"errors"
	"hash/crc32"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// open opens the data of an entry of r.
func (e *entry) open(r io.ReaderAt) io.ReadCloser {
	packed := io.NewSectionReader(r, e.data, e.packed)
	f := &fileReader{entry: e, packed: bufio.NewReaderSize(packed, int(min(e.packed+1, 32<<10)))}
	f.data = f.packed
	if e.method == deflated {
		f.data = flate.NewReader(f.packed)
	}
	return f
}

// fileReader reads an entry. It ends without error only where all of the entry is as the directory says.
type fileReader struct {
	entry  *entry
	packed *bufio.Reader
	data   io.Reader
	crc    uint32
	n      int64
	err    error
}

// Read implements io.Reader.
func (f *fileReader) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.data.Read(p)
	f.n += int64(n)
	if f.n > f.entry.size {
		f.err = failf(invalid, "%q is longer than the directory says", f.entry.name)
		return 0, f.err
	}
	f.crc = crc32.Update(f.crc, crc32.IEEETable, p[:n])
	if err != nil {
		f.err = f.end(err)
	}
	return n, f.err
}

// end judges the end of the data.
func (f *fileReader) end(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &corrupt) || err == io.ErrUnexpectedEOF:
		return failf(invalid, "%q cannot be unpacked: %w", f.entry.name, err)
	case err != io.EOF:
		return failf(unreadable, "reading %q: %w", f.entry.name, err)
	case f.n != f.entry.size:
		return failf(invalid, "%q is shorter than the directory says", f.entry.name)
	case f.crc != f.entry.crc:
		return failf(invalid, "the check sum of %q is wrong", f.entry.name)
	}
	if _, err := f.packed.ReadByte(); err != io.EOF {
		return failf(invalid, "%q has octets behind its data", f.entry.name)
	}
	return io.EOF
}

// Close implements io.Closer.
func (f *fileReader) Close() error {
	if f.err == nil {
		f.err = errors.New("container: read after Close")
	}
	return nil
}

// messageReader reads a message, and ends in an error where that is blank or no text.
type messageReader struct {
	from  *bufio.Reader
	begun bool
	any   bool   // its octets are of the encoding that it names itself, which is not UTF-8
	some  bool   // it is not blank so far
	rest  []byte // the beginning of a character
	err   error
}

// maxDeclaration is how far into a message its encoding is looked for.
const maxDeclaration = 2 << 10

func newMessageReader(r io.Reader) *messageReader {
	return &messageReader{from: bufio.NewReaderSize(r, maxDeclaration)}
}

// namedEncoding finds the encoding in an XML declaration.
var namedEncoding = regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([^"']*)["']`)

// begin looks at the first octets. Messages are UTF-8, but an information system may send another encoding, of which XML
// tells at its beginning, and what is signed are the octets. Whoever reads such a message judges it by its encoding.
func (m *messageReader) begin() error {
	m.begun = true
	prefix, err := m.from.Peek(maxDeclaration)
	if err != nil && err != io.EOF {
		return err
	}
	utf16 := slices.ContainsFunc([]string{"\xfe\xff", "\xff\xfe", "\x00<\x00?", "<\x00?\x00"}, func(begin string) bool {
		return strings.HasPrefix(string(prefix), begin)
	})
	encoding := namedEncoding.FindSubmatch(prefix)
	m.any = utf16 || encoding != nil && !strings.EqualFold(string(encoding[1]), "UTF-8")
	return nil
}

// Read implements io.Reader.
func (m *messageReader) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	if !m.begun {
		if m.err = m.begin(); m.err != nil {
			return 0, m.err
		}
	}
	n, err := m.from.Read(p)
	m.some = m.some || !isBlank(p[:n])
	if !m.any && !m.isText(p[:n], err == io.EOF) {
		err = failf(invalid, "%s is not UTF-8", messageName)
	}
	if err == io.EOF && !m.some {
		err = failf(noMessage, "%s is blank", messageName)
	}
	m.err = err
	return n, err
}

// isText reports whether all characters are well-formed so far, and at the end whether none is incomplete.
func (m *messageReader) isText(p []byte, end bool) bool {
	for len(m.rest) > 0 && len(p) > 0 && !utf8.FullRune(m.rest) {
		m.rest, p = append(m.rest, p[0]), p[1:]
	}
	if len(m.rest) > 0 {
		if !utf8.FullRune(m.rest) {
			return !end
		}
		if !utf8.Valid(m.rest) {
			return false
		}
		m.rest = m.rest[:0]
	}
	whole := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				whole = len(p) - i
			}
			break
		}
	}
	m.rest = append(m.rest, p[whole:]...)
	return utf8.Valid(p[:whole]) && !(end && len(m.rest) > 0)
}
