// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// hungKeys has signing keys that hang until they are let go.
type hungKeys struct {
	exchange.Keys
	begun, back chan struct{}
}

func (h *hungKeys) Sign(member ident.Client) *exchange.SignKey {
	key := *h.Keys.Sign(member)
	key.Key, key.Device = hungKey{key.Key, h}, true
	return &key
}

type hungKey struct {
	stdcrypto.Signer
	keys *hungKeys
}

func (k hungKey) Sign(random io.Reader, sum []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	k.keys.begun <- struct{}{}
	<-k.keys.back
	return k.Signer.Sign(random, sum, o)
}

// TestHungKey has information systems give up while the key hangs: their exchanges end, those of others wait, and when the
// key comes back it signs for them.
func TestHungKey(t *testing.T) {
	keys := &hungKeys{begun: make(chan struct{}, 9), back: make(chan struct{})}
	bed := testbed.New(t, testbed.Options{Sender: func(s *exchange.SecurityServer) {
		keys.Keys, s.Keys = s.Keys, keys
	}})
	ask := func(ctx context.Context) (done chan string) {
		done = make(chan string, 1)
		request, err := http.NewRequestWithContext(ctx, "POST", bed.URL, bytes.NewReader(testbed.Envelope(header(), "echo", "")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "text/xml")
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				done <- "gone"
				return
			}
			defer response.Body.Close()
			answer, _ := io.ReadAll(response.Body)
			done <- string(answer)
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := ask(ctx)
	<-keys.begun
	second, other := ask(ctx), ask(t.Context())
	cancel()
	for _, done := range []chan string{first, second} {
		if answer := <-done; answer != "gone" {
			t.Errorf("got %s", answer)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); len(bed.Sender.Transfers()) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d exchanges are left, not 1", len(bed.Sender.Transfers()))
		}
	}
	close(keys.back)
	if answer := <-other; faultCode(t, []byte(answer)) != "" {
		t.Errorf("got %s", answer)
	}
	if n := 1 + len(keys.begun); n != 2 {
		t.Errorf("%d operations, one that hung and one for whoever waited", n)
	}
	bed.CheckClean()
}
