// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestServiceTakesItsTime has services that take a large request slowly, for longer than their timeout, and one that
// stops taking it.
func TestServiceTakesItsTime(t *testing.T) {
	const timeout, step, large = time.Second, 1 << 20, 64 << 20 // much more than sockets hold
	answered := make(chan struct{})
	take := func(r *http.Request, pause func()) {
		for {
			if n, err := io.CopyN(io.Discard, r.Body, step); n < step || err != nil {
				return
			}
			pause()
		}
	}
	for _, tt := range []struct {
		name    string
		service http.HandlerFunc
		want    string
	}{
		{"slowly", func(w http.ResponseWriter, r *http.Request) {
			take(r, func() { time.Sleep(timeout / 25) })
			w.Header().Set("Content-Type", "text/xml")
			w.Write(testbed.Envelope(header(), "echoResponse", ""))
		}, ""},
		{"not to the end", func(_ http.ResponseWriter, r *http.Request) { take(r, func() { <-answered }) },
			"server.serverproxy.service_failed.io_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.service)
			defer server.Close()
			bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: server.URL + "/", Timeout: timeout}})
			_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), make([]byte, large))))
			if tt.want != "" {
				close(answered)
			}
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			bed.CheckClean()
		})
	}
}
