// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/exchange"
)

func TestDiskSpool(t *testing.T) {
	for _, test := range []struct{ name, dir string }{{"own folder", t.TempDir()}, {"default folder", ""}} {
		t.Run(test.name, func(t *testing.T) {
			store, err := (&DiskSpool{Dir: test.dir, Memory: 1, Quota: 10}).OpenSpool(context.Background(), Host{Name: "ss1"})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			entry, err := store.Create(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := entry.Write(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			dir := test.dir
			if dir == "" {
				dir = filepath.Join(caddy.AppDataDir(), "xroad", "ss1", "spool")
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(found) == 0 {
				t.Errorf("there is nothing in %s", dir)
			}
			if _, err := entry.Write([]byte{0}); err == nil {
				t.Error("the quota does not hold")
			}
		})
	}
}

func TestMemorySpool(t *testing.T) {
	store, err := (&MemorySpool{Limit: 10}).OpenSpool(context.Background(), Host{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	entry, err := store.Create(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write([]byte{0}); err == nil {
		t.Error("the limit does not hold")
	}
}

func TestKeep(t *testing.T) {
	for _, test := range []struct {
		name string
		disk DiskEvidence
		want exchange.Keep
	}{
		{"default", DiskEvidence{}, exchange.Keep{Message: true, Attachments: true, UpTo: 10 << 20}},
		{"all", DiskEvidence{Keep: "all"}, exchange.Keep{Message: true, Attachments: true, UpTo: math.MaxInt64}},
		{"all up to", DiskEvidence{Keep: "all", UpTo: 5}, exchange.Keep{Message: true, Attachments: true, UpTo: 5}},
		{"messages", DiskEvidence{Keep: "messages"}, exchange.Keep{Message: true, UpTo: math.MaxInt64}},
		{"messages up to", DiskEvidence{Keep: "messages", UpTo: 5}, exchange.Keep{Message: true, UpTo: 5}},
		{"digests", DiskEvidence{Keep: "digests"}, exchange.Keep{UpTo: math.MaxInt64}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.disk.keep(); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestEvidenceFolder(t *testing.T) {
	for _, test := range []struct{ name, dir, server, want string }{
		{"default of a name", "", "ss1", filepath.Join(caddy.AppDataDir(), "xroad", "ss1", "evidence")},
		{"default of no name", "", "", filepath.Join(caddy.AppDataDir(), "xroad", "default", "evidence")},
		{"said", "/var/lib//fairway/", "ss1", filepath.Clean("/var/lib/fairway")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := (&DiskEvidence{Dir: test.dir}).folder(test.server); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
