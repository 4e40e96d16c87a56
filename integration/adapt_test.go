// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddytest"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-fairway/fairway/caddymodule"
)

var update = flag.Bool("update", false, "write what the Caddyfiles of caddyfile_adapt become into their files")

const rule = "\n----------\n"

// TestAdapt takes every file of caddyfile_adapt: a Caddyfile, a rule, and what becomes of it, which is JSON or the error
// of adapting it or, where that went well, of validating it.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("caddyfile_adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(data), rule)
			if !found && !*update {
				t.Fatal("there is no rule in the file")
			}
			input, want = strings.TrimSpace(input)+"\n", strings.TrimSpace(want)
			if *update {
				got := invalid(t, input)
				if got == "" {
					got = pretty(t, input)
				}
				if err := os.WriteFile(file, []byte(input+strings.TrimPrefix(rule, "\n")+got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if strings.HasPrefix(want, "{") {
				if formatted := caddyfile.Format([]byte(input)); string(formatted) != input {
					t.Errorf("not as caddy fmt has it, which is:\n%s", formatted)
				}
				if !caddytest.CompareAdapt(t, file, input, "caddyfile", want) { // prints the differences
					t.Error("it adapts to something else")
				}
				want = "" // valid
			}
			if got := invalid(t, input); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// invalid returns what is wrong with the Caddyfile, or "".
func invalid(t *testing.T, input string) string {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error()
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&config); err != nil {
		return err.Error()
	}
	return ""
}

func pretty(t *testing.T, input string) string {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, adapted, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return indented.String()
}

// TestExample holds Caddyfile.example to what it promises: it is formatted, adapts and validates.
func TestExample(t *testing.T) {
	input, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	if formatted := caddyfile.Format(input); !bytes.Equal(formatted, input) {
		t.Errorf("not as caddy fmt has it, which is:\n%s", formatted)
	}
	_, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(input, map[string]any{"filename": "Caddyfile.example"})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Errorf("warning: %s", w)
	}
	if wrong := invalid(t, string(input)); wrong != "" {
		t.Errorf("it is not valid: %s", wrong)
	}
}

func TestMain(m *testing.M) {
	// Nothing of a test may stand in the folders of whoever runs it.
	data, err := os.MkdirTemp("", "fairway")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_DATA_HOME", data)
	os.Setenv("XDG_CONFIG_HOME", data)
	code := m.Run()
	os.RemoveAll(data)
	os.Exit(code)
}
