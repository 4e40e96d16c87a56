// SPDX-License-Identifier: Apache-2.0

// Package soap finds the X-Road header in a SOAP envelope, octet-exactly, as the envelope streams by.
package soap

import (
	"io"

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

// Header is the X-Road header of a message. Values are as written, never trimmed.
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
	present         uint8   // blocks and optional children that were there, for Consistent
}

// Envelope is an envelope whose X-Road header is known and whose octets are still to be read.
type Envelope struct {
	Header Header
	Body   string // local name of the Body's child
	Fault  bool   // the Body's child is a SOAP Fault: Header may be empty then
}

// Open reads from r up to the end of the Header and the name of the Body's first child, and returns what it found,
// or the *Error that the octets so far show. contentCharset is the charset parameter of the Content-Type, or "";
// one that contradicts the envelope's own encoding is refused. Errors of r are returned as they are.
// The Envelope owns r until it has been read to its end.
func Open(r io.Reader, contentCharset string, limits Limits) (*Envelope, error) { panic("stub") }

// Read yields the envelope's octets from the first on, exactly as they came, and checks the rest as it passes.
// It ends in io.EOF for a well-formed envelope that follows the rules, else in an *Error.
func (e *Envelope) Read(p []byte) (int, error) { panic("stub") }

// WriteTo is Read without a copy in between.
func (e *Envelope) WriteTo(w io.Writer) (int64, error) { panic("stub") }

// WithRequestHash returns the octets of the envelope with one requestHash of SHA-512 put right after the id block and
// every other requestHash cut out (message-and-transport section 7). All other octets are copied.
// An envelope that is not UTF-8 is transcoded and its declaration replaced; a byte order mark is dropped.
// Call it instead of reading the Envelope.
func (e *Envelope) WithRequestHash(sha512 []byte) io.Reader { panic("stub") }

// Consistent returns nil if response answers request (message-and-transport 3.9), else an *Error with cause
// "inconsistent_response" that names the block.
func Consistent(request, response *Header) error { panic("stub") }

// Fault is a SOAP 1.1 fault as X-Road writes and reads it (message-and-transport 10.1).
type Fault struct {
	Code, String, Actor, Detail string
}

// ParseFault reads the fault of an envelope, at most 1 MiB of it.
func ParseFault(envelope []byte) (*Fault, error) { panic("stub") }

// Bytes returns the fault as an envelope.
func (f *Fault) Bytes() []byte { panic("stub") }
