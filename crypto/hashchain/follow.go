// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// Path is what Follow found on its way from the result to the data.
type Path struct {
	// Unresolved are the references to data that the Resolver declined, with the digests that the chain has for them.
	Unresolved []crypto.Part
	// Batch says that a step held the digest of something else. The signature then proves that its maker hashed these
	// octets, not that they were a message (section 14.2).
	Batch bool

	top       *hashStep
	otherwise string // data of which the chain has another digest than the inputs, or ""
}

// Follow verifies a chain of any shape (section 7.3): it leads from the result to the inputs, and every input is used. An
// input without digest must be used, and its data are resolved. Callers that know the shape of honest chains go on with
// Path.Shape. Errors are *Error with the causes of section 7.1.
func Follow(result []byte, inputs []crypto.Part, resolve Resolver) (*Path, error) {
	r, err := readResult(result)
	if err != nil {
		return nil, failf(malformed, "reading the result: %w", err)
	}
	f := follower{
		resolve:   resolve,
		inputs:    make(map[string]*input, len(inputs)),
		documents: make(map[string]*document),
		path:      new(Path),
	}
	for _, p := range inputs {
		f.inputs[p.Name] = &input{Part: p}
	}
	top, err := f.find(r.top, nil)
	if err != nil {
		return nil, err
	}
	octets, err := f.octets(top)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(r.digest.Sum(octets), r.sum) {
		return nil, failf(invalidTop, "the chain does not lead to its result")
	}
	for _, p := range inputs {
		if !f.inputs[p.Name].used {
			return nil, failf(unusedInputs, "%s is not in the chain", p.Name)
		}
	}
	f.path.top = top
	return f.path, nil
}

type follower struct {
	resolve   Resolver
	inputs    map[string]*input
	documents map[string]*document
	steps     int // of all documents
	path      *Path
}

type input struct {
	crypto.Part
	used bool
}

// find returns the step that a URI names, seen from a document, or from none for the URI of the result.
func (f *follower) find(uri string, from *document) (*hashStep, error) {
	name, id, ok := strings.Cut(uri, "#")
	if !ok || id == "" || name == "" && from == nil {
		return nil, failf(malformed, "%.128q does not name a step", uri)
	}
	in := from
	if name != "" {
		var err error
		if in, err = f.document(name); err != nil {
			return nil, err
		}
	}
	step := in.ids[id]
	if step == nil {
		return nil, failf(malformed, "there is no step %.128q", uri)
	}
	return step, nil
}

// document returns a hash chain document, which is read once.
func (f *follower) document(name string) (*document, error) {
	if d := f.documents[name]; d != nil {
		return d, nil
	}
	octets, err := f.read(name)
	if err != nil {
		return nil, err
	}
	d, err := readDocument(name, octets)
	if err != nil {
		return nil, failf(malformed, "reading %.128q: %w", name, err)
	}
	if f.steps += len(d.steps); f.steps > maxSteps {
		return nil, failf(malformed, "more than %d steps", maxSteps)
	}
	f.documents[name] = d
	return d, nil
}

// read returns the octets of a small file.
func (f *follower) read(uri string) ([]byte, error) {
	file, err := f.resolve(uri)
	if err != nil {
		return nil, failf(invalidURI, "resolving %.128q: %w", uri, err)
	}
	defer file.Close()
	var s small
	if _, err := io.Copy(&s, file); errors.Is(err, errTooLong) {
		return nil, failf(malformed, "reading %.128q: %w", uri, err)
	} else if err != nil {
		return nil, failf(invalidURI, "reading %.128q: %w", uri, err)
	}
	return s.octets.Bytes(), nil
}

var errTooLong = fmt.Errorf("it has more than %d octets", limits.Size)

// small takes up what fits into the limit of a document. Octets that come in one piece are held once.
type small struct{ octets bytes.Buffer }

func (s *small) Write(p []byte) (int, error) {
	if s.octets.Len()+len(p) > limits.Size {
		return 0, errTooLong
	}
	return s.octets.Write(p)
}

// octets returns the digest list of a step. Each step is reached once, so the work is bounded by the length of the chain.
func (f *follower) octets(s *hashStep) ([]byte, error) {
	if s.reached {
		return nil, failf(malformed, "a step is reached twice")
	}
	s.reached = true
	var l digestList
	l.expect(len(s.items))
	for i := range s.items {
		sum, err := f.sum(s, &s.items[i])
		if err != nil {
			return nil, err
		}
		l.add(s.items[i].digest, sum)
	}
	return l.octets(), nil
}

