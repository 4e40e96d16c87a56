// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/wire"
)

// sent is a request as one security server sent it to the other.
type sent struct {
	header http.Header
	body   []byte
}

// withID is the request with another id; "" is none.
func (s sent) withID(id string) sent {
	s.header = s.header.Clone()
	if s.header.Del(wire.HeaderRequestID); id != "" {
		s.header.Set(wire.HeaderRequestID, id)
	}
	return s
}

// capture has the sending security server send a request that never arrives.
func capture(t *testing.T, contentType string, body []byte) (*atomic.Pointer[sent], func(http.Handler) http.Handler) {
	var caught atomic.Pointer[sent]
	return &caught, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if caught.Load() != nil {
				next.ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			caught.Store(&sent{r.Header.Clone(), body})
			w.Header().Set("Content-Type", wire.FaultContentType)
			io.WriteString(w, "x")
		})
	}
}

// deliver sends a request to the receiving security server as it is, and returns the code of the fault that comes, or "".
func (s sent) deliver(t *testing.T, bed *testbed.Bed) string {
	t.Helper()
	transport := bed.PeerTransport()
	defer transport.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodPost, bed.PeerURL, bytes.NewReader(s.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = s.header.Clone()
	response, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("Content-Type") != wire.FaultContentType {
		return ""
	}
	return faultCode(t, answer)
}

// requests counts the requests in evidence.
func requests(t *testing.T, s *exchange.SecurityServer) (n int) {
	for r, err := range s.Evidence.Find(t.Context(), evidence.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !r.Response && r.Fault == "" {
			n++
		}
	}
	return n
}

const replayed = "server.serverproxy.invalid_request"

func TestReplay(t *testing.T) {
	whole := func(s sent) sent { return s }
	for name, tt := range map[string]struct {
		first, second func(sent) sent
		after         time.Duration
		codes         [2]string
	}{
		"again":                          {whole, whole, 0, [2]string{"", replayed}},
		"9 minutes later":                {whole, whole, 9 * time.Minute, [2]string{"", replayed}},
		"15 minutes later":               {whole, whole, 15 * time.Minute, [2]string{"", ""}},
		"another id, which nobody signs": {whole, func(s sent) sent { return s.withID("f0a1") }, 0, [2]string{"", ""}},
		"no id":                          {func(s sent) sent { return s.withID("") }, func(s sent) sent { return s.withID("") }, 0, [2]string{"", ""}},
		"an id that is none": {func(s sent) sent { return s.withID(strings.Repeat("ä", 100)) },
			func(s sent) sent { return s.withID(strings.Repeat("ä", 100)) }, 0, [2]string{"", replayed}},
		"after one without its end": {func(s sent) sent {
			s.body = s.body[:bytes.Index(s.body, []byte("signature/bdoc"))]
			return s
		}, whole, 0, [2]string{"server.serverproxy.missing_signature", ""}},
		"after one that was changed": {func(s sent) sent {
			s.body = bytes.Replace(s.body, []byte("an attachment"), []byte("an Attachment"), 1)
			return s
		}, whole, 0, [2]string{"server.serverproxy.signature_verification.invalid_signature_value", ""}},
		"changed": {whole, func(s sent) sent {
			s.body = bytes.Replace(s.body, []byte("an attachment"), []byte("an Attachment"), 1)
			return s
		}, 0, [2]string{"", replayed}},
	} {
		t.Run(name, func(t *testing.T) {
			body := related(testbed.Envelope(header(), "echo", ""), []byte("an attachment"))
			caught, middle := capture(t, relatedType, body)
			route := &counted{Handler: testbed.Echo{}}
			var later atomic.Int64
			bed := testbed.New(t, testbed.Options{Route: route, Middle: middle, Receive: func(s *exchange.SecurityServer) {
				s.Clock = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			}})
			post(t, bed, relatedType, bytes.NewReader(body))
			served := 0
			for i, change := range []func(sent) sent{tt.first, tt.second} {
				if code := change(*caught.Load()).deliver(t, bed); code != tt.codes[i] {
					t.Errorf("request %d: %q, want %q", i, code, tt.codes[i])
				}
				if tt.codes[i] == "" {
					served++
				}
				later.Store(int64(tt.after))
			}
			if n, kept := int(route.calls.Load()), requests(t, bed.Receiver); n != served || kept != served {
				t.Errorf("the service was called %d times, and %d requests are in evidence; want %d", n, kept, served)
			}
			bed.CheckClean()
		})
	}
}

// TestReplayAtOnce: of copies that come at the same time one is served, also where the service gets the beginning of each
// before it is verified.
func TestReplayAtOnce(t *testing.T) {
	for name, delivery := range map[string]exchange.Delivery{"strict": exchange.Strict, "gated": exchange.Gated} {
		t.Run(name, func(t *testing.T) {
			body := related(testbed.Envelope(header(), "echo", ""), bytes.Repeat([]byte("an attachment"), 100_000))
			caught, middle := capture(t, relatedType, body)
			whole := &counted{Handler: testbed.Echo{}}
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(r.Body)
				if err != nil {
					return // it never got the end
				}
				r.Body = io.NopCloser(bytes.NewReader(got))
				whole.ServeHTTP(w, r)
			}))
			defer service.Close()
			bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: service.URL, Delivery: delivery}, Middle: middle})
			post(t, bed, relatedType, bytes.NewReader(body))
			var served, refused atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					switch code := caught.Load().deliver(t, bed); code {
					case "":
						served.Add(1)
					case replayed:
						refused.Add(1)
					default:
						t.Error(code)
					}
				})
			}
			all.Wait()
			if served.Load() != 1 || refused.Load() != 7 || whole.calls.Load() != 1 {
				t.Errorf("%d are served, %d refused; the service got %d", served.Load(), refused.Load(), whole.calls.Load())
			}
			if n := requests(t, bed.Receiver); n != 1 {
				t.Errorf("%d requests are in evidence", n)
			}
			bed.CheckClean()
		})
	}
}

// TestReplayIsRefusedEarly: a copy is refused when its header has come.
func TestReplayIsRefusedEarly(t *testing.T) {
	body := related(testbed.Envelope(header(), "echo", ""), []byte("an attachment"))
	caught, middle := capture(t, relatedType, body)
	bed := testbed.New(t, testbed.Options{Middle: middle})
	post(t, bed, relatedType, bytes.NewReader(body))
	if code := caught.Load().deliver(t, bed); code != "" {
		t.Fatal(code)
	}
	beginning := caught.Load().body
	beginning = beginning[:bytes.Index(beginning, []byte("an attachment"))]
	r, w := io.Pipe()
	defer w.Close()
	go w.Write(beginning)
	req, err := http.NewRequest(http.MethodPost, bed.PeerURL, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = caught.Load().header.Clone()
	transport := bed.PeerTransport()
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || faultCode(t, answer) != replayed || !bytes.Contains(answer, []byte("not served twice")) {
		t.Errorf("%v, %s", err, answer)
	}
}
