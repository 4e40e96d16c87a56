// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"bytes"
	"fmt"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

const (
	hashChainSpace = "http://cyber.ee/hashchain"
	dsSpace        = "http://www.w3.org/2000/09/xmldsig#"
)

// chainResult is a hash chain result document.
type chainResult struct {
	top    string // URI of the first step
	digest crypto.Digest
	sum    []byte
}

// document is a hash chain document.
type document struct {
	name  string // the URI under which it was found
	steps []*hashStep
	ids   map[string]*hashStep
}

// hashStep is one step of a chain.
type hashStep struct {
	in      *document
	items   []item
	reached bool
}

// kind is the kind of an item of a step.
type kind uint8

const (
	hashValue kind = iota + 1
	stepRef
	dataRef
)

// item is one digest of a step.
type item struct {
	kind      kind
	uri       string // of stepRef and dataRef
	digest    crypto.Digest
	sum       []byte    // of hashValue and dataRef
	own       bool      // it names its digest method itself
	transform string    // c14n algorithm; "": none
	target    *hashStep // of stepRef, once followed
}

// parse reads a hash chain document or a result within the limits.
func parse(octets []byte) (*c14n.Element, error) {
	if n := bytes.Count(octets, []byte("<")); n > maxTags {
		return nil, fmt.Errorf("%d tags, more than %d", n, maxTags)
	}
	return c14n.Parse(octets, limits)
}

// readResult reads a hash chain result strictly by its schema (section 5.4).
func readResult(octets []byte) (*chainResult, error) {
	root, err := parse(octets)
	if err != nil {
		return nil, err
	}
	var s c14n.Structure
	if !root.Is(hashChainSpace, "HashChainResult") {
		s.Failf("%.64q is not a hash chain result", root.Local)
	}
	children := s.Open(root, "URI")
	r := &chainResult{
		top:    s.Attribute(root, "URI"),
		digest: readMethod(&s, children.One(dsSpace, "DigestMethod")),
		sum:    s.Base64(children.One(dsSpace, "DigestValue")),
	}
	children.End()
	return r, s.Err()
}

// readDocument reads a hash chain strictly by its schema, with the limits of section 7.5 rule 7.
func readDocument(name string, octets []byte) (*document, error) {
	root, err := parse(octets)
	if err != nil {
		return nil, err
	}
	var s c14n.Structure
	if !root.Is(hashChainSpace, "HashChain") {
		s.Failf("%.64q is not a hash chain", root.Local)
	}
	d := &document{name: name, ids: make(map[string]*hashStep)}
	children := s.Open(root)
	var method crypto.Digest
	if e := children.Maybe(hashChainSpace, "DefaultDigestMethod"); e != nil {
		method = readMethod(&s, e)
	}
	for e := children.Maybe(hashChainSpace, "HashStep"); e != nil; e = children.Maybe(hashChainSpace, "HashStep") {
		if len(d.steps) == maxSteps {
			s.Failf("more than %d steps", maxSteps)
		}
		d.addStep(&s, e, method)
	}
	children.End()
	return d, s.Err()
}

func (d *document) addStep(s *c14n.Structure, e *c14n.Element, method crypto.Digest) {
	step := &hashStep{in: d, items: make([]item, 0, min(len(e.Children()), MaxParts))}
	d.steps = append(d.steps, step)
	if id, ok := e.Attr("id"); ok {
		if d.ids[id] != nil {
			s.Failf("two steps with the id %.64q", id)
		}
		d.ids[id] = step
	}
	children := s.Open(e, "id")
	for child := children.Next(); child != nil; child = children.Next() {
		step.items = append(step.items, readItem(s, child, method))
	}
}

func readItem(s *c14n.Structure, e *c14n.Element, method crypto.Digest) item {
	it := item{digest: method}
	var children c14n.Children
	switch {
	case e.Is(hashChainSpace, "HashValue"):
		it.kind = hashValue
		children = s.Open(e)
	case e.Is(hashChainSpace, "StepRef"):
		it.kind = stepRef
		children = s.Open(e, "URI")
		it.uri = s.Attribute(e, "URI")
	case e.Is(hashChainSpace, "DataRef"):
		it.kind = dataRef
		children = s.Open(e, "URI")
		it.uri = s.Attribute(e, "URI")
	default:
		s.Failf("unexpected %.64q in a step", e.Local)
		return it
	}
	if m := children.Maybe(dsSpace, "DigestMethod"); m != nil {
		it.own = true
		it.digest = readMethod(s, m)
	}
	if it.digest == 0 {
		s.Failf("%s without digest method", e.Local)
	}
	if it.kind != stepRef {
		if t := children.Maybe(dsSpace, "Transforms"); t != nil {
			it.transform = readTransform(s, t)
		}
		it.sum = s.Base64(children.One(dsSpace, "DigestValue"))
	}
	children.End()
	return it
}

func readMethod(s *c14n.Structure, e *c14n.Element) crypto.Digest {
	uri := s.Attribute(e, "Algorithm")
	s.Open(e, "Algorithm").End()
	digest := crypto.DigestByURI(uri)
	if digest == 0 {
		s.Failf("digest method %.128q", uri)
	}
	return digest
}

// readTransform accepts one canonicalisation and nothing else.
func readTransform(s *c14n.Structure, e *c14n.Element) string {
	children := s.Open(e)
	transform := children.One(dsSpace, "Transform")
	children.End()
	algorithm := s.Attribute(transform, "Algorithm")
	s.Open(transform, "Algorithm").End()
	if algorithm != c14n.Inclusive && algorithm != c14n.Exclusive {
		s.Failf("transform %.128q", algorithm)
	}
	return algorithm
}
