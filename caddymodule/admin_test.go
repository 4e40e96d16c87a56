// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
)

// adminPair is a pair whose admin endpoint listens. Its service is at the address.
func adminPair(t *testing.T, service string) *pair {
	p := newPair(t, "trust dev", "trust dev")
	p.places["admin"] = freePort(t)
	p.config = strings.Replace(p.config, "admin off", "admin 127.0.0.1:{admin}", 1)
	if service != "" {
		p.config = strings.Replace(p.config, "to http://127.0.0.1:{echo}", "to "+service, 1)
	}
	p.run()
	return p
}

// ask sends a request to the admin endpoint.
func (p *pair) ask(method, path string) (status int, body []byte) {
	p.t.Helper()
	req, err := http.NewRequest(method, "http://127.0.0.1:"+p.places["admin"]+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, body
}

// transfers returns what is in progress.
func (p *pair) transfers(query string) (all []transfer) {
	p.t.Helper()
	status, body := p.ask(http.MethodGet, "/xroad/exchanges"+query)
	if err := json.Unmarshal(body, &all); err != nil || status != http.StatusOK {
		p.t.Fatalf("%d, %v: %s", status, err, body)
	}
	return all
}

// transfer waits for the exchange of a message in a phase, of which enough has passed.
func (p *pair) transfer(message, phase string, octets int64) (found transfer) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%q has the phase %q", message, phase), func() bool {
		for _, x := range p.transfers("") {
			if x.MessageID == message && x.Phase == phase && x.Octets >= octets {
				found = x
				return true
			}
		}
		return false
	})
	return found
}

// clean waits until nothing is in progress and nothing in a spool.
func (p *pair) clean() {
	p.t.Helper()
	eventually(p.t, "nothing is in progress", func() bool { return len(p.transfers("")) == 0 })
	for _, name := range []string{"ss1", "ss2"} {
		u := p.use(name)
		eventually(p.t, "the spool of "+name+" is empty", func() bool { return u.Spool.Size() == 0 })
		u.release()
	}
}

// large is a message with an attachment.
func large(id string, size int) []byte {
	envelope := testbed.Envelope(&soap.Header{
		Client: consumer, Service: ident.Service{Client: provider, Code: "echo", Version: "v1"}, ID: id, ProtocolVersion: "4.0",
	}, "echo", "")
	return fmt.Appendf(nil, "--b\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-ID: <root>\r\n\r\n%s\r\n--b\r\nContent-Type: application/octet-stream\r\n\r\n%s\r\n--b--\r\n",
		envelope, bytes.Repeat([]byte{'x'}, size))
}

// held is a message of which a part has been sent.
type held struct {
	t    *testing.T
	conn net.Conn
	rest []byte
}

func (p *pair) hold(body []byte, sent int) *held {
	p.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+p.places["send"])
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/related; type=\"text/xml\"; start=\"<root>\"; boundary=b\r\nContent-Length: %d\r\n\r\n", len(body))
	go conn.Write(body[:sent])
	return &held{p.t, conn, body[sent:]}
}

// finish sends the rest and returns the answer.
func (h *held) finish() answer {
	go h.conn.Write(h.rest)
	return h.answer()
}

func (h *held) answer() answer {
	h.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	response, err := http.ReadResponse(bufio.NewReader(h.conn), nil)
	if err != nil {
		return answer{"broken", err.Error()}
	}
	octets, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{"broken", err.Error()}
	}
	if fault, err := soap.ParseFault(octets); err == nil {
		return answer{fault.Code, fault.String}
	}
	return answer{}
}

