// SPDX-License-Identifier: Apache-2.0

package floorplan

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const licence = "// SPDX-License-Identifier: Apache-2.0"

// TestLicenceLines fails on a Go file that does not begin with the SPDX line.
func TestLicenceLines(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		seen++
		line, err := firstLine(file)
		if err == nil && line != licence {
			t.Errorf("%s: the first line is %q, want %q", file, line, licence)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatal("no Go file was found")
	}
}

// skipped are folders that hold nothing of ours: what the go command skips too, and installed npm modules.
func skipped(name string) bool {
	return name != ".." && strings.HasPrefix(name, ".") || name == "node_modules"
}

func firstLine(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Scan()
	return s.Text(), s.Err()
}
