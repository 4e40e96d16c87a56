// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// cuts returns where requests end in octets that pass.
func cuts(octets string) (ends []int) {
	for at := 0; ; ends = append(ends, at) {
		c := &framedConn{in: []byte(octets[at:]), refused: func(string) {}}
		end := c.headEnd()
		if end == 0 || end > maxHead {
			return ends
		}
		var reason string
		if c.body, reason = framingOf(strings.TrimLeft(octets[at:at+end], "\r\n")); reason != "" {
			return ends
		}
		for at += end; c.body.passing(); at += c.follow([]byte(octets[at:])) {
			if at == len(octets) || c.err != nil {
				return ends
			}
		}
	}
}

// FuzzFramingAgainstGo: of what passes, Go ends requests where we do.
func FuzzFramingAgainstGo(f *testing.F) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	f.Add("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + get)
	f.Add("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \tChunked \r\n\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n" + get)
	f.Add(get + "\r\n\r\nPOST / HTTP/1.0\r\nContent-Length: 03\r\ncontent-length: 03\r\n\r\nabc\r\n\r\n" + get)
	f.Fuzz(func(t *testing.T, octets string) {
		passed, reason := read(octets, func(r io.Reader) io.Reader { return r })
		if reason != "" {
			passed = strings.TrimSuffix(strings.TrimSuffix(passed, refusal), broken)
		}
		if strings.Contains(passed, "PRI * HTTP/2.0") {
			return
		}
		ours := cuts(passed)
		under := strings.NewReader(passed)
		b := bufio.NewReader(under)
		for method := ""; ; {
			if method == http.MethodPost { // what Go's server forgives
				start, _ := b.Peek(4)
				b.Discard(len(start) - len(strings.TrimLeft(string(start), "\r\n")))
			}
			r, err := http.ReadRequest(b)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			method = r.Method
			if at := len(passed) - under.Len() - b.Buffered(); !slices.Contains(ours, at) {
				t.Fatalf("of %q Go ends a request at %d, we at %v", passed, at, ours)
			}
		}
	})
}
