// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
)

// impatient gives a server of the pair a limit.
func (p *pair) impatient(server, limit string) {
	const all = "servers 127.0.0.1:{peer} {"
	block := "timeouts {\n" + limit + "\n}\n"
	if server == "peer" {
		p.config = strings.Replace(p.config, all, all+"\n"+block, 1)
		return
	}
	p.config = strings.Replace(p.config, all, "servers 127.0.0.1:{"+server+"} {\n"+block+"}\n"+all, 1)
}

// TestCaddysLimits: where a limit of Caddy's server is the lower one, the fault says whose, how long, and how it is called.
func TestCaddysLimits(t *testing.T) {
	body := large("held", 1<<20)
	for _, tt := range []struct {
		name, server, limit, from, code, want string
	}{
		{"an information system that is silent", "send", "read_body_idle 300ms", "",
			"client.io_error", "the information system sent nothing for 300ms (setting: read_body_idle in timeouts of Caddy's server)"},
		{"an information system that has too little time", "send", "read_body 300ms", "",
			"client.io_error", "the information system sent nothing more when its time was over (setting: read_body in timeouts of Caddy's server)"},
		{"an information system that is too slow", "send", "read_body_idle 300ms 100000000", "",
			"client.io_error", "slower than 100000000 octets a second (setting: read_body_idle in timeouts of Caddy's server)"},
		{"a security server that is silent, for its information system is", "peer", "read_body_idle 300ms", "",
			"server.serverproxy.service_failed.io_error", "the other security server sent nothing for 300ms (setting: read_body_idle in timeouts of Caddy's server)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, "trust dev", "trust dev")
			p.places["admin"] = freePort(t)
			p.config = strings.Replace(p.config, "admin off", "admin 127.0.0.1:{admin}", 1)
			p.impatient(tt.server, tt.limit)
			p.run()
			h := p.hold(body, len(body)/2)
			got := h.answer()
			h.conn.Close()
			if got.code != tt.code || !strings.Contains(got.text, tt.want) {
				t.Errorf("fault %s: %s\nwant %s: %s", got.code, got.text, tt.code, tt.want)
			}
			p.clean()
		})
	}
}

// TestCaddysLimitsOfAnswers: an answer that is not taken is broken off, and the log says why.
func TestCaddysLimitsOfAnswers(t *testing.T) {
	answered := large("held", 64<<20)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "multipart/related; type=\"text/xml\"; start=\"<root>\"; boundary=b")
		w.Write(answered)
	}))
	defer service.Close()
	p := newPair(t, "trust dev", "trust dev")
	p.places["admin"] = freePort(t)
	p.config = strings.Replace(p.config, "admin off", "admin 127.0.0.1:{admin}", 1)
	p.config = strings.Replace(p.config, "to http://127.0.0.1:{echo}", "to "+service.URL, 1)
	p.impatient("send", "write_idle 300ms")
	p.run()
	body := large("held", 1<<10)
	h := p.hold(body, len(body))
	eventually(t, "the log says why", func() bool {
		return len(p.logged("the answer was not taken to its end", "the information system took nothing for 300ms (setting: write_idle in timeouts of Caddy's server)")) == 1
	})
	if got := h.answer(); got.code != "broken" {
		t.Errorf("the answer is %v", got)
	}
	p.clean()
}

// TestKeepAliveOfConnections_FR59: on each leg of an exchange that waits for its service, the kernel asks whether the other side
// is still there, at the latest after 30 seconds of silence.
func TestKeepAliveOfConnections_FR59(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip("the kernel does not tell the timers of connections")
	}
	release := make(chan struct{})
	asked := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		asked <- r.RemoteAddr
		<-release
	}))
	defer service.Close()
	defer close(release)
	p := adminPair(t, service.URL)
	body := large("held", 1<<10)
	p.hold(body, len(body))
	_, ours, _ := net.SplitHostPort(<-asked)
	for _, side := range []struct {
		name   string
		column int // of /proc/net/tcp: 1 is the local address, 2 the other
		port   string
	}{
		{"from the information system", 1, p.places["send"]},
		{"to the other security server", 2, p.places["peer"]},
		{"from the other security server", 1, p.places["peer"]},
		{"to the service", 1, ours},
	} {
		eventually(t, "a connection "+side.name+" is kept alive", func() bool { return keptAlive(t, side.column, side.port) })
	}
}

// keptAlive says whether there is a connection of that port, and all are asked within 30 seconds whether they live.
func keptAlive(t *testing.T, column int, port string) bool {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	found := false
	for line := range strings.Lines(string(table)) {
		const state, timer, established, keepAlive, ticks = 3, 5, "01", "02:", 100
		f := strings.Fields(line)
		if !strings.HasSuffix(f[column], fmt.Sprintf(":%04X", number)) || f[state] != established {
			continue
		}
		when, _ := strconv.ParseInt(strings.TrimPrefix(f[timer], keepAlive), 16, 64)
		if !strings.HasPrefix(f[timer], keepAlive) || when > 30*ticks {
			return false
		}
		found = true
	}
	return found
}
