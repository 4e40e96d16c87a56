// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/spool"
)

// faulty is a spool whose entries fail while it is armed. Those that were made before do not.
type faulty struct {
	spool.Store
	armed *atomic.Bool
	at    int64 // octets that are good; -1 fails in Done
	err   error
}

func (s faulty) Create(ctx context.Context) (spool.Entry, error) {
	e, err := s.Store.Create(ctx)
	if err != nil || !s.armed.Load() {
		return e, err
	}
	return faultyEntry{e, s}, nil
}

type faultyEntry struct {
	spool.Entry
	store faulty
}

func (e faultyEntry) Write(p []byte) (int, error) {
	if e.store.at >= 0 && e.Size()+int64(len(p)) > e.store.at {
		return 0, e.store.err
	}
	return e.Entry.Write(p)
}

func (e faultyEntry) Done() error {
	if e.store.at < 0 {
		return e.store.err
	}
	return e.Entry.Done()
}

// hold begins a message and returns what sends its rest and reads its answer.
func hold(t *testing.T, bed *testbed.Bed, body []byte, sent int) (finish func() []byte) {
	t.Helper()
	conn := dial(t, bed.URL)
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", relatedType, sent, body[:sent])
	return func() []byte {
		t.Helper()
		fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(body)-sent, body[sent:])
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// receives waits until the receiving security server has so much of its messages.
func receives(t *testing.T, bed *testbed.Bed, octets int64) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); bed.Receiver.Spool.Size() < octets; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the receiver has %d octets, want %d", bed.Receiver.Spool.Size(), octets)
		}
	}
}

// answering is a service that sends attachments of that size back, and counts the requests that came to their end.
func answering(size int, whole *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			whole.Add(1)
		}
		w.Header().Set("Content-Type", relatedType)
		w.Write(related(testbed.Envelope(header(), "echoResponse", ""), make([]byte, size)))
	})
}

// TestDiskFails has the disk full, or broken, at every phase of a message: its consumer gets a fault that names no file, the
// service no complete message that was not verified, another transfer passes, and nothing is left behind.
func TestDiskFails(t *testing.T) {
	body := message()
	envelope := int64(bytes.Index(body, []byte("\r\n--b\r\nContent-Type: application/octet-stream")))
	path := func(err error) error { return &fs.PathError{Op: "write", Path: "/secret/spool/1", Err: err} }
	for kind, err := range map[string]error{
		"full": path(syscall.ENOSPC), "broken": path(syscall.EIO), "over its quota": fmt.Errorf("writing: %w", spool.ErrFull),
	} {
		for _, tt := range []struct {
			phase    string
			sender   bool // whose spool
			at       int64
			keep     bool // the sender spools what its evidence keeps, too
			delivery exchange.Delivery
			want     string
		}{
			{"receiving an envelope", false, envelope / 2, false, exchange.Strict, "server.serverproxy.io_error"},
			{"receiving an attachment", false, 1 << 19, false, exchange.Strict, "server.serverproxy.io_error"},
			{"receiving an attachment, gated", false, 1 << 19, false, exchange.Gated, "server.serverproxy.io_error"},
			{"ending a request", false, -1, false, exchange.Strict, "server.serverproxy.io_error"},
			{"ending a request, gated", false, -1, false, exchange.Gated, "server.serverproxy.io_error"},
			{"keeping a request for evidence", true, 1 << 19, true, exchange.Strict, "server.clientproxy.logging_failed"},
			{"receiving the envelope of an answer", true, envelope / 2, false, exchange.Strict, "server.clientproxy.io_error"},
			{"receiving an attachment of an answer", true, 1 << 19, false, exchange.Strict, "server.clientproxy.io_error"},
			{"ending an answer", true, -1, false, exchange.Strict, "server.clientproxy.io_error"},
		} {
			t.Run(kind+", "+tt.phase, func(t *testing.T) {
				var whole atomic.Int64
				var armed atomic.Bool
				service := httptest.NewServer(answering(1<<20, &whole))
				defer service.Close()
				fail := func(s *exchange.SecurityServer) { s.Spool = faulty{s.Spool, &armed, tt.at, err} }
				keepLess := func(s *exchange.SecurityServer) {
					if !tt.keep {
						s.Keep = exchange.Keep{}
					}
				}
				options := testbed.Options{
					Service: exchange.Service{To: service.URL, Delivery: tt.delivery},
					Sender:  keepLess,
					Receive: func(s *exchange.SecurityServer) { keepLess(s); fail(s) },
				}
				if tt.sender {
					options.Sender, options.Receive = func(s *exchange.SecurityServer) { keepLess(s); fail(s) }, keepLess
				}
				bed := testbed.New(t, options)
				finish := hold(t, bed, body, len(body)/2)
				receives(t, bed, int64(len(body)/4))
				armed.Store(true)
				_, answer := post(t, bed, relatedType, bytes.NewReader(body))
				armed.Store(false)
				if got := faultCode(t, answer); got != tt.want {
					t.Errorf("fault %q, want %q: %s", got, tt.want, answer)
				}
				if strings.Contains(string(answer), "secret") {
					t.Errorf("the fault names our file: %s", answer)
				}
				if n := whole.Load(); !tt.sender && n != 0 {
					t.Errorf("%d complete messages at the service", n)
				}
				if answer := finish(); !strings.Contains(string(answer), "echoResponse") {
					t.Errorf("the other transfer: %s", answer)
				}
				bed.CheckClean()
			})
		}
	}
}