// TestTransfersThroughCaddy holds an exchange at its phases, lists it and cancels it, beside another that is left alone.
func TestTransfersThroughCaddy(t *testing.T) {
	body := large("held", 1<<20)
	huge := large("held", 12<<20)
	release := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reads-nothing":
			<-release
			return
		case "/answers-half":
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "multipart/related; type=\"text/xml\"; start=\"<root>\"; boundary=b")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body[:len(body)/2])
			http.NewResponseController(w).Flush()
		case "/answers":
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "multipart/related; type=\"text/xml\"; start=\"<root>\"; boundary=b")
			w.Write(huge)
			return
		}
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer service.Close()
	defer close(release)
	const sender, receiver = "server.clientproxy.io_error", "server.serverproxy.io_error"
	for _, tt := range []struct {
		name  string
		to    string
		body  []byte
		sent  int
		phase [2]string // of ss1, of ss2; "" takes no part, or another phase
		by    int       // who cancels
		want  string
	}{
		{"an envelope that does not end", "", body, 200, [2]string{"reading envelope", ""}, 0, sender},
		{"an upload, by the sender", "", body, len(body) / 2, [2]string{"uploading", "receiving"}, 0, sender},
		{"an upload, by the receiver", "", body, len(body) / 2, [2]string{"uploading", "receiving"}, 1, receiver},
		{"a service that reads nothing", "/reads-nothing", huge, len(huge), [2]string{"waiting for answer", "forwarding"}, 1, receiver},
		{"a service that is silent, by the sender", "/silent", body, len(body), [2]string{"waiting for answer", "waiting for service"}, 0, sender},
		{"a service that is silent, by the receiver", "/silent", body, len(body), [2]string{"waiting for answer", "waiting for service"}, 1, receiver},
		{"an answer that does not end, by the sender", "/answers-half", body, len(body), [2]string{"receiving answer", "answering"}, 0, sender},
		{"an answer that does not end, by the receiver", "/answers-half", body, len(body), [2]string{"receiving answer", "answering"}, 1, receiver},
		{"a consumer that does not read", "/answers", body, len(body), [2]string{"delivering", ""}, 0, "broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to := ""
			if tt.to != "" {
				to = service.URL + tt.to
			}
			p := adminPair(t, to)
			undisturbed := p.hold(large("undisturbed", 1<<20), 1<<19)
			p.transfer("undisturbed", "receiving", 1<<18)
			h := p.hold(tt.body, tt.sent)
			var seen [2]transfer
			for i, phase := range tt.phase {
				switch {
				case phase == "reading envelope":
					seen[i] = p.transfer("", phase, 1)
				case phase != "":
					seen[i] = p.transfer("held", phase, 1)
				}
			}
			if x := seen[0]; x.Role != "send" || x.Server != sendingID.String() || x.Name != "ss1" || tt.phase[0] != "reading envelope" && (x.Client != consumer.String() || x.Peer != receivesID.String()) {
				t.Errorf("ss1 shows %+v", x)
			}
			if x := seen[1]; tt.phase[1] != "" && (x.Role != "receive" || x.Server != receivesID.String() || x.Name != "ss2" || x.Peer != sendingID.String() || x.RequestID != seen[0].RequestID) {
				t.Errorf("ss2 shows %+v", x)
			}
			if x := seen[0]; strings.HasPrefix(tt.phase[0], "up") && (x.Total == nil || *x.Total != int64(len(tt.body)) || x.Octets > *x.Total) {
				t.Errorf("ss1 shows %+v", x)
			}
			if status, text := p.ask(http.MethodDelete, "/xroad/exchanges/"+seen[tt.by].ID); status != http.StatusNoContent {
				t.Errorf("cancelling: %d %s", status, text)
			}
			by := []ident.Server{sendingID, receivesID}[tt.by]
			if a := h.answer(); a.code != tt.want || tt.want != "broken" && a.text != "the transfer was cancelled by the operator of security server "+by.String() {
				t.Errorf("the consumer got %+v, want %s", a, tt.want)
			}
			h.conn.Close()
			if tt.to == "" {
				if a := undisturbed.finish(); !a.good() {
					t.Errorf("the other exchange got %+v", a)
				}
			} else {
				p.transfer("undisturbed", "uploading", 1<<18)
				undisturbed.conn.Close()
			}
			p.clean()
			if lines := p.logged("exchange cancelled", seen[tt.by].ID); len(lines) != 1 {
				t.Errorf("the log has %v", lines)
			}
			if status, text := p.ask(http.MethodDelete, "/xroad/exchanges/"+seen[tt.by].ID); status != http.StatusNotFound {
				t.Errorf("cancelling again: %d %s", status, text)
			}
		})
	}
}

