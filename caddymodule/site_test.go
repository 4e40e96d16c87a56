// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust/dev"
)

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func addresses(t *testing.T, texts ...string) (all []caddy.NetworkAddress) {
	t.Helper()
	for _, text := range texts {
		a, err := caddy.ParseNetworkAddress(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func TestOnlyLoopback(t *testing.T) {
	for _, test := range []struct {
		name   string
		listen []string
		want   bool
	}{
		{"IPv4", []string{"127.0.0.1:80"}, true},
		{"another of IPv4", []string{"127.9.9.9:80"}, true},
		{"IPv6", []string{"[::1]:80"}, true},
		{"by name", []string{"localhost:80"}, true},
		{"Unix socket", []string{"unix//run/fairway.sock"}, true},
		{"IPv4 only", []string{"tcp4/127.0.0.1:80"}, true},
		{"everywhere", []string{":80"}, false},
		{"everywhere in IPv4", []string{"0.0.0.0:80"}, false},
		{"everywhere in IPv6", []string{"[::]:80"}, false},
		{"a network", []string{"192.0.2.1:80"}, false},
		{"by another name", []string{"fairway.example:80"}, false},
		{"also elsewhere", []string{"127.0.0.1:80", "192.0.2.1:80"}, false},
		{"nobody knows", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := onlyLoopback(addresses(t, test.listen...)); err == nil != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestReach(t *testing.T) {
	for _, test := range []struct {
		name   string
		listen []string
		want   string
	}{
		{"loopback", []string{"127.0.0.1:5500"}, "127.0.0.1:5500"},
		{"another loopback", []string{"127.0.0.2:5500"}, "127.0.0.2:5500"},
		{"IPv6", []string{"[::1]:5500"}, "[::1]:5500"},
		{"everywhere", []string{":5500"}, "127.0.0.1:5500"},
		{"everywhere in IPv6", []string{"[::]:5500"}, "127.0.0.1:5500"},
		{"a network", []string{"192.0.2.1:5500"}, "192.0.2.1:5500"},
		{"the first of two, in order", []string{"127.0.0.1:5502", "127.0.0.1:5501"}, "127.0.0.1:5501"},
		{"no port", []string{"unix//run/fairway.sock"}, ""},
		{"any port", []string{"127.0.0.1:0"}, ""},
		{"nowhere", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := reach(with(nil, addresses(t, test.listen...))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

const twoServers = `{
	default_bind 127.0.0.1
	auto_https disable_redirects
	xroad ss1 {
		server DEV/GOV/1111/ss1
		signer fake
		trust dev
		client DEV/GOV/1111/app
	}
	xroad ss2 {
		server DEV/GOV/0000/ss2
		signer fake
		trust dev
		client DEV/GOV/2222
		service DEV/GOV/0000/registry/echo/v1
		service DEV/GOV/0000/registry/echo/v2
	}
	xroad elsewhere {
		server TEST/GOV/0000/ss3
		signer fake
		trust dev
	}
	xroad static {
		server DEV/GOV/0000/ss4
		signer fake
		trust fake
	}
}
http://:8080 {
	xroad_send ss1
}
https://:15500 {
	tls {
		get_certificate xroad ss1
	}
	xroad_receive ss1
}
https://:15501 {
	tls {
		get_certificate xroad ss2
	}
	xroad_receive ss2
}
http://:15577 {
	xroad_ocsp ss2
}
`

func TestRegistered(t *testing.T) {
	app, err := provision(t, twoServers).App("xroad")
	if err != nil {
		t.Fatal(err)
	}
	client := func(text string) ident.Client {
		c, err := ident.ParseClient(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ss1 := dev.Server{
		ID: ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}, Address: "127.0.0.1:15500",
		Clients: []ident.Client{client("DEV/GOV/1111/app")},
	}
	ss2 := dev.Server{
		ID: ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: "ss2"}, Address: "127.0.0.1:15501",
		OCSPAddress: "127.0.0.1:15577", Clients: []ident.Client{client("DEV/GOV/0000/registry"), client("DEV/GOV/2222")},
	}
	ss3 := dev.Server{
		ID: ident.Server{Instance: "TEST", Class: "GOV", Member: "0000", Code: "ss3"}, Address: "127.0.0.1",
	}
	for name, want := range map[string][]dev.Server{"ss1": {ss1, ss2}, "ss2": {ss1, ss2}, "elsewhere": {ss3}, "static": nil} {
		got := app.(*App).Servers[name].registered()
		if len(got) != len(want) {
			t.Errorf("%s: got %d servers, want %d", name, len(got), len(want))
			continue
		}
		for i := range want {
			if got[i].ID != want[i].ID || got[i].Address != want[i].Address || got[i].OCSPAddress != want[i].OCSPAddress || !equal(got[i].Clients, want[i].Clients) {
				t.Errorf("%s: got %+v, want %+v", name, got[i], want[i])
			}
		}
	}
	if got, want := app.(*App).Servers["ss2"].members(), []ident.Client{client("DEV/GOV/0000"), client("DEV/GOV/2222")}; !equal(got, want) {
		t.Errorf("members: got %v, want %v", got, want)
	}
}

func equal(a, b []ident.Client) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestAuthKey has the policy of a receiving site, and no other, show the key of the server that its verifier names.
func TestAuthKey(t *testing.T) {
	fake.reset(t)
	ctx := provision(t, `{
	default_bind 127.0.0.1
	auto_https disable_redirects
	xroad {
		server DEV/GOV/0000/ss1
		signer fake
		trust fake
		spool memory
		evidence none
	}
}
https://:15500 {
	tls {
		client_auth {
			mode require
			verifier xroad
		}
	}
	xroad_receive
}
https://localhost:15501 {
	tls internal
	xroad_send
}
`)
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range app.(*caddyhttp.App).Servers {
		for _, policy := range site.TLSConnPolicies {
			cert, err := policy.TLSConfig.GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost", Conn: connection{}})
			switch receives := site.Listen[0] == "127.0.0.1:15500"; {
			case receives && (err != nil || cert != fake.keys.auth[0]):
				t.Errorf("the receiving site shows %v, %v", cert, err)
			case !receives && cert == fake.keys.auth[0]:
				t.Error("a site for information systems shows the authentication key")
			}
		}
	}
	fake.want(t, "no handshake is under way", 1, 1)
}

// connection is one between nobody and nobody.
type connection struct{ net.Conn }

func (connection) LocalAddr() net.Addr { return &net.TCPAddr{} }

func (connection) RemoteAddr() net.Addr { return &net.TCPAddr{} }

func TestVerifier(t *testing.T) {
	fake.reset(t)
	app := provisionApp(t, "evidence none")
	start(t, app)
	defer stop(t, app)
	verifier := Verifier{server: app.Servers["ss1"]}
	registered := writeKey(t, filepath.Join(t.TempDir(), "a.pem"), "peer", forAuthentication, -1, 1)
	stranger := writeKey(t, filepath.Join(t.TempDir(), "b.pem"), "stranger", forAuthentication, -1, 1)
	for _, test := range []struct {
		name  string
		chain [][]byte
		ok    bool
	}{
		{"registered", [][]byte{registered.Raw}, true},
		{"registered, with more behind", [][]byte{registered.Raw, stranger.Raw}, true},
		{"stranger", [][]byte{stranger.Raw, registered.Raw}, false},
		{"nobody", nil, false},
		{"no certificate", [][]byte{{1, 2, 3}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := verifier.VerifyClientCertificate(test.chain, nil); err == nil != test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
