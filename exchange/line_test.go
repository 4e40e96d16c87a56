// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestBrokenChunks: nobody knows where the next request begins behind a chunk that is none, so the connection is over.
func TestBrokenChunks(t *testing.T) {
	bed := testbed.New(t, testbed.Options{})
	u, err := url.Parse(bed.URL)
	if err != nil {
		t.Fatal(err)
	}
	envelope := testbed.Envelope(header(), "echo", "")
	for _, broken := range []string{"+5\r\n     \r\n", "5\n     \r\n", "5\r\n     x\r\n", "FFFFFFFFFFFFFFFFFF\r\n"} {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%s"+
			"0\r\n\r\nPOST /next HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", len(envelope)-1, envelope[:len(envelope)-1], broken)
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(answer); strings.Count(text, "HTTP/1.1 ") != 1 || !strings.Contains(text, "Connection: close") || !strings.Contains(text, "client.io_error") {
			t.Errorf("after %q: %s", broken, text)
		}
	}
	bed.CheckClean()
}
