// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// resident returns what the system says that a process has in memory, in KiB: all of it, and what is of no file.
func resident(t *testing.T, pid int) (all, anonymous int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for name, kib := range map[string]*int64{"VmRSS": &all, "RssAnon": &anonymous} {
		_, value, _ := strings.Cut(string(status), "\n"+name+":")
		if _, err := fmt.Sscanf(value, "%d kB", kib); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return all, anonymous
}

// TestIdleFootprint_FR88: the command with security servers that send and receive takes little when it has nothing to do
// (FR-88). The pages of its own program, some 50 MiB, are the system's to take back; how many of them it maps differs by several
// MiB from one build to the next, so what is 58 to 65 MiB with them is held to what it is without.
func TestIdleFootprint_FR88(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "fairway")
	// As it is packed: the table of symbols would be read at the start and stay a while.
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "../cmd/fairway").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	e := freePorts(t, readExample(t))
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(e.config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, "run", "--config", config, "--adapter", "caddyfile")
	c.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait()
	}()
	serves := func() bool {
		response, err := http.Post(e.send, "text/xml", strings.NewReader(request("idle")))
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return strings.Contains(parts(t, response)[0], "echoResponse")
	}
	for deadline := time.Now().Add(time.Minute); !serves(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("it does not serve:\n%s", said)
		}
	}
	all, anonymous := resident(t, c.Process.Pid)
	t.Logf("%d KiB, of which %d are of no file", all, anonymous)
	if all >= 80<<10 || anonymous >= 24<<10 {
		t.Errorf("it takes %d KiB, and %d that are of no file", all, anonymous)
	}
}
