// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
)

// peerRequest is a request as Caddy hands it to a handler.
func peerRequest() *http.Request {
	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("X-Peer", "hop")
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, &caddyhttp.Server{})
}

func TestServiceSeesItsOwnRequest(t *testing.T) {
	outer := peerRequest()
	caddyhttp.SetVar(outer.Context(), "colour", "blue")
	inner := outer.WithContext(outer.Context())
	inner.Header = http.Header{"X-Consumer": {"system"}}
	called := false
	s := &service{peer: outer, next: caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		called = true
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		r.Header.Set("X-Added", "later")
		for placeholder, want := range map[string]string{
			"{http.request.header.X-Peer}":     "",
			"{http.request.header.X-Consumer}": "system",
			"{http.request.header.X-Added}":    "later",
			"{http.vars.colour}":               "blue",
		} {
			if got := repl.ReplaceAll(placeholder, ""); got != want {
				t.Errorf("%s is %q, want %q", placeholder, got, want)
			}
		}
		r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields).Set(zap.String("route", "taken"))
		if r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey) != outer.Context().Value(caddyhttp.ExtraLogFieldsCtxKey) {
			t.Error("what the routes log is lost")
		}
		_, err := w.Write([]byte("answer"))
		return err
	})}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, inner)
	if !called || w.Body.String() != "answer" || s.err != nil {
		t.Errorf("called %t, got %q, %v", called, w.Body, s.err)
	}
}

func TestServiceFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		next   caddyhttp.HandlerFunc
		status int
		panics bool
	}{
		{"with a status", func(http.ResponseWriter, *http.Request) error {
			return caddyhttp.Error(http.StatusBadGateway, errors.New("refused"))
		}, http.StatusBadGateway, false},
		{"without a status", func(http.ResponseWriter, *http.Request) error { return errors.New("broken") }, http.StatusInternalServerError, false},
		{"while it answers", func(w http.ResponseWriter, _ *http.Request) error {
			w.Write([]byte("half"))
			return errors.New("broken")
		}, http.StatusOK, true},
		{"after the status", func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusOK)
			return errors.New("broken")
		}, http.StatusOK, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			s := &service{peer: peerRequest(), next: test.next}
			func() {
				defer func() {
					if v := recover(); (v == http.ErrAbortHandler) != test.panics {
						t.Errorf("panic: %v", v)
					}
				}()
				s.ServeHTTP(w, peerRequest())
			}()
			if w.Code != test.status || s.err == nil {
				t.Errorf("got %d, %v", w.Code, s.err)
			}
		})
	}
}

func TestNote(t *testing.T) {
	service, err := ident.ParseService("DEV/GOV/0000/registry/echo/v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		outcome exchange.Outcome
		want    map[string]string
	}{
		{"success", exchange.Outcome{Role: "send", MessageID: "e-1", Client: ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"},
			Service: service, Peer: "DEV/GOV/0000/ss2"},
			map[string]string{"role": "send", "id": "e-1", "client": "DEV/GOV/1111/app", "service": "DEV/GOV/0000/registry/echo/v1",
				"peer": "DEV/GOV/0000/ss2", "fault": ""}},
		{"early fault", exchange.Outcome{Role: "receive", Fault: "server.serverproxy.access_denied", Err: errors.New("no")},
			map[string]string{"role": "receive", "id": "", "client": "", "service": "", "peer": "", "fault": "server.serverproxy.access_denied"}},
		{"long values", exchange.Outcome{Role: "send", MessageID: strings.Repeat("ä", 100_000), Fault: strings.Repeat("x", 100_000), Err: errors.New(strings.Repeat("y", 100_000))},
			map[string]string{"id": strings.Repeat("ä", 256) + "…", "fault": strings.Repeat("x", 512) + "…"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := peerRequest()
			note(r, test.outcome, new(error))
			repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
			for name, want := range test.want {
				if got, ok := repl.GetString("http.xroad." + name); !ok || got != want {
					t.Errorf("{http.xroad.%s} is %q, want %q", name, got, want)
				}
			}
			note(httptest.NewRequest("POST", "/", nil), test.outcome, nil) // outside Caddy
		})
	}
}

func TestSeverity(t *testing.T) {
	for fault, want := range map[string]string{
		"client.invalid_soap":                                       "warn",
		"server.serverproxy.access_denied":                          "warn",
		"server.clientproxy.service_failed.internal_error":          "error",
		"server.serverproxy.cannot_create_signature.signer.unknown": "error",
		"server.clientproxy.global_conf_outdated":                   "error",
		"server.clientproxy.logging_failed":                         "error",
		"my_internal_error":                                         "warn",
		"":                                                          "warn",
	} {
		if got := severity(fault).String(); got != want {
			t.Errorf("%q is %s, want %s", fault, got, want)
		}
	}
}

func TestMatchServiceOutsideOfAnExchange(t *testing.T) {
	if got, err := (MatchService{{}}).MatchWithError(httptest.NewRequest("POST", "/", nil)); got || err != nil {
		t.Errorf("got %t, %v", got, err)
	}
}

func TestTransport(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	transport, err := newTransport(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the transport outlives the configuration
	if transport.Proxy != nil || !transport.DisableCompression || transport.ForceAttemptHTTP2 {
		t.Errorf("proxy %t, compression %t, HTTP/2 %t", transport.Proxy != nil, !transport.DisableCompression, transport.ForceAttemptHTTP2)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("answer")) }))
	defer server.Close()
	response, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	type key struct{}
	parent, end := context.WithCancelCause(context.WithValue(context.Background(), key{}, "value"))
	child := valueless{parent}
	end(errors.New("over"))
	if child.Value(key{}) != nil || child.Err() == nil {
		t.Error("a dial sees the request's values, or not its end")
	}
}
