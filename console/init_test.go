// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-fairway/fairway/caddymodule"
)

// TestInit writes a Caddyfile for each role; each is formatted, adapts without a warning, and validates.
func TestInit(t *testing.T) {
	for _, role := range []string{"both", "sender", "receiver"} {
		t.Run(role, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			r := fairway(t.Context(), example(t), "init", dir, "--role", role)
			if r.err != nil {
				t.Fatalf("%v\n%s", r.err, r.stderr)
			}
			file := filepath.Join(dir, "Caddyfile")
			for _, want := range []string{"Wrote " + file, "Next:", "cd " + dir + " && " + binary()} {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("stdout does not say %q:\n%s", want, r.stdout)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			validate(t, text)
		})
	}
}

// validate fails if a Caddyfile is not one that "caddy validate" and "caddy fmt" are content with.
func validate(t *testing.T, text []byte) {
	t.Helper()
	if !bytes.Equal(caddyfile.Format(text), text) {
		t.Errorf("not formatted; want\n%s", caddyfile.Format(text))
	}
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		t.Error(w)
	}
	var config *caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	config.Admin = &caddy.AdminConfig{Disabled: true}
	if err := caddy.Validate(config); err != nil {
		t.Fatal(err)
	}
}

// TestInitOverwritesNothing runs it twice.
func TestInitOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := fairway(t.Context(), example(t), "init", dir)
	if r.err == nil || !strings.Contains(r.stderr, "is there already") {
		t.Errorf("error %v, stderr %q: want a refusal", r.err, r.stderr)
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file is now %q", text)
	}
}

// TestInitUnknownRole must not leave a folder behind.
func TestInitUnknownRole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if r := fairway(t.Context(), "", "init", dir, "--role", "judge"); r.err == nil {
		t.Error("want an error")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made all the same")
	}
}
