// SPDX-License-Identifier: Apache-2.0

// Package c14n parses small XML documents strictly and canonicalises parts of them.
package c14n

import "io"

// Algorithm URIs that Canonicalize knows. Comments are always left out.
const (
	Inclusive = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	Exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#"
)

// Limits bounds a document before a tree of it is built. A zero field means the field of DefaultLimits.
type Limits struct{ Size, Depth, Attributes, Nodes int }

// DefaultLimits are far above what signature documents need.
var DefaultLimits = Limits{Size: 8 << 20, Depth: 64, Attributes: 64, Nodes: 200000}

// Attr is an attribute other than a namespace declaration.
type Attr struct{ Space, Prefix, Local, Value string }

// Element is an element of a parsed document. Documents are never changed after Parse.
type Element struct {
	Space, Prefix, Local string
	Attrs                []Attr
	Parent               *Element
}

// Parse reads a UTF-8 document: well-formed, namespace-well-formed, no DOCTYPE, no processing instructions but the
// declaration, no entities but the five and character references, within the limits.
func Parse(doc []byte, limits Limits) (*Element, error) { panic("stub") }

// Children returns the child elements in document order.
func (e *Element) Children() []*Element { panic("stub") }

// Text returns the concatenated text of the element itself, not of its children.
func (e *Element) Text() string { panic("stub") }

// Attr returns the value of the attribute without namespace of that name, and whether it is there.
func (e *Element) Attr(local string) (string, bool) { panic("stub") }

// Canonicalize writes the canonical form of the element and all below it. prefixes is the exclusive form's
// InclusiveNamespaces PrefixList.
func (e *Element) Canonicalize(w io.Writer, algorithm string, prefixes ...string) error { panic("stub") }
