// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// BenchmarkSlowKeys has 64 information systems ask one message after another of two security servers whose keys take 10 ms
// each, or are at hand.
func BenchmarkSlowKeys(b *testing.B) {
	const callers = 64
	for _, takes := range []time.Duration{0, 10 * time.Millisecond} {
		for _, mode := range []batch.Mode{batch.Off, batch.Auto} {
			b.Run(fmt.Sprint(takes, " ", mode), func(b *testing.B) {
				slow := func(s *exchange.SecurityServer) {
					s.Local.Batch = map[ident.Client]batch.Mode{{}: mode}
					if takes > 0 {
						s.Keys = &deviceKeys{Keys: s.Keys, takes: takes}
					}
				}
				bed := testbed.New(b, testbed.Options{Sender: slow, Receive: slow})
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
				turns := make(chan int)
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for i := range turns {
							h := header()
							h.ID = fmt.Sprint("message ", i)
							response, err := client.Post(bed.URL, "text/xml", bytes.NewReader(testbed.Envelope(h, "echo", "")))
							if err != nil {
								b.Error(err)
								continue
							}
							if answer, err := io.ReadAll(response.Body); err != nil || bytes.Contains(answer, []byte("Fault>")) {
								b.Errorf("%v: %s", err, answer)
							}
							response.Body.Close()
						}
					})
				}
				b.ResetTimer()
				for i := range b.N {
					turns <- i
				}
				close(turns)
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
				client.CloseIdleConnections()
			})
		}
	}
}
