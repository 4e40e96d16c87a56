// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/slowkey"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// deviceKeys has the signing keys of a device, which takes a while for each operation.
type deviceKeys struct {
	exchange.Keys
	takes time.Duration
	key   *slowkey.Key // the last one
}

func (d *deviceKeys) Sign(member ident.Client) *exchange.SignKey {
	key := *d.Keys.Sign(member)
	d.key = slowkey.New(key.Key, d.takes)
	key.Key, key.Device = d.key, true
	return &key
}

// TestBatch has many small messages come at once to two security servers with slow keys: they share signatures, unless
// they may not, and evidence of each proves it by itself.
func TestBatch(t *testing.T) {
	const messages = 24
	direct := crypto.Direct
	everyone, member := ident.Client{}, ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	for _, tt := range []struct {
		name        string
		rules       map[ident.Client]batch.Mode
		peer        exchange.PeerRule
		attachments [][]byte
		shared      bool // by requests
	}{
		{name: "as it comes", shared: true},
		{name: "switched off for all", rules: map[ident.Client]batch.Mode{everyone: batch.Off}},
		{name: "switched off for the member", rules: map[ident.Client]batch.Mode{everyone: batch.On, member: batch.Off}},
		{name: "switched on for the member", rules: map[ident.Client]batch.Mode{everyone: batch.Off, member: batch.On}, shared: true},
		{name: "a peer that wants the direct form", peer: exchange.PeerRule{Form: &direct}},
		{name: "attachments", attachments: [][]byte{[]byte("x")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var keys *deviceKeys
			bed := testbed.New(t, testbed.Options{Sender: func(s *exchange.SecurityServer) {
				keys = &deviceKeys{Keys: s.Keys, takes: 50 * time.Millisecond}
				s.Keys, s.Local.Batch = keys, tt.rules
				s.Local.Peers = map[ident.Server]exchange.PeerRule{{}: tt.peer}
			}})
			var all sync.WaitGroup
			for i := range messages {
				all.Go(func() {
					h := header()
					h.ID = fmt.Sprint("message ", i)
					envelope := testbed.Envelope(h, "echo", "")
					kind, request := "text/xml", envelope
					if tt.attachments != nil {
						kind, request = relatedType, related(envelope, tt.attachments...)
					}
					response, err := http.Post(bed.URL, kind, bytes.NewReader(request))
					if err != nil {
						t.Error(err)
						return
					}
					defer response.Body.Close()
					var answer bytes.Buffer
					if _, err := answer.ReadFrom(response.Body); err != nil || bytes.Contains(answer.Bytes(), []byte("Fault>")) {
						t.Errorf("%v: %s", err, answer.Bytes())
					}
				})
			}
			all.Wait()
			signatures := make(map[string]int)
			for r, err := range bed.Receiver.Evidence.Find(t.Context(), evidence.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				parts := make([]crypto.Part, len(r.Parts))
				for n, p := range r.Parts {
					parts[n] = crypto.Part{Name: p.Name, Digest: p.Digest, Sum: p.Sum}
				}
				if _, err := xades.Verify(&r.Signature, parts); err != nil {
					t.Error(err)
				}
				if r.Response {
					continue
				}
				signatures[string(r.Signature.XML)]++
				if form := r.Signature.Form(); !tt.shared && form != crypto.Direct {
					t.Errorf("form %s", form)
				}
			}
			if operations := keys.key.Operations(); operations != len(signatures) || (operations < messages) != tt.shared {
				t.Errorf("%d operations, %d signatures of %d messages", operations, len(signatures), messages)
			}
			bed.CheckClean()
		})
	}
}
