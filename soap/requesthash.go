// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"encoding/base64"
	"io"
	"unicode/utf8"

	"golang.org/x/text/transform"
)

const sha512URI = "http://www.w3.org/2001/04/xmlenc#sha512"

// A splice is where the text of an envelope is edited to put in a request hash. Offsets are in the text: in UTF-8,
// without byte order mark. All of them lie in what Open reads.
type splice struct {
	id, old span // the blocks id and requestHash; empty where there is none
	prefix  int  // octets of the prefix of id
	declare bool // it is not declared outside of id
}

type span struct{ from, to int64 }

// start notes where a block begins.
func (p *splice) start(h *headerReader) {
	switch h.block {
	case id:
		p.id.from = h.tagAt
		p.prefix, p.declare = len(h.prefix()), h.declares()
	case requestHash:
		p.old.from = h.tagAt
	}
}

// end notes where a block ends.
func (p *splice) end(h *headerReader) {
	switch h.block {
	case id:
		p.id.to = h.offset()
	case requestHash:
		p.old.to = h.offset()
	}
}

// WithRequestHash returns the octets of the envelope with one requestHash of SHA-512 put right after the id block, with
// the white space that stands before id, and every other requestHash cut out (message-and-transport section 7).
// All other octets are copied. An envelope that is not UTF-8 is transcoded and its declaration replaced; a byte order
// mark is dropped. An envelope without id, as a Fault may be, gets no requestHash.
// Call it instead of reading the Envelope; the reader ends as Read does.
func (e *Envelope) WithRequestHash(sha512 []byte) io.Reader {
	if e.reading == nil {
		return e
	}
	p, prolog := e.reading.header.splice, e.reading.doc.prolog
	head, tail := e.inUTF8()
	var out bytes.Buffer
	at := int64(0)
	copyTo := func(to int64) { out.Write(head[at:to]); at = to }
	if !e.IsUTF8() {
		out.WriteString(utf8Declaration)
		at = prolog
	}
	if p.old.to > 0 && p.old.from < p.id.from {
		copyTo(p.old.from)
		at = p.old.to
	}
	if p.id.to > 0 {
		copyTo(p.id.to)
		before := head[:p.id.from]
		out.Write(before[len(bytes.TrimRight(before, " \t\r\n")):])
		out.WriteString(p.element(string(head[p.id.from+1:][:p.prefix]), sha512))
	}
	if p.old.from >= at && p.old.to > 0 {
		copyTo(p.old.from)
		at = p.old.to
	}
	copyTo(int64(len(head)))
	return &headed{out.Bytes(), tail}
}

// headed is a head and what follows it.
type headed struct {
	head []byte
	tail io.Reader
}

// Read implements io.Reader.
func (h *headed) Read(p []byte) (int, error) {
	if len(h.head) == 0 {
		return h.tail.Read(p)
	}
	n := copy(p, h.head)
	h.head = h.head[n:]
	return n, nil
}

// WriteTo implements io.WriterTo.
func (h *headed) WriteTo(w io.Writer) (n int64, err error) {
	if n, err = drain(w, &h.head); err != nil {
		return n, err
	}
	k, err := io.Copy(w, h.tail)
	return n + k, err
}

// InUTF8 returns the octets of the envelope as UTF-8: themselves, or transcoded with their declaration replaced.
// Call it instead of reading the Envelope; the reader ends as Read does.
func (e *Envelope) InUTF8() io.Reader {
	if e.IsUTF8() || e.reading == nil {
		return e
	}
	head, tail := e.inUTF8()
	return &headed{append([]byte(utf8Declaration), head[e.reading.doc.prolog:]...), tail}
}

// IsUTF8 reports whether the envelope is in UTF-8, so that its octets need no transcoding.
func (e *Envelope) IsUTF8() bool { return e.charset == utf8Charset }

// Charset returns the name of the charset that the envelope is in, as a Content-Type that does not contradict it has it.
func (e *Envelope) Charset() string {
	if e.charset.wide() && e.marked {
		return utf16Charset.name // the byte order mark tells the order
	}
	return e.charset.name
}

const utf8Declaration = `<?xml version="1.0" encoding="UTF-8"?>`

// element writes the requestHash.
func (p *splice) element(prefix string, sha512 []byte) string {
	name, declaration := "requestHash", ""
	if prefix != "" {
		name = prefix + ":requestHash"
	}
	if p.declare {
		declaration = ` xmlns="` + xroadSpace + `"`
		if prefix != "" {
			declaration = ` xmlns:` + prefix + `="` + xroadSpace + `"`
		}
	}
	return "<" + name + declaration + ` algorithmId="` + sha512URI + `">` + base64.StdEncoding.EncodeToString(sha512) + "</" + name + ">"
}

// inUTF8 returns what Open read, and the rest, as text.
func (e *Envelope) inUTF8() (head []byte, tail io.Reader) {
	raw := e.buf[e.reading.doc.mark:]
	if e.IsUTF8() {
		e.buf = nil
		return raw, e
	}
	head = make([]byte, 3*len(raw)+utf8.UTFMax)
	n, used, _ := e.charset.text.Transform(head, raw, false) // it was scanned: only its end can be incomplete
	e.buf = raw[used:]
	return head[:n], transform.NewReader(e, e.charset.text)
}
