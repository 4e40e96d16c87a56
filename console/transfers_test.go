// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/internal/freeport"
	"github.com/caddy-fairway/fairway/soap"
)

// TestPrintTransfers shows the table.
func TestPrintTransfers(t *testing.T) {
	total, left := int64(10<<30), 3723.4
	now := time.Unix(1_800_000_000, 0)
	all := []transfer{
		{
			Name: "ss1", Server: "DEV/GOV/1111/ss1", ID: "f47a-send", Client: "DEV/GOV/1111/app", Service: "DEV/GOV/0000/registry/echo/v1",
			Peer: "DEV/GOV/0000/ss2", MessageID: "4711", Phase: "uploading", Octets: 3 << 30, Total: &total, Rate: 2 << 20, SecondsLeft: &left, Begun: now.Add(-90 * time.Second),
		},
		{Server: "DEV/GOV/0000/ss2", ID: "f47a-receive", MessageID: "\x1b[2J\u202e", Phase: "receiving", Octets: 5, Begun: now, Cancelled: true},
	}
	var b strings.Builder
	if err := printTransfers(&b, all, now); err != nil {
		t.Fatal(err)
	}
	want := `SERVER            SINCE  PHASE      SIZE               RATE       LEFT    CLIENT            SERVICE                        PEER              MESSAGE        ID
ss1               1m30s  uploading  3.0 GiB of 10 GiB  2.0 MiB/s  1h2m3s  DEV/GOV/1111/app  DEV/GOV/0000/registry/echo/v1  DEV/GOV/0000/ss2  4711           f47a-send
DEV/GOV/0000/ss2  0s     cancelled  5 B                0 B/s      -       -                 -                              -                 \x1b[2J\u202e  f47a-receive
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// running runs the example with an admin endpoint and returns its address and that for information systems.
func running(t *testing.T) (admin, consumers string) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	text, ports, err := move(example(t))
	if err != nil {
		t.Fatal(err)
	}
	free, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{dir: t.TempDir()}
	adapted, err := p.adapt(text)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	admin = fmt.Sprintf("127.0.0.1:%d", free[0])
	config["admin"] = map[string]any{"listen": admin, "config": map[string]any{"persist": false}}
	if adapted, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caddy.Stop() })
	return admin, "127.0.0.1:" + ports["8080"]
}

// TestTransfersOfRunningServer lists an upload that stands still, and cancels it.
func TestTransfersOfRunningServer(t *testing.T) {
	admin, consumers := running(t)
	config := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(config, []byte("{\n\tadmin "+admin+"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) string {
		r := fairway(t.Context(), "", append([]string{"transfers", "list"}, args...)...)
		if r.err != nil || r.stderr != "" {
			t.Fatalf("%v: %s", r.err, r.stderr)
		}
		return r.stdout
	}
	if got := list("--address", admin); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "SERVER") {
		t.Errorf("while nothing is in progress: %s", got)
	}
	for _, tt := range []struct {
		name   string
		sent   int // of the attachment; -1: not even the envelope
		phases map[string]string
	}{
		{"an upload", 4 << 20, map[string]string{"ss1": "uploading", "ss2": "receiving"}},
		{"an envelope", -1, map[string]string{"ss1": "reading envelope"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", consumers)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			text := string(envelope(demoService, "the id", ""))
			if tt.sent < 0 {
				text = text[:200]
			}
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/related; type=\"text/xml\"; boundary=b\r\nContent-Length: %d\r\n\r\n"+
				"--b\r\nContent-Type: text/xml\r\n\r\n%s", 10<<20, text)
			if tt.sent >= 0 {
				fmt.Fprintf(conn, "\r\n--b\r\nContent-Type: application/octet-stream\r\n\r\n%s", strings.Repeat("x", tt.sent))
			}
			var seen []transfer
			ids := map[string]string{}
			for deadline := time.Now().Add(20 * time.Second); len(ids) < len(tt.phases) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				seen = nil
				if err := json.Unmarshal([]byte(list("--json", "--config", config)), &seen); err != nil {
					t.Fatal(err)
				}
				for _, x := range seen {
					if tt.phases[x.Name] == x.Phase && x.Octets > 0 {
						ids[x.Name] = x.ID
					}
				}
			}
			if len(ids) != len(tt.phases) {
				t.Fatalf("in progress: %+v", seen)
			}
			table := list("--address", admin, "--server", "ss1")
			if strings.Count(table, "\n") != 2 || !strings.Contains(table, ids["ss1"]) || !strings.Contains(table, " of 10 MiB") || !strings.Contains(table, tt.phases["ss1"]) {
				t.Errorf("the table is\n%s", table)
			}
			r := fairway(t.Context(), "", "transfers", "cancel", "--address", admin, "nobody's", ids["ss1"])
			if r.err == nil || r.stdout != ids["ss1"]+"\n" || !strings.Contains(r.stderr, `there is no exchange \"nobody's\" in progress`) && !strings.Contains(r.stderr, `there is no exchange "nobody's" in progress`) {
				t.Errorf("%v, %q, %q", r.err, r.stdout, r.stderr)
			}
			conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if fault, err := soap.ParseFault(answer); err != nil || fault.Code != "server.clientproxy.io_error" || fault.String != "the transfer was cancelled by the operator of security server DEV/GOV/1111/ss1" {
				t.Errorf("%v: %s", err, answer)
			}
			conn.Close()
			for deadline := time.Now().Add(20 * time.Second); strings.Count(list("--address", admin), "\n") > 1; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal(list("--address", admin))
				}
			}
		})
	}
}

