// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"strconv"
	"strings"
)

// decode replaces references and normalises line ends and, in attributes, white space.
func (p *parser) decode(raw string, attribute bool) (string, error) {
	if !attribute && strings.IndexByte(raw, '&') < 0 && strings.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	special := "&\r"
	if attribute {
		special = "&\r\n\t"
	}
	i := strings.IndexAny(raw, special)
	if i < 0 {
		return raw, nil
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; i >= 0; i = strings.IndexAny(raw, special) {
		b.WriteString(raw[:i])
		c := raw[i]
		raw = raw[i+1:]
		switch {
		case c == '&':
			semicolon := strings.IndexByte(raw, ';')
			if semicolon < 0 {
				return "", p.fail("a reference does not end")
			}
			r, ok := reference(raw[:semicolon])
			if !ok {
				return "", p.fail("reference to %.32q", raw[:semicolon])
			}
			b.WriteRune(r)
			raw = raw[semicolon+1:]
			continue
		case c == '\r':
			raw = strings.TrimPrefix(raw, "\n")
		}
		if attribute {
			b.WriteByte(' ')
		} else {
			b.WriteByte('\n')
		}
	}
	b.WriteString(raw)
	return b.String(), nil
}

// lineEnds normalises line ends.
func lineEnds(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// reference returns the character for which a reference stands.
func reference(name string) (rune, bool) {
	switch name {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "amp":
		return '&', true
	case "apos":
		return '\'', true
	case "quot":
		return '"', true
	}
	digits, ok := strings.CutPrefix(name, "#")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 31)
	return rune(n), ok && err == nil && isChar(rune(n))
}
