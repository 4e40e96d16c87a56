// SPDX-License-Identifier: Apache-2.0

// Package multipart reads and writes MIME multipart bodies as a stream, octet for octet.
//
// What the standard library's mime/multipart loses is kept here: order, spelling, folding and padding of header lines,
// and every parameter of a Content-Type that real clients send. Nothing is decoded and nothing is re-serialised.
package multipart

import (
	"errors"
	"fmt"
	"io"
)

// Limits bounds what a stranger can make a Reader hold or skip. A zero field means the field of DefaultLimits.
type Limits struct {
	Boundary    int   // longest boundary, in octets
	HeaderBytes int   // octets of one part's header block
	Headers     int   // header fields of one part
	Parts       int   // parts of one body
	Depth       int   // multiparts inside each other
	Preamble    int64 // octets before the first delimiter
}

// DefaultLimits are far above what correct messages need.
var DefaultLimits = Limits{Boundary: 1024, HeaderBytes: 64 << 10, Headers: 1000, Parts: 20000, Depth: 8, Preamble: 64 << 10}

var (
	// ErrTruncated: the body ended before its closing delimiter.
	ErrTruncated = errors.New("multipart: body ends before its closing delimiter")
	// ErrTrailing: something other than white space follows the closing delimiter; see Reader.Trailing.
	ErrTrailing = errors.New("multipart: data after the closing delimiter")
	// ErrDelimiter: a part holds a delimiter line of a boundary that it must not hold; see Guard.
	ErrDelimiter = errors.New("multipart: a part holds a delimiter line of another boundary")
)

// LimitError says which limit a body went over.
type LimitError struct {
	Limit string // name of the field of Limits
	Max   int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("multipart: more than %d allowed by limit %s", e.Max, e.Limit)
}

// Field is one header field of a part.
type Field struct {
	Name  string // as spelt
	Value string // unfolded (line ends dropped, blanks kept), without blanks at either end
	raw   string // the octets, line end included; empty for a field made by NewHeader
}

// Header is the header block of a part, in order. It writes itself as the octets that were read.
type Header []Field

// NewHeader returns a header of name, value pairs.
func NewHeader(pairs ...string) Header { panic("stub") }

// Get returns the value of the first field of that name, compared without case, or "".
func (h Header) Get(name string) string { panic("stub") }

// Values returns the values of all fields of that name, compared without case.
func (h Header) Values(name string) []string { panic("stub") }

// WriteTo writes the fields as they were read (line ends made CRLF), or "Name: value" for those of NewHeader,
// without the empty line that ends a block.
func (h Header) WriteTo(w io.Writer) (int64, error) { panic("stub") }

// ContentType is a Content-Type value taken apart without being changed.
type ContentType struct {
	Value string // verbatim
	Type  string // type/subtype, lower case
}

// ParseContentType reads what real clients send: RFC 2045 and the ways in which stacks break it
// (unquoted boundaries with ":", "=" or "/", bare start=<id>, single quotes, empty parameters, folding).
// Two boundary parameters that differ are an error.
func ParseContentType(value string) (ContentType, error) { panic("stub") }

// Param returns a parameter by its name, compared without case, and whether it is there and not empty.
func (c ContentType) Param(name string) (string, bool) { panic("stub") }

// Reader reads the parts of one multipart body. It is not safe for concurrent use.
type Reader struct{}

// NewReader reads a body with that boundary from r. The Reader owns r until Next has returned an error.
func NewReader(r io.Reader, boundary string, limits Limits) *Reader { panic("stub") }

// Next skips what is left of the current part and returns the next one. It returns io.EOF after the closing delimiter,
// ErrTruncated where the body ended without one, and stays with its first error.
// A body without any delimiter is ErrTruncated with no part; the caller tells the cases apart by having seen no part.
func (r *Reader) Next() (*Part, error) { panic("stub") }

// Trailing reads what follows the closing delimiter, at most limit octets, and returns ErrTrailing
// if it holds more than white space. Call it after Next returned io.EOF.
func (r *Reader) Trailing(limit int64) error { panic("stub") }

// Part is one part of a body. It is valid until the next call of its Reader's Next.
type Part struct {
	Header Header
}

// Read reads the part's octets, undecoded. It ends in io.EOF only where a delimiter follows;
// a body that ends inside the part is ErrTruncated.
func (p *Part) Read(b []byte) (int, error) { panic("stub") }

// WriteTo writes the part's octets to w straight from the Reader's buffer.
func (p *Part) WriteTo(w io.Writer) (int64, error) { panic("stub") }

// Nested returns a Reader over a part that is itself multipart. It shares the limits, one level deeper.
func (p *Part) Nested(boundary string) *Reader { panic("stub") }

// Writer writes a multipart body with the framing of message-and-transport 5.4. It is not safe for concurrent use.
type Writer struct{}

// NewWriter writes a body with that boundary to w.
func NewWriter(w io.Writer, boundary string) *Writer { panic("stub") }

// Part ends the part before, if any, writes the delimiter and the header and returns the writer of the new part's octets,
// which is good until the next call.
func (w *Writer) Part(h Header) (io.Writer, error) { panic("stub") }

// Nested begins a part whose content is itself multipart, and returns its Writer.
// Close that one before going on with w.
func (w *Writer) Nested(h Header, boundary string) (*Writer, error) { panic("stub") }

// Close writes the closing delimiter. It does not close the underlying writer.
func (w *Writer) Close() error { panic("stub") }

// Letters returns n random letters from a cryptographic source, to make boundaries of.
func Letters(n int) string { panic("stub") }

// Guard is an io.Writer that watches for delimiter lines of a boundary in what passes (message-and-transport 4.6).
type Guard struct{}

// NewGuard watches for that boundary.
func NewGuard(boundary string) *Guard { panic("stub") }

// Begin says that a new part begins: what comes next stands at the start of a line.
func (g *Guard) Begin() { panic("stub") }

// Write looks at b. It returns ErrDelimiter once a delimiter line has been seen, and always consumes all of b.
func (g *Guard) Write(b []byte) (int, error) { panic("stub") }

// End says that the part is complete; a delimiter may end with the part. It returns ErrDelimiter as Write does.
func (g *Guard) End() error { panic("stub") }
