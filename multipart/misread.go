// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Guard returns a Guard for the parts of a body that others are going to cut by this Content-Type. Besides delimiter lines
// of its boundary it watches for whatever else readers take for the boundary (message-and-transport 4.6):
//
//   - the text with its backslashes, and what is inside single quotes or angle brackets;
//   - what follows "boundary=" up to the next quote or semicolon wherever that stands, in the name or the value of another
//     parameter too, with and without the blanks around it: Apache CXF searches the Content-Type so.
//
// Those stand in no honest part, so they are found anywhere in what passes. ErrContentType is what no watching mends:
// nothing behind a "boundary=", which then is two dashes; a boundary with a blank and no "boundary=" in lower case, for
// which CXF searches the beginning of the body for a line like a delimiter, where this one is none; a boundary in the manner
// of RFC 2231, which few readers undo, and not all in the same way; many readings; and no boundary.
func (c ContentType) Guard() (*Guard, error) {
	boundary, ok := c.Param("boundary")
	if !ok {
		return nil, fmt.Errorf("%w: no boundary", ErrContentType)
	}
	if strings.Contains(boundary, " ") && !strings.Contains(c.Value, "boundary=") {
		return nil, fmt.Errorf(`%w: a boundary with a blank is written boundary="…", for some readers find no other`, ErrContentType)
	}
	others, err := c.misreadings(boundary)
	if err != nil {
		return nil, err
	}
	return NewGuard(boundary, others...), nil
}

// maxMisreadings bounds the work of a Guard.
const maxMisreadings = 8

// beforeBoundary is what unanchored readers search for. Letters of other alphabets are none of it in any case.
var beforeBoundary = regexp.MustCompile(`(?i)boundary=`)

// misreadings returns what else than boundary readers may take for it.
func (c ContentType) misreadings(boundary string) (others []string, err error) {
	add := func(reading string) {
		if reading != "" && reading != boundary && !slices.Contains(others, reading) {
			others = append(others, reading)
		}
	}
	for _, p := range c.params {
		if p.name != "boundary" {
			continue
		}
		if p.joined {
			return nil, fmt.Errorf("%w: the boundary is written in the manner of RFC 2231", ErrContentType)
		}
		for _, v := range []string{p.value, p.raw} {
			add(v)
			if n := len(v) - 1; n > 1 && (v[0] == '\'' && v[n] == '\'' || v[0] == '<' && v[n] == '>') {
				add(v[1:n])
			}
		}
	}
	text := unfold(c.Value)
	for _, at := range beforeBoundary.FindAllStringIndex(text, -1) {
		reading := strings.TrimPrefix(text[at[1]:], `"`)
		if end := strings.IndexAny(reading, `";`); end >= 0 {
			reading = reading[:end]
		}
		if strings.Trim(reading, " \t") == "" {
			return nil, fmt.Errorf("%w: nothing stands behind a boundary= for some readers", ErrContentType)
		}
		add(reading)
		add(strings.Trim(reading, " \t"))
		if len(others) > maxMisreadings {
			return nil, fmt.Errorf("%w: more than %d readings of the boundary", ErrContentType, maxMisreadings)
		}
	}
	return others, nil
}
