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
	knownMost       = 127     // start tags that are known at a time
	knownOctets     = 4 << 10 // of all of them
	knownAttributes = 128     // of all of them
	knownEnds       = 4       // of end tags between two start tags, at most so many less one are told apart
	knownSlots      = 256
)

// A startTag says what its octets alone show: where its parts stand, by offsets from its <, and the word in its name.
type startTag struct {
	local, nameEnd uint16 // of its name, which begins at 1
	end            uint16 // behind its >
	octets         uint16 // where they begin in knownTags, if it is known
	first, last    uint8  // its attributes there, up to last
	closed         bool
	word           word
	binding        int32  // of its prefix, in scope
	scope          uint64 // 0 if the binding was not looked for
}

// knownTags are the start tags that a scanner has learned; tags[0] stands for all others.
type knownTags struct {
	tags       [knownMost + 1]startTag
	next       [knownMost + 1][knownEnds]uint8 // that followed it last, by the number of end tags between
	n          int                             // that are known
	octets     [knownOctets]byte
	attributes [knownAttributes]attribute
	full       bool
	slots      [knownSlots]uint8 // index in tags by hash of the octets, or 0

	last, ends             uint8  // the start tag before, and how many end tags came since
	beforeLast, beforeEnds uint8  // the same of that one
	scope                  uint64 // what namespaces are in scope; it never comes again
}

var known = sync.Pool{New: func() any { return new(knownTags) }}

// lendTags returns known tags for a piece of a document. If there was no room for more, all are forgotten.
func lendTags() *knownTags {
	k := known.Get().(*knownTags)
	if k.full {
		*k = knownTags{scope: k.scope}
	}
	k.last, k.ends = 0, 0
	k.scope++
	return k
}

func (k *knownTags) giveBack() { known.Put(k) }

// expected returns the start tag that is expected next, if it stands at the start of t, else nil.
func (k *knownTags) expected(t []byte) *startTag {
	i := k.next[k.last%(knownMost+1)][k.ends%knownEnds]
	if i == 0 {
		return nil
	}
	tag := &k.tags[i%(knownMost+1)]
	if n := int(tag.end); n > len(t) || string(k.octets[tag.octets:][:n]) != string(t[:n]) {
		return nil
	}
	k.last, k.ends = i, 0
	return tag
}

// ended notes an end tag.
func (k *knownTags) ended() { k.ends = min(k.ends+1, knownEnds-1) }

// other returns a start tag that is not known, to be filled in.
func (k *knownTags) other() *startTag {
	k.beforeLast, k.beforeEnds = k.last, k.ends
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
		if t := &k.tags[k.slots[slot]]; string(octets) == string(k.octets[t.octets:][:t.end]) {
			return k.follow(k.slots[slot])
		}
	}
	from, first := 0, 0
	if k.n > 0 {
		before := &k.tags[k.n]
		from, first = int(before.octets)+int(before.end), int(before.last)
	}
	if k.n == knownMost || len(octets) > knownOctets-from || len(attributes) > knownAttributes-first {
		k.full = true
		return &k.tags[0]
	}
	k.n++
	k.slots[slot] = uint8(k.n)
	t := &k.tags[k.n]
	*t = k.tags[0]
	t.word = wordOf(octets[t.local:t.nameEnd])
	t.octets, t.first, t.last = uint16(from), uint8(first), uint8(first+len(attributes))
	copy(k.octets[from:], octets)
	copy(k.attributes[first:], attributes)
	return k.follow(uint8(k.n))
}

// follow notes that a known tag followed the one before.
func (k *knownTags) follow(tag uint8) *startTag {
	k.next[k.beforeLast][k.beforeEnds] = tag
	k.last = tag
	return &k.tags[tag]
}
