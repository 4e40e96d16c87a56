// SPDX-License-Identifier: Apache-2.0

package multipart

import "bytes"

// Guard is an io.Writer that watches for delimiter lines of a boundary in what passes (message-and-transport 4.6).
// It knows a delimiter by the rule of Reader: where a Reader of that boundary would end a part, or refuse the line,
// the Guard has found one. For a Guard a lone CR ends a line as well, for there are readers for whom it does.
// It holds nothing back and keeps nothing of what passes. It is not safe for concurrent use.
type Guard struct {
	watches []watch
	found   bool
}

// NewGuard watches for those boundaries, the different readings of one. It stands at the start of a line, as after Begin.
// Of a boundary that cannot be used, which ParseContentType would have refused, every part holds a delimiter.
func NewGuard(boundaries ...string) *Guard {
	g := new(Guard)
	for _, b := range boundaries {
		g.watches = append(g.watches, watch{dash: []byte("--" + b)})
		g.found = g.found || checkBoundary(b) != nil
	}
	return g
}

// Begin says that a new part begins: what comes next stands at the start of a line. What has been found stays found.
func (g *Guard) Begin() {
	for i := range g.watches {
		g.watches[i].matched = 0
	}
}

// Write looks at b. It returns ErrDelimiter once a delimiter line has been seen, and always consumes all of b.
func (g *Guard) Write(b []byte) (int, error) {
	for i := range g.watches {
		g.found = g.found || g.watches[i].search(b)
	}
	return len(b), g.verdict()
}

// End says that the part is complete; a delimiter may end with the part. It returns ErrDelimiter as Write does.
func (g *Guard) End() error {
	for i := range g.watches {
		w := &g.watches[i]
		g.found = g.found || w.matched == len(w.dash)
		w.matched = insideLine
	}
	return g.verdict()
}

func (g *Guard) verdict() error {
	if g.found {
		return ErrDelimiter
	}
	return nil
}

// watch looks for one boundary.
type watch struct {
	dash    []byte // two dashes and the boundary
	matched int    // octets of dash that follow the last start of a line, or insideLine
}

// insideLine: what comes next cannot belong to a delimiter before the next line begins.
const insideLine = -1

func (w *watch) search(b []byte) (found bool) {
	// Go on with what the octets before have begun. No octet of dash ends a line, so a match that fails can begin again
	// behind the octet on which it failed and nowhere before.
	for w.matched != insideLine && len(b) > 0 {
		switch {
		case w.matched == len(w.dash) && endsBoundary(b[0]):
			return true
		case w.matched < len(w.dash) && b[0] == w.dash[w.matched]:
			w.matched++
			b = b[1:]
		default:
			w.matched = insideLine
		}
	}
	for len(b) > 0 {
		i := bytes.Index(b, w.dash)
		if i < 0 {
			break
		}
		starts := i > 0 && endsLine(b[i-1])
		b = b[i+len(w.dash):]
		if starts && len(b) == 0 {
			w.matched = len(w.dash)
			return false
		}
		if starts && endsBoundary(b[0]) {
			return true
		}
	}
	tail := b[max(0, len(b)-len(w.dash)):]
	if eol := bytes.LastIndexAny(tail, "\r\n"); eol >= 0 && bytes.HasPrefix(w.dash, tail[eol+1:]) {
		w.matched = len(tail) - eol - 1
	}
	return false
}

func endsLine(c byte) bool { return c == '\r' || c == '\n' }
