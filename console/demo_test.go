// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// demoDir makes the demo write into a folder of the test's own, and returns it.
func demoDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_DATA_HOME", filepath.Join(dir, "data")) // the demo sets it
	return dir
}

// TestDemo runs all of it, with a large attachment that is not so large.
func TestDemo(t *testing.T) {
	dir := demoDir(t)
	r := fairway(t.Context(), example(t), "demo", "--size", "12MiB")
	if r.err != nil {
		t.Errorf("%v\n%s", r.err, r.stderr)
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	m := regexp.MustCompile(`^demo: (\d+) exchanges, (\d+) as expected, 0 wrong$`).FindStringSubmatch(lines[len(lines)-1])
	if m == nil || m[1] != m[2] {
		t.Errorf("the last line is %q", lines[len(lines)-1])
	}
	for _, want := range []string{
		`(?m)^SwA, 3 attachments +4 .*direct +ss2 \(request\), ss1 \(response\) +as expected$`,
		`(?m)^SwA, 40 attachments +41 .*chain +ss2 \(request\), ss1 \(response\) +as expected$`,
		`(?m)^SwA, one large attachment +2 +12,58\d,\d\d\d .*direct`,
		`(?m)^  \S+/containers/demo-\S+-request-\w+\.asice: request, signed by member DEV/GOV/1111, time-stamped 20\S+ \S+ UTC$`,
		`(?m)^  \S+/containers/demo-\S+-response-\w+\.asice: response, signed by member DEV/GOV/0000, time-stamped 20\S+ \S+ UTC$`,
		`(?m)^The folder is removed when the demo ends; --keep leaves it .*:\n  \S+ xroad verify \S+/containers --trust \S+/trust.xml$`,
		`(?m)^from a peer, one octet changed .* nobody +as expected: server\.serverproxy\.signature_verification\.invalid_signature_value$`,
	} {
		if !regexp.MustCompile(want).MatchString(r.stdout) {
			t.Errorf("no line is like %s", want)
		}
	}
	if n := strings.Count(r.stdout, ".asice: "); n != 17 {
		t.Errorf("it exports %d containers; of 8 exchanges both messages are signed, and of one the request", n)
	}
	if t.Failed() {
		t.Log(r.stdout)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("the demo left %q behind", left)
	}
}

// TestDemoKeep pastes the curl lines that --keep prints, and ends it as Ctrl-C does.
func TestDemoKeep(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	dir := demoDir(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	text := example(t)
	cmd := newXroad(text)
	out, w := io.Pipe()
	var stderr bytes.Buffer
	cmd.SetOut(w)
	cmd.SetErr(&stderr)
	cmd.SetArgs([]string{"xroad", "demo", "--size", "1MiB", "--keep"})
	done := make(chan error)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.Close()
		done <- err
	}()

	printed := readUntil(t, out, "demo: ")
	calls := regexp.MustCompile(`(?m)^ {4}(curl (?:.*\\\n)*.*)$`).FindAllStringSubmatch(printed, -1)
	if len(calls) != 2 {
		t.Errorf("it prints %d curl lines, want 2:\n%s", len(calls), printed)
	}
	for _, call := range calls {
		answer, err := exec.Command("bash", "-c", call[1]).Output()
		if file := regexp.MustCompile(` -o (\S+)`).FindStringSubmatch(call[1]); err == nil && file != nil {
			answer, err = os.ReadFile(file[1]) // an attachment is not for the terminal
		}
		if err != nil || !bytes.Contains(answer, []byte("echoResponse")) || !bytes.Contains(answer, []byte("requestHash")) {
			t.Errorf("%s\n%v, %s", call[1], err, answer)
		}
	}

	// The line that verifies the containers, by the command itself.
	_, line, _ := strings.Cut(printed, " xroad verify ")
	line, _, _ = strings.Cut(line, "\n")
	if v := fairway(t.Context(), "", append([]string{"verify"}, strings.Fields(line)...)...); v.err != nil || strings.Count(v.stdout, ": PROVED\n") != 17 {
		t.Errorf("verify %s: %v, %s\n%s", line, v.err, v.stderr, v.stdout)
	}
	// And the one that verifies the evidence of which they are, while the server runs.
	_, line, _ = strings.Cut(printed, " xroad evidence verify ")
	line, _, _ = strings.Cut(line, "\n")
	if v := fairway(t.Context(), "", append([]string{"evidence", "verify"}, strings.Fields(line)...)...); v.err != nil ||
		!strings.Contains(v.stdout, "evidence: WHOLE\n") || !strings.Contains(v.stdout, "each by an authority that counts") {
		t.Errorf("evidence verify %s: %v, %s\n%s", line, v.err, v.stderr, v.stdout)
	}

	interrupt()
	go io.Copy(io.Discard, out)
	if err := <-done; err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, &stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("the demo left %q behind", left)
	}
}

// readUntil reads to the end of a line that begins so.
func readUntil(t *testing.T, r io.Reader, begin string) string {
	t.Helper()
	var text strings.Builder
	for b := make([]byte, 4<<10); ; {
		n, err := r.Read(b)
		text.Write(b[:n])
		if strings.Contains(text.String(), "\n"+begin) && strings.HasSuffix(text.String(), "\n") {
			return text.String()
		}
		if err != nil {
			t.Fatalf("it ended: %v\n%s", err, text.String())
		}
	}
}

// TestDemoInterrupted presses Ctrl-C while the large attachment is on its way.
func TestDemoInterrupted(t *testing.T) {
	dir := demoDir(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		spooled := filepath.Join(dir, "*", "caddy", "xroad", "ss2", "spool", "*", "*")
		for ctx.Err() == nil {
			files, _ := filepath.Glob(spooled)
			for _, file := range files {
				if info, err := os.Stat(file); err == nil && info.Size() > 8<<20 {
					interrupt()
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	r := fairway(ctx, example(t), "demo", "--size", "1TiB")
	if r.err == nil || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("error %v, stderr %q", r.err, r.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("the demo left %q behind", left)
	}
}
