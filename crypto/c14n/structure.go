// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// Structure reads elements whose attributes and children are known, and nothing else is allowed. The first violation
// sticks: what is read after it is empty, so that reading goes on in a straight line, and Err tells at the end.
type Structure struct{ err error }

// Err returns the first violation.
func (s *Structure) Err() error { return s.err }

// Failf records a violation, if it is the first.
func (s *Structure) Failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

// Children hands out the child elements of one element in document order.
type Children struct {
	*Structure
	of   *Element
	rest []*Element
}

// Open checks that the element has no attributes but those, all without namespace, and no text but white space, and
// returns its children.
func (s *Structure) Open(e *Element, attrs ...string) Children {
	if s.err == nil && e == nil {
		s.Failf("missing element")
	}
	if s.err == nil {
		s.attributes(e, attrs)
		for _, text := range e.texts {
			if !isBlank(text) {
				s.Failf("text in %s", e.Local)
			}
		}
	}
	if s.err != nil {
		return Children{Structure: s}
	}
	return Children{s, e, e.children}
}

func (s *Structure) attributes(e *Element, known []string) {
	for _, a := range e.Attrs {
		if a.Space != "" || !slices.Contains(known, a.Local) {
			s.Failf("unknown attribute %.64q of %s", a.Local, e.Local)
		}
	}
}

func isBlank(text string) bool {
	for i := 0; i < len(text); i++ {
		if !isSpace(text[i]) {
			return false
		}
	}
	return true
}

// Attribute returns the value of an attribute that must be there.
func (s *Structure) Attribute(e *Element, local string) string {
	if s.err != nil || e == nil {
		return ""
	}
	value, ok := e.Attr(local)
	if !ok {
		s.Failf("%s without %s", e.Local, local)
	}
	return value
}

var (
	strict = base64.StdEncoding.Strict()
	blanks = strings.NewReplacer(" ", "", "\t", "")
)

// Base64 returns the octets that the text of an element without children encodes. White space does not count; no octets
// at all are a violation.
func (s *Structure) Base64(e *Element, attrs ...string) []byte {
	if s.err != nil || e == nil {
		return nil
	}
	s.attributes(e, attrs)
	if len(e.children) > 0 {
		s.Failf("element in %s", e.Local)
	}
	octets, err := strict.DecodeString(blanks.Replace(e.Text())) // the decoder skips line ends itself
	if err != nil {
		s.Failf("decoding %s: %w", e.Local, err)
	}
	if len(octets) == 0 {
		s.Failf("empty %s", e.Local)
	}
	if s.err != nil {
		return nil
	}
	return octets
}

// Next returns the next child, or nil when there is none.
func (c *Children) Next() *Element {
	if c.err != nil || len(c.rest) == 0 {
		return nil
	}
	e := c.rest[0]
	c.rest = c.rest[1:]
	return e
}

// Maybe returns the next child if it has that name, else nil.
func (c *Children) Maybe(space, local string) *Element {
	if c.err != nil || len(c.rest) == 0 || !c.rest[0].Is(space, local) {
		return nil
	}
	return c.Next()
}

// One returns the next child, which must have that name.
func (c *Children) One(space, local string) *Element {
	e := c.Maybe(space, local)
	if e == nil && c.err == nil {
		c.Failf("%s without %s in its place", c.of.Local, local)
	}
	return e
}

// Many returns the next children as long as they have that name. There must be at least one.
func (c *Children) Many(space, local string) []*Element {
	all := c.rest
	if c.One(space, local) == nil {
		return nil
	}
	for c.Maybe(space, local) != nil {
	}
	return all[:len(all)-len(c.rest)]
}

// End checks that there are no more children.
func (c Children) End() {
	if c.err == nil && len(c.rest) > 0 {
		c.Failf("unexpected %.64q in %s", c.rest[0].Local, c.of.Local)
	}
}
