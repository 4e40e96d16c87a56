// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/wire"
)

// rated gives all peers a rate.
func rated(octets int64) func(*exchange.SecurityServer) {
	return func(s *exchange.SecurityServer) {
		s.Local.Peers = map[ident.Server]exchange.PeerRule{{}: {Rate: octets}}
	}
}

// TestSmallBesideStuck sends a small message while sixteen large ones are stuck at a peer that does not read them, with and
// without a rate.
func TestSmallBesideStuck(t *testing.T) {
	body := related(testbed.Envelope(header(), "echo", ""), make([]byte, 16<<20))
	for name, rate := range map[string]int64{"no rate": 0, "a rate": 100 << 20} {
		t.Run(name, func(t *testing.T) {
			const many = 16
			release := make(chan struct{})
			var stuck atomic.Int64
			bed := testbed.New(t, testbed.Options{Sender: rated(rate), Middle: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasPrefix(r.Header.Get(wire.HeaderOriginalContentType), "multipart/") {
						next.ServeHTTP(w, r)
						return
					}
					stuck.Add(1)
					<-release
				})
			}})
			var wait sync.WaitGroup
			for range many {
				wait.Go(func() { upload(bed, body) })
			}
			for stuck.Load() < many {
				time.Sleep(time.Millisecond)
			}
			_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
			if faultCode(t, answer) != "" || !strings.Contains(string(answer), "echoResponse") {
				t.Errorf("the answer is %s", answer)
			}
			close(release)
			wait.Wait()
			bed.CheckClean()
		})
	}
}

// upload sends a message whatever becomes of it.
func upload(bed *testbed.Bed, body []byte) {
	if response, err := http.Post(bed.URL, relatedType, bytes.NewReader(body)); err == nil {
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}

// TestLargeShareFairly sends large messages under a rate, at the sender, or at the receiver, which only reads. When the first
// has passed, each of the others has come far, and no faster than the rate.
func TestLargeShareFairly(t *testing.T) {
	const many, size, rate = 4, 4 << 20, 16 << 20
	body := related(testbed.Envelope(header(), "echo", ""), make([]byte, size))
	for name, options := range map[string]testbed.Options{
		"paced by the sender": {Sender: rated(rate)}, "paced by the receiver": {Receive: rated(rate)},
	} {
		t.Run(name, func(t *testing.T) {
			var passed [many]atomic.Int64
			var number atomic.Int64
			var first sync.Once
			begun := make(chan struct{}) // all have, and each has sent its envelope
			begin := time.Now()
			options.Middle = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					n := number.Add(1)
					r.Body = &passing{r.Body, &passed[n-1]}
					if n == many {
						close(begun)
					}
					next.ServeHTTP(w, r)
				})
			}
			options.Route = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				first.Do(func() {
					for i := range passed {
						if n := passed[i].Load(); n < size/4 {
							t.Errorf("message %d has passed %d octets when the first is complete", i, n)
						}
					}
				})
				testbed.Echo{}.ServeHTTP(w, r)
			})
			bed := testbed.New(t, options)
			var wait sync.WaitGroup
			for range many {
				wait.Go(func() {
					_, answer := post(t, bed, relatedType, io.MultiReader(bytes.NewReader(body[:64<<10]), until(begun), bytes.NewReader(body[64<<10:])))
					if !strings.Contains(string(answer), "echoResponse") {
						t.Errorf("the answer is %s", answer)
					}
				})
			}
			wait.Wait()
			if took, least := time.Since(begin), time.Duration(float64(many*(size-1<<20))/rate*float64(time.Second)); took < least/2 {
				t.Errorf("%d octets passed in %s", many*size, took)
			}
			bed.CheckClean()
		})
	}
}

// until is a reader that ends when that is closed.
type until <-chan struct{}

func (w until) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}

// passing counts what is read of a body.
type passing struct {
	io.ReadCloser
	octets *atomic.Int64
}

func (p *passing) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.octets.Add(int64(n))
	return n, err
}
