// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDeclaration is how long an XML declaration may be.
const maxDeclaration = 1 << 10

// A handler hears of the elements down to the depth that the scanner watches; the root has depth 1.
// It may ask the scanner about the current element (is, prefix, attribute) and, at its end, for its text (value).
type handler interface {
	start(depth int) error
	end(depth int) error
}

// A state is what the scanner stands in or expects next.
type state uint8

const (
	outside        state = iota // before or after the root
	inText                      // inside the root
	afterLess                   // <
	inStartName                 // <a
	inTag                       // behind the name or an attribute of a start tag
	afterSlash                  // <a/
	inAttribute                 // <a b
	beforeEqual                 // behind the name of an attribute
	beforeQuote                 // behind its equals sign
	inValue                     // inside its quotes
	inEndName                   // </a
	inEndTag                    // behind the name of an end tag
	afterBang                   // <!
	commentStart                // <!-
	inComment                   // <!--
	commentDash                 // <!-- -
	commentEnd                  // <!-- --
	sectionStart                // <![
	inSection                   // <![CDATA[
	sectionBracket              // <![CDATA[ ]
	sectionEnd                  // <![CDATA[ ]]
	inTarget                    // <?
	targetEnd                   // <?a?
	inInstruction               // <?a b
	instructionEnd              // <?a b?
	inDeclaration               // <?xml b, at the start of the document
	afterAmpersand              // &
	inEntity                    // &a
	afterHash                   // &#
	inDecimal                   // &#1
	inHex                       // &#x
)

// Where the octets of an attribute value are kept.
const (
	nowhere  = iota
	inNames  // a namespace declaration
	inValues // the handler may ask for it
)

// A scanner reads XML 1.0 (fifth edition) with Namespaces, in UTF-8, strictly and as it comes: pieces may end anywhere.
// It builds nothing and keeps the names in scope only; after an error it must not be fed again. There are no document
// types, so the only entities are the predefined ones.
// One scanner may read many documents, one after the other.
type scanner struct {
	progress
	room room
}

// progress is all that one document makes of a scanner.
type progress struct {
	namespaces
	tags       *knownTags // lent, from a piece until the scanner rests
	limits     Limits
	on         handler
	watch      int // depth of the deepest elements that the handler hears of
	collect    int // depth of the element whose own text is gathered in value from start on; 0 is none
	start      int
	keepValues bool // whether the values of attributes are kept for the handler

	contentType *charset // that the Content-Type names; nil if none
	charset     *charset // of the message; nil until the first octets are known
	mark        int      // octets of the byte order mark
	prolog      int64    // length of the XML declaration
	settled     bool     // it is known whether there is an XML declaration, and charset is what it says

	state, back state  // back is where a reference returns to
	piece       []byte // being fed
	at          int    // where in piece the handler is called, for its errors
	base        int64  // offset of piece in the text
	from        int64  // offset of piece in the message, which may have another charset and a byte order mark
	lines       int    // line ends before piece
	tagAt       int64  // offset of the < of the markup being scanned
	rooted      bool   // the root has begun

	stack      []element
	attributes []attribute     // of the start tag being scanned; their offsets are in tag and values
	tag        []byte          // names of attributes; name of a processing instruction; the XML declaration
	values     []byte          // values of attributes
	value      strings.Builder // text that was gathered; the handler's strings are slices of it
	table      []int32

	spaced   bool // white space stands before what follows in a tag
	cr       bool // the last literal octet kept was a carriage return
	keep     uint8
	quote    byte
	brackets int // how many ] stand at the end of the text so far, at most 2
	matched  int // octets of a name, of an entity or of "CDATA[" that were seen
	entity   [4]byte
	code     rune // of a character reference
	digits   bool // a character reference has some
	held     [utf8.UTFMax]byte
	holding  int // octets in held: a character that the piece before began
}

// An element in scope; its name is names[name:end].
type element struct {
	name, local, end int
	bindings         int  // how many there were before it
	binding          int  // of its prefix; only known where the handler hears of it
	word             word // that its local name is; likewise
}

// room is what a scanner needs for most messages.
type room struct {
	stack      [8]element
	attributes [8]attribute
	bindings   [8]binding
	names      [512]byte
	tag        [64]byte
}

// forget lets go of what a document made of a scanner.
func (s *scanner) forget() {
	s.rest()
	s.progress = progress{}
}

// rest lets go of what was lent for the pieces so far; more may come, or none.
func (s *scanner) rest() {
	if s.tags != nil {
		known.Put(s.tags)
		s.tags = nil
	}
}

// init prepares a scanner without octets.
func (s *scanner) init(on handler, limits Limits) {
	s.forget()
	s.on, s.limits = on, limits
	s.stack, s.attributes, s.bindings = s.room.stack[:0], s.room.attributes[:0], s.room.bindings[:0]
	s.names, s.tag = append(s.room.names[:0], "xml"+xmlSpace...), s.room.tag[:0]
	s.bind(0, len("xml"))
}

