// SPDX-License-Identifier: Apache-2.0

package c14n

// blocks are where a tree lives: many small things are made at once.
type blocks struct {
	elements []Element
	children []*Element
	texts    []string
	attrs    []Attr
	declared []binding
}

// expectedOctets is how many octets of a document an element takes, about; maxBlock how many things are made at once.
const (
	expectedOctets = 96
	maxBlock       = 256
)

// keep returns a copy of the items that lies in the block, or in a new one. It cannot grow into what comes after it.
func keep[T any](block *[]T, items []T) []T {
	if len(items) == 0 {
		return nil
	}
	if cap(*block)-len(*block) < len(items) {
		*block = make([]T, 0, max(len(items), min(2*cap(*block), maxBlock), 32))
	}
	start := len(*block)
	*block = append(*block, items...)
	return (*block)[start:len(*block):len(*block)]
}

// attribute is an attribute as written: its namespace is known only when all attributes of the element have been read.
type attribute struct {
	prefix, local, value string
	at                   int
}
