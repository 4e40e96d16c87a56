// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package integration

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// withFiles is the example with a service at that address that takes attachments as files from dir.
func withFiles(t *testing.T, address, dir string) example {
	t.Helper()
	e := freePorts(t, readExample(t))
	before, after, ok := strings.Cut(e.config, "\t\t\tto http://127.0.0.1:")
	if !ok {
		t.Fatal("the example has no service")
	}
	_, after, _ = strings.Cut(after, "\n")
	e.config = before + "\t\t\tto " + address + "\n\t\t\tdelivery file " + dir + " {\n\t\t\t\tkeep 1h\n\t\t\t}\n" + after
	return e
}

func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(dir, 0o750)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// emptied waits until nothing is left in dir.
func emptied(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); len(entries(t, dir)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", entries(t, dir))
		}
	}
}

// TestFilesService runs the service of docs/files.md.
func TestFilesService(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	page, err := os.ReadFile("../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```python\n")
	program, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("there is no service in the page")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)

	taken, dir := t.TempDir(), folder(t)
	service := exec.Command(python, "-c", program, port, taken)
	var said bytes.Buffer
	service.Stderr = &said
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		service.Process.Kill()
		service.Wait()
		if t.Failed() {
			t.Logf("the service said:\n%s", &said)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the service does not start: %v", err)
		}
	}

	e := withFiles(t, "http://"+address, dir)
	run(t, e.config)
	defer caddy.Stop()
	attachments := []string{"first", "", strings.Repeat("0123456789abcdef", 1<<17)}
	for _, test := range []struct {
		name, contentType, root, content string
		attachments                      []string
	}{
		{"plain", "text/xml", "", "hello", nil},
		{"SwA", swa, "text/xml; charset=UTF-8", "hello", attachments},
		{"MTOM", mtom, `application/xop+xml; charset=UTF-8; type="text/xml"`,
			`<x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:0"/>`, attachments},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := envelope("echo", test.content)
			body := asked
			if test.root != "" {
				body = related(t, asked, test.root, test.attachments...)
			}
			response := post(t, e.send, test.contentType, strings.NewReader(body))
			octets, err := io.ReadAll(response.Body)
			_, element, _ := strings.Cut(asked, "</env:Header>")
			if err != nil || response.StatusCode != http.StatusOK || !bytes.HasSuffix(octets, []byte(element)) {
				t.Fatalf("%v, %d\n%s", err, response.StatusCode, octets)
			}
			var want, got []string
			want = append(want, test.attachments...)
			for _, file := range entries(t, taken) {
				octets, err := os.ReadFile(filepath.Join(taken, file.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(octets))
				os.Remove(filepath.Join(taken, file.Name()))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the service took %d files, want %d as they were sent", len(got), len(want))
			}
			emptied(t, dir)
		})
	}
}

// TestFilesOverReload keeps files that a service keeps, and those of an exchange that goes on, over a reload with another
// configuration and over a start.
func TestFilesOverReload(t *testing.T) {
	dir := folder(t)
	called, answer := make(chan string, 2), make(chan string)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		envelope, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		called <- r.Header.Get("X-Road-Attachments")
		if word := <-answer; word != "" {
			w.Header().Set("X-Road-Attachments", word)
		}
		w.Header().Set("Content-Type", "text/xml")
		w.Write(envelope)
	}))
	defer service.Close()
	e := withFiles(t, service.URL, dir)
	run(t, e.config)
	defer caddy.Stop()

	send := func() <-chan error {
		body, done := related(t, envelope("echo", ""), "text/xml", "octets"), make(chan error, 1)
		go func() {
			response, err := http.Post(e.send, swa, strings.NewReader(body))
			if err == nil {
				_, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			done <- err
		}()
		return done
	}
	there := func(manifest, when string) {
		t.Helper()
		if octets, err := os.ReadFile(filepath.Join(filepath.Dir(manifest), "attachment-1")); err != nil || string(octets) != "octets" {
			t.Errorf("%s: %q, %v", when, octets, err)
		}
	}

	first := send()
	kept := <-called
	answer <- "keep"
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	second := send()
	used := <-called
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Dir(used), old, old); err != nil { // it has been at work for long
		t.Fatal(err)
	}
	run(t, strings.Replace(e.config, "keep 1h", "keep 2s", 1)) // opens the folder again, and sweeps it
	there(kept, "kept, after the reload")
	there(used, "in use, after the reload")
	answer <- ""
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); len(entries(t, dir)) > 1 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	there(kept, "kept, after the other exchange")

	caddy.Stop()
	there(kept, "kept, after the stop")
	if err := os.Chtimes(filepath.Dir(kept), old, old); err != nil {
		t.Fatal(err)
	}
	run(t, e.config)
	emptied(t, dir)
}

// TestFilesFolder has a folder that will not do refused at the start.
func TestFilesFolder(t *testing.T) {
	dir := folder(t)
	link, open := filepath.Join(dir, "link"), filepath.Join(dir, "open")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, dir, want string }{
		{"absent", dir + "/absent", "it is not there"},
		{"a link", link, "there is a symbolic link in it: write " + dir},
		{"for everybody", open, "everybody may write to it (mode 0777)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := withFiles(t, "http://127.0.0.1:1", test.dir)
			adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(e.config), nil)
			if err != nil {
				t.Fatal(err)
			}
			err = caddy.Load(adapted, true)
			defer caddy.Stop()
			if err == nil || !strings.Contains(err.Error(), "files for service DEV/GOV/0000/registry/echo/v1: folder "+test.dir+": "+test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
