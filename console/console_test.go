// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// example is the Caddyfile that the root package hands over.
func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newXroad is the command tree as the binary has it.
func newXroad(example string) *cobra.Command {
	root := &cobra.Command{Use: binary()}
	xroad := &cobra.Command{Use: "xroad", Short: short}
	build(xroad, example)
	root.AddCommand(xroad)
	return root
}

// result is what a command did.
type result struct {
	stdout, stderr string
	err            error
}

// fairway runs a command as a user does.
func fairway(ctx context.Context, example string, args ...string) result {
	var stdout, stderr bytes.Buffer
	cmd := newXroad(example)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"xroad"}, args...))
	err := cmd.ExecuteContext(ctx)
	return result{stdout.String(), stderr.String(), err}
}

// TestHelp looks at what every command says of itself.
func TestHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if name := cmd.Name(); name == "help" || name == "completion" {
			return
		}
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
				t.Errorf("Short is %q: want a sentence without a full stop", cmd.Short)
			}
			if cmd.Example == "" {
				t.Error("there is no example")
			}
			for line := range strings.Lines(cmd.Example) {
				checkExample(t, cmd, strings.TrimSpace(line))
			}
			var out bytes.Buffer
			cmd.SetOut(&out)
			if err := cmd.Help(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), strings.TrimSpace(cmd.Example)) {
				t.Error("--help does not show the example")
			}
		})
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	for _, c := range newXroad("").Commands() {
		walk(c)
	}
}

// checkExample fails if the line is not a call of the command or of one below it, with flags that exist.
func checkExample(t *testing.T, cmd *cobra.Command, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != binary() {
		t.Errorf("example %q does not begin with %q", line, binary())
		return
	}
	found, rest, err := newXroad("").Find(words[1:])
	if err != nil {
		t.Errorf("example %q: %v", line, err)
		return
	}
	if !strings.HasPrefix(found.CommandPath(), cmd.CommandPath()) {
		t.Errorf("example %q is one of %s", line, found.CommandPath())
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("example %q: %v", line, err)
	}
}

// TestUsage calls commands wrongly.
func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown command":         {"dmeo"},
		"unknown flag":            {"demo", "--sizes", "1GiB"},
		"not a size":              {"demo", "--size", "huge"},
		"demo with a word":        {"demo", "now"},
		"two folders":             {"init", "a", "b"},
		"unknown role":            {"init", t.TempDir(), "--role", "judge"},
		"send without a file":     {"send", "http://127.0.0.1:8080"},
		"send to no address":      {"send", "127.0.0.1:8080", "request.xml"},
		"unknown evidence":        {"evidence", "burn"},
		"list with a word":        {"evidence", "list", "all"},
		"show nothing":            {"evidence", "show"},
		"show what is no number":  {"evidence", "show", "first"},
		"show two":                {"evidence", "show", "1", "2"},
		"no identifier":           {"evidence", "list", "--member", "1111", "--dir", "."},
		"no service":              {"evidence", "show", "--service", "echo", "--dir", "."},
		"export nothing":          {"evidence", "export", "--out", "x"},
		"export to nowhere":       {"evidence", "export", "1"},
		"evidence verify of word": {"evidence", "verify", "message.asice"},
		"evidence of two trusts":  {"evidence", "verify", "--trust", "x.xml", "--configuration", "x"},
		"verify nothing":          {"verify", "--trust", "x.xml"},
		"verify without trust":    {"verify", "console_test.go"},
		"verify with two trusts":  {"verify", "console_test.go", "--trust", "x.xml", "--configuration", "x"},
		"verify two messages":     {"verify", "console_test.go", "console.go", "--trust", "x.xml", "--message", "x"},
		"no such time":            {"verify", "console_test.go", "--trust", "x.xml", "--at", "yesterday"},
		"no number of attachment": {"verify", "console_test.go", "--trust", "x.xml", "--attachment", "scan.pdf"},
		"an attachment twice":     {"verify", "console_test.go", "--trust", "x.xml", "--attachment", "1=a", "--attachment", "1=b"},
		"flag of another command": {"evidence", "list", "--keep"},
		"unknown transfers":       {"transfers", "stop"},
		"transfers with a word":   {"transfers", "list", "all"},
		"cancel nothing":          {"transfers", "cancel"},
		"two admin endpoints":     {"transfers", "list", "--address", "localhost:2019", "--config", "Caddyfile"},
	} {
		t.Run(name, func(t *testing.T) {
			r := fairway(t.Context(), "", args...)
			if r.err == nil || r.err.Error() != "exiting with status 2" {
				t.Errorf("error %v: want exit code 2", r.err)
			}
			if !strings.Contains(r.stderr, "--help") || r.stdout != "" {
				t.Errorf("stderr %q, stdout %q: want a hint at --help, and nothing on stdout", r.stderr, r.stdout)
			}
		})
	}
}

// TestBareCommands shows that a command that only groups others prints its help.
func TestBareCommands(t *testing.T) {
	for _, args := range [][]string{{}, {"evidence"}, {"transfers"}} {
		if r := fairway(t.Context(), "", args...); r.err != nil || !strings.Contains(r.stdout, "Examples:") {
			t.Errorf("%q: error %v, stdout %q", args, r.err, r.stdout)
		}
	}
}