// fail returns an Error about the octet at index i of the piece.
func (s *scanner) fail(i int, code, format string, args ...any) *Error {
	line := s.lines + bytes.Count(s.piece[:i], []byte("\n")) + 1
	return &Error{code, s.from + s.charset.octets(s.piece[:i]), fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)}
}

// refuse returns an Error about the tag that the handler was called for.
func (s *scanner) refuse(code, format string, args ...any) error {
	return s.fail(s.at, code, format, args...)
}

// quote writes what a stranger wrote, shortened, for a reason.
func quote[T []byte | string](b T) string {
	const most = 64
	if len(b) > most {
		return fmt.Sprintf("%q…", b[:most])
	}
	return fmt.Sprintf("%q", b)
}

// expanded returns the expanded name of the current element.
func (s *scanner) expanded() (space, local []byte) {
	e := &s.stack[len(s.stack)-1]
	return s.uri(e.binding), s.names[e.local:e.end]
}

// word returns the word that the local name of the current element is, and the namespace it has.
func (s *scanner) word() (word, space) {
	e := &s.stack[len(s.stack)-1]
	return e.word, s.space(e.binding)
}

// is reports whether the current element has that expanded name.
func (s *scanner) is(of space, w word) bool {
	its, space := s.word()
	return its == w && space == of
}

// prefix returns the prefix of the current element.
func (s *scanner) prefix() []byte {
	e := &s.stack[len(s.stack)-1]
	return s.names[e.name:max(e.name, e.local-1)]
}

// declares reports whether the current element itself declares its prefix.
func (s *scanner) declares() bool {
	e := &s.stack[len(s.stack)-1]
	return e.binding >= e.bindings
}

// attribute returns the value of an attribute of the current start tag, as keepValues asked for; it is valid in there.
func (s *scanner) attribute(of space, local string) ([]byte, bool) {
	for i := range s.attributes {
		a := &s.attributes[i]
		if a.binding >= 0 && s.space(a.binding) == of && string(s.localOf(a)) == local {
			return s.values[a.value:a.valueEnd], true
		}
	}
	return nil, false
}

// gather begins to gather the own text of the current element.
func (s *scanner) gather(depth int) { s.collect, s.start = depth, s.value.Len() }

// gathered returns the text that was gathered.
func (s *scanner) gathered() string { return s.value.String()[s.start:] }

// offset returns the offset in the text behind the tag that the handler was called for.
func (s *scanner) offset() int64 { return s.base + int64(s.at) }

// content returns to what follows markup.
func (s *scanner) content() {
	s.cr = false
	if s.state = inText; len(s.stack) == 0 {
		s.state = outside
	}
}

// close says whether the document may end here.
func (s *scanner) close() error {
	switch n := len(s.stack); {
	case s.base == 0:
		return s.fail(0, invalidSOAP, "the envelope is empty")
	case s.rooted && s.state == outside:
		return nil
	case n > 0 && s.state != inStartName:
		e := s.stack[n-1]
		return s.fail(0, invalidSOAP, "the envelope ends inside the element %s", quote(s.names[e.name:e.end]))
	default:
		return s.fail(0, invalidSOAP, "the envelope ends inside a tag, a comment or a processing instruction, or without a root element")
	}
}

// feed scans the next octets of the document.
func (s *scanner) feed(p []byte) error {
	s.piece = p
	err := s.scan(p)
	s.piece = nil
	s.base += int64(len(p))
	s.lines += bytes.Count(p, []byte("\n"))
	return err
}

