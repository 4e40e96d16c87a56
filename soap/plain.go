// SPDX-License-Identifier: Apache-2.0

package soap

import "math"

// Most markup lies wholly in a piece and is plain: no references, visible ASCII and spaces in attributes, nothing but
// characters of one or two octets in text, nothing near a limit. plainMarkup takes it at once; all other markup, and all
// that is wrong, is left to scan, which tells the octet that shows it.

// plainMarkup scans from the < at p[i] on for as long as all is plain, and returns the index of what is not, or of the
// end of p. What stands before that index is done, what stands behind it is untouched.
func (s *scanner) plainMarkup(p []byte, i int) (int, error) {
	for s.settled && i+1 < len(p) && p[i] == '<' {
		var behind int
		var err error
		s.tagAt = s.base + int64(i)
		if p[i+1] == '/' {
			behind, err = s.plainEnd(p, i)
		} else {
			behind, err = s.plainStart(p, i)
		}
		if err != nil || behind == i {
			return i, err
		}
		if i = behind; i < len(p) && p[i] != '<' {
			i = s.plainText(p, i)
		}
	}
	return i, nil
}

// plainText returns the index of the < that ends the text from p[i] on; i if there is more than that to be told of it.
func (s *scanner) plainText(p []byte, i int) int {
	end := i + spaces(p[i:])
	if end < len(p) && p[end] != '<' && s.state == inText {
		end += plain(p[end:])
	}
	if end == len(p) || p[end] != '<' {
		return i
	}
	if s.collect == len(s.stack) && s.collect > 0 {
		s.keepText(p[i:end])
		s.cr = false
	}
	return end
}

// plainStart scans the start tag whose < is p[i], and returns the index behind it; i if it is not plain: nothing is done
// then. A leaf, an element with nothing but a little text inside, is taken whole, and is not even put on the stack if
// nobody hears of it.
func (s *scanner) plainStart(p []byte, i int) (int, error) {
	depth := len(s.stack)
	if depth == 0 && s.rooted || depth >= s.limits.Depth {
		return i, nil
	}
	t := p[i:min(len(p), i+math.MaxUint16)] // offsets of a startTag go no further
	heard := depth < s.watch
	tag := s.plainTag(t, heard)
	if tag == nil || 2*int(tag.end) > s.left(0) {
		s.attributes = s.attributes[:0]
		return i, nil
	}
	behind := i + int(tag.end)
	text, end := behind, behind // of the leaf; end is 0 if it is none
	if !tag.closed {
		if text, end = plainLeaf(p, behind, t[1:tag.nameEnd]); end > 0 {
			s.tags.ended()
		}
	}
	if end > 0 && !heard && len(s.attributes) == 0 && depth > 0 {
		if prefix := tag.prefix(t); len(prefix) > 0 && s.bindingOf(tag, prefix) == unbound {
			return i, nil
		}
		return end, nil
	}
	if err := s.enter(t, tag, behind, heard); err != nil {
		return i, err
	}
	if end == 0 {
		return behind, nil
	}
	if s.collect == depth+1 {
		s.value.Write(p[behind:text])
	}
	return end, s.closeTag(end)
}

// enter puts an element on the stack, whose start tag stands at the start of t and ends before index i of the piece.
func (s *scanner) enter(t []byte, tag *startTag, i int, heard bool) error {
	s.rooted, s.state = true, inText
	e := s.push()
	s.names = append(s.names, t[1:tag.nameEnd]...)
	e.local, e.end, e.word = e.name+int(tag.local)-1, len(s.names), tag.word
	own := s.tag
	if len(s.attributes) > 0 {
		s.declare(t)
		s.tag, s.values = t, t
		if err := s.judgeAttributes(i, tag.distinct); err != nil {
			return err
		}
		tag.distinct = tag.prefixed < 2
	}
	if prefix := tag.prefix(t); heard || len(prefix) > 0 {
		if e.binding = s.bindingOf(tag, prefix); e.binding == unbound && len(prefix) > 0 {
			return s.undeclared(i-1, prefix)
		}
	}
	if heard {
		s.at = i
		if err := s.on.start(len(s.stack)); err != nil {
			return err
		}
	}
	if len(s.attributes) > 0 {
		s.attributes, s.tag, s.values = s.attributes[:0], own, nil
	}
	return nil
}

// bindingOf is find for the prefix of an element.
func (s *scanner) bindingOf(tag *startTag, prefix []byte) int {
	if tag.scope != s.tags.scope {
		tag.scope, tag.binding = s.tags.scope, int32(s.find(prefix))
	}
	return int(tag.binding)
}

