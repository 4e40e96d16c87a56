// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/spool"
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

// TestDiskSpoolInMemory_FR55: a folder in memory is taken, with a warning at the start that names it and its file system (FR-55).
func TestDiskSpoolInMemory_FR55(t *testing.T) {
	const memory = "/dev/shm"
	if spool.OnMemory(memory) == "" {
		t.Skipf("%s does not lie in memory here", memory)
	}
	inMemory, err := os.MkdirTemp(memory, "")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(inMemory)
	onDisk := t.TempDir()
	if spool.OnMemory(onDisk) != "" {
		t.Skip("the temporary folder lies in memory")
	}
	log := logFile(t)
	for _, dir := range []string{onDisk, inMemory} {
		store, err := (&DiskSpool{Dir: dir}).OpenSpool(t.Context(), Host{Name: "ss1"})
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
	}
	lines, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const warning = "lies in memory"
	if bytes.Count(lines, []byte(warning)) != 1 || !bytes.Contains(lines, []byte(inMemory)) || !bytes.Contains(lines, []byte(`"file_system":"`+spool.OnMemory(memory)+`"`)) {
		t.Errorf("want one warning of %s in:\n%s", inMemory, lines)
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

// TestMemorySpoolInContainer_FR88: where nothing is said it holds a quarter of the memory, and no more than 256 MiB (FR-88).
func TestMemorySpoolInContainer_FR88(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, tt := range []struct{ memory, want int64 }{{64 << 20, 16 << 20}, {8 << 30, 256 << 20}, {math.MaxInt64, 256 << 20}} {
		debug.SetMemoryLimit(tt.memory)
		store, err := new(MemorySpool).OpenSpool(t.Context(), Host{})
		if err != nil {
			t.Fatal(err)
		}
		if store.Room(tt.want) != nil || store.Room(tt.want+1) == nil {
			t.Errorf("with %d octets of memory it does not hold %d", tt.memory, tt.want)
		}
		store.Close()
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
