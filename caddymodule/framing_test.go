// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"
)

// read returns what passes of those octets, and why the last of them did not.
func read(octets string, wrap func(io.Reader) io.Reader) (passed, reason string) {
	c := &framedConn{Conn: readConn{Reader: wrap(strings.NewReader(octets))}, refused: func(r string) { reason = r }}
	all, _ := io.ReadAll(c)
	return string(all), reason
}

type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

var readers = map[string]func(io.Reader) io.Reader{
	"whole":     func(r io.Reader) io.Reader { return r },
	"one octet": iotest.OneByteReader,
	"half":      iotest.HalfReader,
	"with end":  iotest.DataErrReader,
}

func TestFraming(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	const chunks = post + "Transfer-Encoding: chunked\r\n\r\n"
	for _, passes := range []string{
		"", "GET", get, get + get, "\r\n" + get + "\r\n\r\n" + get,
		post + "Content-Length: 5\r\n\r\n1\r\n\r\n" + get,
		post + "Content-Length: 0\r\n\r\n" + get,
		post + "Content-Length: 3\r\ncontent-length:3 \r\n\r\nabc" + get,
		post + "Content-Length: 9\r\n\r\nshort",
		strings.Replace(post, "1.1", "1.0", 1) + "Content-Length: 3\r\n\r\nabc",
		chunks + "5\r\n12345\r\n0\r\n\r\n" + get,
		chunks + "a;name=\"value\"\r\n0\r\n1234567\r\n0B \r\n\r\n\r\n\r\n\r\n0\r\n\r\n00\r\n\r\n" + get,
		chunks + "1\r\na\r\n0;x\r\nX-Sum: 1\r\nOther: Content-Type: 5\r\n\r\n" + get,
		strings.Replace(chunks, "chunked", "CHUNKED", 1) + "0\r\n\r\n" + get,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\n\n : \r\n",
		post + "X: \xe4\tb\r\n\r\n",
		post + "X: " + strings.Repeat("y", 30_000) + "\r\n\r\n" + get,
	} {
		for name, wrap := range readers {
			if got, reason := read(passes, wrap); got != passes || reason != "" {
				t.Errorf("%s: of %.200q came %.200q: %s", name, passes, got, reason)
			}
		}
	}

	for _, c := range []struct{ before, refused, reason string }{
		{"", chunks[:len(chunks)-2] + "Content-Length: 5\r\n\r\n", "a Content-Length and a Transfer-Encoding"},
		{get, post + "content-length: 5\r\nTRANSFER-ENCODING: chunked\r\n\r\n", "a Content-Length and a Transfer-Encoding"},
		{chunks + "1\r\na\r\n0\r\n\r\n", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "two Content-Lengths"},
		{post + "Content-Length: 3\r\n\r\nabc", post + "X: a\r\n b\r\n\r\n", "folded"},
		{"", "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", "folded"},
		{"", "GET / HTTP/1.1\nHost: a\n\n", "stands alone"},
		{"", "GET / HTTP/1.1\r\nHost: a\n\r\n", "stands alone"},
		{"", post + "X: a\nY: b\r\n\r\n", "stands alone"},
		{"", post + "X: a\rY: b\r\n\r\n", "stands alone"},
		{"", post + "X: a\x00\r\n\r\n", "stands alone"},
		{"", post + "X : a\r\n\r\n", "blank before it"},
		{"", post + "nothing\r\n\r\n", "no colon"},
		{"", post + "Transfer-Encoding: chunked, chunked\r\n\r\n", "not chunked alone"},
		{"", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "not chunked alone"},
		{"", post + "Transfer-Encoding: identity\r\n\r\n", "not chunked alone"},
		{"", post + "Transfer-Encoding:\r\n\r\n", "not chunked alone"},
		{"", strings.Replace(chunks, "1.1", "1.0", 1), "not HTTP/1.1"},
		{"", post + "Content-Length: +5\r\n\r\n", "no number"},
		{"", post + "Content-Length: 5,5\r\n\r\n", "no number"},
		{"", post + "Content-Length: 9223372036854775808\r\n\r\n", "too large"},
		{"", post + "Content-Length: \r\n\r\n", "empty"},
	} {
		for name, wrap := range readers {
			if got, reason := read(c.before+c.refused+get, wrap); got != c.before+refusal || !strings.Contains(reason, c.reason) {
				t.Errorf("%s: of %q came %q: %s", name, c.before+c.refused, got, reason)
			}
		}
	}

	// In a body there is nothing to put in place: it breaks off. What follows does not pass.
	for _, c := range []struct{ broken, reason string }{
		{"5\n12345\r\n0\r\n\r\n", "line feed stands alone"},
		{"5\r12345\r\n0\r\n\r\n", "carriage return stands alone"},
		{"5\r\n123456\r\n0\r\n\r\n", "longer than it says"},
		{"5\r\n12345\n0\r\n\r\n", "longer than it says"},
		{"+5\r\n12345\r\n0\r\n\r\n", "no size"},
		{"\r\n12345\r\n0\r\n\r\n", "no size"},
		{"0x5\r\n12345\r\n0\r\n\r\n", "no number"},
		{"FFFFFFFFFFFFFFFF\r\n", "too large"},
		{"0\r\nX: y\n\r\n", "line feed stands alone"},
		{"0\r\nX: y\r\ncontent-TYPE : text/html\r\n\r\n", "the field content-TYPE"},
		{"0\r\nSOAPAction: x\r\n\r\n", "the field SOAPAction"},
	} {
		for name, wrap := range readers {
			got, reason := read(chunks+c.broken+get, wrap)
			before, ok := strings.CutSuffix(got, broken)
			if !ok || !strings.HasPrefix(chunks+c.broken+get, before) || !strings.Contains(reason, c.reason) {
				t.Errorf("%s: of %q came %q: %s", name, c.broken, got, reason)
			}
			if strings.Contains(got, "GET") {
				t.Errorf("%s: what follows %q passed", name, c.broken)
			}
		}
	}

	long := post + "X: " + strings.Repeat("y", maxHead)
	if got, reason := read(long+"\r\n\r\n"+get, iotest.HalfReader); len(got) != maxHead || !strings.HasPrefix(long, got) || reason == "" {
		t.Errorf("of a long head came %d octets: %s", len(got), reason)
	}
}

