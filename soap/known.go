// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"hash/maphash"
	"sync"
)

// The start tags of envelopes are few and come again, in the same order: those of a header in every message, those of a
// row in every row. They are learned: what the octets of a tag show by themselves, but for the values of its attributes,
// need not be found twice, and a tag is expected where it followed the same tag before. Nothing is learned of what
// depends on more than these octets, as namespaces do, and nothing of values.

const (
	knownTagsMost   = 127     // start tags that are known at a time
	knownOctets     = 8 << 10 // of all of them, without values
	knownAttributes = 255     // of all of them
	knownEnds       = 4       // end tags between two start tags, up to one less than that, are told apart
	knownSlots      = 256
)

// A startTag says what its octets alone show: where its parts stand, by offsets from its <, and the word in its name.
type startTag struct {
	local, nameEnd uint16 // of its name, which begins at 1
	end            uint16 // behind its >
	closed         bool
	distinct       bool // its attributes have been judged, and no namespaces can make two of them the same
	word           word
	binding        int32  // of its prefix, in scope
	scope          uint64 // 0 if the binding was not looked for

	// If it is known:
	octets, octetsEnd uint16 // its octets in knownTags
	tail              uint16 // how many of them stand behind the last value
	first, last       uint8  // its attributes in knownTags, up to last
	prefixed          uint8  // how many of them have prefixes, and declare nothing
}

// prefix returns the prefix in the name of a start tag that stands at the start of t.
func (tag *startTag) prefix(t []byte) []byte { return t[1:max(1, int(tag.local)-1)] }

// A knownAttribute is an attribute of a known start tag; its name ends two octets before its value.
type knownAttribute struct {
	before      uint16 // octets of the tag that stand between the value before and this one
	name, local uint16 // octets of the name and its local part
	declares    bool
}

// knownTags are the start tags that have been learned; tags[0] stands for all others.
type knownTags struct {
	tags          [knownTagsMost + 1]startTag
	next          [knownTagsMost + 1][knownEnds]uint8 // that followed it last, by the number of end tags between
	n             int                                 // that are known
	octets        [knownOctets]byte
	octetsEnd     int
	attributes    [knownAttributes]knownAttribute
	attributesEnd int
	full          bool
	slots         [knownSlots]uint8 // index in tags by hash of the octets, or 0

	tag, ends uint8  // the start tag before, and how many end tags came since
	scope     uint64 // what namespaces are in scope; it never comes again
}

var known = sync.Pool{New: func() any { return new(knownTags) }}

// lendTags returns known tags, for one scanner until it rests. If there was no room for more, all are forgotten.
func lendTags() *knownTags {
	k := known.Get().(*knownTags)
	if k.full {
		*k = knownTags{scope: k.scope}
	}
	k.tag, k.ends = 0, 0
	k.scope++
	return k
}

// ended notes an end tag.
func (k *knownTags) ended() { k.ends = min(k.ends+1, knownEnds-1) }

// expectedTag returns the start tag that is expected next, with its attributes in s.attributes, if it stands at the start
// of t, else nil.
func (s *scanner) expectedTag(t []byte) *startTag {
	k := s.tags
	next := k.next[k.tag][k.ends]
	tag := &k.tags[next]
	if next == 0 || int(tag.last-tag.first) > s.limits.Attributes {
		return nil
	}
	at, octets := 0, k.octets[tag.octets:]
	for i := tag.first; i < tag.last; i++ {
		known := &k.attributes[i]
		n := int(known.before)
		if n > len(t)-at || string(octets[:n]) != string(t[at:at+n]) {
			return nil
		}
		at, octets = at+n, octets[n:]
		a := s.addAttribute()
		a.nameEnd = at - len(`="`)
		a.name, a.local = a.nameEnd-int(known.name), a.nameEnd-int(known.local)
		a.value, a.binding = at, unbound
		at += plainValue(t[at:])
		a.valueEnd = at
		if known.declares {
			a.binding = declaration
			if forbidden(prefixDeclared(t, a), t[a.value:at]) != "" {
				return nil
			}
		}
	}
	n := int(tag.tail)
	if n > len(t)-at || string(octets[:n]) != string(t[at:at+n]) {
		return nil
	}
	tag.end = uint16(at + n)
	k.tag, k.ends = next, 0
	return tag
}

// other returns a start tag that is not known, to be filled in.
func (k *knownTags) other() *startTag {
	k.tags[0] = startTag{}
	return &k.tags[0]
}

// learn learns the start tag at the start of t, which other returned, and that it followed the one before. It returns it
// as it is known then, or as it was if there is no room.
func (k *knownTags) learn(t []byte, tag *startTag, attributes []attribute) *startTag {
	i := k.index(t, tag, attributes)
	k.next[k.tag][k.ends] = i
	k.tag, k.ends = i, 0
	k.tags[i].end = tag.end
	return &k.tags[i]
}

// index returns the index of a start tag, which it learns if it is not known; 0 if there is no room.
func (k *knownTags) index(t []byte, tag *startTag, attributes []attribute) uint8 {
	if len(attributes) > knownAttributes/8 || int(tag.end) > knownOctets/8 {
		return 0 // it would take the room of many
	}
	if k.n == knownTagsMost || int(tag.end) > knownOctets-k.octetsEnd || len(attributes) > knownAttributes-k.attributesEnd {
		k.full = true
		return 0
	}
	octets, at, prefixed := k.octets[k.octetsEnd:k.octetsEnd], 0, 0
	for i := range attributes {
		a := &attributes[i]
		k.attributes[k.attributesEnd+i] = knownAttribute{
			before: uint16(a.value - at), name: uint16(a.nameEnd - a.name), local: uint16(a.nameEnd - a.local), declares: a.binding == declaration,
		}
		if a.binding == unbound && a.local > a.name {
			prefixed++
		}
		octets = append(octets, t[at:a.value]...)
		at = a.valueEnd
	}
	octets = append(octets, t[at:tag.end]...)

	slot := maphash.Bytes(seed, octets) % knownSlots
	for ; k.slots[slot] > 0; slot = (slot + 1) % knownSlots {
		if same := &k.tags[k.slots[slot]]; string(octets) == string(k.octets[same.octets:same.octetsEnd]) {
			return k.slots[slot]
		}
	}
	k.n++
	k.slots[slot] = uint8(k.n)
	learned := &k.tags[k.n]
	*learned = *tag
	learned.word = wordOf(t[tag.local:tag.nameEnd])
	learned.octets, learned.octetsEnd = uint16(k.octetsEnd), uint16(k.octetsEnd+len(octets))
	learned.first, learned.last = uint8(k.attributesEnd), uint8(k.attributesEnd+len(attributes))
	learned.tail, learned.prefixed = uint16(int(tag.end)-at), uint8(prefixed)
	k.octetsEnd += len(octets)
	k.attributesEnd += len(attributes)
	return uint8(k.n)
}
