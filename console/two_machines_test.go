// SPDX-License-Identifier: Apache-2.0

package console

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

// TestInstanceOfDocs makes the instance of docs/two-machines.md and looks whether it is one.
func TestInstanceOfDocs(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	script := blocks(t, "../docs/two-machines.md", "sh")[0]
	dir := t.TempDir()
	cmd := exec.Command("bash", "-euc", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	store, err := trust.OpenStatic(filepath.Join(dir, "instance/ss1/shared-params.xml"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	endpoints, err := store.Endpoints(demoProvider, nil)
	if err != nil || len(endpoints) != 1 || endpoints[0].Server != demoReceiver || endpoints[0].Address != "192.0.2.2" {
		t.Errorf("the provider is at %v, %v; want %s", endpoints, err, demoReceiver)
	}
	for server, member := range map[ident.Server]ident.Client{
		demoSender:   demoClient.MemberOf(),
		demoReceiver: demoProvider.MemberOf(),
	} {
		keys, err := softkey.LoadDir(filepath.Join(dir, "instance", server.Code, "keys"))
		if err != nil {
			t.Fatal(err)
		}
		var purposes []string
		for _, k := range keys {
			leaf := k.Chain[0]
			if softkey.CanSign(leaf) {
				purposes = append(purposes, "sign")
				if got, err := store.SignMember(leaf); err != nil || got != member {
					t.Errorf("%s belongs to %s, %v; want %s", k.File, got, err, member)
				}
			}
			if softkey.CanAuthenticate(leaf) {
				purposes = append(purposes, "auth")
				if got, err := store.ServerOf(leaf); err != nil || got != server {
					t.Errorf("%s belongs to %s, %v; want %s", k.File, got, err, server)
				}
			}
		}
		if got := strings.Join(purposes, " "); got != "auth sign" {
			t.Errorf("the keys of %s are for %q", server, got)
		}
	}
}
