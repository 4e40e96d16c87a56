// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/ident"
)

const (
	confSpace = "http://x-road.eu/xsd/xroad.xsd"
	idSpace   = "http://x-road.eu/xsd/identifiers"
)

// reader turns the elements of a configuration file into values, and keeps the first error. Elements must come in the
// order of the schema; unknown ones may stand after all others of their parent, and are ignored, unless they are counted.
type reader struct{ err error }

// document reads a file whose root is that element.
func (r *reader) document(doc []byte, limits c14n.Limits, root string, read func(*c14n.Element)) error {
	e, err := c14n.Parse(doc, limits)
	if err != nil {
		return err
	}
	if !e.Is(confSpace, root) {
		return fmt.Errorf("the root element is not %s in %s", root, confSpace)
	}
	read(e)
	return r.err
}

func (r *reader) fail(at *c14n.Element, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: "+format, append([]any{at.Local}, args...)...)
	}
}

// client reads an identifier of type MEMBER or SUBSYSTEM. A subsystem code counts whatever the type, as in X-Road.
func (r *reader) client(e *c14n.Element) ident.Client {
	kind := ""
	for _, a := range e.Attrs {
		if a.Space == idSpace && a.Local == "objectType" {
			kind = a.Value
		}
	}
	if kind != "MEMBER" && kind != "SUBSYSTEM" {
		r.fail(e, "its objectType is %q, neither MEMBER nor SUBSYSTEM", kind)
	}
	c := r.children(e, idSpace)
	id := ident.Client{
		Instance: r.identifier(c.one("xRoadInstance")),
		Class:    r.identifier(c.one("memberClass")),
		Member:   r.identifier(c.one("memberCode")),
	}
	if sub := c.maybe("subsystemCode"); sub != nil {
		id.Subsystem = r.identifier(sub)
	} else if kind == "SUBSYSTEM" {
		r.fail(e, "it is a SUBSYSTEM without subsystemCode")
	}
	c.all()
	return id
}

// words returns text without the white space around it.
func (r *reader) words(e *c14n.Element) string {
	if len(e.Children()) > 0 {
		r.fail(e, "it has elements inside instead of text")
	}
	return strings.TrimSpace(e.Text())
}

// identifier returns text that is compared exactly: white space around it is refused, for it would be part of it.
func (r *reader) identifier(e *c14n.Element) string {
	text := r.words(e)
	if text == "" || text != e.Text() {
		r.fail(e, "%q is empty or has white space around it", e.Text())
	}
	return text
}

func (r *reader) boolean(e *c14n.Element) bool {
	switch text := r.words(e); text {
	case "true", "1":
		return true
	case "false", "0":
	default:
		r.fail(e, "%q is neither true nor false", text)
	}
	return false
}

func (r *reader) seconds(e *c14n.Element) time.Duration {
	n, err := strconv.ParseInt(r.words(e), 10, 32)
	if err != nil || n <= 0 {
		r.fail(e, "%q is no number of seconds", r.words(e))
	}
	return time.Duration(n) * time.Second
}

func (r *reader) base64(e *c14n.Element) []byte {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(r.words(e)), ""))
	if err != nil {
		r.fail(e, "it is not base64: %w", err)
	}
	return data
}

// certificate reads base64 of DER or of PEM text. In case of an error it returns an empty certificate.
func (r *reader) certificate(e *c14n.Element) *x509.Certificate {
	data := r.base64(e)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		block, _ := pem.Decode(data)
		if block == nil || block.Type != "CERTIFICATE" {
			r.fail(e, "its PEM text holds no certificate")
			return new(x509.Certificate)
		}
		data = block.Bytes
	}
	if len(data) > maxCertificate {
		r.fail(e, "a certificate of more than %d octets", maxCertificate)
		return new(x509.Certificate)
	}
	cert, err := x509.ParseCertificate(data)
	if err != nil {
		r.fail(e, "reading a certificate: %w", err)
		return new(x509.Certificate)
	}
	return cert
}

// sequence goes through the children of an element in the order of the schema.
type sequence struct {
	r     *reader
	of    *c14n.Element
	space string
	rest  []*c14n.Element
	known []string
}

func (r *reader) children(of *c14n.Element, space string) *sequence {
	if strings.TrimSpace(of.Text()) != "" {
		r.fail(of, "it has text between its elements")
	}
	return &sequence{r: r, of: of, space: space, rest: of.Children()}
}

// some returns the elements of that name that come next.
func (s *sequence) some(name string) []*c14n.Element {
	s.known = append(s.known, name)
	n := 0
	for n < len(s.rest) && s.rest[n].Is(s.space, name) {
		n++
	}
	found := s.rest[:n]
	s.rest = s.rest[n:]
	return found
}

// least is some, of which there must be one at least.
func (s *sequence) least(name string) []*c14n.Element {
	found := s.some(name)
	if len(found) == 0 {
		s.missing(name)
	}
	return found
}

// maybe returns the element of that name if it comes next, or nil.
func (s *sequence) maybe(name string) *c14n.Element {
	found := s.some(name)
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		s.r.fail(s.of, "it has %d elements %s", len(found), name)
	}
	return found[0]
}

// one returns the element of that name, which must come next. In case of an error it returns an empty element.
func (s *sequence) one(name string) *c14n.Element {
	found := s.maybe(name)
	if found == nil {
		s.missing(name)
		return new(c14n.Element)
	}
	return found
}

func (s *sequence) missing(name string) {
	instead := "nothing more"
	if len(s.rest) > 0 {
		instead = s.rest[0].Local
	}
	s.r.fail(s.of, "it should have %s and has %s there", name, instead)
}

// end refuses known elements that stand in the wrong place; unknown ones are ignored.
func (s *sequence) end() {
	for _, e := range s.rest {
		if e.Space == s.space && slices.Contains(s.known, e.Local) {
			s.r.fail(s.of, "its %s does not stand where it belongs", e.Local)
		}
	}
}

// all refuses elements that are left.
func (s *sequence) all() {
	if len(s.rest) > 0 {
		s.r.fail(s.of, "it has %s, which does not belong there", s.rest[0].Local)
	}
}