// TestFramingBodies: no handler takes a body that is refused for complete, and its context lives on, so that the answer
// can tell.
func TestFramingBodies(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		_, err := io.Copy(io.Discard, r.Body)
		ended <- errors.Join(err, r.Context().Err())
	})}
	go server.Serve((&Framing{logger: zap.NewNop()}).WrapListener(listener))
	defer server.Close()
	for _, body := range []string{
		"5\n12345\r\n0\r\n\r\n", "5\r12345\r\n0\r\n\r\n", "5\r\n123456\r\n0\r\n\r\n", "5\r\n12345\n0\r\n\r\n", "5\r\n12345\r0\r\n\r\n",
		"+5\r\n12345\r\n0\r\n\r\n", "\r\n12345\r\n0\r\n\r\n", "5 ;\n12345\r\n0\r\n\r\n", "0\r\n\n", "0\r\nX: y\n\r\n\r\n", "0\r\nX: y\r\n\n\r\n\r\n", "0\r\nX\rY: z\r\n\r\n",
		"0\r\nX: y\r\nContent-Type: text/html\r\n\r\n", "0\r\nSOAPAction : x\r\n\r\n", "0\r\nHost: b\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", body)
		if err := <-ended; err == nil || errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: the handler got %v", body, err)
		}
		conn.Close()
	}
}

func TestFramingCaddyfile(t *testing.T) {
	for input, ok := range map[string]bool{"xroad_framing": true, "xroad_framing on": false, "xroad_framing {\n\ton\n}": false} {
		if err := new(Framing).UnmarshalCaddyfile(caddyfile.NewTestDispenser(input)); (err == nil) != ok {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// FuzzFraming: what passes is what came, up to a refusal, however it comes.
func FuzzFraming(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n")
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\nContent-Type: a\r\n\r\n")
	f.Add("\r\nPRI * HTTP/2.0\r\n\r\n\n\n")
	f.Fuzz(func(t *testing.T, octets string) {
		passed, reason := read(octets, iotest.OneByteReader)
		if reason != "" {
			passed = strings.TrimSuffix(strings.TrimSuffix(passed, refusal), broken)
		} else if reason == "" && passed != octets {
			t.Fatalf("of %q came %q", octets, passed)
		}
		if !strings.HasPrefix(octets, passed) {
			t.Fatalf("of %q came %q", octets, passed)
		}
		for name, wrap := range readers {
			if _, other := read(octets, wrap); other != reason {
				t.Errorf("%s: %q, not %q", name, other, reason)
			}
		}
	})
}