func (f *follower) sum(s *hashStep, it *item) (sum []byte, err error) {
	switch it.kind {
	case hashValue:
		f.path.Batch = true
		return it.sum, nil
	case stepRef:
		if it.target, err = f.find(it.uri, s.in); err != nil {
			return nil, err
		}
		octets, err := f.octets(it.target)
		if err != nil {
			return nil, err
		}
		return it.digest.Sum(octets), nil
	default:
		return f.data(it)
	}
}

// data returns the digest of what a DataRef names: the input's own where that is known, so that a chain which claims
// another shows as a wrong result.
func (f *follower) data(it *item) ([]byte, error) {
	if in := f.inputs[it.uri]; in != nil {
		in.used = true
		if in.Sum != nil && in.Digest == it.digest {
			if !bytes.Equal(in.Sum, it.sum) {
				f.path.otherwise = it.uri
			}
			return in.Sum, nil
		}
	}
	sum, err := f.hash(it)
	switch {
	case errors.Is(err, ErrDeclined):
		f.path.Unresolved = append(f.path.Unresolved, crypto.Part{Name: it.uri, Digest: it.digest, Sum: it.sum})
		return it.sum, nil
	case err != nil:
		return nil, err
	case !bytes.Equal(sum, it.sum):
		return nil, failf(invalidData, "%.128q is not what the chain says", it.uri)
	}
	return sum, nil
}

// hash resolves a DataRef and hashes what it names.
func (f *follower) hash(it *item) ([]byte, error) {
	h := it.digest.New()
	if it.transform != "" {
		octets, err := f.read(it.uri)
		if err != nil {
			return nil, err
		}
		root, err := c14n.Parse(octets, c14n.Limits{Size: limits.Size})
		if err == nil {
			err = root.Canonicalize(h, it.transform)
		}
		if err != nil {
			return nil, failf(invalidData, "transforming %.128q: %w", it.uri, err)
		}
		return h.Sum(nil), nil
	}
	file, err := f.resolve(it.uri)
	if err != nil {
		return nil, failf(invalidURI, "resolving %.128q: %w", it.uri, err)
	}
	defer file.Close()
	if _, err := io.Copy(h, file); err != nil {
		return nil, failf(invalidURI, "reading %.128q: %w", it.uri, err)
	}
	return h.Sum(nil), nil
}

// Shape checks that the chain has the shape of an honest one whose data file is data (section 7.5 rule 8):
// crypto.Message for messages, whose last step may list attachments, or the name of a signature document for time-stamps.
func (p *Path) Shape(data string) error {
	steps := p.top.in.steps
	if p.top != steps[0] {
		return failf(malformed, "the chain does not begin with its first step")
	}
	for i, s := range steps {
		for _, it := range s.items {
			if it.own || it.transform != "" || it.kind != stepRef && len(it.sum) != it.digest.Size() {
				return failf(malformed, "step %d has an item that no honest chain has", i)
			}
		}
		var ok bool
		if i < len(steps)-1 {
			ok = s.forksTo(steps[i+1])
		} else {
			ok = s.isLeaf(data) || data == crypto.Message && s.isPartList()
		}
		if !ok {
			return failf(malformed, "step %d is not what an honest chain has in its place", i)
		}
	}
	return nil
}

// forksTo reports whether a step is one HashValue beside a StepRef to the next step.
func (s *hashStep) forksTo(next *hashStep) bool {
	return s.isFork(func(it item) bool { return it.kind == stepRef && it.target == next })
}

// isLeaf reports whether a step is one HashValue beside a DataRef to the data.
func (s *hashStep) isLeaf(data string) bool {
	return s.isFork(func(it item) bool { return it.kind == dataRef && it.uri == data })
}

// isFork reports whether a step is one HashValue beside one own item.
func (s *hashStep) isFork(own func(item) bool) bool {
	if len(s.items) != 2 {
		return false
	}
	a, b := s.items[0], s.items[1]
	return a.kind == hashValue && own(b) || b.kind == hashValue && own(a)
}

// isPartList reports whether a step lists the parts of one message with attachments.
func (s *hashStep) isPartList() bool {
	for i, it := range s.items {
		name := crypto.Message
		if i > 0 {
			name = crypto.Attachment(i)
		}
		if it.kind != dataRef || it.uri != name {
			return false
		}
	}
	return len(s.items) > 1
}
