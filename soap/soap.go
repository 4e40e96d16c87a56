// SPDX-License-Identifier: Apache-2.0

// Package soap finds the X-Road header in a SOAP envelope, octet-exactly, as the envelope streams by.
//
// What is hashed, what is parsed and what is forwarded are the same octets: an Envelope passes them on unchanged and
// checks them as they pass, with a scanner that keeps the names in scope and nothing else. The rules are those of
// message-and-transport section 3, judged in the order in which their violations can be seen:
//
//   - what the octets themselves show, rows 1 to 4 of 3.4, at the octet that shows it;
//   - what the header lacks, rows 5 to 11 and 13, when the name of the Body's child is known, so that a message can be
//     refused before its Body is read;
//   - what comes later, a second child of the Body or octets after the root, where it comes.
//
// Stricter than X-Road: a Header after the Body (missing_header: where the Body begins there was none), a second Header
// (invalid_soap: its blocks would not be those of the first), a second Body (invalid_body: two Bodies have two
// contents), XML 1.1, and a charset that contradicts another word on it (invalid_soap).
package soap

import (
	"fmt"
	"io"
	"sync"

	"github.com/caddy-fairway/fairway/ident"
)

// Limits bounds what an envelope can make an Envelope hold. A zero field means the field of DefaultLimits.
type Limits struct {
	Header     int // octets up to the end of the Header and the name of the Body's child
	Depth      int // elements inside each other
	Attributes int // attributes of one element, namespace declarations included
	Name       int // octets of one name, namespace URI or namespace declaration
	Names      int // octets of all names and declarations in scope together
}

// DefaultLimits are far above what correct messages need.
var DefaultLimits = Limits{Header: 256 << 10, Depth: 512, Attributes: 1024, Name: 8 << 10, Names: 256 << 10}

func (l Limits) orDefaults() Limits {
	for _, f := range []struct {
		value  *int
		preset int
	}{
		{&l.Header, DefaultLimits.Header}, {&l.Depth, DefaultLimits.Depth}, {&l.Attributes, DefaultLimits.Attributes},
		{&l.Name, DefaultLimits.Name}, {&l.Names, DefaultLimits.Names},
	} {
		if *f.value <= 0 {
			*f.value = f.preset
		}
	}
	return l
}

// The causes of message-and-transport 3.4 and 10.3 that this package finds.
const (
	invalidSOAP            = "invalid_soap"
	duplicateHeaderField   = "duplicate_header_field"
	invalidXML             = "invalid_xml"
	internalError          = "internal_error"
	missingHeader          = "missing_header"
	missingBody            = "missing_body"
	missingHeaderField     = "missing_header_field"
	invalidProtocolVersion = "invalid_protocol_version"
	invalidBody            = "invalid_body"
	inconsistentHeaders    = "inconsistent_headers"
	inconsistentResponse   = "inconsistent_response"
	invalidMessage         = "invalid_message"
)

// Error is a violation of message-and-transport section 3.
type Error struct {
	code   string
	Offset int64 // of the octet that shows it
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return e.Reason }

// Cause returns X-Road's cause, such as "missing_header_field" (message-and-transport 3.4, 10.3).
func (e *Error) Cause() string { return e.code }

// Party is a represented party.
type Party struct {
	Class *string // nil: absent
	Code  string
}

// Header is the X-Road header of a message. Values are as written, never trimmed; all of them share their memory.
type Header struct {
	Client          ident.Client
	Service         ident.Service
	SecurityServer  *ident.Server // nil: absent
	UserID          *string       // nil: absent
	ID              string
	Issue           *string // nil: absent
	ProtocolVersion string
	RequestHash     *string // nil: absent; Base64 as written
	Represented     *Party  // nil: absent
	empty           uint8   // optional children that were there without content, for Consistent
}

// Envelope is an envelope whose X-Road header is known and whose octets are still to be read. It is for one goroutine.
type Envelope struct {
	Header Header
	Body   string // local name of the Body's child
	Fault  bool   // the Body's child is a SOAP Fault: Header may be empty then

	r        io.Reader
	w        io.Writer // that WriteTo writes to
	buf      []byte    // octets that Open read and Read did not yield yet
	err      error     // that ends the octets, after buf
	charset  *charset  // of the octets
	marked   bool      // they begin with a byte order mark
	optional optional
	reading  *reading // nil once the octets have been read to their end
}

// A reading is what it takes to read an envelope, but for what outlives that. Each serves many envelopes, one by one.
type reading struct {
	doc    document
	header headerReader
	first  [2 << 10]byte // room for what Open reads
}

var readings = sync.Pool{New: func() any { return new(reading) }}

