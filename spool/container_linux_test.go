// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// inContainer is set in the process that writes in a control group.
const inContainer = "SPOOL_TEST_CONTAINER"

// container is the memory of a control group, of version 1 or 2.
type container struct{ dir string }

// newContainer makes one of so many octets.
func newContainer(t *testing.T, limit int64) container {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	var places []string
	for line := range strings.Lines(string(own)) {
		switch fields := strings.SplitN(strings.TrimSpace(line), ":", 3); {
		case len(fields) == 3 && fields[1] == "memory":
			places = append(places, filepath.Join("/sys/fs/cgroup/memory", fields[2]))
		case len(fields) == 3 && fields[1] == "":
			places = append(places, "/sys/fs/cgroup") // below our own there could be none with processes beside it
		}
	}
	for _, place := range places {
		c := container{filepath.Join(place, fmt.Sprintf("spool-test-%d", os.Getpid()))}
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(c.dir) })
		for _, name := range []string{"memory.limit_in_bytes", "memory.max"} {
			if os.WriteFile(filepath.Join(c.dir, name), []byte(strconv.FormatInt(limit, 10)), 0) == nil {
				return c
			}
		}
	}
	t.Skip("cannot make a control group that bounds memory")
	return container{}
}

// stat adds up some of what its memory.stat says.
func (c container) stat(t *testing.T, names ...string) (sum int64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "memory.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for _, name := range names {
			var n int64
			if k, _ := fmt.Sscanf(line, name+" %d", &n); k == 1 {
				sum += n
			}
		}
	}
	return sum
}

// TestContainer_FR55: in a container of 64 MiB a message of 192 MiB is taken: nobody is killed, its memory is no more than that of a
// small one, and what waits for the disk is a part of what there is (FR-55).
func TestContainer_FR55(t *testing.T) {
	const size, limit = 192 << 20, 64 << 20
	if dir := os.Getenv(inContainer); dir != "" {
		bufio.NewReader(os.Stdin).ReadString('\n')
		s := open(t, dir, Options{Free: 1})
		e, piece := create(t, s), bytes.Repeat([]byte("some octets "), 10_000)
		for n := 0; n < size; n += len(piece) {
			if _, err := e.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Done(); err != nil {
			t.Fatal(err)
		}
		e.Remove()
		unused(t, s)
		return
	}
	dir := t.TempDir()
	if OnMemory(dir) != "" {
		t.Skip("the temporary folder lies in memory")
	}
	group := newContainer(t, limit)
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), inContainer+"="+dir, fmt.Sprintf("GOMEMLIMIT=%d", limit*9/10)) // as Caddy does
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Wait() }()
	if err := os.WriteFile(filepath.Join(group.dir, "cgroup.procs"), []byte(strconv.Itoa(c.Process.Pid)), 0); err != nil {
		c.Process.Kill()
		<-ended
		t.Skipf("cannot put a process into a control group: %v", err)
	}
	in.Close()
	var waiting, anonymous int64
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v\n%s", err, said.String())
			}
			t.Logf("%d MiB waited for the disk at most, %d MiB were of no file", waiting>>20, anonymous>>20)
			if waiting == 0 || waiting > limit/3 {
				t.Errorf("%d octets waited for the disk", waiting)
			}
			if anonymous > limit/2 {
				t.Errorf("%d octets were of no file", anonymous)
			}
			return
		case <-time.After(2 * time.Millisecond):
			waiting = max(waiting, group.stat(t, "dirty", "writeback", "file_dirty", "file_writeback"))
			anonymous = max(anonymous, group.stat(t, "rss", "anon"))
		}
	}
}
