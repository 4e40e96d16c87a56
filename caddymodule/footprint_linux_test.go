// SPDX-License-Identifier: Apache-2.0

//go:build !race

// The race detector takes memory of its own.

package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
)

// anonymous returns the octets of memory of a process that are of no file, in KiB: what it cannot give back.
func anonymous(t *testing.T, c *exec.Cmd) (kib int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(status), "\nRssAnon:")
	if _, err := fmt.Sscanf(value, "%d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// TestHeldMemory_FR88: an exchange never takes more memory of a security server than the default number of them is made for,
// in which each has its share in both directions (FR-88).
func TestHeldMemory_FR88(t *testing.T) {
	const memory = 1 << 30
	before := debug.SetMemoryLimit(memory)
	share := memory / int64(exchange.Admission{}.WithDefaults().All) / 2 >> 10
	debug.SetMemoryLimit(before)
	t.Setenv("GOGC", "10") // of what processes have, little is garbage

	const many = 24
	body := large("held", 24<<20)
	for _, tt := range []struct {
		phase string
		sent  int
		holds string // who has a file of each exchange then
		stops string // who stands still while the rest is sent
	}{
		{"a request half way", len(body) / 8, "ss2", ""},
		{"a request that the receiver does not take", len(body) / 8, "ss2", "ss2"},
		{"a service at work", len(body), "ss2", ""},
		{"an answer half way", len(body), "ss1", ""},
		{"an answer that the sender does not take", len(body), "ss1", "ss1"},
	} {
		t.Run(tt.phase, func(t *testing.T) {
			var holds atomic.Bool
			release := make(chan struct{})
			rest := make(chan struct{})
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "multipart/related; type=\"text/xml\"; start=\"<root>\"; boundary=b")
				if !holds.Load() {
					w.Write(body)
					return
				}
				if strings.HasPrefix(tt.phase, "an answer") {
					w.Write(body[:len(body)/8])
					http.NewResponseController(w).Flush()
				}
				if tt.stops == "ss1" {
					<-rest
					w.Write(body[len(body)/8 : len(body)-1])
				}
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}))
			defer service.Close()
			defer close(release)
			p := newDiskPair(t, service.URL)
			p.config = strings.Replace(p.config, "strict_sni_host insecure_off", "strict_sni_host insecure_off\nlistener_wrappers {\nxroad_gather\ntls\nxroad_framing\n}", 1)
			running := map[string]*exec.Cmd{"ss2": p.start("ss2"), "ss1": p.start("ss1")}
			if got := p.hold(body, len(body)).answer(); !got.good() {
				t.Fatalf("%+v", got)
			}
			holds.Store(true)
			idle := map[string]int64{}
			for name, c := range running {
				idle[name] = anonymous(t, c)
			}
			var all []*held
			for range many {
				all = append(all, p.hold(body, tt.sent))
			}
			eventually(t, "all have begun", func() bool { return len(p.spooled(tt.holds)) == many })
			if c := running[tt.stops]; c != nil {
				c.Process.Signal(syscall.SIGSTOP)
				defer c.Process.Signal(syscall.SIGCONT)
				for _, h := range all {
					go h.conn.Write(h.rest)
				}
			}
			close(rest)
			for name, c := range running {
				if name == tt.stops {
					continue
				}
				// It has had time for all of it when the system counts no more than before.
				var now, last int64 = anonymous(t, c), 0
				eventually(t, name+" needs no more", func() bool {
					time.Sleep(500 * time.Millisecond)
					last, now = now, anonymous(t, c)
					return now <= last
				})
				each := (now - idle[name]) / many
				t.Logf("%s: %d KiB when idle, %d with %d exchanges, %d each", name, idle[name], now, many, each)
				if each > share {
					t.Errorf("%s takes %d KiB for each exchange, and has %d", name, each, share)
				}
				if each < 16 {
					t.Errorf("%s takes %d KiB for each exchange: they do not stand where they should", name, each)
				}
			}
		})
	}
}
