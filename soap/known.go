// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"hash/maphash"
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

// A knownTag is a start tag that is well-formed in itself and may stand wherever its namespaces are declared.
type knownTag struct {
	form
	octets, octetsEnd         int
	attributes, attributesEnd int
	next                      [knownEnds]uint8 // the tag that followed it last, by the number of end tags between them

	epoch   uint64 // of the namespaces in scope when the binding was found
	binding int    // of its prefix
}

// knownTags are the start tags that a scanner has learned. tags[0] stands for all that are not.
type knownTags struct {
	tags       [knownMost + 1]knownTag
	n          int // that are known
	octets     [knownOctets]byte
	attributes [knownAttributes]attribute
	full       bool
	slots      [knownSlots]uint8 // index in tags by hash of the octets, or 0

	last, ends uint8 // the start tag before, and how many end tags came since
}

// begin begins another document. If there was no room for the tags of those before, all are forgotten.
func (k *knownTags) begin() {
	if k.full {
		k.n, k.full, k.tags[0], k.slots = 0, false, knownTag{}, [knownSlots]uint8{}
	}
	k.last, k.ends = 0, 0
}

// expected returns the start tag that is expected next, if it stands at the start of t, else nil.
func (k *knownTags) expected(t []byte) *knownTag {
	next := k.tags[k.last].next[k.ends%knownEnds]
	tag := &k.tags[next]
	octets := k.octets[tag.octets:tag.octetsEnd]
	if next == 0 || len(octets) > len(t) || string(octets) != string(t[:len(octets)]) {
		return nil
	}
	k.last, k.ends = next, 0
	return tag
}

// ended notes an end tag.
func (k *knownTags) ended() { k.ends = min(k.ends+1, knownEnds-1) }

// meet learns a start tag of that form, and that it followed the one before; it is known afterwards, or there is no
// room, and it returns nil. A tag with attributes is learned if it is heard of: the values of others change.
func (k *knownTags) meet(octets []byte, f form, attributes []attribute, heard bool) *knownTag {
	i := uint8(0)
	if len(attributes) == 0 || heard {
		i = k.index(octets, f, attributes)
	}
	if i > 0 {
		k.tags[k.last].next[k.ends] = i
	}
	k.last, k.ends = i, 0
	if i == 0 {
		return nil
	}
	return &k.tags[i]
}

// index returns the index of a tag, which it learns if there is room, or 0.
func (k *knownTags) index(octets []byte, f form, attributes []attribute) uint8 {
	slot := maphash.Bytes(seed, octets) % knownSlots
	for ; k.slots[slot] > 0; slot = (slot + 1) % knownSlots {
		if t := &k.tags[k.slots[slot]]; bytes.Equal(octets, k.octets[t.octets:t.octetsEnd]) {
			return k.slots[slot]
		}
	}
	t := &k.tags[k.n] // the last one
	from, first := t.octetsEnd, t.attributesEnd
	if k.n == knownMost || len(octets) > knownOctets-from || len(attributes) > knownAttributes-first {
		k.full = true
		return 0
	}
	k.n++
	copy(k.octets[from:], octets)
	copy(k.attributes[first:], attributes)
	k.tags[k.n] = knownTag{form: f, octets: from, octetsEnd: from + len(octets), attributes: first, attributesEnd: first + len(attributes)}
	k.slots[slot] = uint8(k.n)
	return uint8(k.n)
}
