// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

// PlainContentType is how an envelope travels that came without a multipart around it.
const PlainContentType = "text/xml; charset=UTF-8"

// ErrNoPart: a multipart body in which the boundary never occurs. From an information system that asks it is missing_soap.
var ErrNoPart = Errorf("missing_soap", "the multipart body has no part: its boundary never occurs")

// Original is the message of an information system as it streams in: an envelope and its attachments.
// Read the envelope to its end first, then call Next until io.EOF.
type Original struct {
	ContentType multipart.ContentType
	Header      multipart.Header // of the envelope's part, or a made one
	Envelope    *soap.Envelope

	reader *multipart.Reader // nil: the envelope is the whole body
	guard  *multipart.Guard  // looks for what others take for delimiters; nil: they take nothing that the reader does not
	parts  int
}

// Open reads the beginning of an information system's message: Content-Type, first part, X-Road header
// (message-and-transport 2.2, 3 and 4). Errors are causes without a place; a multipart body without any part is
// ErrNoPart. The Original owns body until Next has returned an error.
func Open(contentType string, body io.Reader) (*Original, error) {
	if contentType == "" {
		return nil, Errorf("invalid_content_type", "the message has no Content-Type; send text/xml or multipart/related")
	}
	ct, err := multipart.ParseContentType(contentType)
	if err != nil {
		return nil, Because("invalid_content_type", err)
	}
	o := &Original{ContentType: ct}
	switch {
	case isEnvelope(ct.Type):
		o.Header = multipart.NewHeader("Content-Type", PlainContentType)
		charset, _ := ct.Param("charset")
		o.Envelope, err = soap.Open(body, charset, soap.Limits{})
		return o, err
	case ct.Type != "multipart/related":
		return nil, Errorf("invalid_content_type", "Content-Type %q is none of text/xml, application/xop+xml and multipart/related", ct.Type)
	}
	boundary, ok := ct.Param("boundary")
	if !ok {
		return nil, Errorf("invalid_content_type", "the multipart/related Content-Type has no boundary")
	}
	guard, err := ct.Guard()
	if err != nil {
		return nil, Because("invalid_content_type", err)
	}
	o.reader = multipart.NewReader(body, boundary, multipart.Limits{})
	first, err := o.reader.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, multipart.ErrTruncated) {
		return nil, ErrNoPart
	} else if err != nil {
		return nil, err
	}
	o.Header = first.Header
	if err := checkRoot(ct, first.Header, guard); err != nil {
		return nil, err
	}
	if guard.Strict() {
		o.guard = guard
	}
	o.Envelope, err = openPart(first)
	return o, err
}

// Multipart reports whether the message came as multipart, with or without attachments.
func (o *Original) Multipart() bool { return o.reader != nil }

// HeaderInUTF8 returns Header for an envelope that goes on as UTF-8: the charset of another encoding is replaced.
func (o *Original) HeaderInUTF8() multipart.Header {
	if o.Envelope.IsUTF8() {
		return o.Header
	}
	var pairs []string
	for _, f := range o.Header {
		if strings.EqualFold(f.Name, "Content-Type") {
			f.Value = charsetParameter.ReplaceAllString(f.Value, "") + "; charset=UTF-8"
		}
		pairs = append(pairs, f.Name, f.Value)
	}
	return multipart.NewHeader(pairs...)
}

var charsetParameter = regexp.MustCompile(`(?i)\s*;\s*charset\s*=\s*("[^"]*"|[^;\s]*)`)

// Next returns the next attachment, valid until the call after, or io.EOF after the last one.
func (o *Original) Next() (*multipart.Part, error) {
	if o.reader == nil {
		return nil, io.EOF
	}
	p, err := o.reader.Next()
	if err == io.EOF {
		return nil, o.end()
	}
	if err != nil {
		return nil, err
	}
	o.parts++
	return p, checkAttachment(o.ContentType, o.parts, p.Header)
}

// end reads what follows the closing delimiter, so that the connection can be used again and a cut one is noticed.
// An epilogue is thrown away; one that is longer than we read costs its sender the connection.
func (o *Original) end() error {
	if err := o.reader.Trailing(maxEpilogue); err != nil && !errors.Is(err, multipart.ErrTrailing) {
		return err
	}
	return io.EOF
}

func openPart(p *multipart.Part) (*soap.Envelope, error) {
	ct, err := multipart.ParseContentType(p.Header.Get("Content-Type"))
	if err != nil {
		return nil, Because("invalid_content_type", fmt.Errorf("first part: %w", err))
	}
	charset, _ := ct.Param("charset")
	return soap.Open(p, charset, soap.Limits{})
}

func isEnvelope(mediaType string) bool {
	return mediaType == "text/xml" || mediaType == "application/xop+xml"
}

