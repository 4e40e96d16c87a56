// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

func TestEndpoints(t *testing.T) {
	s := newWorld(t).store
	first := Endpoint{Server: ss1, Address: "ss1.example"}
	second := Endpoint{Server: ss2, Address: "127.0.0.1:6500", OCSPAddress: "127.0.0.1:6577", Maintenance: &closed}
	unknown := ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss9"}
	for _, c := range []struct {
		name     string
		provider ident.Client
		server   *ident.Server
		want     []Endpoint
		cause    string
	}{
		{"owner", alice, nil, []Endpoint{first}, ""},
		{"on two servers", app, nil, []Endpoint{first, second}, ""},
		{"one of two", app, &ss2, []Endpoint{second}, ""},
		{"without the server that has no address", bob, nil, []Endpoint{second}, ""},
		{"that server named", bob, &ss3, nil, "invalid_security_server"},
		{"not on that server", bob, &ss1, nil, "invalid_security_server"},
		{"unknown server", app, &unknown, nil, "invalid_security_server"},
		{"unknown subsystem", ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "x"}, nil, nil, "unknown_member"},
		{"another case", ident.Client{Instance: "dev", Class: "GOV", Member: "1111"}, nil, nil, "unknown_member"},
		{"unknown, on a server named", ident.Client{Instance: "DEV", Class: "GOV", Member: "9"}, &ss1, nil, "unknown_member"},
		{"nobody", ident.Client{}, nil, nil, "unknown_member"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Endpoints(c.provider, c.server)
			check(t, err, c.cause, "")
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestLookups(t *testing.T) {
	w := newWorld(t)
	s := w.store
	if got, err := s.ServerOf(w.auth.Certificate); got != ss1 || err != nil {
		t.Errorf("the certificate of ss1 is that of %v, %v", got, err)
	}
	_, err := s.ServerOf(w.sign.Certificate)
	check(t, err, "ssl_authentication_failed", "not registered")
	for instance, cause := range map[string]string{"": "", "DEV": "", "EE": "internal_error"} {
		members, err := s.Members(instance)
		check(t, err, cause, instance)
		if err == nil && (len(members) != 3 || members[1] != Member{app, "Alice", "App"}) {
			t.Errorf("members of %q are %v", instance, members)
		}
	}
	foreign := ident.Client{Instance: "EE", Class: "GOV", Member: "9"}
	if !s.InGroup("all", app) || !s.InGroup("all", foreign) || s.InGroup("all", alice) || s.InGroup("ALL", app) || s.InGroup("", app) {
		t.Error("groups are not as they are")
	}
	if s.Instance() != "DEV" || s.Freshness() != time.Hour || s.Valid(now) != nil || s.Close() != nil {
		t.Error("the store does not tell what it was told")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, p := range map[string]Parameters{
		"no instance":            {Freshness: time.Hour},
		"no freshness":           {Instance: "DEV"},
		"a server twice":         {Instance: "DEV", Freshness: 1, Servers: []Server{{ID: ss1}, {ID: ss1}}},
		"a server of another":    {Instance: "EE", Freshness: 1, Servers: []Server{{ID: ss1}}},
		"a client of another":    {Instance: "DEV", Freshness: 1, Servers: []Server{{ID: ss1, Clients: []ident.Client{{Instance: "EE"}}}}},
		"a freshness before now": {Instance: "DEV", Freshness: -1},
	} {
		if _, err := New(p, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
