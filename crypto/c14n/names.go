// SPDX-License-Identifier: Apache-2.0

package c14n

import "unicode"

// nameStart and nameInner are the characters of names without colon: NCName of "Namespaces in XML 1.0" over the
// fifth edition's NameStartChar and NameChar.
var (
	nameStart = &unicode.RangeTable{
		R16: []unicode.Range16{
			{'A', 'Z', 1}, {'_', '_', 1}, {'a', 'z', 1}, {0xC0, 0xD6, 1}, {0xD8, 0xF6, 1}, {0xF8, 0x2FF, 1},
			{0x370, 0x37D, 1}, {0x37F, 0x1FFF, 1}, {0x200C, 0x200D, 1}, {0x2070, 0x218F, 1}, {0x2C00, 0x2FEF, 1},
			{0x3001, 0xD7FF, 1}, {0xF900, 0xFDCF, 1}, {0xFDF0, 0xFFFD, 1},
		},
		R32:         []unicode.Range32{{0x10000, 0xEFFFF, 1}},
		LatinOffset: 5,
	}
	nameInner = &unicode.RangeTable{
		R16: []unicode.Range16{
			{'-', '.', 1}, {'0', '9', 1}, {0xB7, 0xB7, 1}, {0x300, 0x36F, 1}, {0x203F, 0x2040, 1},
		},
		LatinOffset: 3,
	}
)

// isLetter and isLaterASCII are the ASCII part of these tables: nearly all names are made of it.
func isLetter(c byte) bool     { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' }
func isLaterASCII(c byte) bool { return '0' <= c && c <= '9' || c == '-' || c == '.' }

func isNameStart(r rune) bool { return unicode.Is(nameStart, r) }

func isName(r rune) bool { return unicode.Is(nameStart, r) || unicode.Is(nameInner, r) }

// isChar reports whether a document may hold the character (XML 1.0, production 2).
func isChar(r rune) bool {
	return r >= 0x20 && r <= 0xD7FF || r == '\t' || r == '\n' || r == '\r' ||
		r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isAbsolute reports whether a namespace is an absolute URI reference, one that begins with a scheme. Canonical XML is not
// defined for others.
func isAbsolute(uri string) bool {
	for i := 0; i < len(uri); i++ {
		switch c := uri[i]; {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return i > 0 && c == ':'
		}
	}
	return false
}
