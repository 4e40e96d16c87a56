// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ContentType is a Content-Type value taken apart without being changed.
type ContentType struct {
	Value  string // verbatim
	Type   string // type/subtype (or more: X-Road's signature/bdoc-1.0/ts), lower case
	params []parameter
}

type parameter struct {
	name  string // lower case
	value string
	raw   string // as written between the quotes, where that differs; else empty

	joined bool // written in the manner of RFC 2231
}

// maxParameters bounds the work on one value.
const maxParameters = 100

// ParseContentType reads what real clients send: RFC 2045 and the ways in which stacks break it
// (unquoted boundaries with ":", "=" or "/", bare start=<id>, single quotes, empty parameters, folding).
//
// A parameter's value is a quoted string, with backslash escapes, or all up to the next semicolon without the blanks
// around it. Single quotes mean nothing: Param returns type='application/xop+xml' with them. Parameters that are empty
// or have no "=" are ignored. RFC 2231's continuations (boundary*0=…) and percent encoding (name*=utf-8'en'…) are undone,
// without converting the character set. Of a parameter that stands twice the first counts.
//
// What two readers could cut in two ways is ErrContentType: boundary, start, type or charset twice with different
// values (type and charset compared without case), or bare with a blank or an opening parenthesis inside, which begins a
// comment for some; a quoted string that does not end or is followed by more; a quote inside a bare value; a parameter's
// name with a blank inside; faulty continuations; control characters; more than 100 parameters. A boundary that cannot be used is ErrBoundary. With an error of a parameter
// the ContentType returned still has its Value and Type.
func ParseContentType(value string) (ContentType, error) {
	c := ContentType{Value: value}
	text := unfold(value)
	if strings.ContainsFunc(text, isControl) || strayLineFeed(value) {
		return c, fmt.Errorf("%w: it holds a control character", ErrContentType)
	}
	kind, rest, _ := strings.Cut(text, ";")
	kind = strings.Trim(kind, " \t")
	if !isType(kind) {
		return c, fmt.Errorf("%w: %.80q is not a type", ErrContentType, kind)
	}
	c.Type = strings.ToLower(kind)
	return c, c.parse(rest)
}

// Param returns a parameter by its name, compared without case, and whether it is there and not empty.
func (c ContentType) Param(name string) (string, bool) {
	for _, p := range c.params {
		if strings.EqualFold(p.name, name) {
			return p.value, true
		}
	}
	return "", false
}

// Plain says whether every reader finds a parameter as Param returns it: it is there, and written without backslashes and
// without RFC 2231.
func (c ContentType) Plain(name string) bool {
	for _, p := range c.params {
		if strings.EqualFold(p.name, name) {
			return p.raw == "" && !p.joined
		}
	}
	return false
}

// parse takes the parameters apart.
func (c *ContentType) parse(rest string) error {
	var sections []section
	for n := 0; ; n++ {
		rest = strings.TrimLeft(rest, "; \t")
		if rest == "" {
			break
		}
		if n == maxParameters {
			return fmt.Errorf("%w: more than %d parameters", ErrContentType, maxParameters)
		}
		var p parameter
		var err error
		if p, rest, err = cutParameter(rest); err != nil {
			return err
		}
		if base, number, ok := strings.Cut(p.name, "*"); ok && base != "" {
			sections = append(sections, section{base, number, p.value})
		} else if err := c.add(p); err != nil {
			return err
		}
	}
	for len(sections) > 0 {
		p, left, err := join(sections)
		if err != nil {
			return err
		}
		if err := c.add(p); err != nil {
			return err
		}
		sections = left
	}
	if boundary, ok := c.Param("boundary"); ok {
		return checkBoundary(boundary)
	}
	return nil
}

// decisive says whether a parameter decides which message a reader sees.
func decisive(name string) bool {
	return name == "boundary" || name == "start" || name == "type" || name == "charset"
}

func (c *ContentType) add(p parameter) error {
	if p.value == "" {
		return nil
	}
	i := slices.IndexFunc(c.params, func(q parameter) bool { return strings.EqualFold(q.name, p.name) })
	if i < 0 {
		c.params = append(c.params, p)
		return nil
	}
	first := &c.params[i]
	same := first.value == p.value || (p.name == "type" || p.name == "charset") && strings.EqualFold(first.value, p.value)
	if !same && decisive(p.name) {
		return fmt.Errorf("%w: two parameters %s that differ", ErrContentType, p.name)
	}
	first.raw = cmp.Or(first.raw, p.raw)
	first.joined = first.joined || p.joined
	return nil
}

