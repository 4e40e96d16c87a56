// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/exchange"
)

// TestExchangesValidate: what the adapter does not write is judged as what it does.
func TestExchangesValidate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		exchanges Exchanges
		want      exchange.Admission
		err       string
	}{
		{"all of it", Exchanges{10, 5, caddy.Duration(time.Second)}, exchange.Admission{All: 10, Peer: 5, Wait: time.Second}, ""},
		{"all", Exchanges{All: 10}, exchange.Admission{All: 10, Peer: 2, Wait: 2 * time.Second}, ""},
		{"one peer may have all", Exchanges{All: 10, Peer: 10}, exchange.Admission{All: 10, Peer: 10, Wait: 2 * time.Second}, ""},
		{"all negative", Exchanges{All: -1}, exchange.Admission{}, "-1 is no number of exchanges: write 1 or more"},
		{"peer negative", Exchanges{All: 5, Peer: -2}, exchange.Admission{}, "-2 is no number of exchanges: write 1 or more"},
		{"wait negative", Exchanges{Wait: -1}, exchange.Admission{}, "-1ns is no time to wait: write for example 2s"},
		{"peer more than all", Exchanges{All: 10, Peer: 11}, exchange.Admission{}, "one peer cannot have 11 of 10: write a smaller peer, or more exchanges"},
		{"peer more than all by default", Exchanges{Peer: 1 << 20}, exchange.Admission{}, fmt.Sprintf("one peer cannot have 1048576 of %d: write a smaller peer, or more exchanges", exchange.Admission{}.WithDefaults().All)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.exchanges.validate()
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
			} else if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// TestExchangesOfTheServer: the open server has them, and another number of them is another server.
func TestExchangesOfTheServer(t *testing.T) {
	fake.reset(t)
	app := provisionApp(t, "evidence none\nexchanges 7 {\npeer 3\nwait 1s\n}")
	u := use(t, app)
	defer u.release()
	if want := (exchange.Admission{All: 7, Peer: 3, Wait: time.Second}); u.Admission != want {
		t.Errorf("got %+v, want %+v", u.Admission, want)
	}
	other := use(t, provisionApp(t, "evidence none\nexchanges 8"))
	defer other.release()
	if other.SecurityServer == u.SecurityServer {
		t.Error("it is the same server")
	}
}

// TestBusyServer has an information system that sends half an envelope take the place that others want, in a Caddy that runs.
func TestBusyServer(t *testing.T) {
	p := newPair(t, "trust dev\nexchanges 1 {\nwait 5ms\n}", "trust dev")
	p.run()
	conn, err := net.Dial("tcp", "127.0.0.1:"+p.places["send"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: 1000\r\n\r\n<?xml")
	u := p.use("ss1")
	defer u.release()
	eventually(t, "it has the place", func() bool { asking, _, _ := u.Load(); return asking.Exchanges == 1 })

	const want = "1 requests of the information system at 127.0.0.1 are being read, as many as may be at once: try again after 5ms (setting: peer in exchanges)"
	if a := p.send(http.DefaultClient); a.code != "server.clientproxy.io_error" || a.text != want {
		t.Errorf("got %+v", a)
	}
	if lines := p.logged("exchange failed", want); len(lines) != 1 || lines[0]["level"] != "warn" || lines[0]["xroad_fault"] != "server.clientproxy.io_error" {
		t.Errorf("logged %v", lines)
	}
	conn.Close()
	eventually(t, "the place is free", func() bool { return p.send(http.DefaultClient).good() })
	if lines := p.logged("exchange failed"); len(lines) < 2 || !strings.Contains(fmt.Sprint(lines), "reading the request: it was broken off after 5 octets") {
		t.Errorf("logged %v", lines)
	}
}
