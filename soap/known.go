// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"hash/maphash"
	"sync"
)

// The start tags of envelopes are few and come again, and in the same order: those of a header in every message, those of
// a row in every row. A scanner learns them: what form the octets of a tag have depends on nothing but these octets, so
// that it need not be found twice, and a tag is expected by the one that it followed before. Only that is learned, and
// never what a name stands for.

const (
	knownMost       = 64      // start tags that are known at a time
	knownOctets     = 4 << 10 // of all of them
	knownAttributes = 128     // of all of them
	knownEnds       = 4       // of end tags between two start tags, at most so many less one are told apart
	knownSlots      = 2 * knownMost
)

// A startTag says what its octets alone show: where its parts stand, by offsets from its <, and the word in its name.
type startTag struct {
	local, nameEnd int // of its name, which begins at 1
	end            int // behind its >
	closed         bool
	word           word

	// If it is known:
	octets, attributes, attributesEnd int              // where they stand in knownTags
	next                              [knownEnds]uint8 // the tag that followed it last, by the number of end tags between

	scope   uint64 // when the binding was found
	binding int    // of its prefix
}

// knownTags are the start tags that a scanner has learned; tags[0] stands for all others.
type knownTags struct {
	tags       [knownMost + 1]startTag
	n          int // that are known
	octets     [knownOctets]byte
	attributes [knownAttributes]attribute
	full       bool
	slots      [knownSlots]uint8 // index in tags by hash of the octets, or 0

	last, ends         uint8  // the start tag before, and how many end tags came since
	before, beforeEnds uint8  // the same of the start tag before that
	scope              uint64 // what namespaces are in scope; it never comes again
}

var known = sync.Pool{New: func() any { return new(knownTags) }}

// lendTags returns known tags for a piece of a document. If there was no room for more, all are forgotten.
func lendTags() *knownTags {
	k := known.Get().(*knownTags)
	if k.full {
		k.n, k.full, k.tags[0], k.slots = 0, false, startTag{}, [knownSlots]uint8{}
	}
	k.last, k.ends = 0, 0
	k.scope++
	return k
}

func (k *knownTags) giveBack() { known.Put(k) }

// expected returns the start tag that is expected next, if it stands at the start of t, else nil.
func (k *knownTags) expected(t []byte) *startTag {
	next := k.tags[k.last].next[k.ends%knownEnds]
	tag := &k.tags[next]
	if next == 0 || tag.end > len(t) || string(k.octets[tag.octets:tag.octets+tag.end]) != string(t[:tag.end]) {
		return nil
	}
	k.last, k.ends = next, 0
	return tag
}

// ended notes an end tag.
func (k *knownTags) ended() { k.ends = min(k.ends+1, knownEnds-1) }

// other returns a start tag that is not known, to be filled in.
func (k *knownTags) other() *startTag {
	k.before, k.beforeEnds = k.last, k.ends
	k.last, k.ends = 0, 0
	other := &k.tags[0]
	other.scope = 0
	return other
}

// learn learns the start tag of these octets, which other returned, and that it followed the one before. One that is
// known already, or that there is no room for, is not learned again.
func (k *knownTags) learn(octets []byte, attributes []attribute) *startTag {
	slot := maphash.Bytes(seed, octets) % knownSlots
	for ; k.slots[slot] > 0; slot = (slot + 1) % knownSlots {
		if t := &k.tags[k.slots[slot]]; string(octets) == string(k.octets[t.octets:t.octets+t.end]) {
			return k.follow(k.slots[slot])
		}
	}
	from, first := 0, 0
	if k.n > 0 {
		last := &k.tags[k.n]
		from, first = last.octets+last.end, last.attributesEnd
	}
	if k.n == knownMost || len(octets) > knownOctets-from || len(attributes) > knownAttributes-first {
		k.full = true
		return &k.tags[0]
	}
	k.n++
	k.slots[slot] = uint8(k.n)
	t := &k.tags[k.n]
	*t = k.tags[0]
	t.next = [knownEnds]uint8{}
	t.word = wordOf(octets[t.local:t.nameEnd])
	t.octets, t.attributes, t.attributesEnd = from, first, first+len(attributes)
	copy(k.octets[from:], octets)
	copy(k.attributes[first:], attributes)
	return k.follow(uint8(k.n))
}

// follow notes that a known tag followed the one before.
func (k *knownTags) follow(tag uint8) *startTag {
	k.tags[k.before].next[k.beforeEnds] = tag
	k.last = tag
	return &k.tags[tag]
}
