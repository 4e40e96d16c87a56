// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"fmt"
	"io"
	"strings"
)

// Field is one header field of a part.
type Field struct {
	Name  string // as spelt, without blanks before the colon
	Value string // unfolded (line ends dropped, blanks kept), without blanks at either end
	raw   string // the octets, line end included; empty for a made field
}

// Header is the header block of a part, in order. It writes itself as the octets that were read; changing Name or Value
// of a field that was read does not change what is written. A field made outside this package is like one of NewHeader.
//
// A Reader leaves out what is no field for every reader: lines without a colon, names that are empty, begin with two dashes
// or hold a blank or another character than visible ASCII, each with the folded lines that belong to it. They are neither
// found nor written. A lone CR or a NUL in the block is ErrHeader. Octets above ASCII pass as they are.
// A field may be there more than once; who depends on one of its values should look at all.
type Header []Field

// NewHeader returns a header of name, value pairs. What cannot be written as a field is found out by WriteTo.
func NewHeader(pairs ...string) Header {
	h := make(Header, 0, (len(pairs)+1)/2)
	for ; len(pairs) > 1; pairs = pairs[2:] {
		h = append(h, Field{Name: pairs[0], Value: pairs[1]})
	}
	if len(pairs) == 1 {
		h = append(h, Field{Name: pairs[0]})
	}
	return h
}

// Get returns the value of the first field of that name, compared without case, or "".
func (h Header) Get(name string) string {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Values returns the values of all fields of that name, compared without case.
func (h Header) Values(name string) []string {
	var values []string
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			values = append(values, f.Value)
		}
	}
	return values
}

// WriteTo writes the fields as they were read (line ends made CRLF), or "Name: value" for made ones,
// without the empty line that ends a block. If a made field has a name that a Reader would leave out, or a control character
// in its value, WriteTo writes nothing and returns ErrHeader: nobody can slip a line into a part through a value.
func (h Header) WriteTo(w io.Writer) (int64, error) {
	block, err := h.append(nil)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(block)
	return int64(n), err
}

func (h Header) append(b []byte) ([]byte, error) {
	for _, f := range h {
		if f.raw != "" {
			for line := range strings.Lines(f.raw) {
				b = append(b, strings.TrimRight(line, "\r\n")...)
				b = append(b, "\r\n"...)
			}
			continue
		}
		if !isFieldName(f.Name) {
			return nil, fmt.Errorf("%w: %q cannot be a field's name", ErrHeader, f.Name)
		}
		if strings.ContainsFunc(f.Value, isControl) {
			return nil, fmt.Errorf("%w: the value made for %s holds a control character", ErrHeader, f.Name)
		}
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	return b, nil
}

// isFieldName says whether every reader takes name as the name of a field, and none its line for a delimiter.
func isFieldName(name string) bool {
	for i := range len(name) {
		if !isNameOctet(name[i]) {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "--")
}

func isNameOctet(c byte) bool { return c > ' ' && c <= '~' && c != ':' }

// isControl says whether c is a control character; a tab may stand in a value.
func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// parseHeader takes a header block apart, each of whose lines ends in a line feed, and appends its fields to h.
func parseHeader(h Header, block string, limit int) (Header, error) {
	if strings.IndexByte(block, 0) >= 0 {
		return nil, fmt.Errorf("%w: NUL", ErrHeader)
	}
	loneCR := strings.Count(block, "\r")
	for block != "" {
		end, lines := 0, 0
		for lines == 0 || end < len(block) && isBlank(block[end]) {
			lines++
			end += strings.IndexByte(block[end:], '\n') + 1
			if end > 1 && block[end-2] == '\r' {
				loneCR--
			}
		}
		raw := block[:end]
		block = block[end:]

		colon := 0
		for isNameOctet(raw[colon]) {
			colon++
		}
		name := raw[:colon]
		for isBlank(raw[colon]) {
			colon++
		}
		if raw[colon] != ':' || name == "" || strings.HasPrefix(name, "--") {
			continue
		}
		if len(h) == limit {
			return nil, &LimitError{"Headers", int64(limit)}
		}
		value := trim(raw[colon+1:])
		if lines > 1 {
			value = unfold(value)
		}
		h = append(h, Field{Name: name, Value: value, raw: raw})
	}
	if loneCR > 0 {
		return nil, fmt.Errorf("%w: CR without LF", ErrHeader)
	}
	return h, nil
}

// trim drops the line ends and blanks around a value.
func trim(value string) string {
	for value != "" && isSpace(value[0]) {
		value = value[1:]
	}
	for value != "" && isSpace(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	return value
}

// unfold drops the line ends of a value and the blanks around it.
func unfold(value string) string {
	value = trim(value)
	if strings.IndexByte(value, '\n') >= 0 {
		value = strings.NewReplacer("\r\n", "", "\n", "").Replace(value)
	}
	return value
}

// isBlank says whether c is a space or a tab, and isSpace whether it is one or belongs to a line end.
func isBlank(c byte) bool { return c == ' ' || c == '\t' }
func isSpace(c byte) bool { return isBlank(c) || c == '\r' || c == '\n' }
