// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"crypto/rand"
	"errors"
	"io"
)

// Writer writes a multipart body with the framing of message-and-transport 5.4: a CRLF in front of every delimiter but the
// very first of a body, and one after it. It adds no header of its own. It is not safe for concurrent use.
//
// Nothing checks that the boundary does not occur in the parts: make it of Letters, or watch the parts with a Guard.
type Writer struct {
	w     io.Writer
	dash  string // two dashes and the boundary
	begun bool   // a CRLF belongs in front of the next delimiter
	ended bool
	outer *Writer
	inner *Writer // nested Writer that is still open
	part  *partWriter
	block []byte
	err   error // first error of writing, returned for ever
}

// NewWriter writes a body with that boundary to w. A boundary that cannot be used is an error of the first call.
func NewWriter(w io.Writer, boundary string) *Writer {
	return &Writer{w: w, dash: "--" + boundary, err: checkBoundary(boundary)}
}

// Part ends the part before, if any, writes the delimiter and the header and returns the writer of the new part's octets,
// which is good until the next call. An h that cannot be written is ErrHeader, and nothing has happened.
func (w *Writer) Part(h Header) (io.Writer, error) {
	if err := w.begin(h); err != nil {
		return nil, err
	}
	w.part = &partWriter{w}
	return w.part, nil
}

// Nested begins a part whose content is itself multipart, and returns its Writer.
// Close that one before going on with w. Content-Type is the caller's to put into h.
func (w *Writer) Nested(h Header, boundary string) (*Writer, error) {
	if err := checkBoundary(boundary); err != nil {
		return nil, err
	}
	if err := w.begin(h); err != nil {
		return nil, err
	}
	w.inner = &Writer{w: w.w, dash: "--" + boundary, begun: true, outer: w}
	return w.inner, nil
}

// Close writes the closing delimiter. It does not close the underlying writer. Closing again does nothing.
func (w *Writer) Close() error {
	if w.ended {
		return w.err
	}
	if err := w.usable(); err != nil {
		return err
	}
	w.part = nil
	w.ended = true
	if w.outer != nil {
		w.outer.inner = nil
	}
	return w.write(append(w.delimiter(), "--\r\n"...))
}

// begin writes a delimiter and a header block.
func (w *Writer) begin(h Header) error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.ended {
		return errors.New("multipart: the body has been closed")
	}
	block, err := h.append(append(w.delimiter(), "\r\n"...))
	if err != nil {
		return err
	}
	w.part = nil
	w.begun = true
	return w.write(append(block, "\r\n"...))
}

func (w *Writer) usable() error {
	if w.err == nil && w.inner != nil {
		return errors.New("multipart: a nested multipart is still open")
	}
	return w.err
}

// delimiter returns the line end and the delimiter that come next, in memory that is used again.
func (w *Writer) delimiter() []byte {
	b := w.block[:0]
	if w.begun {
		b = append(b, "\r\n"...)
	}
	return append(b, w.dash...)
}

// write writes what delimiter began.
func (w *Writer) write(b []byte) error {
	w.block = b
	_, err := w.pass(b)
	return err
}

// pass writes b. An error is that of all Writers around this one too.
func (w *Writer) pass(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	for o := w; o != nil && err != nil; o = o.outer {
		o.err = err
	}
	return n, err
}

type partWriter struct{ w *Writer }

func (p *partWriter) Write(b []byte) (int, error) {
	w := p.w
	if w.part != p {
		return 0, errors.New("multipart: the part is over: its Writer has gone on")
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.pass(b)
}

// Letters returns n random letters, none for a negative n, from a cryptographic source, to make boundaries of.
func Letters(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	const even = 256 / len(letters) * len(letters) // octets from here on would favour the first letters
	text := make([]byte, 0, max(n, 0))
	var random [64]byte
	for len(text) < n {
		rand.Read(random[:])
		for _, c := range random {
			if int(c) < even && len(text) < n {
				text = append(text, letters[int(c)%len(letters)])
			}
		}
	}
	return string(text)
}
