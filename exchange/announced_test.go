// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/spool"
)

// reserving remembers the most that was reserved for an entry.
type reserving struct {
	spool.Store
	most *atomic.Int64
}

func (r reserving) Create(ctx context.Context) (spool.Entry, error) {
	e, err := r.Store.Create(ctx)
	return reservingEntry{e, r.most}, err
}

type reservingEntry struct {
	spool.Entry
	most *atomic.Int64
}

func (e reservingEntry) Reserve(n int64) error {
	e.most.Store(max(e.most.Load(), n))
	return e.Entry.Reserve(n)
}

// TestAnnouncedTooLong has a peer announce a message that is longer than its service takes: no room is made for it, which
// others would miss.
func TestAnnouncedTooLong(t *testing.T) {
	const limit, announced = 2 << 20, 1 << 40
	provider := ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}
	for code, version := range map[string]string{"echo": "v1", "listMethods": ""} {
		var most atomic.Int64
		bed := testbed.New(t, testbed.Options{
			Service: exchange.Service{Limit: limit},
			Spool:   func(s spool.Store) spool.Store { return reserving{s, &most} },
			Middle: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.ContentLength = announced
					next.ServeHTTP(w, r)
				})
			},
		})
		h := header()
		h.Service = ident.Service{Client: provider, Code: code, Version: version}
		_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(h, code, "")))
		if got := faultCode(t, answer); got != "server.serverproxy.invalid_request" {
			t.Errorf("%s: got %q\n%s", code, got, answer)
		}
		if n := most.Load(); n > limit {
			t.Errorf("%s: room was made for %d octets", code, n)
		}
		bed.CheckClean()
	}
}