// TestQuotaOfSeveral_FR53: of messages that together are more than the quota, the one that crosses it is refused, and the others
// pass. So does a small one meanwhile, and an answer that is longer than the quota does not.
func TestQuotaOfSeveral_FR53(t *testing.T) {
	const quota = 12 << 20 // three quarters of a MiB of it are for small ones
	var whole atomic.Int64
	size := 1 << 10
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answering(size, &whole).ServeHTTP(w, r) }))
	defer service.Close()
	limited := func(s *exchange.SecurityServer) {
		store, err := spool.OpenDisk(filepath.Join(t.TempDir(), "spool"), spool.Options{Quota: quota})
		if err != nil {
			t.Fatal(err)
		}
		s.Spool.Close()
		s.Spool, s.Keep = store, exchange.Keep{}
	}
	bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: service.URL}, Sender: limited, Receive: limited})
	envelope := testbed.Envelope(header(), "echo", "")
	body := related(envelope, make([]byte, 5<<20))
	first := hold(t, bed, body, 4<<20)
	receives(t, bed, 4<<20-1<<19)
	second := hold(t, bed, body, 4<<20)
	receives(t, bed, 8<<20-1<<19)
	_, answer := post(t, bed, relatedType, bytes.NewReader(body))
	if got := faultCode(t, answer); got != "server.serverproxy.io_error" {
		t.Errorf("fault %q: %s", got, answer)
	}
	if _, answer := post(t, bed, "text/xml", bytes.NewReader(envelope)); !strings.Contains(string(answer), "echoResponse") {
		t.Errorf("the small message: %s", answer)
	}
	for _, finish := range []func() []byte{first, second} {
		if answer := finish(); !strings.Contains(string(answer), "echoResponse") {
			t.Errorf("another transfer: %s", answer)
		}
	}
	if n := whole.Load(); n != 3 {
		t.Errorf("%d complete messages at the service, want 3", n)
	}
	size = quota + 1
	_, answer = post(t, bed, "text/xml", bytes.NewReader(envelope))
	if got := faultCode(t, answer); got != "server.clientproxy.io_error" {
		t.Errorf("an answer longer than the quota: fault %q: %s", got, answer)
	}
	bed.CheckClean()
}

// TestSilentConsumer has information systems that are silent at every stage, until their server's limit of time ends it.
func TestSilentConsumer(t *testing.T) {
	body := message()
	envelope := bytes.Index(body, []byte("\r\n--b\r\nContent-Type: application/octet-stream"))
	for name, sent := range map[string]int{
		"before the first octet": 0, "in the envelope": envelope - 30, "in the attachment": len(body) / 2, "before the last octets": len(body) - 5,
	} {
		t.Run(name, func(t *testing.T) {
			route := &counted{Handler: testbed.Echo{}}
			bed := testbed.New(t, testbed.Options{Route: route})
			conn := dial(t, bed.Impatient(200*time.Millisecond))
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", relatedType, len(body))
			conn.Write(body[:sent])
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := faultCode(t, answer); got != "client.io_error" {
				t.Errorf("fault %q: %s", got, answer)
			}
			if route.calls.Load() != 0 {
				t.Error("the service was called")
			}
			conn.Close()
			bed.CheckClean()
		})
	}
}
