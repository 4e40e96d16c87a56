// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestGlobalConfTrust(t *testing.T) {
	const stored = "../../shared/vectors/xroad/globalconf/good2_v3"
	if _, err := os.Stat(stored); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	g := new(GlobalConfTrust)
	if err := g.Validate(); err == nil || !strings.Contains(err.Error(), "trust globalconf DIR") {
		t.Errorf("without a folder: %v", err)
	}
	if err := g.UnmarshalCaddyfile(caddyfile.NewTestDispenser("globalconf " + stored)); err != nil {
		t.Fatal(err)
	}
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	store, err := g.OpenTrust(t.Context(), Host{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if members, err := store.Members(""); store.Instance() != "DEV" || err != nil || len(members) == 0 {
		t.Errorf("instance %s has %d members, %v", store.Instance(), len(members), err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	g.Dir = filepath.Join(t.TempDir(), "absent")
	if _, err := g.OpenTrust(t.Context(), Host{Clock: time.Now}); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
