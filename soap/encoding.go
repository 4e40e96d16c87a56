// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/transform"
)

// A charset is an encoding that envelopes may have: UTF-8, UTF-16, US-ASCII, the ISO-8859 and windows-125 families.
type charset struct {
	name string
	text transform.Transformer // to UTF-8, strictly; nil for UTF-8 itself
}

var (
	utf8Charset  = &charset{name: "UTF-8"}
	asciiCharset = &charset{"US-ASCII", newSingleByte(decodeASCII)}
	utf16Charset = &charset{name: "UTF-16"} // in either order, as the envelope shows
	utf16LE      = &charset{"UTF-16LE", utf16Text{high: 1}}
	utf16BE      = &charset{"UTF-16BE", utf16Text{low: 1}}
)

// charsetOf returns the charset of that name, in any case, or nil.
func charsetOf(name string) *charset {
	if strings.EqualFold(name, utf8Charset.name) {
		return utf8Charset
	}
	return charsets[strings.ToLower(name)]
}

// charsets has them by their names in lower case.
var charsets = func() map[string]*charset {
	t := map[string]*charset{
		"utf-8": utf8Charset, "utf8": utf8Charset, "us-ascii": asciiCharset, "ascii": asciiCharset,
		"utf-16": utf16Charset, "utf-16le": utf16LE, "utf-16be": utf16BE,
	}
	for part, m := range map[string]*charmap.Charmap{
		"1": charmap.ISO8859_1, "2": charmap.ISO8859_2, "3": charmap.ISO8859_3, "4": charmap.ISO8859_4,
		"5": charmap.ISO8859_5, "6": charmap.ISO8859_6, "7": charmap.ISO8859_7, "8": charmap.ISO8859_8,
		"9": charmap.ISO8859_9, "10": charmap.ISO8859_10, "13": charmap.ISO8859_13, "14": charmap.ISO8859_14,
		"15": charmap.ISO8859_15, "16": charmap.ISO8859_16,
	} {
		t["iso-8859-"+part] = &charset{"ISO-8859-" + part, newSingleByte(m.DecodeByte)}
	}
	for page, m := range map[string]*charmap.Charmap{
		"1250": charmap.Windows1250, "1251": charmap.Windows1251, "1252": charmap.Windows1252,
		"1253": charmap.Windows1253, "1254": charmap.Windows1254, "1255": charmap.Windows1255,
		"1256": charmap.Windows1256, "1257": charmap.Windows1257, "1258": charmap.Windows1258,
	} {
		t["windows-"+page] = &charset{"windows-" + page, newSingleByte(decodeWindows(m))}
	}
	return t
}()

func decodeASCII(c byte) rune {
	if c >= utf8.RuneSelf {
		return utf8.RuneError
	}
	return rune(c)
}

// decodeWindows leaves out the octets without a character, for which some readers see a control character of C1.
func decodeWindows(m *charmap.Charmap) func(byte) rune {
	return func(c byte) rune {
		r := m.DecodeByte(c)
		if 0x80 <= r && r < 0xA0 {
			return utf8.RuneError
		}
		return r
	}
}

// is reports whether c goes by the name of d: they are the same, or d is UTF-16 without its order.
func (c *charset) is(d *charset) bool { return c == d || d == utf16Charset && c.wide() }

// wide reports whether c is UTF-16.
func (c *charset) wide() bool { return c == utf16Charset || c == utf16LE || c == utf16BE }

// octets returns how many octets text has in c.
func (c *charset) octets(text []byte) (n int64) {
	switch {
	case c == utf8Charset:
		return int64(len(text))
	case !c.wide():
		return int64(utf8.RuneCount(text))
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		n += int64(2 * utf16.RuneLen(r))
	}
	return n
}

var errNotInCharset = errors.New("not in the charset")

// A singleByte turns a charset of one octet a character into UTF-8; undefined octets are utf8.RuneError.
type singleByte struct {
	transform.NopResetter
	runes [256]rune
}

func newSingleByte(decode func(byte) rune) *singleByte {
	t := &singleByte{}
	for i := range t.runes {
		t.runes[i] = decode(byte(i))
	}
	return t
}

