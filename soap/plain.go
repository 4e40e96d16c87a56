// SPDX-License-Identifier: Apache-2.0

package soap

// Most tags lie wholly in a piece and are plain: visible ASCII and spaces in their attributes, no references, nothing
// near a limit. plainTag takes them at once; all others, and all that are wrong, are left to scan, which tells the octet
// that shows it. An element that nobody hears of, without attributes and with nothing but text inside, is not even put
// on the stack.

// plainTag scans the tag whose < is p[i], and returns the index behind it; i if it is not plain: nothing is done then.
func (s *scanner) plainTag(p []byte, i int) (int, error) {
	switch {
	case i+1 == len(p) || !s.settled:
		return i, nil
	case p[i+1] == '/':
		return s.plainEnd(p, i)
	case len(s.stack) == 0 && s.rooted || len(s.stack) >= s.limits.Depth:
		return i, nil
	}
	local, end, ok := plainName(p, i+1)
	if !ok {
		return i, nil
	}
	at := end
	if p[at] != '>' {
		at, ok = s.plainAttributes(p, at)
	}
	closed := ok && at < len(p) && p[at] == '/'
	if closed {
		at++
	}
	if !ok || at == len(p) || p[at] != '>' || 2*(at-i) > s.left(0) {
		s.attributes = s.attributes[:0]
		return i, nil
	}
	at++

	name, prefix := p[i+1:end], p[i+1:max(i+1, local-1)]
	if len(s.attributes) == 0 && s.rooted && len(s.stack) >= s.watch {
		if len(prefix) > 0 && s.find(prefix) == unbound {
			return i, nil
		}
		if closed {
			return at, nil
		}
		if end := leafEnd(p, at, name); end > 0 {
			return end, nil
		}
	}

	s.rooted = true
	e := s.push()
	s.names = append(s.names, name...)
	e.local, e.end = e.name+local-(i+1), len(s.names)
	var err error
	if len(s.attributes) == 0 {
		err = s.openTag(at, prefix)
	} else {
		s.declare(p)
		own := s.tag
		s.tag, s.values = p, p
		err = s.openTag(at, prefix)
		s.tag, s.values = own, nil
	}
	if err != nil {
		return i, err
	}
	if closed {
		return at, s.closeTag(at)
	}
	s.content()
	return at, nil
}

// leafEnd returns the index behind the end tag of an element that nobody hears of, whose start tag ends before p[i], if
// nothing but a little plain text stands between; else 0.
func leafEnd(p []byte, i int, name []byte) int {
	const little = 64
	i += plain(p[i:min(len(p), i+little)]) + len("</")
	end := i + len(name)
	if end >= len(p) || p[i-2] != '<' || p[i-1] != '/' || p[end] != '>' || string(p[i:end]) != string(name) {
		return 0
	}
	return end + 1
}

// plainEnd is plainTag for an end tag.
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
	return end + 1, s.closeTag(end + 1)
}

// plainAttributes scans the attributes from p[i] on, with offsets in p, and returns the index behind them.
func (s *scanner) plainAttributes(p []byte, i int) (int, bool) {
	for {
		start := i
		for i < len(p) && classes[p[i]]&isSpace != 0 {
			i++
		}
		if i == start || i == len(p) || classes[p[i]]&isNameStart == 0 {
			return i, true
		}
		local, end, ok := plainName(p, i)
		if !ok || end+1 >= len(p) || p[end] != '=' || len(s.attributes) >= s.limits.Attributes {
			return i, false
		}
		quote := p[end+1]
		value := end + 2
		next := value
		for next < len(p) && classes[p[next]]&endsValue == 0 {
			next++
		}
		if quote != '"' && quote != '\'' || next == len(p) || p[next] != quote {
			return i, false
		}
		s.attributes = append(s.attributes, attribute{})
		a := &s.attributes[len(s.attributes)-1]
		a.name, a.local, a.nameEnd = i, local, end
		a.value, a.valueEnd = value, next
		a.binding = unbound
		if prefix, ok := declared(p[i:end]); ok {
			if forbidden(prefix, p[value:next]) != "" {
				return i, false
			}
			a.binding = declaration
		}
		i = next + 1
	}
}

// declare binds what the attributes declare.
func (s *scanner) declare(p []byte) {
	for i := range s.attributes {
		if a := &s.attributes[i]; a.binding == declaration {
			prefix, _ := declared(p[a.name:a.nameEnd])
			start := len(s.names)
			s.names = append(s.names, prefix...)
			s.names = append(s.names, p[a.value:a.valueEnd]...)
			s.bind(start, start+len(prefix))
		}
	}
}

// plainName returns where the local part of the qualified name at p[i] begins, and where it ends, which is not the end
// of p.
func plainName(p []byte, i int) (local, end int, ok bool) {
	local = i
	end = word(p, i)
	if end < len(p) && p[end] == ':' {
		local = end + 1
		end = word(p, local)
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

// word skips letters, digits and what else may stand in a name without a colon, in ASCII.
func word(p []byte, i int) int {
	for i < len(p) && classes[p[i]]&isWord != 0 {
		i++
	}
	return i
}
