// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"hash/maphash"
	"math/bits"
)

const (
	xmlSpace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsSpace = "http://www.w3.org/2000/xmlns/"
)

// What stands in the place of an attribute's binding when it has none.
const (
	unbound     = -1 // an attribute without prefix is in no namespace
	declaration = -2 // a namespace declaration
)

var seed = maphash.MakeSeed()

// A namespaces holds the declarations in scope. Finding one costs the same however many there are, and whatever a
// stranger calls them: the first few are looked through, those inside them are chained in buckets by a seeded hash.
type namespaces struct {
	names    []byte // the elements in scope and their declarations: names, prefixes, URIs
	bindings []binding
	latest   int     // what find would find for its prefix; unbound if nothing was asked since bindings left
	buckets  []int32 // index in bindings of the latest with that hash, or 0; nil until there are more than few
}

const (
	few     = 16
	buckets = 4096
)

// A binding is one declaration: names[prefix:uri] stands for names[uri:end].
type binding struct {
	prefix, uri, end int
	space            space
	hash             uint64 // of the prefix; only known beyond few
	uriHash          uint64 // 0 until it is asked for
	next             int32  // like a bucket: the one declared before it
}

// bind ends a declaration, whose prefix begins at prefix and whose URI at uri and reaches to the end of names.
func (n *namespaces) bind(prefix, uri int) {
	b := binding{prefix: prefix, uri: uri, end: len(n.names), space: spaceOf(n.names[uri:])}
	if len(n.bindings) >= few {
		if n.buckets == nil {
			n.buckets = make([]int32, buckets)
		}
		b.hash = maphash.Bytes(seed, n.names[prefix:uri])
		head := &n.buckets[b.hash%buckets]
		b.next, *head = *head, int32(len(n.bindings))
	}
	n.bindings = append(n.bindings, b)
	n.latest = len(n.bindings) - 1
}

// unbind forgets the declarations from index first on.
func (n *namespaces) unbind(first int) {
	for i := len(n.bindings) - 1; i >= max(first, few); i-- {
		b := &n.bindings[i]
		n.buckets[b.hash%buckets] = b.next
	}
	n.bindings = n.bindings[:first]
	n.latest = unbound
}

// find returns the index in bindings of what prefix stands for, or unbound.
func (n *namespaces) find(prefix []byte) int {
	if n.latest == unbound || !n.stands(n.latest, prefix) {
		n.latest = n.search(prefix)
	}
	return n.latest
}

// stands reports whether a binding is of prefix.
func (n *namespaces) stands(binding int, prefix []byte) bool {
	b := &n.bindings[binding]
	return string(n.names[b.prefix:b.uri]) == string(prefix)
}

func (n *namespaces) search(prefix []byte) int {
	if len(n.bindings) > few {
		hash := maphash.Bytes(seed, prefix)
		for i := n.buckets[hash%buckets]; i > 0; i = n.bindings[i].next {
			if n.bindings[i].hash == hash && n.stands(int(i), prefix) {
				return int(i)
			}
		}
	}
	for i := min(len(n.bindings), few) - 1; i >= 0; i-- {
		if n.stands(i, prefix) {
			return i
		}
	}
	return unbound
}

// uri returns the URI of a binding; unbound has none.
func (n *namespaces) uri(binding int) []byte {
	if binding < 0 {
		return nil
	}
	b := &n.bindings[binding]
	return n.names[b.uri:b.end]
}

// space returns the namespace of a binding.
func (n *namespaces) space(binding int) space {
	if binding < 0 {
		return ofNone
	}
	return n.bindings[binding].space
}

// uriHash returns a hash of the URI of a binding.
func (n *namespaces) uriHash(binding int) uint64 {
	b := &n.bindings[binding]
	if b.uriHash == 0 {
		b.uriHash = maphash.Bytes(seed, n.names[b.uri:b.end]) | 1
	}
	return b.uriHash
}

// forbidden says why a declaration may not be made, or nothing.
func forbidden(prefix, uri []byte) string {
	switch isXML := string(uri) == xmlSpace; {
	case string(prefix) == "xmlns":
		return `the prefix "xmlns" may not be declared`
	case string(uri) == xmlnsSpace:
		return "the namespace " + xmlnsSpace + " may not be declared"
	case string(prefix) == "xml" && !isXML:
		return `the prefix "xml" may not be declared for another namespace`
	case string(prefix) != "xml" && isXML:
		return "the namespace " + xmlSpace + ` may not be declared for another prefix than "xml"`
	case len(prefix) > 0 && len(uri) == 0:
		return "the declaration of the prefix " + quote(prefix) + " names no namespace"
	}
	return ""
}

// An attribute of the start tag being scanned. Its name stands in scanner.tag, its value, if kept, in scanner.values.
// Of a declaration, the prefix stands in names[value:valueEnd], the URI behind it.
type attribute struct {
	name, local, nameEnd int
	value, valueEnd      int
	binding              int
}

func (s *scanner) localOf(a *attribute) []byte { return s.tag[a.local:a.nameEnd] }

// sameName reports whether a and b have the same expanded name.
func (s *scanner) sameName(a, b *attribute) bool {
	if !bytes.Equal(s.localOf(a), s.localOf(b)) {
		return false
	}
	if a.binding < 0 || b.binding < 0 {
		return a.binding == b.binding
	}
	// Long URIs must not be compared for every attribute; that they are equal is found once, and is an error.
	return s.uriHash(a.binding) == s.uriHash(b.binding) && bytes.Equal(s.uri(a.binding), s.uri(b.binding))
}

// twice returns an attribute that another one before it has the expanded name of, or nil.
func (s *scanner) twice() *attribute {
	if len(s.attributes) > few {
		return s.twiceOfMany()
	}
	var looks uint64 // a bit for each first and last letter and length of those before
	for i := range s.attributes {
		a := &s.attributes[i]
		look := uint64(1) << ((uint(s.tag[a.local]) + 5*uint(s.tag[a.nameEnd-1]) + 11*uint(a.nameEnd-a.local)) % 64)
		for j := range i {
			if looks&look != 0 && s.sameName(a, &s.attributes[j]) {
				return a
			}
		}
		looks |= look
	}
	return nil
}

// twiceOfMany puts the attributes into a hash table of twice their number.
func (s *scanner) twiceOfMany() *attribute {
	size := 1 << bits.Len(uint(2*len(s.attributes)))
	if len(s.table) < size {
		s.table = make([]int32, size)
	}
	table := s.table[:size]
	clear(table)
	for i := range s.attributes {
		a := &s.attributes[i]
		hash := maphash.Bytes(seed, s.localOf(a))
		if a.binding >= 0 {
			hash ^= s.uriHash(a.binding) * 31
		}
		slot := hash % uint64(size)
		for ; table[slot] > 0; slot = (slot + 1) % uint64(size) {
			if s.sameName(a, &s.attributes[table[slot]-1]) {
				return a
			}
		}
		table[slot] = int32(i + 1)
	}
	return nil
}