// TestTransfersAfterReload lists and cancels what an earlier configuration has begun.
func TestTransfersAfterReload(t *testing.T) {
	p := adminPair(t, "")
	body := large("old", 1<<20)
	first, second := p.hold(body, len(body)/2), p.hold(large("kept", 1<<20), 1<<19)
	p.transfer("old", "receiving", 1<<18)
	p.transfer("kept", "receiving", 1<<18)
	before := [2]*usage{p.use("ss1"), p.use("ss2")}

	p.config = strings.Replace(p.config, "client DEV/GOV/1111/app", "client DEV/GOV/1111/app\n\t\tclient DEV/GOV/1111/other", 1)
	p.run()
	third := p.hold(large("new", 1<<20), 1<<19)
	p.transfer("new", "receiving", 1<<18)
	seen := p.transfers("")
	if len(seen) != 6 || seen[0].MessageID == "new" || seen[5].MessageID != "new" {
		t.Fatalf("after the reload: %+v", seen)
	}
	if n := len(p.transfers("?server=ss1")); n != 3 {
		t.Errorf("ss1 has %d", n)
	}
	if n := len(p.transfers("?server=" + receivesID.String())); n != 3 {
		t.Errorf("ss2 has %d", n)
	}
	if status, text := p.ask(http.MethodDelete, "/xroad/exchanges/"+p.transfer("old", "receiving", 0).ID+"?server=ss2"); status != http.StatusNoContent {
		t.Errorf("cancelling: %d %s", status, text)
	}
	if a := first.answer(); a.code != "server.serverproxy.io_error" {
		t.Errorf("the cancelled one got %+v", a)
	}
	first.conn.Close()
	for _, h := range []*held{second, third} {
		if a := h.finish(); !a.good() {
			t.Errorf("another got %+v", a)
		}
	}
	p.clean()
	for _, u := range before {
		eventually(t, "the spool of before is empty", func() bool { return u.Spool.Size() == 0 })
		u.release()
	}
	opened.mu.Lock()
	defer opened.mu.Unlock()
	if n := len(opened.all); n != 2 {
		t.Errorf("%d security servers are open", n)
	}
}

// TestAdminRefuses: what is asked wrongly is told so.
func TestAdminRefuses(t *testing.T) {
	p := adminPair(t, "")
	for _, tt := range []struct {
		method, path string
		status       int
		words        string
	}{
		{http.MethodGet, "/xroad/exchanges", http.StatusOK, "[]"},
		{http.MethodGet, "/xroad/exchanges?server=ss1&server=ss2", http.StatusOK, "[]"},
		{http.MethodGet, "/xroad/exchanges?server=ss3", http.StatusNotFound, "there is no security server"},
		{http.MethodGet, "/xroad/exchanges?server=", http.StatusNotFound, "there is no security server"},
		{http.MethodPost, "/xroad/exchanges", http.StatusMethodNotAllowed, "method POST"},
		{http.MethodDelete, "/xroad/exchanges", http.StatusMethodNotAllowed, "method DELETE"},
		{http.MethodGet, "/xroad/exchanges/x", http.StatusMethodNotAllowed, "method GET"},
		{http.MethodDelete, "/xroad/exchanges/x", http.StatusNotFound, "there is no exchange"},
		{http.MethodDelete, "/xroad/exchanges/x%2Fy", http.StatusNotFound, "there is no exchange"},
		{http.MethodDelete, "/xroad/exchanges/x?server=ss3", http.StatusNotFound, "there is no security server"},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			if status, body := p.ask(tt.method, tt.path); status != tt.status || !bytes.Contains(body, []byte(tt.words)) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}
