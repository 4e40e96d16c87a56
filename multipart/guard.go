// SPDX-License-Identifier: Apache-2.0

package multipart

import "bytes"

// Guard is an io.Writer that watches for delimiter lines of a boundary in what passes (message-and-transport 4.6).
// It knows a delimiter by the rule of Reader: where a Reader of that boundary would end a part, or refuse the line,
// the Guard has found one. For a Guard a lone CR ends a line as well, for there are readers for whom it does.
// It holds nothing back and keeps nothing of what passes but a few octets. It is not safe for concurrent use.
type Guard struct {
	lines  watch
	others []mention
	found  bool
}

// NewGuard watches for delimiter lines of boundary, and for two dashes and one of others anywhere.
// It stands at the start of a line, as after Begin.
// Of a boundary that cannot be used, which ParseContentType would have refused, every part holds a delimiter.
func NewGuard(boundary string, others ...string) *Guard {
	g := &Guard{lines: watch{dash: []byte("--" + boundary)}, found: checkBoundary(boundary) != nil}
	for _, b := range others {
		g.others = append(g.others, mention{octets: []byte("--" + b)})
	}
	return g
}

// Loosen has the Guard take a line for a delimiter that merely begins as one, as some readers do: a longer boundary, too.
func (g *Guard) Loosen() { g.lines.loose = true }

// Strict says whether the Guard watches for more than delimiter lines by the rule of Reader, which no part holds that
// came from a Reader of the same boundary.
func (g *Guard) Strict() bool { return g.lines.loose || len(g.others) > 0 }

// Begin says that a new part begins: what comes next, its header block or its octets, stands at the start of a line.
// What has been found stays found.
func (g *Guard) Begin() {
	g.lines.matched = 0
	for i := range g.others {
		g.others[i].tail = g.others[i].tail[:0]
	}
}

// Header begins a part and looks at its header block, in which a reader of another boundary may find a delimiter, too.
func (g *Guard) Header(h Header) error {
	g.Begin()
	if len(g.others) == 0 {
		return g.verdict() // no field begins as a delimiter of a Reader does
	}
	if _, err := h.WriteTo(g); err != nil {
		return err
	}
	_, err := g.Write([]byte("\r\n"))
	return err
}

// Write looks at b. It returns ErrDelimiter once a delimiter line has been seen, and always consumes all of b.
func (g *Guard) Write(b []byte) (int, error) {
	g.found = g.found || g.lines.search(b)
	for i := range g.others {
		g.found = g.found || g.others[i].search(b)
	}
	return len(b), g.verdict()
}

// End says that the part is complete; a delimiter may end with the part. It returns ErrDelimiter as Write does.
func (g *Guard) End() error {
	g.found = g.found || g.lines.matched == len(g.lines.dash)
	g.lines.matched = insideLine
	return g.verdict()
}

func (g *Guard) verdict() error {
	if g.found {
		return ErrDelimiter
	}
	return nil
}

// watch looks for delimiter lines of one boundary.
type watch struct {
	dash    []byte // two dashes and the boundary
	loose   bool   // whatever follows
	matched int    // octets of dash that follow the last start of a line, or insideLine
}

// insideLine: what comes next cannot belong to a delimiter before the next line begins.
const insideLine = -1

func (w *watch) search(b []byte) (found bool) {
	// Go on with what the octets before have begun. No octet of dash ends a line, so a match that fails can begin again
	// behind the octet on which it failed and nowhere before.
	for w.matched != insideLine && len(b) > 0 {
		switch {
		case w.matched == len(w.dash) && (w.loose || endsBoundary(b[0])):
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
		if starts && (w.loose || endsBoundary(b[0])) {
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

// mention looks for octets wherever they stand.
type mention struct {
	octets []byte
	tail   []byte // the last octets that passed, one fewer than those looked for
}

func (m *mention) search(b []byte) (found bool) {
	n := len(m.octets) - 1
	joint := append(m.tail, b[:min(len(b), n)]...)
	found = bytes.Contains(joint, m.octets) || bytes.Contains(b, m.octets)
	last := b
	if len(b) < n {
		last = joint
	}
	m.tail = append(m.tail[:0], last[max(0, len(last)-n):]...)
	return found
}
