// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/wire"
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

// alone is a body that sees whether two read it at once.
type alone struct {
	io.ReadCloser
	readers, octets *atomic.Int64
	crowded         *atomic.Bool
}

func (a alone) Read(p []byte) (int, error) {
	if a.readers.Add(1) > 1 {
		a.crowded.Store(true)
	}
	defer a.readers.Add(-1)
	n, err := a.ReadCloser.Read(p)
	a.octets.Add(int64(n))
	return n, err
}

// TestOneReader: while an upload that was refused still waits for the information system, nobody else reads the request, for a body
// that others have wrapped is made for one reader.
func TestOneReader(t *testing.T) {
	var readers, octets atomic.Int64
	var crowded atomic.Bool
	body := message()
	half := len(body) / 2
	bed := testbed.New(t, testbed.Options{Peer: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		over := make(chan struct{})
		go func() {
			defer close(over)
			io.Copy(io.Discard, r.Body)
		}()
		for octets.Load() < int64(half) || readers.Load() == 0 { // until the upload waits for more
			time.Sleep(time.Millisecond)
		}
		fault := wire.Fault(wire.At(wire.AtReceiver, wire.Errorf("access_denied", "no")), "").Bytes()
		w.Header().Set("Content-Type", "text/xml")
		w.Header().Set("Content-Length", strconv.Itoa(len(fault)))
		w.Write(fault)
		http.NewResponseController(w).Flush()
		<-over
	})})
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)
		r.Body = alone{r.Body, &readers, &octets, &crowded}
		(&exchange.Sender{Server: bed.Sender}).Serve(w, r)
	}))
	defer server.Close()
	conn := dial(t, server.URL)
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", relatedType, len(body))
	conn.Write(body[:half])
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil || faultCode(t, answer) != "server.serverproxy.access_denied" {
		t.Errorf("%v: %s", err, answer)
	}
	time.Sleep(50 * time.Millisecond) // now it throws away
	conn.Write(body[half:])
	<-over
	if crowded.Load() {
		t.Error("two read the request at once")
	}
	bed.CheckClean()
}
