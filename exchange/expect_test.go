// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/wire"
)

// TestExpectOfPeer has a peer wait for a 100, which it gets where what it announces may come, and not before or after a
// refusal.
func TestExpectOfPeer(t *testing.T) {
	const limit = 4 << 20
	limited := exchange.Service{Limit: limit}
	longer := with("echoLonger").Service
	free := with("echoFree").Service
	small := func(s *exchange.SecurityServer) {
		store, err := spool.OpenDisk(t.TempDir(), spool.Options{Quota: 32 << 20})
		if err != nil {
			t.Fatal(err)
		}
		s.Spool = store
	}
	for _, tt := range []struct {
		name    string
		options testbed.Options
		length  string // header lines
		want    string // "": a 100
	}{
		{"what a service takes", testbed.Options{Service: limited}, "Content-Length: 4194304", ""},
		{"more than every service takes", testbed.Options{Service: limited}, "Content-Length: 4194305", "server.serverproxy.invalid_request"},
		{"more, of an information system", testbed.Options{Service: limited}, "Transfer-Encoding: chunked\r\nX-Fairway: SHA-256\r\nX-Fairway-Length: 4194305", "server.serverproxy.invalid_request"},
		{"more than one service takes", testbed.Options{Service: limited, More: []exchange.Service{{ID: longer, Limit: limit + 1}}}, "Content-Length: 4194305", ""},
		{"anything, where one service takes all", testbed.Options{Service: limited, More: []exchange.Service{{ID: free}}}, "Content-Length: 100000000", ""},
		{"a length that nobody tells", testbed.Options{Service: limited}, "Transfer-Encoding: chunked", ""},
		{"what the spool has room for", testbed.Options{Receive: small}, "Content-Length: 20000000", ""},
		{"more than the spool has room for", testbed.Options{Receive: small}, "Content-Length: 40000000", "server.serverproxy.io_error"},
		{"another type", testbed.Options{}, "Content-Length: 5\r\nX-Road-Message-Type: REST", "server.serverproxy.service_type"},
		{"two Content-Types", testbed.Options{}, "Content-Length: 5\r\nContent-Type: text/xml", "server.serverproxy.invalid_content_type"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bed := testbed.New(t, tt.options)
			conn, err := tls.Dial("tcp", strings.Trim(strings.TrimPrefix(bed.PeerURL, "https:"), "/"), bed.PeerTransport().TLSClientConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute)) // a test that hangs says where
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/mixed; boundary=b\r\n%s: SHA-512\r\nExpect: 100-continue\r\n%s\r\n\r\n", wire.HeaderHashAlgorithm, tt.length)
			in := bufio.NewReader(conn)
			line, err := in.Peek(len("HTTP/1.1 100"))
			if err != nil {
				t.Fatal(err)
			}
			if continued := string(line) == "HTTP/1.1 100"; continued != (tt.want == "") {
				t.Fatalf("got %q", line)
			}
			if tt.want == "" {
				return
			}
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(response.Body)
			if got := faultCode(t, answer); err != nil || got != tt.want || !response.Close {
				t.Errorf("got %q, %v, want %q\n%s", got, err, tt.want, answer)
			}
			conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // long enough for a 100 that nobody should send
			if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("behind the answer came %q, %v", rest, err)
			}
		})
	}
}
