// SPDX-License-Identifier: Apache-2.0

package ident

import (
	"encoding/json"
	"errors"
	"testing"
)

var clients = []struct {
	name, text string
	value      Client
}{
	{"member", "DEV/GOV/0000", Client{"DEV", "GOV", "0000", ""}},
	{"subsystem", "DEV/GOV/0000/registry", Client{"DEV", "GOV", "0000", "registry"}},
	{"slash and percent", "D%2FV/G%25V/0/a%2Fb%25c", Client{"D/V", "G%V", "0", "a/b%c"}},
	{"control characters", "D%00/G%1F/0%7F/a%0Ab", Client{"D\x00", "G\x1f", "0\x7f", "a\nb"}},
	{"letters and blanks", "ДЕВ/ÄÖ/ 0 0 /ž", Client{"ДЕВ", "ÄÖ", " 0 0 ", "ž"}},
	{"not UTF-8", "\xff/\xfe/0", Client{"\xff", "\xfe", "0", ""}},
	{"hyphens", "-/-/-/-", Client{"-", "-", "-", "-"}},
}

var services = []struct {
	name, text string
	value      Service
}{
	{"without version", "DEV/GOV/0000/registry/echo", Service{Client{"DEV", "GOV", "0000", "registry"}, "echo", ""}},
	{"with version", "DEV/GOV/0000/registry/echo/v1", Service{Client{"DEV", "GOV", "0000", "registry"}, "echo", "v1"}},
	{"of a member", "DEV/GOV/0000/-/echo", Service{Client{"DEV", "GOV", "0000", ""}, "echo", ""}},
	{"of a member, with version", "DEV/GOV/0000/-/echo/v1", Service{Client{"DEV", "GOV", "0000", ""}, "echo", "v1"}},
	{"of the subsystem -", "DEV/GOV/0000/%2D/echo", Service{Client{"DEV", "GOV", "0000", "-"}, "echo", ""}},
	{"hyphens", "%2D/%2D/%2D/%2D/%2D/%2D", Service{Client{"-", "-", "-", "-"}, "-", "-"}},
	{"hyphens within", "D-V/G--/0000/--/-e/v-1", Service{Client{"D-V", "G--", "0000", "--"}, "-e", "v-1"}},
	{"escaped", "D%2FV/GOV/0000/a%25/b%2Fc/v%0A", Service{Client{"D/V", "GOV", "0000", "a%"}, "b/c", "v\n"}},
}

var servers = []struct {
	name, text string
	value      Server
}{
	{"plain", "DEV/GOV/1111/ss1", Server{"DEV", "GOV", "1111", "ss1"}},
	{"escaped", "DEV/G%2FV/11%2511/ss%091", Server{"DEV", "G/V", "11%11", "ss\t1"}},
}

func TestText(t *testing.T) {
	for _, c := range clients {
		t.Run("client/"+c.name, func(t *testing.T) { roundTrip(t, c.text, c.value, ParseClient) })
	}
	for _, c := range services {
		t.Run("service/"+c.name, func(t *testing.T) { roundTrip(t, c.text, c.value, ParseService) })
	}
	for _, c := range servers {
		t.Run("server/"+c.name, func(t *testing.T) { roundTrip(t, c.text, c.value, ParseServer) })
	}
}

// value is any of the identifiers.
type value interface {
	comparable
	String() string
	MarshalText() ([]byte, error)
}

func roundTrip[T value](t *testing.T, text string, v T, parse func(string) (T, error)) {
	t.Helper()
	if got := v.String(); got != text {
		t.Errorf("%#v prints %q, want %q", v, got, text)
	}
	if got, err := v.MarshalText(); string(got) != text || err != nil {
		t.Errorf("%#v marshals as %q, %v", v, got, err)
	}
	if got, err := parse(text); got != v || err != nil {
		t.Errorf("%q is %#v, %v; want %#v", text, got, err, v)
	}
}