// TestWatchTransfers lists until it is interrupted.
func TestWatchTransfers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 2 {
			defer stop()
		}
		io.WriteString(w, "[]\n")
	}))
	defer s.Close()
	r := fairway(ctx, "", "transfers", "list", "--watch", "--json", "--address", strings.TrimPrefix(s.URL, "http://"))
	if r.err != nil || r.stderr != "" || !strings.HasPrefix(r.stdout, "[]\n") {
		t.Errorf("%v, %q, %q", r.err, r.stdout, r.stderr)
	}
}

// TestNoTransfersToAsk: why nobody can be asked is told.
func TestNoTransfersToAsk(t *testing.T) {
	answering := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	free, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	nobody := fmt.Sprintf("127.0.0.1:%d", free[0])
	caddyfile := func(text string) string {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, tt := range map[string]struct {
		args  []string
		words string
	}{
		"no server runs":               {[]string{"--address", nobody}, "no server answers at the admin endpoint " + nobody},
		"none where the file says":     {[]string{"--config", caddyfile("{\n\tadmin " + nobody + "\n}\n")}, "no server answers at the admin endpoint " + nobody},
		"admin is off":                 {[]string{"--config", caddyfile("{\n\tadmin off\n}\n")}, "switches the admin endpoint off"},
		"no such file":                 {[]string{"--config", "nothing/Caddyfile"}, "no such file"},
		"not an address":               {[]string{"--address", "127.0.0.1:1-9"}, "invalid admin address"},
		"a Caddy of another kind":      {[]string{"--address", answering(404, "404 page not found\n")}, "has no security servers of this kind"},
		"an origin that is not let in": {[]string{"--address", answering(403, `{"error":"host not allowed: \u001b[2J"}`)}, `host not allowed: \x1b[2J`},
		"something else answers":       {[]string{"--address", answering(200, "<html>")}, "answered with something else"},
		"something else fails":         {[]string{"--address", answering(500, "<html>")}, "HTTP 500"},
	} {
		t.Run(name, func(t *testing.T) {
			r := fairway(t.Context(), "", append([]string{"transfers", "list"}, tt.args...)...)
			if r.err == nil || r.stdout != "" || !strings.Contains(r.stderr, tt.words) {
				t.Errorf("%v, stdout %q, stderr %q: want %q", r.err, r.stdout, r.stderr, tt.words)
			}
		})
	}
}