// cutParameter takes the first parameter off a list. One without "=" has an empty value.
func cutParameter(list string) (p parameter, rest string, err error) {
	end := strings.IndexAny(list, "=;")
	if end < 0 {
		end = len(list)
	}
	p.name = strings.ToLower(strings.TrimRight(list[:end], " \t"))
	if !isToken(p.name) {
		return p, "", fmt.Errorf("%w: %.80q is not a parameter", ErrContentType, p.name)
	}
	list = list[end:]
	if !strings.HasPrefix(list, "=") {
		return p, list, nil
	}
	list = strings.TrimLeft(list[1:], " \t")

	if strings.HasPrefix(list, `"`) {
		if p.value, rest, err = cutQuoted(list); err != nil {
			return p, "", fmt.Errorf("%w in parameter %s", err, p.name)
		}
		if raw := list[1 : len(list)-len(rest)-1]; raw != p.value {
			p.raw = raw
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ';' {
			return p, "", fmt.Errorf("%w: more after the quoted string of parameter %s", ErrContentType, p.name)
		}
		return p, rest, nil
	}
	p.value, rest, _ = strings.Cut(list, ";")
	p.value = strings.TrimRight(p.value, " \t")
	if strings.Contains(p.value, `"`) {
		return p, "", fmt.Errorf("%w: quote inside parameter %s", ErrContentType, p.name)
	}
	if name, _, _ := strings.Cut(p.name, "*"); decisive(name) && strings.ContainsAny(p.value, " \t(") {
		return p, "", fmt.Errorf("%w: blank or parenthesis inside parameter %s without quotes", ErrContentType, p.name)
	}
	return p, rest, nil
}

// cutQuoted takes a quoted string off the front of text and undoes its escapes.
func cutQuoted(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], nil
		case '\\':
			if i++; i == len(text) {
				break
			}
			fallthrough
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", fmt.Errorf("%w: quoted string without end", ErrContentType)
}

// section is a piece of a parameter in the manner of RFC 2231: name*, name*0, name*0*.
type section struct {
	name   string
	number string // what follows the asterisk
	value  string
}

// join puts together the sections that belong to the first one, and returns the others.
func join(sections []section) (parameter, []section, error) {
	p := parameter{name: sections[0].name, joined: true}
	var ours, others []section
	for _, s := range sections {
		if s.name == p.name {
			ours = append(ours, s)
		} else {
			others = append(others, s)
		}
	}
	faulty := fmt.Errorf("%w: faulty continuation of parameter %s", ErrContentType, p.name)
	var value strings.Builder
	for n := range ours {
		plain := strconv.Itoa(n)
		i := slices.IndexFunc(ours, func(s section) bool {
			return strings.TrimSuffix(s.number, "*") == plain || len(ours) == 1 && s.number == ""
		})
		if i < 0 {
			return p, nil, faulty
		}
		text := ours[i].value
		if ours[i].number != plain { // encoded
			if n == 0 { // charset'language'text
				_, text, _ = strings.Cut(text, "'")
				var ok bool
				if _, text, ok = strings.Cut(text, "'"); !ok {
					return p, nil, faulty
				}
			}
			var ok bool
			if text, ok = undoPercent(text); !ok || strings.ContainsFunc(text, isControl) {
				return p, nil, faulty
			}
		}
		value.WriteString(text)
	}
	p.value = value.String()
	return p, others, nil
}

func undoPercent(text string) (string, bool) {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			if i+3 > len(text) {
				return "", false
			}
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(n), i+2
		}
		b = append(b, c)
	}
	return string(b), true
}

// strayLineFeed says whether a line end in value is not one of folding.
func strayLineFeed(value string) bool {
	value = strings.TrimRight(value, "\r\n")
	for {
		_, after, ok := strings.Cut(value, "\n")
		if !ok {
			return false
		}
		if after[0] != ' ' && after[0] != '\t' {
			return true
		}
		value = after
	}
}

// isType says whether s is a type: type/subtype, or more as in X-Road's signature/bdoc-1.0/ts.
func isType(s string) bool {
	for segment := range strings.SplitSeq(s, "/") {
		if !isToken(segment) {
			return false
		}
	}
	return strings.Contains(s, "/")
}

func isToken(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || strings.IndexByte(`()<>@,;:\"/[]?=`, s[i]) >= 0 {
			return false
		}
	}
	return s != ""
}
