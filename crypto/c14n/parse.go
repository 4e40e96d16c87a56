// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	xmlSpace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsSpace = "http://www.w3.org/2000/xmlns/"
)

// Error says where a document is not what Parse accepts.
type Error struct {
	Offset int // of the octet at which it was noticed
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("reading XML at octet %d: %s", e.Offset, e.Reason) }

// Parse reads a UTF-8 document: well-formed, namespace-well-formed, no DOCTYPE, no processing instructions but the
// declaration, no entities but the five and character references, within the limits. Namespaces must be absolute, for
// others have no canonical form. The error is an *Error.
func Parse(doc []byte, limits Limits) (*Element, error) {
	limits = limits.orDefault()
	if len(doc) > limits.Size {
		return nil, &Error{limits.Size, fmt.Sprintf("longer than %d octets", limits.Size)}
	}
	p := parser{in: string(doc), limits: limits, scope: newScope()}
	p.scope.bind("xml", xmlSpace)
	p.open, p.attrs, p.text = make([]opened, 0, 16), make([]attribute, 0, 8), make([]string, 0, 4)
	p.children, p.texts = make([]*Element, 0, 32), make([]string, 0, 32)
	p.made.elements = make([]Element, 0, min(len(doc)/expectedOctets, maxBlock))
	return p.document()
}

func (l Limits) orDefault() Limits {
	or := func(n, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return n
	}
	return Limits{
		Size:       or(l.Size, DefaultLimits.Size),
		Depth:      or(l.Depth, DefaultLimits.Depth),
		Attributes: or(l.Attributes, DefaultLimits.Attributes),
		Nodes:      or(l.Nodes, DefaultLimits.Nodes),
	}
}

// parser reads one document from left to right, without recursion.
type parser struct {
	in     string
	pos    int
	limits Limits
	nodes  int
	scope  scope
	open   []opened // elements whose end tag is to come
	text   []string // pieces of text since the last tag

	// Of the start tag that is read.
	attrs    []attribute
	declared []binding
	others   []Attr

	// What the open elements have so far; each knows where its own begins.
	children []*Element
	texts    []string

	made blocks
}

// opened is an element whose end tag is to come: the scope to which that goes back, and where its content begins.
type opened struct {
	*Element
	mark, children, texts int
}

func (p *parser) fail(format string, args ...any) error {
	return &Error{p.pos, fmt.Sprintf(format, args...)}
}

// rest is what has not been read yet.
func (p *parser) rest() string { return p.in[p.pos:] }

// skip reads past the literal if it comes next.
func (p *parser) skip(literal string) bool {
	if strings.HasPrefix(p.rest(), literal) {
		p.pos += len(literal)
		return true
	}
	return false
}

// space reads past white space and reports whether there was any.
func (p *parser) space() bool {
	start := p.pos
	for p.pos < len(p.in) && isSpace(p.in[p.pos]) {
		p.pos++
	}
	return p.pos > start
}

// until reads up to the end mark and past it.
func (p *parser) until(end, of string) (string, error) {
	i := strings.Index(p.rest(), end)
	if i < 0 {
		return "", p.fail("%s does not end", of)
	}
	s := p.in[p.pos : p.pos+i]
	p.pos += i + len(end)
	return s, nil
}

// node counts a node.
func (p *parser) node() error {
	if p.nodes++; p.nodes > p.limits.Nodes {
		return p.fail("more than %d nodes", p.limits.Nodes)
	}
	return nil
}

func (p *parser) document() (*Element, error) {
	if err := p.characters(); err != nil {
		return nil, err
	}
	p.skip("\uFEFF")
	if err := p.declaration(); err != nil {
		return nil, err
	}
	if err := p.misc(); err != nil {
		return nil, err
	}
	root, err := p.tree()
	if err != nil {
		return nil, err
	}
	if err := p.misc(); err != nil {
		return nil, err
	}
	if p.pos < len(p.in) {
		return nil, p.fail("content after the root element")
	}
	return root, nil
}

