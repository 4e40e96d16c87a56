// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
)

// TestCorrelation_FR89: one id of an exchange stands in the access logs of both security servers, in the lines of what failed,
// in evidence and in the fault, wherever it fails; and the address is that of the information system in front of a balancer,
// as Caddy knows it (FR-89).
func TestCorrelation_FR89(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer broken.Close()
	p := newPair(t, "trust dev\nevidence disk {dir}/ss1", `trust dev
		evidence disk {dir}/ss2
		service DEV/GOV/0000/registry/closed/v1 {
			to http://127.0.0.1:{echo}
		}
		service DEV/GOV/0000/registry/broken/v1 {
			allow DEV/GOV/1111/app
			to `+broken.URL+`
		}`)
	p.config = strings.Replace(p.config, "\tservers 127.0.0.1:{peer} {", `	servers 127.0.0.1:{send} {
		trusted_proxies static 127.0.0.1/32
		listener_wrappers {
			proxy_protocol {
				allow 127.0.0.1/32
			}
		}
	}
	servers 127.0.0.1:{peer} {`, 1)
	for _, handler := range []string{"xroad_send ss1", "xroad_receive ss2"} {
		p.config = strings.Replace(p.config, "\t"+handler, "\tlog\n\t"+handler, 1)
	}
	p.run()

	// ask sends a message behind a line of the PROXY protocol and returns the answer.
	ask := func(proxied, client, service string) string {
		t.Helper()
		from, err := ident.ParseClient(client)
		if err != nil {
			t.Fatal(err)
		}
		body := testbed.Envelope(&soap.Header{
			Client: from, Service: ident.Service{Client: provider, Code: service, Version: "v1"}, ID: "the message", ProtocolVersion: "4.0",
		}, service, "")
		conn, err := net.Dial("tcp", "127.0.0.1:"+p.places["send"])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%sPOST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: 203.0.113.7\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s", proxied, len(body), body)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		octets, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(octets)
	}
	const app = "DEV/GOV/1111/app"
	for _, tt := range []struct {
		name, proxied, client, service string
		fault                          string
		access, failed, records        [2]int // of ss1 and ss2
		remote, ip                     string // at ss1
	}{
		{"it goes well", "", app, "echo", "", [2]int{1, 1}, [2]int{}, [2]int{2, 2}, "127.0.0.1", "203.0.113.7"},
		{"it fails at the sender", "", "DEV/GOV/9999/app", "echo", "server.clientproxy.unknown_member", [2]int{1, 0}, [2]int{1, 0}, [2]int{}, "127.0.0.1", "203.0.113.7"},
		{"it fails at the receiver", "", app, "closed", "server.serverproxy.access_denied", [2]int{1, 1}, [2]int{1, 1}, [2]int{2, 0}, "127.0.0.1", "203.0.113.7"},
		{"it fails at the service", "", app, "broken", "server.serverproxy.service_failed", [2]int{1, 1}, [2]int{1, 1}, [2]int{2, 1}, "127.0.0.1", "203.0.113.7"},
		{"it comes from another machine through a balancer", "PROXY TCP4 203.0.113.9 192.0.2.1 4711 80\r\n", app, "echo", "server.clientproxy.ssl_authentication_failed",
			[2]int{1, 0}, [2]int{1, 0}, [2]int{}, "203.0.113.9", "203.0.113.9"}, // whom nobody trusts to name another
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := len(p.logged("http.log.access", "xroad_request_id"))
			got := ask(tt.proxied, tt.client, tt.service)
			fault, err := soap.ParseFault([]byte(got))
			if (err == nil) != (tt.fault != "") || err == nil && !strings.HasPrefix(fault.Code, tt.fault) {
				t.Fatalf("got %s", got)
			}
			var lines []map[string]any
			eventually(t, "the access log has it", func() bool {
				lines = p.logged("http.log.access", "xroad_request_id")
				return len(lines)-seen == tt.access[0]+tt.access[1]
			})
			id := fmt.Sprint(lines[len(lines)-1]["xroad_request_id"])
			if len(id) != 36 || fault != nil && fault.Detail != id {
				t.Errorf("the id is %q, and the fault %+v", id, fault)
			}
			for i, role := range []string{"send", "receive"} {
				name := []string{"ss1", "ss2"}[i]
				of := []string{`"xroad_request_id":"` + id + `"`, `"xroad_role":"` + role + `"`, `"xroad_id":"the message"`}
				access := p.logged(append(of, "http.log.access")...)
				if len(access) != tt.access[i] {
					t.Errorf("%s has %d lines of it in its access log", name, len(access))
				}
				failed := p.logged(append(of, "exchange failed")...)
				if len(failed) != tt.failed[i] {
					t.Errorf("%s has %d lines of its failure", name, len(failed))
				}
				if i == 0 && len(access) == 1 {
					request := access[0]["request"].(map[string]any)
					if request["remote_ip"] != tt.remote || request["client_ip"] != tt.ip {
						t.Errorf("the access log has it from %v, %v", request["remote_ip"], request["client_ip"])
					}
				}
				if i == 0 && len(failed) == 1 && (failed[0]["client_ip"] != tt.ip || !strings.HasPrefix(fmt.Sprint(failed[0]["remote"]), tt.remote+":")) {
					t.Errorf("it failed from %v, %v", failed[0]["remote"], failed[0]["client_ip"])
				}
				u := p.use(name)
				records := 0
				for r, err := range u.Evidence.Find(t.Context(), evidence.Query{RequestID: id}) {
					if err != nil {
						t.Error(err)
						break
					}
					if records++; r.MessageID != "the message" || r.Role != role {
						t.Errorf("%s has a record of %s, %q", name, r.Role, r.MessageID)
					}
				}
				u.release()
				if records != tt.records[i] {
					t.Errorf("%s has %d records of it, want %d", name, records, tt.records[i])
				}
			}
			if !bytes.Contains([]byte(got), []byte(id)) && fault != nil {
				t.Errorf("the fault does not have the id %s: %s", id, got)
			}
		})
	}
}