// plainLeaf returns where the text ends and the index behind the end tag of an element of that name whose start tag ends
// before p[i], if nothing but a little plain text stands between; else end is 0.
func plainLeaf(p []byte, i int, name []byte) (text, end int) {
	const little = 64
	if text = i; text < len(p) && p[text] != '<' {
		text += plain(p[text:min(len(p), text+little)])
	}
	i = text + len("</")
	end = i + len(name)
	if end >= len(p) || p[text] != '<' || p[text+1] != '/' || p[end] != '>' || string(p[i:end]) != string(name) {
		return text, 0
	}
	return text, end + 1
}

// plainEnd is plainStart for an end tag.
func (s *scanner) plainEnd(p []byte, i int) (int, error) {
	if len(s.stack) == 0 {
		return i, nil
	}
	e := &s.stack[len(s.stack)-1]
	name := s.names[e.name:e.end]
	end := i + len("</") + len(name)
	if end >= len(p) || p[end] != '>' || string(p[i+len("</"):end]) != string(name) {
		return i, nil
	}
	s.tags.ended()
	return end + 1, s.closeTag(end + 1)
}

// plainTag returns what there is to know of the start tag at the start of t, and puts its attributes into s.attributes,
// with offsets in t; nil if it is not plain. It is valid until the next start tag.
func (s *scanner) plainTag(t []byte, heard bool) *startTag {
	if tag := s.expectedTag(t); tag != nil {
		return tag
	}
	s.attributes = s.attributes[:0]
	local, nameEnd, ok := plainName(t, 1)
	if !ok {
		return nil
	}
	at := nameEnd
	if t[at] != '>' {
		at, ok = s.plainAttributes(t, at)
	}
	closed := ok && at < len(t) && t[at] == '/'
	if closed {
		at++
	}
	if !ok || at == len(t) || t[at] != '>' {
		return nil
	}
	tag := s.tags.other()
	tag.local, tag.nameEnd, tag.end, tag.closed = uint16(local), uint16(nameEnd), uint16(at+1), closed
	if heard {
		tag.word = wordOf(t[local:nameEnd])
	}
	return s.tags.learn(t, tag, s.attributes)
}

// plainAttributes scans the attributes from t[i] on, and returns the index behind them.
func (s *scanner) plainAttributes(t []byte, i int) (int, bool) {
	for {
		start := i
		for i < len(t) && classes[t[i]]&isSpace != 0 {
			i++
		}
		if i == start || i == len(t) || classes[t[i]]&isNameStart == 0 {
			return i, true
		}
		local, end, ok := plainName(t, i)
		if !ok || end+1 >= len(t) || t[end] != '=' || len(s.attributes) >= s.limits.Attributes {
			return i, false
		}
		quote := t[end+1]
		value := end + 2
		next := value + plainValue(t[value:])
		if quote != '"' && quote != '\'' || next == len(t) || t[next] != quote {
			return i, false
		}
		a := s.addAttribute()
		a.name, a.local, a.nameEnd, a.value, a.valueEnd, a.binding = i, local, end, value, next, unbound
		if prefix, ok := declared(t[i:end]); ok {
			if forbidden(prefix, t[value:next]) != "" {
				return i, false
			}
			a.binding = declaration
		}
		i = next + 1
	}
}

// declare binds what the attributes declare.
func (s *scanner) declare(t []byte) {
	for i := range s.attributes {
		if a := &s.attributes[i]; a.binding == declaration {
			prefix := prefixDeclared(t, a)
			start := len(s.names)
			s.names = append(s.names, prefix...)
			s.names = append(s.names, t[a.value:a.valueEnd]...)
			s.bind(start, start+len(prefix))
			s.tags.scope++
		}
	}
}

// prefixDeclared returns the prefix that a declaration declares.
func prefixDeclared(t []byte, a *attribute) []byte {
	if a.local == a.name {
		return nil
	}
	return t[a.local:a.nameEnd]
}

// plainName returns where the local part of the qualified name at p[i] begins, and where it ends, which is not the end
// of p.
func plainName(p []byte, i int) (local, end int, ok bool) {
	local = i
	end = wordEnd(p, i)
	if end < len(p) && p[end] == ':' {
		local = end + 1
		end = wordEnd(p, local)
	}
	if end == len(p) {
		return local, end, false
	}
	if classes[p[end]]&isName == 0 {
		return local, end, end > local && local-1 != i && classes[p[i]]&isNameStart != 0 && classes[p[local]]&isNameStart != 0
	}
	for end < len(p) && classes[p[end]]&isName != 0 {
		end++
	}
	if end == len(p) || classes[p[i]]&isNameStart == 0 {
		return local, end, false
	}
	colon, ok := splitName(p[i:end])
	return i + colon + 1, end, ok
}

// wordEnd skips letters, digits and what else may stand in a name without a colon, in ASCII.
func wordEnd(p []byte, i int) int {
	for i < len(p) && classes[p[i]]&isWord != 0 {
		i++
	}
	return i
}
