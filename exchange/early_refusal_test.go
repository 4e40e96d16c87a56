// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/spool"
)

// TestRefusedBeforeTheUpload has an information system declare a message that the service or the spool of the receiving
// security server has no room for. It sends the beginning and waits: the fault comes all the same.
func TestRefusedBeforeTheUpload(t *testing.T) {
	const declared = 1 << 40
	small, err := spool.OpenDisk(t.TempDir(), spool.Options{Quota: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		options testbed.Options
		want    string
	}{
		{"more than the service takes", testbed.Options{Service: exchange.Service{Limit: 1 << 30}}, "server.serverproxy.invalid_request"},
		{"more than the quota has", testbed.Options{Receive: func(s *exchange.SecurityServer) { s.Spool = small }}, "server.serverproxy.io_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bed := testbed.New(t, tt.options)
			request := related(testbed.Envelope(header(), "echo", ""), make([]byte, 1<<20))
			never := make(chan struct{})
			defer close(never)
			req, err := http.NewRequest(http.MethodPost, bed.URL, io.MultiReader(bytes.NewReader(request[:1<<19]), &waiting{never}))
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = declared
			req.Header.Set("Content-Type", relatedType)
			response, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answer, err := io.ReadAll(response.Body)
			if got := faultCode(t, answer); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q\n%s", got, err, tt.want, answer)
			}
			if n := small.Size(); n != 0 {
				t.Errorf("%d octets are left", n)
			}
			bed.CheckClean()
		})
	}
}
