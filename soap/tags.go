// SPDX-License-Identifier: Apache-2.0

package soap

// markup tells what a < begins.
func (s *scanner) markup(i int, c byte) (int, error) {
	if c != '?' {
		if err := s.settle(i, ""); err != nil {
			return i, err
		}
	}
	switch {
	case c == '/':
		if len(s.stack) == 0 {
			return i, s.fail(i, invalidSOAP, "an end tag stands here that nothing began")
		}
		s.matched, s.state = 0, inEndName
		return i + 1, nil
	case c == '?':
		s.tag, s.state = s.tag[:0], inTarget
		return i + 1, nil
	case c == '!':
		s.state = afterBang
		return i + 1, nil
	case classes[c]&isNameStart == 0:
		return i, s.fail(i, invalidSOAP, "a < begins no tag; in text it is written &lt;")
	case len(s.stack) == 0 && s.rooted:
		return i, s.fail(i, invalidSOAP, "a second root element follows the envelope")
	case len(s.stack) >= s.limits.Depth:
		return i, s.fail(i, invalidSOAP, "more than %d elements stand inside each other", s.limits.Depth)
	}
	s.rooted, s.state = true, inStartName
	s.push()
	return i, nil
}

// push begins an element, whose name begins at the end of names.
func (s *scanner) push() *element {
	n := len(s.stack)
	if n == cap(s.stack) {
		s.stack = append(s.stack, element{})
	}
	s.stack = s.stack[:n+1]
	e := &s.stack[n]
	e.name, e.bindings = len(s.names), len(s.bindings)
	return e
}

// addAttribute returns one more attribute, to be filled in.
func (s *scanner) addAttribute() *attribute {
	n := len(s.attributes)
	if n == cap(s.attributes) {
		s.attributes = append(s.attributes, attribute{})
	}
	s.attributes = s.attributes[:n+1]
	return &s.attributes[n]
}

// settle tells, the first time, what the XML declaration says.
func (s *scanner) settle(i int, encoding string) error {
	if s.settled {
		return nil
	}
	s.settled = true
	s.at = i
	return s.settleCharset(encoding)
}

// name appends the octets at p[i:] that may stand in a name to dst, in which the name begins at start, and returns the
// index behind them.
func (s *scanner) name(dst *[]byte, start int, p []byte, i int) (int, error) {
	j := i
	for j < len(p) && classes[p[j]]&isName != 0 {
		j++
	}
	if room := s.left(len(*dst) - start); j-i > room {
		return i, s.full(i+room, len(*dst)-start)
	}
	*dst = append(*dst, p[i:j]...)
	return j, nil
}

// blank skips white space.
func (s *scanner) blank(p []byte, i int) int {
	for i < len(p) && classes[p[i]]&isSpace != 0 {
		i++
	}
	return i
}

// left returns how many octets may be added to a name or declaration that has already some.
func (s *scanner) left(already int) int {
	return max(0, min(s.limits.Name-already, s.limits.Names-len(s.names)-len(s.tag)))
}

// full is the error about the octet at index i, for which there is no room.
func (s *scanner) full(i, already int) error {
	if s.limits.Name-already <= s.limits.Names-len(s.names)-len(s.tag) {
		return s.fail(i, invalidSOAP, "a name or namespace is longer than %d octets", s.limits.Name)
	}
	return s.fail(i, invalidSOAP, "the names and namespaces in scope have more than %d octets", s.limits.Names)
}

// nameAttribute judges the name of an attribute, which ends at index i, and decides whether its value is kept.
func (s *scanner) nameAttribute(i int, a *attribute) error {
	name := s.tag[a.name:]
	colon, ok := splitName(name)
	if !ok {
		return s.fail(i, invalidSOAP, "%s is not a name of an attribute", quote(name))
	}
	a.local, a.nameEnd = a.name+colon+1, len(s.tag)
	a.binding = unbound
	s.keep = nowhere
	prefix, declares := declared(name)
	switch {
	case declares:
		a.binding = declaration
		s.keep = inNames
		a.value = len(s.names)
		if len(prefix) > s.left(0) {
			return s.full(i, 0)
		}
		s.names = append(s.names, prefix...)
		a.valueEnd = len(s.names)
	case s.keepValues:
		s.keep = inValues
		a.value = len(s.values)
	}
	return nil
}

// declared returns the prefix that an attribute of that name declares, and whether it is a declaration.
func declared(name []byte) (prefix []byte, ok bool) {
	const xmlns = "xmlns"
	if len(name) < len(xmlns) || string(name[:len(xmlns)]) != xmlns {
		return nil, false
	}
	if len(name) == len(xmlns) {
		return nil, true
	}
	return name[len(xmlns)+1:], name[len(xmlns)] == ':'
}

