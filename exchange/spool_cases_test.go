// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestSpoolIsEmpty_FR52: after each exchange, however it ends and however long its message is, nothing is left in the spools.
func TestSpoolIsEmpty_FR52(t *testing.T) {
	const passes, refused, down, fault = "passes", "refused", "service out of order", "fault of the service"
	for _, size := range []int{10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		for end, want := range map[string]string{
			passes: "", refused: "server.serverproxy.access_denied", down: "server.serverproxy.service_failed.http_error", fault: "soap:Server",
		} {
			t.Run(fmt.Sprintf("FR-52 %d octets, %s", size, end), func(t *testing.T) {
				service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch end {
					case down:
						w.WriteHeader(http.StatusServiceUnavailable)
					case fault:
						w.Header().Set("Content-Type", "text/xml")
						w.WriteHeader(http.StatusInternalServerError)
						io.WriteString(w, `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><soap:Fault><faultcode>soap:Server</faultcode><faultstring>no</faultstring></soap:Fault></soap:Body></soap:Envelope>`)
					default:
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Content-Type", "text/xml")
						w.Write(testbed.Envelope(header(), "echoResponse", ""))
					}
				}))
				defer service.Close()
				options := testbed.Options{Service: exchange.Service{To: service.URL}}
				if end == refused {
					options.Service.Allow = []exchange.Subject{}
				}
				bed := testbed.New(t, options)
				body := related(testbed.Envelope(header(), "echo", ""), make([]byte, size))
				for range 5 {
					_, answer := post(t, bed, relatedType, bytes.NewReader(body))
					if got := faultCode(t, answer); got != want {
						t.Fatalf("fault %q, want %q: %s", got, want, answer)
					}
					bed.CheckClean()
				}
			})
		}
	}
}

// TestNoSecondDelivery_FR58: a service that has got any of a request, and fails, does not get it again.
func TestNoSecondDelivery_FR58(t *testing.T) {
	for name, serve := range map[string]func(net.Conn, *bufio.Reader){
		"resets in the middle": func(c net.Conn, r *bufio.Reader) {
			r.Discard(10 << 20)
			c.(*net.TCPConn).SetLinger(0)
		},
		"answers 503 before it reads": func(c net.Conn, r *bufio.Reader) {
			r.Peek(1)
			io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		},
		"stands still": func(_ net.Conn, r *bufio.Reader) {
			r.Discard(1 << 20)
			time.Sleep(time.Second)
		},
		"hangs up when it has all": func(_ net.Conn, r *bufio.Reader) { readRequest(r) },
	} {
		for delivery, how := range map[exchange.Delivery]string{exchange.Strict: "strict", exchange.Gated: "gated"} {
			t.Run("FR-58 "+name+", "+how, func(t *testing.T) {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer listener.Close()
				var calls atomic.Int64
				go func() {
					for {
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						calls.Add(1)
						serve(conn, bufio.NewReader(conn))
						conn.Close()
					}
				}()
				bed := testbed.New(t, testbed.Options{Service: exchange.Service{
					To: "http://" + listener.Addr().String(), Timeout: 300 * time.Millisecond, Delivery: delivery,
				}})
				_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), make([]byte, 32<<20))))
				if got := faultCode(t, answer); !strings.HasPrefix(got, "server.serverproxy.service_failed.") {
					t.Errorf("fault %q: %s", got, answer)
				}
				if n := calls.Load(); n != 1 {
					t.Errorf("the service was called %d times", n)
				}
				bed.CheckClean()
			})
		}
	}
}
