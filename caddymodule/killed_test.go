// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// childOf names the variable by which this test's binary is told to be a Caddy of that configuration.
const childOf = "FAIRWAY_TEST_CADDY"

// child is such a Caddy. It says so when it runs, and ends with its standard input.
func child(file string) error {
	config, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := caddy.Load(config, true); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// start starts one of both as a process of its own.
func (p *pair) start(name string) *exec.Cmd {
	p.t.Helper()
	global, rest, _ := strings.Cut(p.config, "\txroad ss1 {")
	ss1, rest, _ := strings.Cut(rest, "\txroad ss2 {")
	ss2, rest, _ := strings.Cut(rest, "\tservers 127")
	servers, sites, _ := strings.Cut(rest, "\nhttp://:{send} {")
	send, others, _ := strings.Cut(sites, "\nhttps://:{peer} {")
	text := global + "\txroad ss1 {" + ss1 + "}\nhttp://:{send} {" + send + "\n"
	if name == "ss2" {
		text = global + "\txroad ss2 {" + ss2 + "\tservers 127" + servers + "\nhttps://:{peer} {" + others
	}
	for place, value := range p.places {
		text = strings.ReplaceAll(text, "{"+place+"}", value)
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.file(name+".json", adapted)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childOf+"="+filepath.Join(p.dir, name+".json"))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { in.Close(); c.Process.Kill(); c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		p.t.Fatalf("%s says %q, %v", name, line, err)
	}
	return c
}

// spooled returns the files of messages in the spool of one of both.
func (p *pair) spooled(name string) (files []string) {
	found, err := filepath.Glob(filepath.Join(p.dir, "spool-"+name, "*", "*"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range found {
		if info, err := os.Stat(f); err == nil && info.Size() > 0 && !info.IsDir() && filepath.Base(f) != "lock" {
			files = append(files, f)
		}
	}
	return files
}

// TestKilled kills each security server in mid-transfer, with a request half way, with a service at work, and with an answer
// half way. The information system learns of it, the service sees no complete message that was not, what lies in the spool
// goes with the next start, and messages pass again.
func TestKilled(t *testing.T) {
	body := large("held", 4<<20)
	for _, victim := range []string{"ss1", "ss2"} {
		for _, phase := range []string{"a request half way", "a service at work", "an answer half way"} {
			t.Run(victim+", "+phase, func(t *testing.T) {
				var whole atomic.Int64
				var held atomic.Bool
				reached, release := make(chan struct{}, 1), make(chan struct{})
				service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err == nil {
						whole.Add(1)
					}
					w.Header().Set("Content-Type", "multipart/related; type=\"text/xml\"; start=\"<root>\"; boundary=b")
					if !held.Load() {
						w.Write(body)
						return
					}
					if phase == "an answer half way" {
						w.Write(body[:len(body)/2])
						http.NewResponseController(w).Flush()
					}
					reached <- struct{}{}
					select {
					case <-release:
					case <-r.Context().Done():
					}
				}))
				defer service.Close()
				defer close(release)
				p := newDiskPair(t, service.URL)
				running := map[string]*exec.Cmd{"ss2": p.start("ss2"), "ss1": p.start("ss1")}

				held.Store(true)
				sent, holder := len(body), "ss2"
				if phase == "a request half way" {
					sent /= 2
				}
				h := p.hold(body, sent)
				switch phase {
				case "a request half way":
					eventually(t, "the receiver has a part", func() bool { return len(p.spooled("ss2")) > 0 })
				case "an answer half way":
					<-reached
					holder = "ss1"
					eventually(t, "the sender has a part of the answer", func() bool { return len(p.spooled("ss1")) > 0 })
				default:
					<-reached
				}
				before := whole.Load()
				running[victim].Process.Kill()
				running[victim].Wait()
				got := h.finish() // what is missing of the request follows: a sender looks for its peer only when it has something for it
				if want := map[string]string{"ss1": "broken", "ss2": "server.clientproxy."}[victim]; !strings.HasPrefix(got.code, want) {
					t.Errorf("the information system got %+v", got)
				}
				h.conn.Close()
				left := len(p.spooled(victim))
				if victim == holder && left == 0 {
					t.Errorf("nothing was in the spool of %s when it was killed: the test shows nothing", victim)
				}
				if phase == "a request half way" && before != 0 {
					t.Errorf("%d complete messages at the service", before)
				}

				held.Store(false)
				p.start(victim)
				for _, name := range []string{"ss1", "ss2"} {
					eventually(t, "the spool of "+name+" is empty", func() bool { return len(p.spooled(name)) == 0 })
				}
				if got := p.hold(body, len(body)).answer(); !got.good() {
					t.Errorf("afterwards: %+v", got)
				}
				if n := whole.Load(); n != before+1 {
					t.Errorf("%d complete messages at the service, want %d", n, before+1)
				}
			})
		}
	}
}