// inValue scans an attribute value from p[i] on.
func (s *scanner) inValue(p []byte, i int) (int, error) {
	j := i
	for j < len(p) && classes[p[j]]&endsValue == 0 {
		j++
	}
	if j == i {
		switch c := p[i]; {
		case c == s.quote:
			return i + 1, s.endValue(i)
		case c == '<':
			return i, s.fail(i, invalidSOAP, "a < stands in an attribute; it is written &lt; there")
		case c == '&':
			s.back, s.state = inValue, afterAmpersand
			return i + 1, nil
		case c == '"' || c == '\'':
			j++
		default:
			var err error
			if j, err = s.char(p, i); err != nil {
				return i, err
			}
		}
	}
	return j, s.keepValue(i, p[i:j])
}

// keepValue keeps literal octets of an attribute value, those at index i, with blanks as readers see them.
func (s *scanner) keepValue(i int, literal []byte) error {
	switch s.keep {
	case inNames:
		a := &s.attributes[len(s.attributes)-1]
		if room := s.left(len(s.names) - a.value); len(literal) > room {
			return s.full(i+room, len(s.names)-a.value)
		}
		s.names = append(s.names, s.literal(literal, ' ')...)
	case inValues:
		s.values = append(s.values, s.literal(literal, ' ')...)
	}
	return nil
}

// endValue ends an attribute at its closing quote, which has index i.
func (s *scanner) endValue(i int) error {
	s.spaced, s.state = false, inTag
	a := &s.attributes[len(s.attributes)-1]
	switch s.keep {
	case inValues:
		a.valueEnd = len(s.values)
	case inNames:
		if why := forbidden(s.names[a.value:a.valueEnd], s.names[a.valueEnd:]); why != "" {
			return s.fail(i, invalidSOAP, "%s", why)
		}
		s.bind(a.value, a.valueEnd)
		s.tags.scope++
	}
	return nil
}

// openTag ends a start tag, whose > stands before index i, of an element with that prefix.
func (s *scanner) openTag(i int, prefix []byte) error {
	if len(s.attributes) > 0 {
		if err := s.judgeAttributes(i, false); err != nil {
			return err
		}
	}
	depth := len(s.stack)
	if prefixed := len(prefix) > 0; prefixed || depth <= s.watch {
		e := &s.stack[depth-1]
		if e.binding = s.find(prefix); e.binding == unbound && prefixed {
			return s.undeclared(i-1, prefix)
		}
	}
	if depth <= s.watch {
		e := &s.stack[depth-1]
		e.word = wordOf(s.names[e.local:e.end])
		s.at = i
		if err := s.on.start(depth); err != nil {
			return err
		}
	}
	s.attributes, s.tag, s.values = s.attributes[:0], s.tag[:0], s.values[:0]
	return nil
}

// undeclared is the error about the prefix of an element whose start tag ends at index i.
func (s *scanner) undeclared(i int, prefix []byte) error {
	return s.fail(i, invalidSOAP, "the prefix %s of an element is not declared", quote(prefix))
}

// judgeAttributes finds the namespaces of the attributes of a start tag, whose > stands before index i, and judges whether
// they are distinct, if that is not known.
func (s *scanner) judgeAttributes(i int, distinct bool) error {
	for k := range s.attributes {
		a := &s.attributes[k]
		if a.binding == unbound && a.local > a.name {
			prefix := s.tag[a.name : a.local-1]
			if a.binding = s.find(prefix); a.binding == unbound {
				return s.fail(i-1, invalidSOAP, "the prefix %s of an attribute is not declared", quote(prefix))
			}
		}
	}
	if distinct {
		return nil
	}
	if a := s.twice(); a != nil {
		return s.fail(i-1, invalidSOAP, "the attribute %s stands twice in one tag", quote(s.tag[a.name:a.nameEnd]))
	}
	return nil
}

// closeTag ends an element, with the > that stands before index i.
func (s *scanner) closeTag(i int) error {
	depth := len(s.stack)
	if depth <= s.watch {
		s.at = i
		if err := s.on.end(depth); err != nil {
			return err
		}
	}
	e := &s.stack[depth-1]
	if len(s.bindings) > e.bindings {
		s.unbind(e.bindings)
		s.tags.scope++
	}
	s.names = s.names[:e.name]
	s.stack = s.stack[:depth-1]
	s.content()
	return nil
}
