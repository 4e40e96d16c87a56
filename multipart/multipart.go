// SPDX-License-Identifier: Apache-2.0

// Package multipart reads and writes MIME multipart bodies as a stream, octet for octet.
//
// What the standard library's mime/multipart loses is kept here: order, spelling, folding and padding of header lines,
// and every parameter of a Content-Type that real clients send. Nothing is decoded and nothing is re-serialised.
//
// A body that two readers could cut or understand differently is refused, for what is hashed here is read by others later.
// The rules are those of message-and-transport 4.1 and 5.4; the doc comments of Reader, Header and ParseContentType
// say where they are stricter.
package multipart

import "fmt"

// Limits bounds what a stranger can make a Reader hold or skip. A field that is not positive means the field of DefaultLimits.
type Limits struct {
	Boundary    int   // longest boundary, in octets
	HeaderBytes int   // octets of one part's header block, and of the padding behind one delimiter
	Headers     int   // header fields of one part
	Fields      int   // header fields of all parts of one body together
	Parts       int   // parts of one body, those of nested multiparts included
	Depth       int   // multiparts inside each other, the outermost included
	Preamble    int64 // octets before the first delimiter
}

// DefaultLimits are far above what correct messages need.
var DefaultLimits = Limits{Boundary: 1024, HeaderBytes: 64 << 10, Headers: 1000, Fields: 200_000, Parts: 20000, Depth: 8, Preamble: 64 << 10}

// orDefault puts the defaults where nothing is set.
func (l Limits) orDefault() Limits {
	d := DefaultLimits
	if l.Boundary > 0 {
		d.Boundary = l.Boundary
	}
	if l.HeaderBytes > 0 {
		d.HeaderBytes = l.HeaderBytes
	}
	if l.Headers > 0 {
		d.Headers = l.Headers
	}
	if l.Fields > 0 {
		d.Fields = l.Fields
	}
	if l.Parts > 0 {
		d.Parts = l.Parts
	}
	if l.Depth > 0 {
		d.Depth = l.Depth
	}
	if l.Preamble > 0 {
		d.Preamble = l.Preamble
	}
	return d
}

// The errors by which a body is refused. They come wrapped, with the number of the part or the detail; each has a method
// Cause() string, which returns X-Road's word for it.
var (
	// ErrTruncated: the body ended before its closing delimiter.
	ErrTruncated error = &formError{"multipart: body ends before its closing delimiter", "mime_parsing_failed"}
	// ErrTrailing: something other than white space follows the closing delimiter; see Reader.Trailing.
	ErrTrailing error = &formError{"multipart: data after the closing delimiter", "mime_parsing_failed"}
	// ErrDelimiterLine: a line begins as a delimiter and goes on with something else than padding; see Reader.
	ErrDelimiterLine error = &formError{"multipart: malformed delimiter line", "mime_parsing_failed"}
	// ErrHeader: a header block holds a lone carriage return or a NUL, or a made field cannot be written.
	ErrHeader error = &formError{"multipart: malformed header", "mime_parsing_failed"}
	// ErrContentType: a Content-Type cannot be understood, or can be understood in two ways; see ParseContentType.
	ErrContentType error = &formError{"multipart: malformed Content-Type", "invalid_content_type"}
	// ErrBoundary: a boundary is empty, ends in a blank or holds other characters than printable ASCII.
	ErrBoundary error = &formError{"multipart: unusable boundary", "invalid_content_type"}
	// ErrDelimiter: a part holds a delimiter line of a boundary that it must not hold; see Guard.
	ErrDelimiter error = &formError{"multipart: a part holds a delimiter line of another boundary", "invalid_content_type"}
)

type formError struct{ text, cause string }

func (e *formError) Error() string { return e.text }

// Cause returns the last segment of X-Road's code.
func (e *formError) Cause() string { return e.cause }

// LimitError says which limit a body went over.
type LimitError struct {
	Limit string // name of the field of Limits
	Max   int64
}

func (e *LimitError) Error() string {
	if e.Limit == "Preamble" {
		return fmt.Sprintf("multipart: start boundary not found in the first %d octets", e.Max)
	}
	return fmt.Sprintf("multipart: more than %d allowed by limit %s", e.Max, e.Limit)
}

// Cause returns the last segment of X-Road's code.
func (e *LimitError) Cause() string { return "mime_parsing_failed" }

// checkBoundary says whether a boundary can be used at all.
func checkBoundary(boundary string) error {
	if boundary == "" {
		return fmt.Errorf("%w: it is empty", ErrBoundary)
	}
	for i := range len(boundary) {
		if boundary[i] < ' ' || boundary[i] > '~' {
			return fmt.Errorf("%w: octet %#02x", ErrBoundary, boundary[i])
		}
	}
	if boundary[len(boundary)-1] == ' ' {
		return fmt.Errorf("%w: it ends in a blank", ErrBoundary)
	}
	return nil
}

// endsBoundary says whether a delimiter may end before octet c: white space, or the dash of a closing delimiter.
func endsBoundary(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '-'
}
