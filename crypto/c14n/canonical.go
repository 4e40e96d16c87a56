// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// maxCanonical is how many octets a canonical form may have. The exclusive form repeats the namespace of a prefix for every
// element that uses it, so that a short document may have a very long one.
const maxCanonical = 8 << 20

// chunk is about how many octets are written at once.
const chunk = 32 << 10

// Canonicalize writes the canonical form of the element and all below it, as a subtree of its document: the inclusive
// form brings along the namespace declarations in scope and the inherited xml: attributes, the exclusive form the
// declarations it uses. prefixes is the exclusive form's InclusiveNamespaces PrefixList, with "#default" for none. A form of
// more than 8 MiB is an error.
func (e *Element) Canonicalize(w io.Writer, algorithm string, prefixes ...string) error {
	c := buffers.Get().(*canonicalizer)
	defer buffers.Put(c)
	*c = canonicalizer{to: w, out: c.out[:0], spaces: c.spaces[:0], attrs: c.attrs[:0], rendered: newScope()}
	switch {
	case algorithm == Inclusive && len(prefixes) == 0:
	case algorithm == Exclusive:
		c.exclusive = true
	default:
		return fmt.Errorf("canonicalising: unknown algorithm %q with %d prefixes", algorithm, len(prefixes))
	}
	if len(prefixes) > 0 {
		c.listed = make(map[string]bool, len(prefixes))
	}
	for _, p := range prefixes {
		if p == "#default" {
			p = ""
		}
		c.listed[p] = true
	}
	c.element(e, true)
	c.flush()
	return c.err
}

// buffers are reused: their octets are those of documents, and none is read again.
var buffers = sync.Pool{New: func() any { return &canonicalizer{out: make([]byte, 0, 4<<10)} }}

type canonicalizer struct {
	to        io.Writer
	out       []byte // that is not yet written
	written   int
	err       error
	exclusive bool
	listed    map[string]bool // prefixes that the exclusive form treats inclusively
	rendered  scope           // what the ancestors in the output have declared
	spaces    []binding       // of the current element; reused
	attrs     []Attr          // of the current element; reused
}

// flush writes what is there.
func (c *canonicalizer) flush() {
	c.written += len(c.out)
	if c.err == nil && c.written > maxCanonical {
		c.err = fmt.Errorf("canonicalising: more than %d octets", maxCanonical)
	}
	if c.err == nil {
		_, c.err = c.to.Write(c.out)
	}
	c.out = c.out[:0]
}

func (c *canonicalizer) element(e *Element, apex bool) {
	if len(c.out) >= chunk {
		c.flush()
	}
	if c.err != nil {
		return
	}
	mark := c.rendered.mark()
	c.out = append(c.out, '<')
	c.name(e.Prefix, e.Local)
	c.declarations(e, apex)
	c.attributes(e, apex)
	c.out = append(c.out, '>')
	for i, text := range e.texts {
		c.text(text)
		if i < len(e.children) {
			c.element(e.children[i], false)
		}
	}
	c.out = append(c.out, "</"...)
	c.name(e.Prefix, e.Local)
	c.out = append(c.out, '>')
	c.rendered.release(mark)
}

func (c *canonicalizer) name(prefix, local string) {
	if prefix != "" {
		c.out = append(c.out, prefix...)
		c.out = append(c.out, ':')
	}
	c.out = append(c.out, local...)
}

// declarations writes the namespace declarations that the element needs and its ancestors in the output do not have.
func (c *canonicalizer) declarations(e *Element, apex bool) {
	declared := e.declared
	if apex {
		declared = inScope(e)
	}
	c.spaces = c.spaces[:0]
	for _, b := range declared {
		if !c.exclusive || c.listed[b.prefix] {
			c.need(b)
		}
	}
	if c.exclusive {
		c.need(binding{e.Prefix, e.Space})
		for i := range e.Attrs {
			if e.Attrs[i].Prefix != "" {
				c.need(binding{e.Attrs[i].Prefix, e.Attrs[i].Space})
			}
		}
	}
	slices.SortFunc(c.spaces, func(a, b binding) int { return cmp.Compare(a.prefix, b.prefix) })
	for _, b := range c.spaces {
		c.out = append(c.out, " xmlns"...)
		if b.prefix != "" {
			c.out = append(c.out, ':')
			c.out = append(c.out, b.prefix...)
		}
		c.value(b.uri)
	}
}

func (c *canonicalizer) need(b binding) {
	if b.prefix != "xml" && c.rendered.lookup(b.prefix) != b.uri {
		c.rendered.bind(b.prefix, b.uri)
		c.spaces = append(c.spaces, b)
	}
}

// inScope returns the bindings in scope at the element, the nearest of each prefix.
func inScope(e *Element) []binding {
	var all []binding
	seen := make(map[string]bool)
	for ; e != nil; e = e.Parent {
		for _, b := range e.declared {
			if !seen[b.prefix] {
				seen[b.prefix] = true
				all = append(all, b)
			}
		}
	}
	return all
}

func (c *canonicalizer) attributes(e *Element, apex bool) {
	c.attrs = append(c.attrs[:0], e.Attrs...)
	if apex && !c.exclusive {
		for a := e.Parent; a != nil; a = a.Parent {
			c.inherit(a)
		}
	}
	slices.SortFunc(c.attrs, func(a, b Attr) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Local, b.Local))
	})
	for i := range c.attrs {
		c.out = append(c.out, ' ')
		c.name(c.attrs[i].Prefix, c.attrs[i].Local)
		c.value(c.attrs[i].Value)
	}
}

// inherit takes over the xml: attributes of an ancestor that nothing nearer has.
func (c *canonicalizer) inherit(ancestor *Element) {
	for _, a := range ancestor.Attrs {
		same := func(b Attr) bool { return b.Space == a.Space && b.Local == a.Local }
		if a.Space == xmlSpace && !slices.ContainsFunc(c.attrs, same) {
			c.attrs = append(c.attrs, a)
		}
	}
}

// text writes character data, with the references that the canonical form prescribes.
func (c *canonicalizer) text(s string) {
	for {
		i := 0
		for i < len(s) && s[i] != '&' && s[i] != '<' && s[i] != '>' && s[i] != '\r' {
			i++
		}
		c.out = append(c.out, s[:i]...)
		if i == len(s) {
			return
		}
		switch s[i] {
		case '&':
			c.out = append(c.out, "&amp;"...)
		case '<':
			c.out = append(c.out, "&lt;"...)
		case '>':
			c.out = append(c.out, "&gt;"...)
		case '\r':
			c.out = append(c.out, "&#xD;"...)
		}
		s = s[i+1:]
		if len(c.out) >= chunk {
			c.flush()
		}
	}
}

// value writes an attribute value with its equals sign and quotes.
func (c *canonicalizer) value(s string) {
	c.out = append(c.out, `="`...)
	for {
		i := strings.IndexAny(s, "&<\"\t\n\r")
		if i < 0 {
			break
		}
		c.out = append(c.out, s[:i]...)
		switch s[i] {
		case '&':
			c.out = append(c.out, "&amp;"...)
		case '<':
			c.out = append(c.out, "&lt;"...)
		case '"':
			c.out = append(c.out, "&quot;"...)
		case '\t':
			c.out = append(c.out, "&#x9;"...)
		case '\n':
			c.out = append(c.out, "&#xA;"...)
		case '\r':
			c.out = append(c.out, "&#xD;"...)
		}
		s = s[i+1:]
		if len(c.out) >= chunk {
			c.flush()
		}
	}
	c.out = append(c.out, s...)
	c.out = append(c.out, '"')
}
