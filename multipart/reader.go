// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Reader reads the parts of one multipart body. It is not safe for concurrent use.
//
// A delimiter is two dashes and the boundary at the start of a line, and then white space, a dash or the end of the line
// (message-and-transport 4.1); a longer boundary that begins with ours is data. Lines end in LF or CRLF, mixed as they like.
// The line end in front of a delimiter belongs to the delimiter. Of the rest of a delimiter line:
//
//   - "--b" and blanks: a part begins with the next line.
//   - "--b--" and anything: the closing delimiter. What follows on its line is epilogue already, and Trailing sees it.
//   - "--b-x", "--b x", "--b" and a lone CR: ErrDelimiterLine, for some readers begin a part here and others see data.
//
// A delimiter inside a header block ends the part, which then is empty.
//
// What precedes the first delimiter is skipped, up to Limits.Preamble. A body that ends without a closing delimiter is refused.
type Reader struct {
	src    window
	limits Limits
	line   []byte // line feed, two dashes, boundary
	dash   []byte // line without its line feed
	depth  int
	total  *totals
	parts  int // parts seen by this Reader
	part   *Part
	spare  []Part // memory for the next ones
	block  []byte // header block being read
	err    error  // first error, returned for ever; io.EOF after the closing delimiter

	// What is known of the octets ahead, which belong to a part or to the preamble until a delimiter is found:
	fresh bool // none of them has been judged yet, so a delimiter may stand here without a line end in front of it
	safe  int  // so many are no part of a delimiter
	seen  int  // so many have been searched
	found bool // a delimiter follows the safe ones
	eol   int  // length of the line end in front of that delimiter
}

// totals is what has been seen of the whole body, in nested multiparts, too.
type totals struct{ parts, fields int }

// NewReader reads a body with that boundary from r. The Reader owns r until Next has returned an error.
// It reads ahead, by up to 256 KiB. A boundary that cannot be used is an error of the first Next.
func NewReader(r io.Reader, boundary string, limits Limits) *Reader {
	return newReader(&buffer{r: r}, boundary, limits.orDefault(), 1, new(totals))
}

func newReader(src window, boundary string, limits Limits, depth int, total *totals) *Reader {
	r := &Reader{src: src, limits: limits, depth: depth, total: total, fresh: true}
	r.err = checkBoundary(boundary)
	switch {
	case depth > limits.Depth:
		r.err = &LimitError{"Depth", int64(limits.Depth)}
	case len(boundary) > limits.Boundary:
		r.err = &LimitError{"Boundary", int64(limits.Boundary)}
	}
	r.line = []byte("\n--" + boundary)
	r.dash = r.line[1:]
	return r
}

// Next skips what is left of the current part and returns the next one. It returns io.EOF after the closing delimiter,
// ErrTruncated where the body ended without one, and stays with its first error. What is wrong with the body is wrapped
// with the number of the part; an error of the underlying reader is returned as it is.
//
// Next returns as soon as the part's header block is there. A body without any delimiter is ErrTruncated, or a LimitError of
// Preamble, with no part; the caller tells the cases apart by having seen no part.
func (r *Reader) Next() (*Part, error) {
	if r.err != nil {
		return nil, r.err
	}
	if err := r.skipBody(); err != nil {
		return nil, err
	}
	r.part = nil
	last, err := r.delimiter()
	if err != nil {
		return nil, r.fail(err)
	}
	if last {
		r.err = io.EOF
		return nil, r.err
	}
	r.parts++
	if r.total.parts++; r.total.parts > r.limits.Parts {
		return nil, r.fail(&LimitError{"Parts", int64(r.limits.Parts)})
	}
	part := r.newPart()
	if part.Header, err = r.header(part.few[:0]); err != nil {
		return nil, r.fail(err)
	}
	if r.total.fields += len(part.Header); r.total.fields > r.limits.Fields {
		return nil, r.fail(&LimitError{"Fields", int64(r.limits.Fields)})
	}
	r.part = part
	return part, nil
}

// newPart makes a Part, and with it as many again as there have been, up to 16.
func (r *Reader) newPart() *Part {
	if len(r.spare) == 0 {
		r.spare = make([]Part, min(r.parts, 16))
	}
	p := &r.spare[0]
	r.spare = r.spare[1:]
	p.r = r
	return p
}

