// SPDX-License-Identifier: Apache-2.0

// Package c14n parses small XML documents strictly and canonicalises parts of them.
//
// What it reads is a subset of XML 1.0 with namespaces: UTF-8 only, no DOCTYPE, no processing instructions. Comments are
// allowed and dropped. The tree that is canonicalised is the tree that is read, so nothing can be verified in one reading
// and used in another (signature-and-evidence 7.5).
package c14n

import "strings"

// Algorithm URIs that Canonicalize knows. Comments are always left out.
const (
	Inclusive = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	Exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#"
)

// Limits bounds a document: Size before anything is read, the others before the element that breaks them is built.
// Attributes counts those of one element, namespace declarations included; Nodes counts elements, attributes and runs of
// text of the whole document. A zero field means the field of DefaultLimits.
type Limits struct{ Size, Depth, Attributes, Nodes int }

// DefaultLimits are far above what signature documents need.
var DefaultLimits = Limits{Size: 8 << 20, Depth: 64, Attributes: 64, Nodes: 200000}

// Attr is an attribute other than a namespace declaration.
type Attr struct{ Space, Prefix, Local, Value string }

// Element is an element of a parsed document. Documents are never changed after Parse, so they may be read by many at
// once.
type Element struct {
	Space, Prefix, Local string
	Attrs                []Attr
	Parent               *Element

	declared []binding // namespace declarations, as written
	children []*Element
	texts    []string // texts[i] stands before children[i], the last one before the end tag; nil for an empty element
}

// binding binds a prefix, or the default namespace where it is empty, to a namespace.
type binding struct{ prefix, uri string }

// Children returns the child elements in document order. The caller does not change the slice.
func (e *Element) Children() []*Element { return e.children }

// Text returns the concatenated text of the element itself, not of its children.
func (e *Element) Text() string {
	if len(e.texts) == 1 {
		return e.texts[0]
	}
	return strings.Join(e.texts, "")
}

// Is reports whether the element has that name.
func (e *Element) Is(space, local string) bool { return e.Local == local && e.Space == space }

// Attr returns the value of the attribute without namespace of that name, and whether it is there.
func (e *Element) Attr(local string) (string, bool) {
	for i := range e.Attrs {
		if e.Attrs[i].Local == local && e.Attrs[i].Space == "" {
			return e.Attrs[i].Value, true
		}
	}
	return "", false
}

// scope knows which namespace each prefix stands for while elements open and close.
type scope struct {
	bound map[string]string
	undo  []binding
}

func newScope() scope { return scope{bound: make(map[string]string)} }

func (s *scope) lookup(prefix string) string { return s.bound[prefix] }

func (s *scope) bind(prefix, uri string) {
	s.undo = append(s.undo, binding{prefix, s.bound[prefix]})
	s.bound[prefix] = uri
}

// mark returns a point to which release can go back.
func (s *scope) mark() int { return len(s.undo) }

func (s *scope) release(mark int) {
	for i := len(s.undo) - 1; i >= mark; i-- {
		s.bound[s.undo[i].prefix] = s.undo[i].uri
	}
	s.undo = s.undo[:mark]
}
