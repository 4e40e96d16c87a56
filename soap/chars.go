// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// What an octet may be, or which runs it ends.
const (
	isSpace     = 1 << iota // tab, line feed, carriage return, space
	isNameStart             // may begin a name; every octet beyond ASCII may, until the whole name is judged
	isName                  // may stand in a name, the colon included
	isWord                  // the same in ASCII, without the colon
	endsText                // is not plain character data: control characters, beyond ASCII, < & ]
	endsValue               // is not plain in an attribute value: control characters, beyond ASCII, < & " '
	endsOther               // is not plain in a comment, CDATA section or processing instruction: …, - ] ?
)

var classes = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= utf8.RuneSelf:
			t[c] = isNameStart | isName | endsText | endsValue | endsOther
		case c < ' ':
			t[c] = endsText | endsValue | endsOther
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
			t[c] = isNameStart | isName | isWord
		case c == ':':
			t[c] = isNameStart | isName
		case '0' <= c && c <= '9', c == '-', c == '.':
			t[c] = isName | isWord
		}
	}
	for _, c := range []byte(" \t\n\r") {
		t[c] |= isSpace
	}
	for _, c := range []byte("<&]") {
		t[c] |= endsText
	}
	for _, c := range []byte(`<&"'`) {
		t[c] |= endsValue
	}
	for _, c := range []byte("-]?") {
		t[c] |= endsOther
	}
	return t
}()

const (
	ones = 0x0101010101010101 // 1 in each of eight octets
	tops = 0x8080808080808080 // the top bit of each of eight octets
)

// plain returns how many octets at the start of p are characters of one or two octets that do not end text. It looks at
// eight at a time: a subtraction sets the top bit of an octet that is too small, and the lowest top bit set is exact.
func plain(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		if ends := (endsOf(x) | x) & tops; ends != 0 {
			if i += bits.TrailingZeros64(ends) / 8; p[i] >= utf8.RuneSelf {
				return i + plainBeyond(p[i:])
			}
			return i
		}
	}
	for i < len(p) && classes[p[i]]&endsText == 0 {
		i++
	}
	return i
}

// endsOf has the top bits of those of eight octets in ASCII that end text.
func endsOf(x uint64) uint64 {
	return (x - ' '*ones) | ((x ^ '<'*ones) - ones) | ((x ^ '&'*ones) - ones) | ((x ^ ']'*ones) - ones)
}

// plainBeyond is plain where characters beyond ASCII are likely. It may stop early, in the last octets that are not eight.
func plainBeyond(p []byte) int {
	i := 0
	following := uint64(0) // the top bit of the first octet, if it is the second of its character
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		high := x & tops
		lead := high & (x << 1)           // 11…, which must be 110xxxxx, and not C0 or C1
		long := lead & (x << 2)           // 111…
		some := x&(0x1E*ones) + 0x7E*ones // has the top bit where xxxx is not 0
		missed := high ^ lead ^ (lead<<8 | following)
		if ends := endsOf(x)&^high | long | lead&^some | missed; ends&tops != 0 {
			return whole(p, i+bits.TrailingZeros64(ends&tops)/8)
		}
		following = lead >> 56
	}
	i = whole(p, i)
	for i < len(p) && classes[p[i]]&endsText == 0 {
		i++
	}
	return i
}

// whole returns i, or the index of the character before it if that lacks its second octet.
func whole(p []byte, i int) int {
	if i > 0 && p[i-1] >= 0xC0 {
		return i - 1
	}
	return i
}

// plainValue returns how many octets at the start of p are plain in an attribute value.
func plainValue(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		ends := (x - ' '*ones) | ((x ^ '<'*ones) - ones) | ((x ^ '&'*ones) - ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\''*ones) - ones)
		if ends = (ends | x) & tops; ends != 0 {
			return i + bits.TrailingZeros64(ends)/8
		}
	}
	for i < len(p) && classes[p[i]]&endsValue == 0 {
		i++
	}
	return i
}

// spaces returns how many octets at the start of p are white space. Most are the spaces of an indent.
func spaces(p []byte) int {
	i := 0
	for i < len(p) && classes[p[i]]&isSpace != 0 {
		for i++; i+8 <= len(p); i += 8 {
			if x := binary.LittleEndian.Uint64(p[i:]) ^ ' '*ones; x != 0 {
				i += bits.TrailingZeros64(x) / 8
				break
			}
		}
	}
	return i
}

// legalRune reports whether r is a Char of XML 1.0.
func legalRune(r rune) bool {
	switch {
	case r < ' ':
		return r == '\t' || r == '\n' || r == '\r'
	case r < 0xD800:
		return true
	default:
		return 0xE000 <= r && r <= 0xFFFD || 0x10000 <= r && r <= 0x10FFFF
	}
}

// nameStartRune is NameStartChar of XML 1.0, fifth edition, beyond ASCII.
func nameStartRune(r rune) bool {
	switch {
	case r < 0x300:
		return r >= 0xC0 && r != 0xD7 && r != 0xF7
	case r < 0x2000:
		return r >= 0x370 && r != 0x37E
	default:
		return 0x200C <= r && r <= 0x200D || 0x2070 <= r && r <= 0x218F || 0x2C00 <= r && r <= 0x2FEF ||
			0x3001 <= r && r <= 0xD7FF || 0xF900 <= r && r <= 0xFDCF || 0xFDF0 <= r && r <= 0xFFFD ||
			0x10000 <= r && r <= 0xEFFFF
	}
}

// nameRune is NameChar of XML 1.0, fifth edition, beyond ASCII.
func nameRune(r rune) bool {
	return nameStartRune(r) || r == 0xB7 || 0x300 <= r && r <= 0x36F || 0x203F <= r && r <= 0x2040
}

// splitName returns the length of the prefix of a qualified name, or -1 if it has none. What stands in name is made of
// isName octets and begins with isNameStart.
func splitName(name []byte) (colon int, ok bool) {
	colon = -1
	ascii := true
	for i, c := range name {
		if c >= utf8.RuneSelf {
			ascii = false
		}
		if c != ':' {
			continue
		}
		if colon >= 0 || i == 0 || i+1 == len(name) || classes[name[i+1]]&isNameStart == 0 {
			return 0, false
		}
		colon = i
	}
	return colon, ascii || legalName(name)
}

func legalName(name []byte) bool {
	start := true
	for len(name) > 0 {
		r, n := utf8.DecodeRune(name)
		switch {
		case r < utf8.RuneSelf:
			start = r == ':'
		case r == utf8.RuneError && n == 1, start && !nameStartRune(r), !nameRune(r):
			return false
		default:
			start = false
		}
		name = name[n:]
	}
	return true
}
