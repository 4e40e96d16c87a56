// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// signaturePattern are the names that X-Road takes for a signature document, whatever their case.
var signaturePattern = regexp.MustCompile(`(?i)^META-INF/.*signatures.*\.xml$`)

// Open reads a container of that size (section 10.2). Documents are read now, and are bounded; message and attachments
// are read when they are opened, and come to a good end only where their check sums are right. The openers read r, which
// must stay as it is for as long as the container is in use.
//
// Open refuses a file that could be read in two ways, or that unpacks to far more than it is. Entries with other names
// than those of section 10.1 are left alone, unless they could be taken for one. Errors are *Error.
func Open(r io.ReaderAt, size int64) (*Container, error) {
	entries, err := readEntries(r, size)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return nil, err
		}
		return nil, &Error{invalid, err}
	}
	byName := make(map[string]*entry, len(entries))
	for _, e := range entries {
		byName[e.name] = e
	}
	c := &Container{Attachments: make(map[int]Opener)}
	if err := checkMIMEType(r, byName[mimetypeName]); err != nil {
		return nil, err
	}
	if err := c.openMessage(r, byName[messageName]); err != nil {
		return nil, err
	}
	for _, d := range c.documents() {
		e := byName[d.name]
		if e == nil {
			continue
		}
		if *d.octets, err = e.readAll(r, d.limit); err != nil {
			return nil, err
		}
		if d.name != tokenName && !utf8.Valid(*d.octets) {
			return nil, failf(invalid, "%s is not UTF-8", d.name)
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.openAttachments(r, entries); err != nil {
		return nil, err
	}
	return c, nil
}

func checkMIMEType(r io.ReaderAt, e *entry) error {
	if e == nil {
		return failf(noMIMEType, "there is no entry %s", mimetypeName)
	}
	octets, err := e.readAll(r, 1<<10)
	switch {
	case err != nil:
		return err
	case isBlank(octets):
		return failf(noMIMEType, "%s is blank", mimetypeName)
	case !strings.EqualFold(string(octets), MediaType):
		return failf(invalidMIMEType, "%.64q is not the media type of a container", octets)
	}
	return nil
}

// openMessage reads the message up to its first character that is not blank.
func (c *Container) openMessage(r io.ReaderAt, e *entry) error {
	if e == nil {
		return failf(noMessage, "there is no entry %s", messageName)
	}
	c.Message = func() (io.ReadCloser, error) {
		f := e.open(r)
		return struct {
			io.Reader
			io.Closer
		}{newMessageReader(f), f}, nil
	}
	m := newMessageReader(e.open(r))
	for buf := make([]byte, 4<<10); !m.some; {
		if _, err := m.Read(buf); err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// openAttachments finds the attachments, and refuses entries that could be taken for something that they are not.
func (c *Container) openAttachments(r io.ReaderAt, entries []*entry) error {
	known := map[string]string{mimetypeName: mimetypeName, messageName: messageName} // by name in lower case
	for _, d := range c.documents() {
		known[strings.ToLower(d.name)] = d.name
	}
	for _, e := range entries {
		lower := strings.ToLower(e.name)
		switch name := known[lower]; {
		case name == e.name:
		case name != "":
			return failf(invalid, "%q is not %s, but in some places it would be", e.name, name)
		case signaturePattern.MatchString(e.name):
			return failf(invalid, "%q is another signature document", e.name)
		case strings.HasPrefix(lower, attachmentPrefix):
			n := attachmentNumber("/" + e.name)
			if n == 0 {
				return failf(malformed, "%q is an attachment to which no signature can refer", e.name)
			}
			c.Attachments[n] = func() (io.ReadCloser, error) { return e.open(r), nil }
		}
	}
	return nil
}

// readAll returns the data of an entry, which may have so many octets.
func (e *entry) readAll(r io.ReaderAt, limit int) ([]byte, error) {
	if e.size > int64(limit) {
		return nil, failf(invalid, "%q has %d octets, more than %d", e.name, e.size, limit)
	}
	f := e.open(r)
	defer f.Close()
	octets := make([]byte, e.size)
	if _, err := io.ReadFull(f, octets); err != nil {
		return nil, err
	}
	// Whether everything is as it should be shows at the end.
	if _, err := f.Read(make([]byte, 1)); err != io.EOF {
		return nil, err
	}
	return octets, nil
}
