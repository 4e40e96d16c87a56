// SPDX-License-Identifier: Apache-2.0

package floorplan

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDependencies fails when docs/dependencies.md and the direct requirements of go.mod are not in step.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var required []string
	for _, r := range mod.Require {
		if !r.Indirect {
			required = append(required, r.Path)
		}
	}

	page, err := os.ReadFile(root + "/docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var defended []string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && len(names(cells[1])) == 1 {
			defended = append(defended, names(cells[1])[0])
			if strings.TrimSpace(cells[2]) == "" {
				t.Errorf("docs/dependencies.md does not say why %s is needed", names(cells[1])[0])
			}
		}
	}

	for _, path := range required {
		if !slices.Contains(defended, path) {
			t.Errorf("go.mod requires %s directly and docs/dependencies.md does not say why", path)
		}
	}
	for _, path := range defended {
		if !slices.Contains(required, path) {
			t.Errorf("docs/dependencies.md defends %s, which go.mod does not require directly", path)
		}
	}
}
