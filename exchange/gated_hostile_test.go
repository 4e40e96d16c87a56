// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestGatedPanic has the keeping of evidence panic while the service has the beginning of a request: the exchange ends, and
// the service does not get the rest.
func TestGatedPanic(t *testing.T) {
	request := related(testbed.Envelope(header(), "echo", ""), make([]byte, 2<<20))
	service := newPatient()
	server := httptest.NewServer(service)
	defer server.Close()
	ended := make(chan any, 1)
	bed := testbed.New(t, testbed.Options{
		Service: exchange.Service{To: server.URL + "/", Delivery: exchange.Gated},
		Receive: func(s *exchange.SecurityServer) { s.Evidence = &panicking{s.Evidence} },
		Middle: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					p := recover()
					ended <- p
					panic(http.ErrAbortHandler)
				}()
				next.ServeHTTP(w, r)
			})
		},
	})
	go func() {
		response, err := http.Post(bed.URL, relatedType, halves(request, service.begun))
		if err == nil {
			response.Body.Close()
		}
	}()
	if p := <-ended; p != "the evidence" {
		t.Errorf("it ended in %v", p)
	}
	if got := <-service.got; got.err == io.EOF {
		t.Errorf("the service got all of %d octets", len(got.octets))
	}
	bed.CheckClean()
}

type panicking struct{ evidence.Store }

func (*panicking) Put(context.Context, *evidence.Record) (func() error, error) { panic("the evidence") }

// TestGatedAnswersEarly has a service answer long before the request ends, and listen no more. Its answer waits for the
// request to be verified, and is not lost by that.
func TestGatedAnswersEarly(t *testing.T) {
	request := related(testbed.Envelope(header(), "echo", ""), make([]byte, 8<<20))
	const timeout = 50 * time.Millisecond
	rest, over := make(chan struct{}), make(chan struct{})
	want := related(testbed.Envelope(header(), "echoResponse", ""), make([]byte, 1<<20))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Content-Type", relatedType)
		w.Header().Set("Content-Length", strconv.Itoa(len(want)))
		io.CopyN(io.Discard, r.Body, 1<<20)
		w.Write(want[:1<<10])
		http.NewResponseController(w).Flush()
		time.AfterFunc(4*timeout, func() { close(rest) })
		w.Write(want[1<<10:])
		<-over
	}))
	defer server.Close()
	defer close(over)
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: server.URL + "/", Delivery: exchange.Gated, Timeout: timeout}})
	_, answer := post(t, bed, relatedType, io.MultiReader(bytes.NewReader(request[:6<<20]), &waiting{rest}, bytes.NewReader(request[6<<20:])))
	if !bytes.HasSuffix(answer, want[len(want)-1<<20:]) {
		t.Errorf("%.2000s", answer)
	}
	for _, o := range bed.Outcomes() {
		if o.Err != nil {
			t.Errorf("%s: %v", o.Role, o.Err)
		}
	}
	bed.CheckClean()
}

// TestGatedLateFault has a peer send a fault in place of its signature.
func TestGatedLateFault(t *testing.T) {
	attachment := make([]byte, 2<<20)
	request := related(testbed.Envelope(header(), "echo", ""), attachment)
	service := newPatient()
	server := httptest.NewServer(service)
	defer server.Close()
	bed := testbed.New(t, testbed.Options{
		Service: exchange.Service{To: server.URL + "/", Delivery: exchange.Gated},
		Sender:  func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} },
	})
	_, answer := post(t, bed, relatedType, halves(request, service.begun))
	if got := faultCode(t, answer); got != "server.clientproxy.cannot_create_signature" {
		t.Errorf("got %q\n%s", got, answer)
	}
	if got := <-service.got; got.err == io.EOF || len(got.octets) > len(request)-64<<10 {
		t.Errorf("the service got %d octets of %d, and %v", len(got.octets), len(request), got.err)
	}
	bed.CheckClean()
}

// TestGatedWithdrawn has requests that end badly in ways of their own: the service never sees a whole one.
func TestGatedWithdrawn(t *testing.T) {
	request := related(testbed.Envelope(header(), "echo", ""), make([]byte, 2<<20))
	for _, tt := range []struct {
		name    string
		service exchange.Service
		tls     bool
		sender  func(*exchange.SecurityServer)
		want    string
	}{
		{"over TLS", exchange.Service{AnyCert: true}, true,
			func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} }, "server.clientproxy.cannot_create_signature"},
		{"longer than its limit by its signature", exchange.Service{Limit: int64(len(request)) + 4<<10}, false, nil,
			"server.serverproxy.invalid_request"},
		{"longer than its limit", exchange.Service{Limit: 1<<20 + 512<<10}, false, nil, "server.serverproxy.invalid_request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := newPatient()
			server := httptest.NewUnstartedServer(service)
			if tt.tls {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			tt.service.To, tt.service.Delivery = server.URL+"/", exchange.Gated
			bed := testbed.New(t, testbed.Options{Service: tt.service, Sender: tt.sender})
			_, answer := post(t, bed, relatedType, halves(request, service.begun))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q\n%s", got, answer)
			}
			if got := <-service.got; got.err == io.EOF || len(got.octets) > len(request)-64<<10 {
				t.Errorf("the service got %d octets of %d, and %v", len(got.octets), len(request), got.err)
			}
			bed.CheckClean()
		})
	}
}