// Trailing reads what follows the closing delimiter, up to limit octets and whatever one more read brings, and returns
// ErrTrailing if it holds more than white space or does not end there. It reads on after the first other octet, so that
// a connection can be kept. Call it after Next returned io.EOF, once: the Reader is of no use afterwards, nor are its parts.
func (r *Reader) Trailing(limit int64) error {
	if r.err != io.EOF {
		return errors.New("multipart: asked for what follows a body that has not ended")
	}
	if b, whole := r.src.(*buffer); whole {
		defer b.forget()
	}
	clean := true
	for {
		d, err := r.src.ahead(1)
		if len(d) == 0 {
			if err != io.EOF {
				return fmt.Errorf("reading after the closing delimiter: %w", err)
			}
			if !clean {
				return ErrTrailing
			}
			return nil
		}
		clean = clean && len(bytes.Trim(d, " \t\r\n")) == 0
		if limit -= int64(len(d)); limit < 0 {
			return ErrTrailing
		}
		r.src.skip(len(d))
	}
}

// fail makes err the Reader's last word.
func (r *Reader) fail(err error) error {
	if err == io.EOF {
		err = ErrTruncated
	}
	if !errors.As(err, new(*formError)) && !errors.As(err, new(*LimitError)) {
		r.err = err // of the underlying reader, which has words of its own
		return err
	}
	nested := ""
	if r.depth > 1 {
		nested = "nested "
	}
	if r.parts == 0 {
		r.err = fmt.Errorf("reading before the first %spart: %w", nested, err)
	} else {
		r.err = fmt.Errorf("reading %spart %d: %w", nested, r.parts, err)
	}
	return r.err
}

