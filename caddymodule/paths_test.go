// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRelativePaths: an error names the whole path, for what is missing is most often looked for in another folder than
// meant.
func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("plain", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	host := Host{Name: "ss1", Clock: time.Now, Trust: &fakeStore{}}
	for _, test := range []struct {
		name, path string
		open       func() error
	}{
		{"keys", "keys", func() error {
			_, err := (&FileSigner{Dir: "keys"}).OpenKeys(t.Context(), host)
			return err
		}},
		{"state of the keys", "keys", func() error { _, err := (&FileSigner{Dir: "keys"}).Version(); return err }},
		{"shared parameters", "shared-params.xml", func() error {
			_, err := (&StaticTrust{File: "shared-params.xml"}).OpenTrust(t.Context(), host)
			return err
		}},
		{"state of the shared parameters", "shared-params.xml", func() error {
			_, err := (&StaticTrust{File: "shared-params.xml"}).Version()
			return err
		}},
		{"global configuration", "globalconf", func() error {
			_, err := (&GlobalConfTrust{Dir: "globalconf"}).OpenTrust(t.Context(), host)
			return err
		}},
		{"spool", "plain", func() error {
			_, err := (&DiskSpool{Dir: "plain"}).OpenSpool(t.Context(), host)
			return err
		}},
		{"evidence", "plain", func() error {
			_, _, err := (&DiskEvidence{Dir: "plain"}).OpenEvidence(t.Context(), host)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.open()
			if want := filepath.Join(dir, test.path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v: want one that names %s", err, want)
			}
		})
	}
}

// TestEvidenceErrorSaysItOnce opens a security server whose evidence cannot be opened.
func TestEvidenceErrorSaysItOnce(t *testing.T) {
	fake.reset(t)
	file := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := provisionApp(t, "evidence disk "+file).Start()
	if err == nil || strings.Count(err.Error(), "evidence: ") != 1 || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v", err)
	}
}
