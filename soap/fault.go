// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"encoding/xml"
)

// maxFault is how much of an envelope ParseFault reads.
const maxFault = 1 << 20

// Fault is a SOAP 1.1 fault as X-Road writes and reads it (message-and-transport 10.1).
type Fault struct {
	Code, String, Actor, Detail string
}

// ParseFault reads the fault of an envelope, at most 1 MiB of it: faultcode, faultstring, faultactor, and the first
// faultDetail of any namespace. An envelope that holds something else is an *Error with cause "invalid_message".
func ParseFault(envelope []byte) (*Fault, error) {
	f := &faultReader{fault: &Fault{}}
	var doc document
	f.scanner = &doc.scanner
	err := doc.init(f, "", DefaultLimits)
	if err != nil {
		return nil, err
	}
	defer doc.forget()
	f.watch = DefaultLimits.Depth
	err = doc.feed(envelope[:min(len(envelope), maxFault)])
	if err == nil && len(envelope) <= maxFault {
		err = doc.close()
	}
	switch {
	case err != nil:
		return nil, err
	case !f.read:
		return nil, &Error{invalidMessage, 0, "the envelope holds no fault, or does not end it within 1 MiB"}
	}
	return f.fault, nil
}

// A faultReader hears of the elements of an envelope and fills in its fault.
type faultReader struct {
	*scanner
	fault  *Fault
	field  *string // whose text is gathered
	detail bool    // a faultDetail was there
	in     int     // how many of Envelope, Body and Fault are the first elements in scope
	read   bool    // the Fault ended
}

func (f *faultReader) start(depth int) error {
	path := [...]word{envelope, body, fault}
	if depth <= len(path) {
		if !f.read && depth == f.in+1 && f.is(ofSOAP, path[f.in]) {
			f.in++
		}
		return nil
	}
	if f.in < len(path) || f.field != nil {
		return nil
	}
	var field *string
	w, _ := f.word()
	own := depth == len(path)+1
	switch {
	case w == faultDetail && !f.detail:
		f.detail = true
		field = &f.fault.Detail
	case own && f.is(ofNone, faultCode):
		field = &f.fault.Code
	case own && f.is(ofNone, faultString):
		field = &f.fault.String
	case own && f.is(ofNone, faultActor):
		field = &f.fault.Actor
	}
	if field != nil {
		f.field = field
		f.gather(depth)
	}
	return nil
}

func (f *faultReader) end(depth int) error {
	if f.field != nil && f.collect == depth {
		*f.field = f.gathered()
		f.field, f.collect = nil, 0
	}
	if f.in == depth {
		f.read = f.read || depth == depthBlock
		f.in--
	}
	return nil
}

// Bytes returns the fault as an envelope. Characters that XML does not allow become U+FFFD.
func (f *Fault) Bytes() []byte {
	var b bytes.Buffer
	text := func(before, v string) {
		b.WriteString(before)
		_ = xml.EscapeText(&b, []byte(v)) // a Buffer takes everything
	}
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>`)
	text(`<SOAP-ENV:Envelope xmlns:SOAP-ENV="`+soapSpace+`"><SOAP-ENV:Body><SOAP-ENV:Fault><faultcode>`, f.Code)
	text(`</faultcode><faultstring>`, f.String)
	text(`</faultstring><faultactor>`, f.Actor)
	text(`</faultactor><detail><faultDetail xmlns="">`, f.Detail)
	b.WriteString(`</faultDetail></detail></SOAP-ENV:Fault></SOAP-ENV:Body></SOAP-ENV:Envelope>`)
	return b.Bytes()
}
