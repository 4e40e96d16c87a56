// SPDX-License-Identifier: Apache-2.0

package multipart

import "bytes"

// Guard is an io.Writer that watches for delimiter lines of a boundary in what passes (message-and-transport 4.6).
// It knows a delimiter by the rule of Reader: where a Reader of that boundary would end a part, or refuse the line,
// the Guard has found one. It holds nothing back and keeps nothing of what passes. It is not safe for concurrent use.
type Guard struct {
	line    []byte // line feed, two dashes, boundary
	matched int    // octets of line that the last octets written match
	found   bool
}

// NewGuard watches for that boundary. It stands at the start of a line, as after Begin.
// Of a boundary that cannot be used, which ParseContentType would have refused, every part holds a delimiter.
func NewGuard(boundary string) *Guard {
	return &Guard{line: []byte("\n--" + boundary), matched: 1, found: checkBoundary(boundary) != nil}
}

// Begin says that a new part begins: what comes next stands at the start of a line. What has been found stays found.
func (g *Guard) Begin() { g.matched = 1 }

// Write looks at b. It returns ErrDelimiter once a delimiter line has been seen, and always consumes all of b.
func (g *Guard) Write(b []byte) (int, error) {
	if !g.found {
		g.search(b)
	}
	return len(b), g.verdict()
}

// End says that the part is complete; a delimiter may end with the part. It returns ErrDelimiter as Write does.
func (g *Guard) End() error {
	if g.matched == len(g.line) {
		g.found = true
	}
	g.matched = 0
	return g.verdict()
}

func (g *Guard) verdict() error {
	if g.found {
		return ErrDelimiter
	}
	return nil
}

func (g *Guard) search(b []byte) {
	// Go on with what the octets before have begun. A line feed is only the first octet of line, so a match that
	// fails can begin again at the octet on which it failed and nowhere before.
	for g.matched > 0 && len(b) > 0 {
		switch {
		case g.matched == len(g.line):
			g.found = endsBoundary(b[0])
			if g.found {
				return
			}
			g.matched = 0
		case b[0] == g.line[g.matched]:
			g.matched++
			b = b[1:]
		default:
			g.matched = 0
		}
	}
	for len(b) > 0 {
		i := bytes.Index(b, g.line)
		if i < 0 {
			break
		}
		b = b[i+len(g.line):]
		if len(b) == 0 {
			g.matched = len(g.line)
			return
		}
		if g.found = endsBoundary(b[0]); g.found {
			return
		}
	}
	tail := b[max(0, len(b)-len(g.line)):]
	if lf := bytes.LastIndexByte(tail, '\n'); lf >= 0 && bytes.HasPrefix(g.line, tail[lf:]) {
		g.matched = len(tail) - lf
	}
}
