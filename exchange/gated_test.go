// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// patient is a service that takes what comes, and tells.
type patient struct {
	begun chan struct{} // closed when it has half a mebibyte
	got   chan taken
	n     atomic.Int64
}

// taken is what the service got, and how that ended.
type taken struct {
	octets []byte
	err    error
}

func newPatient() *patient { return &patient{begun: make(chan struct{}), got: make(chan taken, 1)} }

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var t taken
	buf := make([]byte, 64<<10)
	for told := false; t.err == nil; {
		var n int
		n, t.err = r.Body.Read(buf)
		t.octets = append(t.octets, buf[:n]...)
		p.n.Store(int64(len(t.octets)))
		if len(t.octets) >= 512<<10 && !told {
			told = true
			close(p.begun)
		}
	}
	p.got <- t
	if t.err == io.EOF {
		w.Header().Set("Content-Type", "text/xml")
		w.Write(testbed.Envelope(header(), "echoResponse", ""))
	}
}

// halves yields the first mebibyte at once and the rest when the service has the beginning of it.
func halves(octets []byte, begun <-chan struct{}) io.Reader {
	return io.MultiReader(bytes.NewReader(octets[:1<<20]), &waiting{begun}, bytes.NewReader(octets[1<<20:]))
}

type waiting struct{ until <-chan struct{} }

func (w *waiting) Read([]byte) (int, error) {
	<-w.until
	return 0, io.EOF
}

// TestGated has a service get a request while it is still being sent, and never the end of one that is not good.
func TestGated(t *testing.T) {
	changing := func(change func(io.Reader) io.Reader) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = io.NopCloser(change(r.Body))
				next.ServeHTTP(w, r)
			})
		}
	}
	attachment := append(bytes.Repeat([]byte("0123456789abcde\n"), 2<<16), lastOctet)
	request := related(testbed.Envelope(header(), "echo", ""), []byte("a small one"), attachment)
	const failed = "server.serverproxy.service_failed."
	for _, tt := range []struct {
		name   string
		middle func(http.Handler) http.Handler
		want   string
	}{
		{"good", nil, ""},
		{"its last octet changed", changing(func(r io.Reader) io.Reader { return &spoiling{r: r} }),
			"server.serverproxy.signature_verification.invalid_signature_value"},
		{"cut", changing(func(r io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(r, 3<<19), iotest.ErrReader(io.ErrUnexpectedEOF))
		}), failed + "io_error"},
		{"ended too early", changing(func(r io.Reader) io.Reader { return io.LimitReader(r, 3<<19) }),
			"server.serverproxy.missing_signature"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := newPatient()
			server := httptest.NewServer(service)
			defer server.Close()
			bed := testbed.New(t, testbed.Options{
				Service: exchange.Service{To: server.URL + "/", Delivery: exchange.Gated}, Middle: tt.middle,
			})
			_, answer := post(t, bed, relatedType, halves(request, service.begun))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			got := <-service.got
			if tt.want == "" {
				if got.err != io.EOF || !bytes.Equal(got.octets, request) {
					t.Errorf("the service got %d octets of %d, and %v", len(got.octets), len(request), got.err)
				}
			} else {
				if got.err == io.EOF || !bytes.HasPrefix(request, got.octets) || len(got.octets) > len(request)-64<<10 {
					t.Errorf("the service got %d octets of %d, and %v", len(got.octets), len(request), got.err)
				}
				if !errors.Is(got.err, syscall.ECONNRESET) && !errors.Is(got.err, io.ErrUnexpectedEOF) {
					t.Errorf("the service saw %v", got.err)
				}
			}
			withdrawn := 0
			for r, err := range bed.Receiver.Evidence.Find(t.Context(), evidence.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Fault == "withdrawn" && !r.Response {
					withdrawn++
				}
			}
			if (withdrawn == 1) != (tt.want != "") {
				t.Errorf("%d records of a withdrawn request", withdrawn)
			}
			bed.CheckClean()
		})
	}
}

// spoiling replaces an octet behind the first mebibyte, where nothing but the attachment and ASCII stands.
type spoiling struct {
	r io.Reader
	n int
}

func (f *spoiling) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if f.n += n; f.n > 1<<20 {
		copy(p[:n], bytes.ReplaceAll(p[:n], []byte{lastOctet}, []byte{'x'}))
	}
	return n, err
}

const lastOctet = 0xF7

// TestGatedIsStrict has messages that are too small, or have no attachments, reach a gated service as a whole or not at all.
func TestGatedIsStrict(t *testing.T) {
	for name, request := range map[string][]byte{
		"small":                    related(testbed.Envelope(header(), "echo", ""), make([]byte, 60<<10)),
		"large, but no attachment": related(testbed.Envelope(header(), "echo", string(bytes.Repeat([]byte("<a/>"), 1<<18)))),
	} {
		t.Run(name, func(t *testing.T) {
			service := &counted{Handler: newPatient()}
			server := httptest.NewServer(service)
			defer server.Close()
			bed := testbed.New(t, testbed.Options{
				Service: exchange.Service{To: server.URL + "/", Delivery: exchange.Gated},
				Sender:  func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} },
			})
			_, answer := post(t, bed, relatedType, bytes.NewReader(request))
			if got := faultCode(t, answer); got != "server.clientproxy.cannot_create_signature" {
				t.Errorf("got %q\n%s", got, answer)
			}
			if n := service.calls.Load(); n != 0 {
				t.Errorf("the service was called %d times", n)
			}
			bed.CheckClean()
		})
	}
}

// TestGatedServiceFails ends the upload when its service is of no use.
func TestGatedServiceFails(t *testing.T) {
	request := related(testbed.Envelope(header(), "echo", ""), make([]byte, 8<<20))
	never := make(chan struct{})
	defer close(never)
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: "http://127.0.0.1:1/", Delivery: exchange.Gated}})
	_, answer := post(t, bed, relatedType, io.MultiReader(bytes.NewReader(request[:6<<20]), &waiting{never}))
	if got := faultCode(t, answer); got != "server.serverproxy.service_failed.network_error" {
		t.Errorf("got %q\n%s", got, answer)
	}
	bed.CheckClean()
}
