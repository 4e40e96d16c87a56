// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// keepText keeps literal octets of the text that is gathered.
func (s *scanner) keepText(literal []byte) {
	if s.collect == len(s.stack) {
		s.value.Write(s.literal(literal, '\n'))
	}
}

// literal returns p with its line ends as one line feed each, or, in attributes, all its blanks as spaces.
func (s *scanner) literal(p []byte, end byte) []byte {
	plain := !s.cr
	for _, c := range p {
		plain = plain && (c >= ' ' || c == end)
	}
	if plain {
		return p
	}
	dst := make([]byte, 0, len(p))
	for _, c := range p {
		second := s.cr && c == '\n'
		s.cr = c == '\r'
		switch {
		case second:
			continue
		case c == '\r', c == '\n':
			c = end
		case c == '\t' && end == ' ':
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// text scans text from p[i] on and returns the index of the < or & that ends it, or of the end of p.
func (s *scanner) text(p []byte, i int) (int, error) {
	for i < len(p) {
		if s.brackets > 0 && p[i] != ']' {
			if p[i] == '>' && s.brackets == 2 {
				return i, s.fail(i, invalidSOAP, "]]> stands in text; it is written ]]&gt; there")
			}
			s.brackets = 0
		}
		for i < len(p) && classes[p[i]]&isSpace != 0 {
			i++
		}
		if i < len(p) && p[i] == '<' {
			break
		}
		if i += plain(p[i:]); i == len(p) {
			break
		}
		switch c := p[i]; {
		case c == '<', c == '&':
			return i, nil
		case c == ']':
			for ; i < len(p) && p[i] == ']'; i++ {
				s.brackets = min(s.brackets+1, 2)
			}
		default:
			var err error
			if i, err = s.char(p, i); err != nil {
				return i, err
			}
		}
	}
	return i, nil
}

// quiet skips what is plain in comments, CDATA sections and processing instructions.
func (s *scanner) quiet(p []byte, i int) int {
	for i < len(p) && classes[p[i]]&endsOther == 0 {
		i++
	}
	return i
}

// char checks what stands at p[i], and more of its kind, where any character may stand, and returns the index behind.
func (s *scanner) char(p []byte, i int) (int, error) {
	if c := p[i]; c < utf8.RuneSelf {
		if c < ' ' && classes[c]&isSpace == 0 {
			return i, s.fail(i, invalidSOAP, "the control character U+%04X may not stand in XML", c)
		}
		return i + 1, nil
	}
	for i < len(p) && p[i] >= utf8.RuneSelf {
		if p[i]-0xC2 < 0xE0-0xC2 && i+1 < len(p) && p[i+1]-0x80 < 0x40 {
			i += 2 // the letters of most of Europe
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		switch {
		case n == 1 && !utf8.FullRune(p[i:]):
			s.holding = copy(s.held[:], p[i:])
			return len(p), nil
		case n == 1 || !legalRune(r):
			return i, s.illegal(i, r, p[i:])
		}
		i += n
	}
	return i, nil
}

// illegal is the error about what stands at index i, which decodes to r.
func (s *scanner) illegal(i int, r rune, octets []byte) *Error {
	if r == utf8.RuneError {
		return s.fail(i, invalidSOAP, "the octet %#02x is not UTF-8; write UTF-8, or name the encoding in the XML declaration", octets[0])
	}
	return s.fail(i, invalidSOAP, "the character U+%04X may not stand in XML", r)
}

// resume completes the character that the piece before began, and returns how many octets of p it took.
func (s *scanner) resume(p []byte) (n int, err error) {
	for n < len(p) {
		s.held[s.holding] = p[n]
		s.holding++
		n++
		if held := s.held[:s.holding]; utf8.FullRune(held) {
			s.holding = 0
			r, size := utf8.DecodeRune(held)
			if size == 1 || !legalRune(r) {
				err := s.illegal(0, r, held)
				err.Offset -= int64(len(held) - n)
				return n, err
			}
			break
		}
	}
	switch s.state {
	case inText, inSection:
		s.keepText(p[:n])
	case inValue:
		err = s.keepValue(0, p[:n])
	}
	return n, err
}

// reference scans the octet c, at index i, of a reference.
func (s *scanner) reference(i int, c byte) error {
	switch s.state {
	case afterAmpersand:
		s.matched, s.code, s.digits = 0, 0, false
		if s.state = inEntity; c == '#' {
			s.state = afterHash
			return nil
		}
	case afterHash:
		if s.state = inDecimal; c == 'x' {
			s.state = inHex
			return nil
		}
	}
	switch {
	case s.state == inEntity:
		return s.entityOctet(i, c)
	case c == ';' && s.digits:
		if !legalRune(s.code) {
			return s.fail(i, invalidSOAP, "the character U+%04X, of a reference, may not stand in XML", s.code)
		}
		return s.endReference(i, s.code)
	}
	var digit, base rune = 0, 10
	if s.state == inHex {
		base = 16
	}
	switch lower := c | 0x20; {
	case '0' <= c && c <= '9':
		digit = rune(c - '0')
	case base == 16 && 'a' <= lower && lower <= 'f':
		digit = rune(lower-'a') + 10
	default:
		return s.fail(i, invalidSOAP, "a reference to a character is badly written")
	}
	s.digits = true
	if s.code = s.code*base + digit; s.code > utf8.MaxRune {
		return s.fail(i, invalidSOAP, "there is no character of so high a number")
	}
	return nil
}

func (s *scanner) entityOctet(i int, c byte) error {
	name := s.entity[:s.matched]
	if c == ';' {
		switch string(name) {
		case "lt":
			return s.endReference(i, '<')
		case "gt":
			return s.endReference(i, '>')
		case "amp":
			return s.endReference(i, '&')
		case "apos":
			return s.endReference(i, '\'')
		case "quot":
			return s.endReference(i, '"')
		}
		return s.fail(i, invalidSOAP, "the entity %s is not defined", quote(name))
	}
	if classes[c]&isName == 0 {
		return s.fail(i, invalidSOAP, "a & begins no reference; in text and attributes it is written &amp;")
	}
	if s.matched == len(s.entity) {
		return s.fail(i, invalidSOAP, "the entity that begins with %s is not defined", quote(name))
	}
	s.entity[s.matched] = c
	s.matched++
	return nil
}

// endReference keeps the character that a reference stands for.
func (s *scanner) endReference(i int, r rune) error {
	s.state, s.cr = s.back, false
	switch {
	case s.state == inText && s.collect == len(s.stack):
		s.value.WriteRune(r)
	case s.state == inValue && s.keep == inNames:
		a := &s.attributes[len(s.attributes)-1]
		if utf8.RuneLen(r) > s.left(len(s.names)-a.value) {
			return s.full(i, len(s.names)-a.value)
		}
		s.names = utf8.AppendRune(s.names, r)
	case s.state == inValue && s.keep == inValues:
		s.values = utf8.AppendRune(s.values, r)
	}
	return nil
}

// delimiter scans the octet c, at index i, of what begins and ends comments, CDATA sections and processing instructions.
// It returns i where c belongs to what they contain.
func (s *scanner) delimiter(i int, c byte) (int, error) {
	const section = "CDATA["
	switch s.state {
	case afterBang:
		switch {
		case c == '-':
			s.state = commentStart
		case c == '[' && len(s.stack) > 0:
			s.matched, s.state = 0, sectionStart
		case c == 'D':
			return i, s.fail(i, invalidSOAP, "document types (DOCTYPE) are not accepted")
		default:
			return i, s.fail(i, invalidSOAP, "<! begins neither a comment nor a CDATA section here")
		}
	case commentStart:
		if c != '-' {
			return i, s.fail(i, invalidSOAP, "a comment begins with <!--")
		}
		s.state = inComment
	case commentDash:
		if c != '-' {
			s.state = inComment
			return i, nil
		}
		s.state = commentEnd
	case commentEnd:
		if c != '>' {
			return i, s.fail(i, invalidSOAP, "-- stands inside a comment")
		}
		s.content()
	case sectionStart:
		if c != section[s.matched] {
			return i, s.fail(i, invalidSOAP, "a CDATA section begins with <![CDATA[")
		}
		if s.matched++; s.matched == len(section) {
			s.state = inSection
		}
	case sectionBracket:
		if c != ']' {
			s.keepText([]byte("]"))
			s.state = inSection
			return i, nil
		}
		s.state = sectionEnd
	case sectionEnd:
		switch c {
		case '>':
			s.content()
		case ']':
			s.keepText([]byte("]"))
		default:
			s.keepText([]byte("]]"))
			s.state = inSection
			return i, nil
		}
	case targetEnd:
		if c != '>' {
			return i, s.fail(i, invalidSOAP, "a processing instruction ends with ?>")
		}
		s.content()
	case instructionEnd:
		switch c {
		case '>':
			s.content()
		case '?':
		default:
			s.state = inInstruction
			return i, nil
		}
	}
	return i + 1, nil
}

// declaration scans the XML declaration from p[i] on.
func (s *scanner) declaration(p []byte, i int) (int, error) {
	n := bytes.IndexByte(p[i:], '>')
	if n < 0 {
		n = len(p) - i
	}
	if room := maxDeclaration - len(s.tag); n > room {
		return i, s.fail(i+room, invalidSOAP, "the XML declaration is longer than %d octets", maxDeclaration)
	}
	s.tag = append(s.tag, p[i:i+n]...)
	if i += n; i == len(p) {
		return i, nil
	}
	encoding, why := parseDeclaration(s.tag)
	if why != "" {
		return i, s.fail(i, invalidSOAP, "the XML declaration %s", why)
	}
	s.tag, s.state = s.tag[:0], outside
	s.prolog = s.base + int64(i) + 1
	return i + 1, s.settle(i, encoding)
}

// target judges the name of a processing instruction, which the octet c at index i ends.
func (s *scanner) target(i int, c byte) error {
	space := classes[c]&isSpace != 0
	if string(s.tag) == "xml" && s.tagAt == 0 && space {
		s.tag, s.state = append(s.tag[:0], c), inDeclaration
		return nil
	}
	switch colon, ok := splitName(s.tag); {
	case strings.EqualFold(string(s.tag), "xml"):
		return s.fail(i, invalidSOAP, "an XML declaration must be the first octets of the message and be written <?xml version=\"1.0\"?>")
	case len(s.tag) == 0 || classes[s.tag[0]]&isNameStart == 0 || !ok || colon >= 0:
		return s.fail(i, invalidSOAP, "%s is not a name of a processing instruction", quote(s.tag))
	case space:
		s.state = inInstruction
	case c == '?':
		s.state = targetEnd
	default:
		return s.fail(i, invalidSOAP, "%s may not stand in the name of a processing instruction", quote([]byte{c}))
	}
	s.tag = s.tag[:0]
	return s.settle(i, "")
}

// parseDeclaration reads what stands between "<?xml" and ">", and returns the encoding it names, or says what is wrong.
func parseDeclaration(declaration []byte) (encoding, why string) {
	switch string(declaration) {
	case ` version="1.0" encoding="UTF-8"?`, ` version="1.0" encoding="utf-8"?`:
		return utf8Charset.name, "" // as most are
	}
	d, ended := strings.CutSuffix(string(declaration), "?")
	next := func(name string) (value string, ok bool) {
		rest := unspaced(d)
		spaced := len(rest) < len(d)
		rest, ok = strings.CutPrefix(rest, name)
		if !ok || !spaced {
			return "", false
		}
		rest, ok = strings.CutPrefix(unspaced(rest), "=")
		if rest = unspaced(rest); !ok || rest == "" || rest[0] != '"' && rest[0] != '\'' {
			return "", false
		}
		if value, rest, ok = strings.Cut(rest[1:], rest[:1]); ok {
			d = rest
		}
		return value, ok
	}
	if version, ok := next("version"); !ok || version != "1.0" {
		return "", `does not begin with version="1.0"` // readers of XML 1.1 would see other line ends
	}
	encoding, named := next("encoding")
	if named && !legalEncoding(encoding) {
		return "", "names an impossible encoding"
	}
	standalone, alone := next("standalone")
	if alone && standalone != "yes" && standalone != "no" || unspaced(d) != "" || !ended {
		return "", `is badly written; it is <?xml version="1.0" encoding="UTF-8"?>`
	}
	return encoding, ""
}

// unspaced returns what follows the white space at the start of d.
func unspaced(d string) string {
	for d != "" && classes[d[0]]&isSpace != 0 {
		d = d[1:]
	}
	return d
}

func legalEncoding(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}