// skipBody skips to the next delimiter.
func (r *Reader) skipBody() error {
	preamble := int64(0)
	for {
		d, err := r.body(1)
		if len(d) == 0 {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if r.parts == 0 {
			if preamble += int64(len(d)); preamble > r.limits.Preamble {
				return r.fail(&LimitError{"Preamble", r.limits.Preamble})
			}
		}
		r.skip(len(d))
	}
}

// body returns the octets ahead that belong to the current part, or to the preamble: at least n, or fewer and the reason,
// which is io.EOF where a delimiter follows.
func (r *Reader) body(n int) (d []byte, err error) {
	for r.safe < n && !r.found && r.err == nil {
		d, err = r.src.ahead(max(n, r.seen+1))
		if len(d) > r.seen {
			r.search(d)
			r.seen = len(d)
		} else {
			r.fail(err)
		}
	}
	if len(d) < r.safe {
		if d, err = r.src.ahead(r.safe); err != nil { // a part that is over
			return nil, err
		}
	}
	d = d[:r.safe]
	switch {
	case len(d) >= n:
		return d, nil
	case r.found:
		return d, io.EOF
	}
	return d, r.err
}

// skip consumes n safe octets.
func (r *Reader) skip(n int) {
	r.src.skip(n)
	r.safe -= n
	r.seen -= n
}

// search looks for a delimiter in the octets ahead, of which the first r.seen have been searched before.
func (r *Reader) search(d []byte) {
	if r.fresh {
		is, sure := r.isDelimiter(d)
		if !sure {
			return
		}
		r.fresh = false
		if is {
			r.found, r.eol = true, 0
			return
		}
	}
	// All before r.safe is known. A delimiter that begins at the end of d and may go on behind it is held back.
	hold, found := findDelimiter(d[r.safe:], r.line)
	hold += r.safe
	if found {
		r.found, r.eol = true, 1
	}
	if hold > 0 && d[hold-1] == '\r' {
		hold--
		r.eol++
	}
	r.safe = hold
}

// isDelimiter says whether d, which stands at the start of a line, begins with a delimiter, and whether that is sure.
func (r *Reader) isDelimiter(d []byte) (is, sure bool) {
	if len(d) <= len(r.dash) {
		return false, !bytes.HasPrefix(r.dash, d)
	}
	return d[0] == r.dash[0] && bytes.HasPrefix(d, r.dash) && endsBoundary(d[len(r.dash)]), true
}

// delimiter consumes the delimiter that has been found, with its line unless it is the closing one.
func (r *Reader) delimiter() (last bool, err error) {
	n := r.safe + r.eol + len(r.dash)
	d, err := r.src.ahead(n)
	if err != nil {
		return false, err
	}
	r.src.skip(n)
	d = d[n:]
	r.safe, r.seen, r.found = 0, 0, false

	for padding := 0; ; {
		if len(d) == 0 {
			if d, err = r.src.ahead(1); err != nil {
				return false, err
			}
		}
		blanks := 0
		for blanks < len(d) && isBlank(d[blanks]) {
			blanks++
		}
		if padding += blanks; padding > r.limits.HeaderBytes {
			return false, &LimitError{"HeaderBytes", int64(r.limits.HeaderBytes)}
		}
		r.src.skip(blanks)
		if d = d[blanks:]; len(d) == 0 {
			continue
		}
		if d[0] == '\n' {
			r.src.skip(1)
			return false, nil
		}
		if d[0] != '\r' && (d[0] != '-' || padding > 0) {
			return false, ErrDelimiterLine
		}
		if len(d) < 2 {
			if d, err = r.src.ahead(2); err != nil {
				return false, err
			}
		}
		switch string(d[:2]) {
		case "\r\n":
		case "--":
			last = true
		default:
			return false, ErrDelimiterLine
		}
		r.src.skip(2)
		return last, nil
	}
}

// header reads a part's header block and appends its fields to h.
func (r *Reader) header(h Header) (Header, error) {
	if d, _ := r.src.ahead(1); len(d) > 0 {
		if block, n := r.wholeBlock(d); n > 0 {
			r.src.skip(n)
			r.fresh = true
			return parseHeader(h, block, r.limits.Headers)
		}
	}
	return r.headerLines(h)
}

// wholeBlock returns the header block at the start of d, without its empty line, and its length with it: as nearly all are,
// it is there as a whole, within the limit, and ends in an empty line. Otherwise n is 0.
func (r *Reader) wholeBlock(d []byte) (block string, n int) {
	d = d[:min(len(d), r.limits.HeaderBytes)]
	for {
		line := bytes.IndexByte(d[n:], '\n')
		if line < 0 {
			return "", 0
		}
		if line == 0 || line == 1 && d[n] == '\r' {
			return string(d[:n]), n + line + 1
		}
		if is, sure := r.isDelimiter(d[n:]); is || !sure {
			return "", 0
		}
		n += line + 1
	}
}

// headerLines is header line by line.
func (r *Reader) headerLines(h Header) (Header, error) {
	r.block = r.block[:0]
	var d []byte // what is ahead, as far as it has been looked at
	for {
		is, sure := r.isDelimiter(d)
		if !sure {
			var err error
			if d, err = r.src.ahead(len(d) + 1); err != nil {
				return nil, err
			}
			continue
		}
		if is { // without an empty line before it
			r.fresh, r.found, r.eol = false, true, 0
			return parseHeader(h, string(r.block), r.limits.Headers)
		}
		start := len(r.block)
		var err error
		if d, err = r.headerLine(d); err != nil {
			return nil, err
		}
		switch string(r.block[start:]) {
		case "\n", "\r\n":
			r.fresh = true
			return parseHeader(h, string(r.block[:start]), r.limits.Headers)
		}
	}
}

// headerLine moves one line from d, which is ahead, to the header block, and returns what then is ahead.
func (r *Reader) headerLine(d []byte) (rest []byte, err error) {
	for {
		n := bytes.IndexByte(d, '\n') + 1
		ends := n > 0
		if !ends {
			n = len(d)
		}
		if len(r.block)+n > r.limits.HeaderBytes {
			return nil, &LimitError{"HeaderBytes", int64(r.limits.HeaderBytes)}
		}
		r.block = append(r.block, d[:n]...)
		r.src.skip(n)
		if ends {
			return d[n:], nil
		}
		if d, err = r.src.ahead(1); err != nil {
			return nil, err
		}
	}
}

// Part is one part of a body. It is valid until the next call of its Reader's Next.
type Part struct {
	Header Header
	r      *Reader
	few    [2]Field // memory for a Header of few fields
}

var errPartOver = errors.New("multipart: the part is over: its Reader has gone on")

// Read reads the part's octets, undecoded. It ends in io.EOF only where a delimiter follows;
// a body that ends inside the part is ErrTruncated.
func (p *Part) Read(b []byte) (int, error) {
	d, err := p.ahead(1)
	if len(d) == 0 {
		return 0, err
	}
	n := copy(b, d)
	p.skip(n)
	return n, nil
}

// WriteTo writes the part's octets to w straight from the Reader's buffer.
func (p *Part) WriteTo(w io.Writer) (int64, error) {
	total := int64(0)
	for {
		d, err := p.ahead(1)
		if len(d) == 0 {
			if err == io.EOF {
				err = nil
			}
			return total, err
		}
		n, err := w.Write(d)
		if n < 0 || n > len(d) {
			return total, errors.New("multipart: writer returned an impossible count")
		}
		p.skip(n)
		total += int64(n)
		if err == nil && n < len(d) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// Nested returns a Reader over a part that is itself multipart. It shares the limits, one level deeper, and the part's position:
// use either the part or the nested Reader. The outer Reader's Next skips whatever the nested one left.
func (p *Part) Nested(boundary string) *Reader {
	return newReader(p, boundary, p.r.limits, p.r.depth+1, p.r.total)
}

func (p *Part) ahead(n int) ([]byte, error) {
	if p.r.part != p {
		return nil, errPartOver
	}
	return p.r.body(n)
}

func (p *Part) skip(n int) { p.r.skip(n) }
