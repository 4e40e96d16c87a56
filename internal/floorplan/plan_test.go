// SPDX-License-Identifier: Apache-2.0

package floorplan

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// root is the repository's root as this package sees it, and architecture the page that holds the tables.
const (
	root         = "../.."
	architecture = root + "/docs/architecture.md"
)

// everything in the last column allows all floors and all modules; below allows every package of a lower floor.
const (
	everything = "everything"
	below      = "floors below"
)

// plan is the three tables of docs/architecture.md.
type plan struct {
	module  string
	rows    []row
	outside map[string][]string // a name in the last column of a row → import path patterns
	bans    []ban
}

// row is one line of the floor table. Several packages may share a row: its package is a pattern like crypto/....
type row struct {
	floor   int
	pattern string
	may     string   // the last column as written
	names   []string // the names in it
}

// ban is one line of the table of edges that are forbidden even through others.
type ban struct {
	from, to []string // patterns
	because  string
}

var code = regexp.MustCompile("`([^`]+)`")

// names returns what stands in backquotes.
func names(cell string) []string {
	var found []string
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

// readPlan reads the tables. A table is known by the first cell of its head.
func readPlan(file, module string) (*plan, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p := &plan{module: module, outside: map[string][]string{}}
	table := ""
	for n, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			table = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case table == "":
			table = cells[0]
			continue
		case strings.Trim(cells[0], "-: ") == "":
			continue // the rule below the head
		}
		if err := p.line(table, cells); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
		}
	}
	if len(p.rows) == 0 || len(p.outside) == 0 || len(p.bans) == 0 {
		return nil, fmt.Errorf("%s: the tables headed floor, outside and never are not all there", file)
	}
	return p, nil
}

func (p *plan) line(table string, cells []string) error {
	switch table {
	case "floor":
		floor, err := strconv.Atoi(cells[0])
		if err != nil || len(cells) != 4 || len(names(cells[1])) != 1 {
			return fmt.Errorf("want | floor | `package` | sentence | may import |")
		}
		p.rows = append(p.rows, row{floor, names(cells[1])[0], cells[3], names(cells[3])})
	case "outside":
		if len(cells) != 2 || len(names(cells[0])) != 1 || len(names(cells[1])) == 0 {
			return fmt.Errorf("want | `name` | `import paths` |")
		}
		p.outside[names(cells[0])[0]] = names(cells[1])
	case "never":
		if len(cells) != 3 || len(names(cells[0])) == 0 || len(names(cells[1])) == 0 || cells[2] == "" {
			return fmt.Errorf("want | `package` | `package` | because |")
		}
		p.bans = append(p.bans, ban{names(cells[0]), names(cells[1]), cells[2]})
	}
	return nil
}

// rowOf returns the row of one of our packages, named as in the table: the most exact pattern wins.
func (p *plan) rowOf(pkg string) *row {
	var best *row
	for i, r := range p.rows {
		if matches(r.pattern, pkg) && (best == nil || len(r.pattern) > len(best.pattern)) {
			best = &p.rows[i]
		}
	}
	return best
}

// local returns the name of an import path in the table, and whether the package is ours.
func (p *plan) local(importPath string) (string, bool) {
	if importPath == p.module {
		return ".", true
	}
	rest, ours := strings.CutPrefix(importPath, p.module+"/")
	return rest, ours
}

// wrong says why the table does not allow that from imports to, or returns "". from is named as in the table, to is an
// import path. A test may stand on the whole house up to its own floor, and on what is internal to the repository.
func (p *plan) wrong(from, to string, test bool) string {
	if standard(to) {
		return ""
	}
	r := p.rowOf(from)
	if r == nil {
		return "no row of the floor table is about `" + from + "`"
	}
	if strings.Contains(r.may, everything) {
		return ""
	}
	if name, ours := p.local(to); ours {
		return p.wrongInside(r, from, name, test)
	}
	for _, o := range p.rows {
		if o.pattern != r.pattern && !(test && o.floor <= r.floor) {
			continue
		}
		for _, name := range o.names {
			if anyMatches(p.outside[name], to) {
				return ""
			}
		}
	}
	return fmt.Sprintf("the row of `%s` allows %s, and nothing else from outside", r.pattern, r.may)
}

func (p *plan) wrongInside(r *row, from, to string, test bool) string {
	target := p.rowOf(to)
	if target == nil {
		return "no row of the floor table is about `" + to + "`"
	}
	if anyMatches(r.names, to) || test && (target.floor <= r.floor || strings.HasPrefix(to, "internal/")) {
		return ""
	}
	switch {
	case target.floor > r.floor:
		return fmt.Sprintf("floor %d imports floor %d, and imports go down, never up", r.floor, target.floor)
	case target.floor < r.floor && strings.Contains(r.may, below):
		return ""
	case target.floor == r.floor:
		return fmt.Sprintf("both stand on floor %d, and the row of `%s` does not name this sideways step", r.floor, r.pattern)
	}
	return fmt.Sprintf("the row of `%s` allows only %s", r.pattern, r.may)
}

// expand turns the patterns of a ban into import path patterns.
func (p *plan) expand(patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		switch {
		case p.outside[pattern] != nil:
			out = append(out, p.outside[pattern]...)
		case pattern == ".":
			out = append(out, p.module)
		case p.isOurs(pattern):
			out = append(out, path.Join(p.module, pattern))
		default:
			out = append(out, pattern) // of the standard library
		}
	}
	return out
}

func (p *plan) isOurs(pattern string) bool {
	for _, r := range p.rows {
		if r.pattern == pattern || matches(pattern, r.pattern) {
			return true
		}
	}
	return false
}

// matches is the pattern language of the go command for what is needed here: a path, or a path and all below it.
func matches(pattern, importPath string) bool {
	if base, tree := strings.CutSuffix(pattern, "/..."); tree {
		return importPath == base || strings.HasPrefix(importPath, base+"/")
	}
	return pattern == importPath
}

func anyMatches(patterns []string, importPath string) bool {
	for _, pattern := range patterns {
		if matches(pattern, importPath) {
			return true
		}
	}
	return false
}

// standard reports whether the import path is of the standard library: its first element has no dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}