// characters checks that the document is UTF-8 and has no characters that XML does not have.
func (p *parser) characters() error {
	for i := 0; i < len(p.in); {
		for i+8 <= len(p.in) && printable(p.in[i:i+8]) {
			i += 8
		}
		if i == len(p.in) {
			break
		}
		if c := p.in[i]; c-0x20 < utf8.RuneSelf-0x20 || isSpace(c) {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(p.in[i:])
		if r == utf8.RuneError && size == 1 {
			return &Error{i, "not UTF-8"}
		}
		if !isChar(r) {
			return &Error{i, fmt.Sprintf("character %U", r)}
		}
		i += size
	}
	return nil
}

// printable reports whether eight octets are all from 0x20 to 0x7F.
func printable(eight string) bool {
	const high, blanks = 0x8080808080808080, 0x2020202020202020
	_ = eight[7]
	n := uint64(eight[0]) | uint64(eight[1])<<8 | uint64(eight[2])<<16 | uint64(eight[3])<<24 |
		uint64(eight[4])<<32 | uint64(eight[5])<<40 | uint64(eight[6])<<48 | uint64(eight[7])<<56
	return (n|(n-blanks))&high == 0
}

// declaration reads the XML declaration, if there is one.
func (p *parser) declaration() error {
	if !strings.HasPrefix(p.rest(), "<?xml") || len(p.rest()) < 6 || !isSpace(p.rest()[5]) {
		return nil
	}
	p.pos += len("<?xml")
	for _, pseudo := range []struct {
		name     string
		required bool
		ok       func(string) bool
	}{
		{"version", true, func(v string) bool { return v == "1.0" }},
		{"encoding", false, func(v string) bool { return strings.EqualFold(v, "UTF-8") }},
		{"standalone", false, func(v string) bool { return v == "yes" || v == "no" }},
	} {
		before := p.pos
		if !p.space() || !p.skip(pseudo.name) {
			p.pos = before
			if pseudo.required {
				return p.fail("XML declaration without %s", pseudo.name)
			}
			continue
		}
		value, err := p.equalsQuoted()
		if err != nil {
			return err
		}
		if !pseudo.ok(value) {
			return p.fail("%s %q", pseudo.name, value)
		}
	}
	p.space()
	if !p.skip("?>") {
		return p.fail("malformed XML declaration")
	}
	return nil
}

// equalsQuoted reads an equals sign and a quoted string, which it returns as written.
func (p *parser) equalsQuoted() (string, error) {
	p.space()
	if !p.skip("=") {
		return "", p.fail("no equals sign after a name")
	}
	p.space()
	for _, quote := range []string{`"`, `'`} {
		if p.skip(quote) {
			return p.until(quote, "a quoted value")
		}
	}
	return "", p.fail("a value without quotes")
}

// misc reads what may stand before and after the root element.
func (p *parser) misc() error {
	for {
		p.space()
		switch {
		case p.skip("<!--"):
			if err := p.comment(); err != nil {
				return err
			}
		case strings.HasPrefix(p.rest(), "<!DOCTYPE"):
			return p.fail("a DOCTYPE")
		case strings.HasPrefix(p.rest(), "<?"):
			return p.fail("a processing instruction")
		default:
			return nil
		}
	}
}

// comment reads the rest of a comment, and forgets it.
func (p *parser) comment() error {
	if _, err := p.until("--", "a comment"); err != nil {
		return err
	}
	if !p.skip(">") {
		return p.fail("-- inside a comment")
	}
	return nil
}

// tree reads the root element and all in it.
func (p *parser) tree() (*Element, error) {
	for {
		switch {
		case p.pos == len(p.in):
			return nil, p.fail("end of the document, where a tag is missing")
		case p.in[p.pos] != '<':
			if len(p.open) == 0 {
				return nil, p.fail("text outside of the root element")
			}
			if err := p.chars(); err != nil {
				return nil, err
			}
		case p.skip("<!--"):
			if err := p.comment(); err != nil {
				return nil, err
			}
		case p.skip("</"):
			root, err := p.endTag()
			if root != nil || err != nil {
				return root, err
			}
		case p.skip("<![CDATA["):
			if err := p.cdata(); err != nil {
				return nil, err
			}
		case strings.HasPrefix(p.rest(), "<?"):
			return nil, p.fail("a processing instruction")
		case strings.HasPrefix(p.rest(), "<!"):
			return nil, p.fail("a markup declaration")
		default:
			p.pos++
			root, err := p.startTag()
			if root != nil || err != nil {
				return root, err
			}
		}
	}
}

// chars reads character data up to the next tag.
func (p *parser) chars() error {
	end := strings.IndexByte(p.rest(), '<')
	if end < 0 {
		end = len(p.rest())
	}
	raw := p.in[p.pos : p.pos+end]
	if i := strings.Index(raw, "]]>"); i >= 0 {
		p.pos += i
		return p.fail("]]> in text")
	}
	text, err := p.decode(raw, false)
	if err != nil {
		return err
	}
	p.pos += end
	p.text = append(p.text, text)
	return p.node()
}

func (p *parser) cdata() error {
	if len(p.open) == 0 {
		return p.fail("text outside of the root element")
	}
	raw, err := p.until("]]>", "a CDATA section")
	if err != nil {
		return err
	}
	p.text = append(p.text, lineEnds(raw))
	return p.node()
}

// flush notes the text since the last tag, which is of the innermost open element.
func (p *parser) flush() {
	text := ""
	switch len(p.text) {
	case 0:
	case 1:
		text = p.text[0]
	default:
		text = strings.Join(p.text, "")
	}
	p.texts = append(p.texts, text)
	p.text = p.text[:0]
}

// startTag reads the rest of a start tag or of an empty element; it returns the root if the document is that empty element.
func (p *parser) startTag() (*Element, error) {
	if len(p.open) >= p.limits.Depth {
		return nil, p.fail("more than %d elements inside each other", p.limits.Depth)
	}
	start := p.pos
	prefix, local, err := p.qualified()
	if err != nil {
		return nil, err
	}
	e := &keep(&p.made.elements, []Element{{Prefix: prefix, Local: local}})[0]
	if err := p.node(); err != nil {
		return nil, err
	}
	empty, err := p.attributes()
	if err != nil {
		return nil, err
	}
	mark := p.scope.mark()
	if err := p.resolve(e, start); err != nil {
		return nil, err
	}
	if len(p.open) > 0 {
		p.flush()
		e.Parent = p.open[len(p.open)-1].Element
		p.children = append(p.children, e)
	}
	if !empty {
		p.open = append(p.open, opened{e, mark, len(p.children), len(p.texts)})
		return nil, nil
	}
	p.scope.release(mark)
	if e.Parent == nil {
		return e, nil
	}
	return nil, nil
}

// endTag reads the rest of an end tag; it returns the root if that has ended.
func (p *parser) endTag() (*Element, error) {
	prefix, local, err := p.qualified()
	if err != nil {
		return nil, err
	}
	if len(p.open) == 0 {
		return nil, p.fail("an end tag without a start tag")
	}
	e := p.open[len(p.open)-1]
	if e.Prefix != prefix || e.Local != local {
		return nil, p.fail("the end tag of %q where that of %q is missing", local, e.Local)
	}
	p.space()
	if !p.skip(">") {
		return nil, p.fail("malformed end tag")
	}
	p.flush()
	e.Element.children, p.children = keep(&p.made.children, p.children[e.children:]), p.children[:e.children]
	e.Element.texts, p.texts = keep(&p.made.texts, p.texts[e.texts:]), p.texts[:e.texts]
	p.open = p.open[:len(p.open)-1]
	p.scope.release(e.mark)
	if e.Parent == nil {
		return e.Element, nil
	}
	return nil, nil
}

// attributes reads the attributes of a start tag and its end, and reports whether the element is empty.
func (p *parser) attributes() (empty bool, err error) {
	p.attrs = p.attrs[:0]
	for {
		space := p.space()
		if p.skip(">") {
			return false, nil
		}
		if p.skip("/>") {
			return true, nil
		}
		if !space {
			return false, p.fail("malformed start tag")
		}
		if len(p.attrs) >= p.limits.Attributes {
			return false, p.fail("more than %d attributes", p.limits.Attributes)
		}
		a := attribute{at: p.pos}
		if a.prefix, a.local, err = p.qualified(); err != nil {
			return false, err
		}
		if a.value, err = p.equalsQuoted(); err != nil {
			return false, err
		}
		if strings.IndexByte(a.value, '<') >= 0 {
			return false, p.fail("< in an attribute")
		}
		if a.value, err = p.decode(a.value, true); err != nil {
			return false, err
		}
		if err = p.node(); err != nil {
			return false, err
		}
		p.attrs = append(p.attrs, a)
	}
}

// resolve binds what the attributes declare and finds the namespaces of the element and the other attributes.
func (p *parser) resolve(e *Element, at int) error {
	p.declared, p.others = p.declared[:0], p.others[:0]
	for i, a := range p.attrs {
		prefix := a.local
		switch {
		case a.prefix == "" && a.local == "xmlns":
			prefix = ""
		case a.prefix != "xmlns":
			continue
		}
		if !declarable(prefix, a.value) {
			return &Error{a.at, fmt.Sprintf("prefix %q cannot stand for namespace %q", prefix, a.value)}
		}
		for _, b := range p.attrs[:i] {
			if b.prefix == a.prefix && b.local == a.local {
				return &Error{a.at, fmt.Sprintf("prefix %q declared twice", prefix)}
			}
		}
		if prefix == "xml" {
			continue
		}
		p.scope.bind(prefix, a.value)
		p.declared = append(p.declared, binding{prefix, a.value})
	}
	e.declared = keep(&p.made.declared, p.declared)
	e.Space = p.scope.lookup(e.Prefix)
	if e.Prefix != "" && e.Space == "" {
		return &Error{at, fmt.Sprintf("prefix %q is not declared", e.Prefix)}
	}
	for _, a := range p.attrs {
		if a.prefix == "xmlns" || a.prefix == "" && a.local == "xmlns" {
			continue
		}
		space := ""
		if a.prefix != "" {
			if space = p.scope.lookup(a.prefix); space == "" {
				return &Error{a.at, fmt.Sprintf("prefix %q is not declared", a.prefix)}
			}
		}
		for _, b := range p.others {
			if b.Local == a.local && b.Space == space {
				return &Error{a.at, fmt.Sprintf("attribute %q twice", a.local)}
			}
		}
		p.others = append(p.others, Attr{space, a.prefix, a.local, a.value})
	}
	e.Attrs = keep(&p.made.attrs, p.others)
	return nil
}

// declarable reports whether a prefix may be declared for a namespace ("Namespaces in XML 1.0", section 3).
func declarable(prefix, uri string) bool {
	switch {
	case prefix == "xml" || uri == xmlSpace:
		return prefix == "xml" && uri == xmlSpace
	case prefix == "xmlns" || uri == xmlnsSpace:
		return false
	case uri == "":
		return prefix == ""
	default:
		return isAbsolute(uri)
	}
}

// qualified reads a name with or without prefix.
func (p *parser) qualified() (prefix, local string, err error) {
	if local, err = p.ncName(); err != nil {
		return "", "", err
	}
	if !p.skip(":") {
		return "", local, nil
	}
	prefix = local
	if local, err = p.ncName(); err != nil {
		return "", "", err
	}
	return prefix, local, nil
}

// ncName reads a name without colon.
func (p *parser) ncName() (string, error) {
	start := p.pos
	for p.pos < len(p.in) {
		if c := p.in[p.pos]; isLetter(c) || p.pos > start && isLaterASCII(c) {
			p.pos++
			continue
		} else if c < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRuneInString(p.rest())
		if p.pos == start && !isNameStart(r) || !isName(r) {
			break
		}
		p.pos += size
	}
	if p.pos == start || p.pos == len(p.in) {
		p.pos = start
		return "", p.fail("no name where one must be")
	}
	return p.in[start:p.pos], nil
}
