// SPDX-License-Identifier: Apache-2.0

package floorplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// listed is what is needed of one package of go list.
type listed struct {
	ImportPath   string
	Doc          string
	Module       struct{ Path string }
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

// list runs go list over the whole repository.
func list(t *testing.T) []listed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,Module,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir, cmd.Stderr = root, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

// TestImports fails on every edge that the floor table does not allow.
func TestImports(t *testing.T) {
	packages := list(t)
	p, err := readPlan(architecture, packages[0].Module.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range packages {
		from, _ := p.local(pkg.ImportPath)
		check := func(imports []string, test bool, kind string) {
			for _, to := range imports {
				if why := p.wrong(from, to, test); why != "" {
					t.Errorf("%s %s %s: %s", from, kind, to, why)
				}
			}
		}
		check(pkg.Imports, false, "imports")
		check(pkg.TestImports, true, "imports in a test")
		check(pkg.XTestImports, true, "imports in a test")
		for _, b := range p.bans {
			if !anyMatches(p.expand(b.from), pkg.ImportPath) {
				continue
			}
			for _, to := range pkg.Deps {
				// The standard library's own imports of its packages are not ours to judge.
				direct := slices.Contains(pkg.Imports, to)
				if anyMatches(p.expand(b.to), to) && (direct || !standard(to)) {
					t.Errorf("%s reaches %s: %s", from, to, b.because)
				}
			}
		}
	}
}

// TestTablesAreAboutSomething fails on rows, names and bans that point to nothing: they would hold nothing up.
func TestTablesAreAboutSomething(t *testing.T) {
	packages := list(t)
	p, err := readPlan(architecture, packages[0].Module.Path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, pkg := range packages {
		all = append(all, pkg.ImportPath)
		all = append(all, pkg.Deps...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	exists := func(pattern string) bool {
		return slices.ContainsFunc(all, func(importPath string) bool { return matches(pattern, importPath) })
	}
	require := func(table string, patterns []string) {
		for _, pattern := range p.expand(patterns) {
			if !exists(pattern) {
				t.Errorf("the %s table names %s, and there is no such package", table, pattern)
			}
		}
	}
	used := map[string]bool{}
	for _, r := range p.rows {
		require("floor", append([]string{r.pattern}, r.names...))
		for _, name := range r.names {
			used[name] = true
		}
	}
	for _, b := range p.bans {
		require("never", b.from)
		require("never", b.to)
		for _, name := range b.to {
			used[name] = true
		}
	}
	for name, patterns := range p.outside {
		require("outside", patterns)
		if !used[name] {
			t.Errorf("the outside table explains %s, which no row names", name)
		}
	}
}

// TestPermissionsAreUsed fails on a name in the floor table that nobody in the row imports: a door that stands open.
func TestPermissionsAreUsed(t *testing.T) {
	packages := list(t)
	p, err := readPlan(architecture, packages[0].Module.Path)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{} // of a row's packages, by its pattern
	for _, pkg := range packages {
		from, _ := p.local(pkg.ImportPath)
		if r := p.rowOf(from); r != nil {
			imports[r.pattern] = slices.Concat(imports[r.pattern], pkg.Imports, pkg.TestImports, pkg.XTestImports)
		}
	}
	for _, r := range p.rows {
		for _, name := range r.names {
			patterns := p.expand([]string{name})
			if !slices.ContainsFunc(imports[r.pattern], func(to string) bool { return anyMatches(patterns, to) }) {
				t.Errorf("the row of %s allows %s, which it does not import", r.pattern, name)
			}
		}
	}
}

// TestPackageComments fails on a package without a package comment.
func TestPackageComments(t *testing.T) {
	for _, pkg := range list(t) {
		if pkg.Doc == "" {
			t.Errorf("%s has no package comment", pkg.ImportPath)
		}
	}
}

// TestWrong shows the rules on a small house.
func TestWrong(t *testing.T) {
	p := &plan{
		module: "example.org/house",
		rows: []row{
			{2, "roof", "floors below, `zap`", []string{"zap"}},
			{1, "wall", "`stone`", []string{"stone"}},
			{1, "window", "`stone`, `wall`", []string{"stone", "wall"}},
			{0, "stone", "", nil},
			{0, "sand/...", "", nil},
			{3, "tour", "everything", nil},
			{3, "internal/scaffold", "floors below", nil},
		},
		outside: map[string][]string{"zap": {"go.uber.org/zap/..."}},
	}
	for _, c := range []struct {
		name, from, to string
		test           bool
		want           string
	}{
		{"standard library", "stone", "net/http", false, ""},
		{"down, by name", "wall", "example.org/house/stone", false, ""},
		{"down, not named", "wall", "example.org/house/sand/fine", false, "allows only `stone`"},
		{"down, every floor", "roof", "example.org/house/sand/fine", false, ""},
		{"up", "stone", "example.org/house/roof", false, "never up"},
		{"sideways", "wall", "example.org/house/window", false, "sideways"},
		{"sideways, by name", "window", "example.org/house/wall", false, ""},
		{"outside, by name", "roof", "go.uber.org/zap/zapcore", false, ""},
		{"outside, not named", "wall", "go.uber.org/zap", false, "nothing else from outside"},
		{"unknown package", "cellar", "example.org/house/stone", false, "no row"},
		{"to an unknown package", "roof", "example.org/house/cellar", false, "no row"},
		{"everything", "tour", "example.com/any", false, ""},
		{"a test, sideways", "wall", "example.org/house/window", true, ""},
		{"a test, up", "wall", "example.org/house/roof", true, "never up"},
		{"a test, of itself", "wall", "example.org/house/wall", true, ""},
		{"a test, on what is internal", "wall", "example.org/house/internal/scaffold", true, ""},
		{"no test, on what is internal", "wall", "example.org/house/internal/scaffold", false, "never up"},
		{"a test, outside of a higher floor", "wall", "go.uber.org/zap", true, "nothing else from outside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := p.wrong(c.from, c.to, c.test)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s imports %s: %q, want %q", c.from, c.to, got, c.want)
			}
		})
	}
}