// Transform implements transform.Transformer.
func (t *singleByte) Transform(dst, src []byte, _ bool) (nDst, nSrc int, err error) {
	for ; nSrc < len(src); nSrc++ {
		r := t.runes[src[nSrc]]
		if r == utf8.RuneError {
			return nDst, nSrc, errNotInCharset
		}
		if len(dst)-nDst < utf8.UTFMax {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
	}
	return nDst, nSrc, nil
}

// A utf16Text turns UTF-16 into UTF-8; low and high say where the two octets of a unit stand.
type utf16Text struct {
	transform.NopResetter
	low, high int
}

// Transform implements transform.Transformer.
func (t utf16Text) Transform(dst, src []byte, _ bool) (nDst, nSrc int, err error) {
	unit := func(i int) rune { return rune(src[i+t.high])<<8 | rune(src[i+t.low]) }
	for nSrc < len(src) {
		if len(src)-nSrc < 2 {
			return nDst, nSrc, transform.ErrShortSrc
		}
		r, n := unit(nSrc), 2
		if utf16.IsSurrogate(r) {
			if len(src)-nSrc < 4 {
				return nDst, nSrc, transform.ErrShortSrc
			}
			if r, n = utf16.DecodeRune(r, unit(nSrc+2)), 4; r == utf8.RuneError {
				return nDst, nSrc, errNotInCharset
			}
		}
		if len(dst)-nDst < utf8.UTFMax {
			return nDst, nSrc, transform.ErrShortDst
		}
		nDst += utf8.EncodeRune(dst[nDst:], r)
		nSrc += n
	}
	return nDst, nSrc, nil
}

// A document feeds a scanner with octets of any charset.
//
// The charset is that of the byte order mark, else of the XML declaration, else UTF-8. What contradicts it is refused,
// for another reader might believe the other word: a declaration under a byte order mark or over octets of another
// family, and the charset of the Content-Type (message-and-transport 3.6 lets that pass; here it is stricter). UTF-16
// agrees with either order. US-ASCII agrees with every charset but UTF-16, and then no other octets may come.
type document struct {
	scanner
	first [4]byte // octets that are held until the charset is known
	had   int     // how many of them
	text  []byte  // buffer for text of other charsets than UTF-8
	carry []byte  // octets of a character that the piece before began
}

// init prepares a document without octets; contentCharset may be "".
func (d *document) init(on handler, contentCharset string, limits Limits) error {
	d.scanner.init(on, limits)
	d.had, d.carry = 0, d.carry[:0]
	if contentCharset != "" {
		if d.contentType = charsetOf(contentCharset); d.contentType == nil {
			return &Error{invalidSOAP, 0, "the charset " + quote(contentCharset) + " of the Content-Type is not supported; write UTF-8"}
		}
	}
	return nil
}

// feed scans the next octets.
func (d *document) feed(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if d.tags == nil {
		d.tags = lendTags()
	}
	return d.scan(p)
}

func (d *document) scan(p []byte) error {
	if d.charset == nil {
		if d.had == 0 && len(p) >= len(d.first) {
			if err := d.begin(p[:len(d.first)]); err != nil {
				return err
			}
			p = p[d.mark:]
		} else {
			n := copy(d.first[d.had:], p)
			if d.had += n; d.had < len(d.first) {
				return nil
			}
			if err := d.begin(d.first[:]); err != nil {
				return err
			}
			if err := d.scan(d.first[d.mark:]); err != nil {
				return err
			}
			p = p[n:]
		}
	}
	for !d.settled && len(p) > 0 {
		n := d.together(p)
		if err := d.push(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	if len(p) == 0 {
		return nil
	}
	return d.push(p)
}

// together returns how many octets of p surely are of the charset that is known so far: those of an XML declaration,
// whose end may change it, or one.
func (d *document) together(p []byte) int {
	const begins = "<?xml"
	atStart := d.base == 0 && len(p) > len(begins) && string(p[:len(begins)]) == begins && classes[p[len(begins)]]&isSpace != 0
	if (atStart || d.state == inDeclaration) && d.charset == utf8Charset {
		if end := bytes.IndexByte(p, '>'); end >= 0 {
			return end + 1
		}
	}
	return 1
}

// close says whether the document may end here.
func (d *document) close() error {
	if d.charset == nil {
		if err := d.begin(d.first[:d.had]); err != nil {
			return err
		}
		if err := d.feed(d.first[d.mark:d.had]); err != nil {
			return err
		}
	}
	if len(d.carry) > 0 {
		return d.fail(0, invalidSOAP, "the envelope ends inside a character")
	}
	return d.scanner.close()
}

// begin tells the family of charsets by the first octets (XML 1.0, appendix F).
func (d *document) begin(first []byte) error {
	starts := func(octets string) bool { return bytes.HasPrefix(first, []byte(octets)) }
	switch {
	case starts("<?xm"):
		d.charset = utf8Charset
	case starts("\xEF\xBB\xBF"):
		d.charset, d.mark = utf8Charset, 3
	case starts("\xFF\xFE\x00\x00"), starts("\x00\x00\xFE\xFF"), starts("<\x00\x00\x00"), starts("\x00\x00\x00<"):
		return d.fail(0, invalidSOAP, "the charset UTF-32 is not supported; write UTF-8")
	case starts("\xFF\xFE"):
		d.charset, d.mark = utf16LE, 2
	case starts("\xFE\xFF"):
		d.charset, d.mark = utf16BE, 2
	case starts("<\x00?\x00"):
		d.charset = utf16LE
	case starts("\x00<\x00?"):
		d.charset = utf16BE
	case starts("\x4C\x6F\xA7\x94"):
		return d.fail(0, invalidSOAP, "the charset EBCDIC is not supported; write UTF-8")
	default:
		d.charset = utf8Charset
	}
	d.from = int64(d.mark)
	return nil
}

// settleCharset tells the charset, which the XML declaration may name.
func (s *scanner) settleCharset(encoding string) error {
	by := "by default"
	if s.mark > 0 {
		by = "by its byte order mark"
	}
	if encoding != "" {
		named := charsetOf(encoding)
		free := s.mark == 0 && !s.charset.wide()
		switch {
		case named == nil:
			return s.refuse(invalidSOAP, "the encoding %s of the XML declaration is not supported; write UTF-8", quote(encoding))
		case free && !named.wide():
			s.charset, by = named, "by its XML declaration"
		case !s.charset.is(named):
			return s.refuse(invalidSOAP, "the XML declaration says %s, but the octets of the envelope are %s", named.name, s.charset.name)
		}
	} else if s.mark == 0 && s.charset.wide() {
		return s.refuse(invalidSOAP, "the envelope is %s without byte order mark and without XML declaration; write UTF-8", s.charset.name)
	}
	switch {
	case s.contentType == nil, s.charset.is(s.contentType), s.charset == asciiCharset && !s.contentType.wide():
	case s.contentType == asciiCharset && !s.charset.wide() && s.mark == 0:
		s.charset = asciiCharset
	default:
		return s.refuse(invalidSOAP, "the Content-Type says charset %s, but the envelope is %s %s; make them agree",
			s.contentType.name, s.charset.name, by)
	}
	return nil
}

// push turns octets into text and scans it.
func (d *document) push(p []byte) error {
	if d.charset == utf8Charset {
		err := d.scanner.feed(p)
		d.from += int64(len(p))
		return err
	}
	if d.text == nil {
		d.text = make([]byte, 4<<10)
	}
	for len(p) > 0 {
		src, carried := p, len(d.carry) > 0
		if carried {
			d.carry = append(d.carry, p[0])
			src = d.carry
		}
		n, used, err := d.charset.text.Transform(d.text, src, false)
		if bad := d.scanner.feed(d.text[:n]); bad != nil {
			return bad
		}
		d.from += int64(used)
		switch {
		case errors.Is(err, errNotInCharset):
			return d.fail(0, invalidSOAP, "the octet %#02x is not %s; write UTF-8", src[used], d.charset.name)
		case carried:
			p = p[1:]
			d.carry = d.carry[:copy(d.carry, d.carry[used:])]
		case errors.Is(err, transform.ErrShortSrc):
			d.carry = append(d.carry, p[used:]...)
			return nil
		default:
			p = p[used:]
		}
	}
	return nil
}