// checkRoot refuses a multipart whose first part is not clearly its root, so that no two readers see two messages
// (message-and-transport 4.2, 4.6). It loosens the guard where only the place of the first part makes it the root.
func checkRoot(outer multipart.ContentType, first multipart.Header, guard *multipart.Guard) error {
	types := first.Values("Content-Type")
	if len(types) == 0 {
		return Errorf("invalid_content_type", "the first part has no Content-Type")
	}
	ct, err := multipart.ParseContentType(types[0])
	if err != nil {
		return Because("invalid_content_type", fmt.Errorf("first part: %w", err))
	}
	if len(types) > 1 {
		return Errorf("invalid_content_type", "the first part has %d Content-Types", len(types))
	}
	if !isEnvelope(ct.Type) {
		return Errorf("invalid_content_type", "the SOAP part must be the first part, in text/xml or application/xop+xml, not %q", ct.Type)
	}
	for _, name := range []string{"Content-Transfer-Encoding", "Content-ID"} {
		if n := len(first.Values(name)); n > 1 {
			return Errorf("invalid_content_type", "the SOAP part has %d fields %s", n, name)
		}
	}
	switch encoding := strings.ToLower(first.Get("Content-Transfer-Encoding")); encoding {
	case "", "7bit", "8bit", "binary":
	default:
		return Errorf("invalid_content_type", "the SOAP part is encoded as %q; send it as 8bit or binary", encoding)
	}
	if start, ok := outer.Param("start"); ok {
		name, err := startID(outer, start)
		if err != nil {
			return err
		}
		id := first.Get("Content-ID")
		if id != "" && id != name && id != "<"+name+">" {
			return Errorf("invalid_content_type", "start names the part %q, but the SOAP part must be the first part", start)
		}
		if id != start { // without an id it is the root by its place
			guard.Loosen() // a reader that looks for start in more parts must not find it in one of these
		}
	}
	if root, ok := outer.Param("type"); ok {
		switch bare := strings.ToLower(strings.Trim(root, "'")); bare {
		case "text/xml", "application/xop+xml", "application/soap+xml", "application/xml":
		default:
			return Errorf("invalid_content_type", "the multipart's type parameter %q is not that of an envelope", root)
		}
	}
	return nil
}

// startID returns the Content-ID that start names, without brackets. One that readers compare in different ways is
// refused: with quotes, backslashes, percent signs, comments or blanks inside, with "cid:" before it, or in RFC 2231.
func startID(outer multipart.ContentType, start string) (string, error) {
	id := start
	if inside, ok := strings.CutPrefix(start, "<"); ok && strings.HasSuffix(inside, ">") {
		id = strings.TrimSuffix(inside, ">")
	}
	odd := strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`<>"'\%();`, c) })
	if id == "" || odd || len(id) >= len(cid) && strings.EqualFold(id[:len(cid)], cid) || !outer.Plain("start") {
		return "", Errorf("invalid_content_type", "start %q is not a plain Content-ID, which every reader compares in the same way", start)
	}
	return id, nil
}

const cid = "cid:"

func bareID(id string) string {
	id = strings.TrimSpace(id)
	return strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(id, "<"), ">"))
}

// couldBe says whether a reader may take a part's Content-ID for the one that start names, however it reads it: without
// case, brackets, quotes, blanks, comments or "cid:", out of percent encoding, or as what the brackets hold.
func couldBe(id, name string) bool {
	if unescaped, err := url.PathUnescape(id); err == nil {
		id = unescaped
	}
	inside := id
	if i := strings.LastIndexByte(id, '<'); i >= 0 {
		inside, _, _ = strings.Cut(id[i+1:], ">")
	}
	name = strings.ToLower(name)
	return loose(id) == name || loose(inside) == name
}

func loose(id string) string {
	id = comment.ReplaceAllString(id, "")
	id = strings.ToLower(strings.Map(func(c rune) rune {
		if c <= ' ' || strings.ContainsRune(`<>"'\`, c) {
			return -1
		}
		return c
	}, id))
	for strings.HasPrefix(id, cid) {
		id = id[len(cid):]
	}
	return id
}

var comment = regexp.MustCompile(`\([^()]*\)`)

// checkAttachment refuses the attachment that start names: to a reader that looks for the root by its id, it would be
// the envelope, and rights are decided on the first part.
func checkAttachment(outer multipart.ContentType, n int, h multipart.Header) error {
	switch types := h.Values("Content-Type"); {
	case len(types) == 0 || types[0] == "":
		return Errorf("invalid_content_type", "attachment %d has no Content-Type", n)
	case len(types) > 1:
		return Errorf("invalid_content_type", "attachment %d has %d Content-Types", n, len(types))
	}
	if start, ok := outer.Param("start"); ok {
		for _, id := range h.Values("Content-ID") {
			if couldBe(id, bareID(start)) {
				return Errorf("invalid_content_type", "start names attachment %d, but the SOAP part must be the first part", n)
			}
		}
	}
	return nil
}