func TestSyntax(t *testing.T) {
	client := func(s string) error { _, err := ParseClient(s); return err }
	service := func(s string) error { _, err := ParseService(s); return err }
	server := func(s string) error { _, err := ParseServer(s); return err }
	for _, c := range []struct {
		name, text string
		parse      func(string) error
	}{
		{"nothing", "", client},
		{"too few segments", "DEV/GOV", client},
		{"too many segments", "DEV/GOV/0000/a/b", client},
		{"empty segment", "DEV//0000", client},
		{"empty last segment", "DEV/GOV/0000/", client},
		{"percent alone", "DEV/GOV/%", client},
		{"escape cut", "DEV/GOV/0%2", client},
		{"escape in small letters", "DEV/GOV/%2f", client},
		{"escape of no number", "DEV/GOV/%G0", client},
		{"escape that is not needed", "DEV/GOV/%41", client},
		{"escaped hyphen where none is needed", "DEV/GOV/%2D", client},
		{"control character", "DEV/GOV/0\n", client},
		{"service of too few segments", "DEV/GOV/0000/echo", service},
		{"service of too many segments", "DEV/GOV/0000/a/echo/v1/x", service},
		{"service without code", "DEV/GOV/0000/a/", service},
		{"service of a bare hyphen as code", "DEV/GOV/0000/a/-", service},
		{"service of a bare hyphen as version", "DEV/GOV/0000/a/echo/-", service},
		{"service of a bare hyphen as member", "DEV/GOV/-/a/echo", service},
		{"service without subsystem", "DEV/GOV/0000//echo", service},
		{"service of an escaped letter", "DEV/GOV/0000/%61/echo", service},
		{"server of too few segments", "DEV/GOV/1111", server},
		{"server of too many segments", "DEV/GOV/1111/ss1/x", server},
		{"server without code", "DEV/GOV/1111/", server},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.parse(c.text); !errors.Is(err, ErrSyntax) {
				t.Errorf("%q: %v", c.text, err)
			}
		})
	}
}

func TestParts(t *testing.T) {
	sub := Client{"DEV", "GOV", "0000", "registry"}
	if got := sub.MemberOf(); got != (Client{"DEV", "GOV", "0000", ""}) || sub.Subsystem == "" {
		t.Errorf("member of %v: %v", sub, got)
	}
	if got := (Server{"DEV", "GOV", "1111", "ss1"}).Owner(); got != (Client{"DEV", "GOV", "1111", ""}) {
		t.Errorf("owner: %v", got)
	}
	if sub.IsZero() || !(Client{}).IsZero() {
		t.Error("IsZero")
	}
}

func TestJSON(t *testing.T) {
	type all struct {
		C map[Client]Service
		S *Server
	}
	const text = `{"C":{"DEV/GOV/1111":"DEV/GOV/0000/-/echo"},"S":"DEV/GOV/1111/ss1"}`
	var v all
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(v); string(got) != text || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"S":"DEV/GOV/1111"}`), &v); !errors.Is(err, ErrSyntax) {
		t.Error(err)
	}
}

// FuzzParse checks that whatever parses prints itself.
func FuzzParse(f *testing.F) {
	for _, c := range clients {
		f.Add(c.text)
	}
	for _, c := range services {
		f.Add(c.text)
	}
	for _, c := range servers {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := ParseClient(text); err == nil && v.String() != text {
			t.Errorf("client %q prints %q", text, v)
		}
		if v, err := ParseService(text); err == nil && v.String() != text {
			t.Errorf("service %q prints %q", text, v)
		}
		if v, err := ParseServer(text); err == nil && v.String() != text {
			t.Errorf("server %q prints %q", text, v)
		}
	})
}

// FuzzString checks that every identifier is what its text is parsed as, if it has all that it must have.
func FuzzString(f *testing.F) {
	f.Add("DEV", "GOV", "0000", "registry", "echo", "v1")
	f.Add("-", "/", "%", "", "%2D", "\x00")
	f.Fuzz(func(t *testing.T, instance, class, member, subsystem, code, version string) {
		if instance == "" || class == "" || member == "" || code == "" {
			return
		}
		c := Client{instance, class, member, subsystem}
		roundTrip(t, c.String(), c, ParseClient)
		s := Service{c, code, version}
		roundTrip(t, s.String(), s, ParseService)
		server := Server{instance, class, member, code}
		roundTrip(t, server.String(), server, ParseServer)
	})
}