// finish gives back what reading needs, once nothing is left to be read.
func (e *Envelope) finish() {
	if e.reading != nil {
		e.reading.doc.forget()
		e.reading.header = headerReader{}
		readings.Put(e.reading)
	}
	e.r, e.w, e.buf, e.reading = nil, nil, nil, nil
}

// Open reads from r up to the end of the Header and the name of the Body's first child, and returns what it found,
// or the *Error that the octets so far show. contentCharset is the charset parameter of the Content-Type, or "";
// one that contradicts the envelope's own encoding is refused. Errors of r are returned as they are.
// The Envelope owns r until it has been read to its end.
func Open(r io.Reader, contentCharset string, limits Limits) (*Envelope, error) {
	e := &Envelope{r: r, reading: readings.Get().(*reading)}
	if err := e.open(contentCharset, limits.orDefaults()); err != nil {
		e.finish()
		return nil, err
	}
	return e, nil
}

func (e *Envelope) open(contentCharset string, limits Limits) error {
	doc, h := &e.reading.doc, &e.reading.header
	*h = headerReader{scanner: &doc.scanner, Header: &e.Header, optional: &e.optional}
	if err := doc.init(h, contentCharset, limits); err != nil {
		return err
	}
	h.watch = depthChild
	e.buf = e.reading.first[:0:min(len(e.reading.first), limits.Header)]
	for idle := 0; !h.known && e.err == nil; {
		if len(e.buf) == limits.Header {
			return &Error{invalidSOAP, int64(limits.Header), fmt.Sprintf(
				"the Header and the name of the Body's content do not end within %d octets", limits.Header)}
		}
		if len(e.buf) == cap(e.buf) {
			e.buf = append(make([]byte, 0, min(2*cap(e.buf), limits.Header)), e.buf...)
		}
		var n int
		n, e.err = e.r.Read(e.buf[len(e.buf):cap(e.buf)])
		e.buf = e.buf[:len(e.buf)+n]
		if bad := e.check(e.buf[len(e.buf)-n:]); bad != nil {
			return bad
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle == 100 {
			return io.ErrNoProgress
		}
	}
	if e.err != nil && e.err != io.EOF {
		return e.err
	}
	doc.rest()
	e.Body, e.Fault = h.body, h.fault
	e.charset, e.marked = doc.charset, doc.mark > 0
	return nil
}

// check scans octets that were read, and the end of the envelope if they are the last; e.err is what r said.
func (e *Envelope) check(p []byte) error {
	err := e.reading.doc.feed(p)
	if err == nil && e.err == io.EOF {
		err = e.reading.doc.close()
	}
	if err != nil {
		e.err = err
	}
	return err
}

// Read yields the envelope's octets from the first on, exactly as they came, and checks the rest as it passes.
// It ends in io.EOF for a well-formed envelope that follows the rules, else in an *Error; the octets read together with
// the one that shows the error are not yielded.
func (e *Envelope) Read(p []byte) (n int, err error) {
	if len(e.buf) > 0 {
		n = copy(p, e.buf)
		e.buf = e.buf[n:]
		return n, nil
	}
	if e.err == nil && len(p) > 0 {
		n, e.err = e.r.Read(p)
		if bad := e.check(p[:n]); bad != nil {
			n = 0
		}
	}
	if e.err != nil {
		e.finish()
	}
	return n, e.err
}

// copies are buffers for the rest of envelopes that cannot write themselves.
var copies = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 32 << 10

// WriteTo is Read without a copy in between.
func (e *Envelope) WriteTo(w io.Writer) (n int64, err error) {
	if n, err = drain(w, &e.buf); err != nil {
		return n, err
	}
	if e.err != nil { // Open has read it to its end
		e.finish()
		if e.err == io.EOF {
			return n, nil
		}
		return n, e.err
	}
	from, ok := e.r.(io.WriterTo)
	if !ok {
		room := copies.Get().(*[copyBuffer]byte)
		defer copies.Put(room)
		k, err := io.CopyBuffer(w, struct{ io.Reader }{e}, room[:])
		return n + k, err
	}
	e.w = w
	k, err := from.WriteTo((*checked)(e))
	n += k
	if err == nil && e.err == nil {
		e.err = io.EOF
		err = e.check(nil)
	} else if e.err != nil {
		err = e.err // what the octets show, whatever the source made of it
	}
	if e.err != nil {
		e.finish()
	}
	return n, err
}

// drain writes what is in b and takes it out.
func drain(w io.Writer, b *[]byte) (int64, error) {
	if len(*b) == 0 {
		return 0, nil
	}
	n, err := w.Write(*b)
	if err == nil && n < len(*b) {
		err = io.ErrShortWrite
	}
	*b = (*b)[n:]
	return int64(n), err
}

// checked is an Envelope that writes on what it has checked.
type checked Envelope

func (c *checked) Write(p []byte) (int, error) {
	if err := (*Envelope)(c).check(p); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
