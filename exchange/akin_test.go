// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/wire"
)

// silent takes the announcement out of what the receiving security server answers or is asked.
type silent struct{ http.ResponseWriter }

func (s *silent) WriteHeader(status int) {
	s.Header().Del(wire.HeaderFairway)
	s.ResponseWriter.WriteHeader(status)
}

func (s *silent) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// TestDigestBetweenFairways sends several messages over one connection: from the first answer on the parts have the digest
// of our kind, in both directions, and a peer that does not announce itself never sees it.
func TestDigestBetweenFairways(t *testing.T) {
	const large = exchange.DefaultDirectLimit + 1
	quiet := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del(wire.HeaderFairway)
			next.ServeHTTP(&silent{ResponseWriter: w}, r)
		})
	}
	for _, tt := range []struct {
		name        string
		middle      func(http.Handler) http.Handler
		attachments []int // their sizes
		requests    []crypto.Digest
		responses   []crypto.Digest
		forms       []crypto.Form
	}{
		{"two Fairways", nil, []int{10, 20},
			[]crypto.Digest{crypto.SHA512, crypto.SHA256, crypto.SHA256}, []crypto.Digest{crypto.SHA256, crypto.SHA256, crypto.SHA256},
			[]crypto.Form{crypto.Direct, crypto.Direct, crypto.Direct}},
		{"a large attachment", nil, []int{large},
			[]crypto.Digest{crypto.SHA512, crypto.SHA256}, []crypto.Digest{crypto.SHA256, crypto.SHA256},
			[]crypto.Form{crypto.Chain, crypto.Direct}},
		{"more attachments than the direct form has", nil, make([]int, 40),
			[]crypto.Digest{crypto.SHA512, crypto.SHA256}, []crypto.Digest{crypto.SHA256, crypto.SHA256},
			[]crypto.Form{crypto.Chain, crypto.Chain}},
		{"a peer that says nothing", quiet, []int{large},
			[]crypto.Digest{crypto.SHA512, crypto.SHA512}, []crypto.Digest{crypto.SHA512, crypto.SHA512},
			[]crypto.Form{crypto.Chain, crypto.Chain}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{Middle: tt.middle, Route: testbed.Echo{Attach: true}})
			attachments := make([][]byte, len(tt.attachments))
			for i, size := range tt.attachments {
				attachments[i] = bytes.Repeat([]byte{'x'}, size)
			}
			for i := range tt.requests {
				h := header()
				h.ID = fmt.Sprint("message ", i)
				request := related(testbed.Envelope(h, "echo", ""), attachments...)
				if _, answer := post(t, bed, relatedType, bytes.NewReader(request)); bytes.Contains(answer, []byte("Fault>")) {
					t.Fatalf("message %d: %s", i, answer)
				}
				for server, store := range map[string]evidence.Store{"sender": bed.Sender.Evidence, "receiver": bed.Receiver.Evidence} {
					seen := 0
					for r, err := range store.Find(t.Context(), evidence.Query{MessageID: h.ID}) {
						if err != nil {
							t.Fatal(err)
						}
						seen++
						want := tt.requests[i]
						if r.Response {
							want = tt.responses[i]
						} else if r.Signature.Form() != tt.forms[i] {
							t.Errorf("%s, request %d: form %s", server, i, r.Signature.Form())
						}
						parts := make([]crypto.Part, len(r.Parts))
						for n, p := range r.Parts {
							parts[n] = crypto.Part{Name: p.Name, Digest: p.Digest, Sum: p.Sum}
							if p.Digest != want {
								t.Errorf("%s, message %d, response %v: %s has a digest of %s, not %s", server, i, r.Response, p.Name, p.Digest, want)
							}
						}
						if _, err := xades.Verify(&r.Signature, parts); err != nil {
							t.Errorf("%s, message %d, response %v: %v", server, i, r.Response, err)
						}
					}
					if seen != 2 {
						t.Errorf("%s has %d records of message %d", server, seen, i)
					}
				}
			}
			bed.CheckClean()
		})
	}
}

func TestDigestOfHeader(t *testing.T) {
	for _, tt := range []struct {
		name, digest, kind string
		want               crypto.Digest
	}{
		{"X-Road", "SHA-512", "", crypto.SHA512},
		{"Fairway's first request", "SHA-512", "SHA-256", crypto.SHA512},
		{"Fairway", "SHA-256", "SHA-256", crypto.SHA256},
		{"SHA-256 from somebody else", "SHA-256", "", 0},
		{"a digest of a later Fairway", "SHA-384", "SHA-384", 0},
		{"SHA-1", "SHA-1", "SHA-256", 0},
		{"none", "", "SHA-256", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := httptest.NewRequest("POST", "/", nil).Header
			h.Set(wire.HeaderHashAlgorithm, tt.digest)
			if tt.kind != "" {
				h.Set(wire.HeaderFairway, tt.kind)
			}
			got, err := wire.DigestOf(h)
			if (err != nil) != (tt.want == 0) || err == nil && got != tt.want {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}
