// SPDX-License-Identifier: Apache-2.0

//go:build unix

package exchange_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/internal/testbed"
)

// BenchmarkSmall has information systems ask one message of 128 octets in the body after another, over kept connections:
// consumer, both security servers and service in one process, without Caddy.
func BenchmarkSmall(b *testing.B) {
	for _, callers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(callers, " clients"), func(b *testing.B) {
			bed := testbed.New(b, testbed.Options{Route: http.HandlerFunc(echoOne)})
			address, _ := url.Parse(bed.URL)
			message := testbed.Envelope(header(), "echo", strings.Repeat("0123456789abcdef", 8))
			request := fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\nSOAPAction: \"\"\r\nContent-Length: %d\r\n\r\n%s", len(message), message)
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			before := processorTime(b)
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				all.Go(func() {
					conn, err := net.Dial("tcp", address.Host)
					if err != nil {
						b.Error(err)
						return
					}
					defer conn.Close()
					in := bufio.NewReader(conn)
					for left.Add(-1) >= 0 {
						if _, err := conn.Write(request); err != nil {
							b.Error(err)
							return
						}
						response, err := http.ReadResponse(in, nil)
						if err != nil {
							b.Error(err)
							return
						}
						if answer, err := io.ReadAll(response.Body); err != nil || bytes.Contains(answer, []byte("Fault>")) {
							b.Errorf("%v: %s", err, answer)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// processorTime returns what this process has used, which says more than the time does where others are busy, too.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// echoOne answers with the envelope that it gets.
func echoOne(w http.ResponseWriter, r *http.Request) {
	envelope, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Write(envelope)
}