func (s *scanner) scan(p []byte) (err error) {
	i := 0
	if s.holding > 0 {
		if i, err = s.resume(p); err != nil {
			return err
		}
	}
	for i < len(p) {
		c := p[i]
		switch s.state {
		case outside:
			switch i = s.blank(p, i); {
			case i == len(p):
				return nil
			case p[i] != '<' && s.rooted:
				return s.fail(i, invalidSOAP, "something follows the end of the envelope; end the message with the root element")
			case p[i] != '<':
				return s.fail(i, invalidSOAP, "the message is not XML: it does not begin with <")
			}
			fallthrough

		case inText:
			if p[i] != '<' {
				start := i
				if i, err = s.text(p, i); err != nil {
					return err
				}
				if s.collect == len(s.stack) {
					s.keepText(p[start:i])
				}
				if i == len(p) {
					return nil
				}
			}
			s.cr, s.brackets = false, 0
			if p[i] == '&' {
				s.back, s.state = inText, afterAmpersand
				i++
				continue
			}
			if i, err = s.plainMarkup(p, i); err != nil {
				return err
			}
			if i < len(p) && p[i] == '<' {
				s.tagAt = s.base + int64(i)
				s.state = afterLess
				i++
			}

		case afterLess:
			if i, err = s.markup(i, c); err != nil {
				return err
			}

		case inStartName:
			e := &s.stack[len(s.stack)-1]
			if i, err = s.name(&s.names, e.name, p, i); err != nil || i == len(p) {
				return err
			}
			colon, ok := splitName(s.names[e.name:])
			if !ok {
				return s.fail(i, invalidSOAP, "%s is not a name of an element", quote(s.names[e.name:]))
			}
			e.local, e.end = e.name+colon+1, len(s.names)
			s.spaced, s.state = false, inTag

		case inTag:
			switch {
			case classes[c]&isSpace != 0:
				s.spaced = true
				i++
			case c == '>':
				i++
				if err = s.openTag(i, s.prefix()); err != nil {
					return err
				}
				s.content()
			case c == '/':
				i++
				s.state = afterSlash
			case classes[c]&isNameStart != 0 && s.spaced:
				if len(s.attributes) >= s.limits.Attributes {
					return s.fail(i, invalidSOAP, "the element has more than %d attributes", s.limits.Attributes)
				}
				*s.addAttribute() = attribute{name: len(s.tag)}
				s.state = inAttribute
			default:
				return s.fail(i, invalidSOAP, "%s may not stand here in a tag", quote(p[i:i+1]))
			}

		case afterSlash:
			if c != '>' {
				return s.fail(i, invalidSOAP, "/ in a tag must be followed by >")
			}
			i++
			if err = s.openTag(i, s.prefix()); err != nil {
				return err
			}
			if err = s.closeTag(i); err != nil {
				return err
			}

		case inAttribute:
			a := &s.attributes[len(s.attributes)-1]
			if i, err = s.name(&s.tag, a.name, p, i); err != nil || i == len(p) {
				return err
			}
			if err = s.nameAttribute(i, a); err != nil {
				return err
			}
			s.state = beforeEqual

		case beforeEqual:
			switch {
			case c == '=':
				s.state = beforeQuote
			case classes[c]&isSpace == 0:
				return s.fail(i, invalidSOAP, "the attribute %s has no value", quote(s.tag[s.attributes[len(s.attributes)-1].name:]))
			}
			i++

		case beforeQuote:
			switch {
			case c == '"' || c == '\'':
				s.quote, s.cr, s.state = c, false, inValue
			case classes[c]&isSpace == 0:
				return s.fail(i, invalidSOAP, "the value of the attribute %s has no quotes", quote(s.tag[s.attributes[len(s.attributes)-1].name:]))
			}
			i++

		case inValue:
			if i, err = s.inValue(p, i); err != nil {
				return err
			}

		case inEndName:
			e := s.stack[len(s.stack)-1]
			rest := s.names[e.name+s.matched : e.end]
			n := min(len(rest), len(p)-i)
			if !bytes.Equal(rest[:n], p[i:i+n]) {
				for p[i] == rest[0] {
					i, rest = i+1, rest[1:]
				}
				return s.fail(i, invalidSOAP, "this is not the end tag of %s", quote(s.names[e.name:e.end]))
			}
			i += n
			if s.matched += n; n == len(rest) {
				s.state = inEndTag
			}

		case inEndTag:
			i++
			switch {
			case c == '>':
				if err = s.closeTag(i); err != nil {
					return err
				}
			case classes[c]&isSpace == 0:
				e := s.stack[len(s.stack)-1]
				return s.fail(i-1, invalidSOAP, "this is not the end tag of %s", quote(s.names[e.name:e.end]))
			}

		case inSection:
			start := i
			i = s.quiet(p, i)
			if i < len(p) && p[i] != ']' {
				if i, err = s.char(p, i); err != nil {
					return err
				}
			}
			s.keepText(p[start:i])
			if i < len(p) && p[i] == ']' {
				i++
				s.state = sectionBracket
			}

		case inComment, inInstruction:
			if i = s.quiet(p, i); i == len(p) {
				return nil
			}
			switch c := p[i]; {
			case c == '-' && s.state == inComment:
				s.state = commentDash
				i++
			case c == '?' && s.state == inInstruction:
				s.state = instructionEnd
				i++
			default:
				if i, err = s.char(p, i); err != nil {
					return err
				}
			}

		case afterAmpersand, inEntity, afterHash, inDecimal, inHex:
			if err = s.reference(i, c); err != nil {
				return err
			}
			i++

		case inTarget:
			if i, err = s.name(&s.tag, 0, p, i); err != nil || i == len(p) {
				return err
			}
			if err = s.target(i, p[i]); err != nil {
				return err
			}
			i++

		case inDeclaration:
			if i, err = s.declaration(p, i); err != nil {
				return err
			}

		default:
			if i, err = s.delimiter(i, c); err != nil {
				return err
			}
		}
	}
	return nil
}
