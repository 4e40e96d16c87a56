// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/peer"
)

// TestTowards: who asks is told which security server it will be, and may stop before anything is sent to it.
func TestTowards(t *testing.T) {
	stop := errors.New("not now")
	two := server("ss3")
	for _, tt := range []struct {
		name    string
		servers []string
		named   *ident.Server
		stops   bool
		told    []ident.Server // in any order, where the first of several is not known
		err     bool
	}{
		{"one", []string{"ss2"}, nil, false, []ident.Server{server("ss2")}, false},
		{"stopped", []string{"ss2"}, nil, true, []ident.Server{server("ss2")}, true},
		{"the named one", []string{"ss2", "ss3"}, &two, false, []ident.Server{two}, false},
		{"stopped, of several", []string{"ss2", "ss3"}, nil, true, []ident.Server{server("ss2"), server("ss3")}, true},
		{"nobody", nil, nil, false, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, tt.servers, nil)
			pool := p.pool(t, p.store)
			var told []ident.Server
			ask := func() (*body, ident.Server, error) {
				b := &body{text: "hello"}
				response, chosen, err := pool.Post(t.Context(), peer.Request{
					Provider: provider, Server: tt.named, Header: http.Header{}, Body: b,
					Towards: func(s ident.Server) error {
						told = append(told, s)
						if tt.stops {
							return stop
						}
						return nil
					},
					Judged: func(ident.Server, bool, http.Header) {},
					Akin:   func(http.Header) bool { return false },
				})
				if err == nil {
					response.Body.Close()
				}
				return b, chosen, err
			}
			b, chosen, err := ask()
			if (err != nil) != tt.err || tt.stops != errors.Is(err, stop) {
				t.Fatal(err)
			}
			if b.closed.Load() != 1 || tt.err && (b.written.Load() != 0 || p.requests.Load() != 0 || p.fetches.Load() != 0) {
				t.Errorf("the body was closed %d times and written %d times, %d requests, %d fetches", b.closed.Load(), b.written.Load(), p.requests.Load(), p.fetches.Load())
			}
			if len(told) != min(len(tt.told), 1) || len(told) == 1 && !slices.Contains(tt.told, told[0]) {
				t.Errorf("told of %v, want one of %v", told, tt.told)
			}
			if tt.err {
				return
			}
			told = nil
			if _, again, err := ask(); err != nil || again != chosen || !slices.Equal(told, []ident.Server{chosen}) {
				t.Errorf("then %v, %v; told of %v, want %v", again, err, told, chosen)
			}
		})
	}
	t.Run("the one that was first before", func(t *testing.T) {
		p := newPlace(t, []string{"ss2", "ss3", "ss4"}, nil)
		pool := p.pool(t, p.store)
		_, winner, err := post(t.Context(), pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = pool.Post(t.Context(), peer.Request{
			Provider: provider, Header: http.Header{}, Body: &body{},
			Towards: func(s ident.Server) error {
				if s != winner {
					t.Errorf("told of %s, and it was %s", s, winner)
				}
				return stop
			},
		})
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}
