// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddy-fairway/fairway/multipart"
)

// message is a SOAP message as an information system posts it: an envelope alone, or with attachments behind it.
type message struct {
	envelope    source
	attachments []source
	mtom        bool   // the envelope refers to its attachments by xop:Include
	boundary    string // of the parts; made by newMessage
}

// source is octets that are opened when their turn comes.
type source struct {
	id          string // Content-ID, without brackets
	contentType string
	size        int64
	exact       bool // size will be right, unless somebody changes the file meanwhile
	open        func() (io.ReadCloser, error)
}

func newMessage(envelope source, mtom bool, attachments ...source) *message {
	return &message{envelope: envelope, attachments: attachments, mtom: mtom, boundary: "fairway" + multipart.Letters(24)}
}

// octets is an envelope that is already in memory.
func octets(b []byte) source {
	return source{id: rootID, size: int64(len(b)), open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

const (
	rootID   = "envelope"
	soapType = "text/xml; charset=UTF-8"
	xopType  = `application/xop+xml; charset=UTF-8; type="text/xml"`
)

// multipart reports whether the message is more than a bare envelope.
func (m *message) multipart() bool { return m.mtom || len(m.attachments) > 0 }

// contentType is the Content-Type of the whole message.
func (m *message) contentType() string {
	switch {
	case m.mtom:
		return `multipart/related; type="application/xop+xml"; start="<` + rootID + `>"; start-info="text/xml"; boundary="` + m.boundary + `"`
	case m.multipart():
		return `multipart/related; type="text/xml"; start="<` + rootID + `>"; boundary="` + m.boundary + `"`
	}
	return soapType
}

// size is the octets of the envelope and of all attachments.
func (m *message) size() int64 {
	n := m.envelope.size
	for _, a := range m.attachments {
		n += a.size
	}
	return n
}

// length is the octets of the body as a whole; -1: not known before it has been written.
func (m *message) length() int64 {
	framing := *m
	framing.envelope, framing.attachments = m.envelope.emptied(), nil
	exact := m.envelope.exact
	for _, a := range m.attachments {
		exact = exact && a.exact
		framing.attachments = append(framing.attachments, a.emptied())
	}
	var n counter
	if !exact || framing.writeTo(&n, nil) != nil {
		return -1
	}
	return int64(n) + m.size()
}

// emptied is the source without its octets.
func (s source) emptied() source {
	s.open = func() (io.ReadCloser, error) { return http.NoBody, nil }
	return s
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// writeTo streams the message. seen, if not nil, gets the octets of envelope and attachments as they pass.
func (m *message) writeTo(w io.Writer, seen io.Writer) error {
	if !m.multipart() {
		return m.envelope.copyTo(w, seen)
	}
	mw := multipart.NewWriter(w, m.boundary)
	part := func(s source, header multipart.Header) error {
		pw, err := mw.Part(header)
		if err != nil {
			return err
		}
		return s.copyTo(pw, seen)
	}
	rootType := soapType
	if m.mtom {
		rootType = xopType
	}
	err := part(m.envelope, multipart.NewHeader("Content-Type", rootType,
		"Content-Transfer-Encoding", "8bit", "Content-ID", "<"+rootID+">"))
	if err != nil {
		return err
	}
	for _, a := range m.attachments {
		err := part(a, multipart.NewHeader("Content-Type", a.contentType,
			"Content-Transfer-Encoding", "binary", "Content-ID", "<"+a.id+">"))
		if err != nil {
			return err
		}
	}
	return mw.Close()
}

func (s source) copyTo(w, seen io.Writer) error {
	r, err := s.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if seen != nil {
		w = io.MultiWriter(w, seen)
	}
	_, err = io.Copy(w, r)
	return err
}

// body is the message as the body of a request. The reader must be closed.
func (m *message) body(seen io.Writer) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(m.writeTo(w, seen)) }()
	return r
}

// answer is the SOAP message that came back, to be read from front to back.
type answer struct {
	envelope io.Reader
	parts    *multipart.Reader // nil: there can be no attachments
}

// readAnswer finds the envelope of a response.
func readAnswer(resp *http.Response) (*answer, error) {
	value := resp.Header.Get("Content-Type")
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusInternalServerError || value == "" {
		return nil, fmt.Errorf("the server answered %s, which is no SOAP message: is this the address of a sending security server?", resp.Status)
	}
	return openAnswer(value, resp.Body)
}

// openAnswer finds the envelope of a message with that Content-Type.
func openAnswer(contentType string, body io.Reader) (*answer, error) {
	ct, err := multipart.ParseContentType(contentType)
	if err != nil {
		return nil, fmt.Errorf("the answer's Content-Type: %w", err)
	}
	if !strings.HasPrefix(ct.Type, "multipart/") {
		return &answer{envelope: body}, nil
	}
	boundary, ok := ct.Param("boundary")
	if !ok {
		return nil, fmt.Errorf("the answer's Content-Type has no boundary: %s", contentType)
	}
	a := &answer{parts: multipart.NewReader(body, boundary, multipart.DefaultLimits)}
	root, err := a.parts.Next()
	if err != nil {
		return nil, fmt.Errorf("reading the answer's first part: %w", err)
	}
	a.envelope = root
	return a, nil
}

// next returns the next attachment, or io.EOF. The one before, and the envelope, cannot be read any more.
func (a *answer) next() (*multipart.Part, error) {
	if a.parts == nil {
		return nil, io.EOF
	}
	return a.parts.Next()
}
