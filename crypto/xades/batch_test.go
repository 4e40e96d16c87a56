// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"fmt"
	"sync"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestBatchOf500 signs 500 messages by 50 at once, ten in a batch, as X-Road's BatchSignerTest does: all verify, each as
// what it is and none as another.
func TestBatchOf500(t *testing.T) {
	s := signer(t, "P-256", 0)
	var v Verifier
	var all sync.WaitGroup
	for worker := range 50 {
		all.Go(func() {
			var messages [][]crypto.Part
			for i := range 10 {
				messages = append(messages, message(crypto.SHA512, fmt.Sprint("message ", worker, " ", i), "attachment")[:1+i%2])
			}
			signatures, err := s.SignBatch(t.Context(), messages)
			if err != nil || len(signatures) != len(messages) {
				t.Errorf("%d signatures, %v", len(signatures), err)
				return
			}
			for i, sig := range signatures {
				if sig.Form() != crypto.Chain {
					t.Errorf("signature %d of a batch has form %s", i, sig.Form())
				}
				if _, err := v.Verify(sig, messages[i]); err != nil {
					t.Errorf("message %d of worker %d: %v", i, worker, err)
				}
				if _, err := v.Verify(sig, messages[(i+2)%10]); err == nil {
					t.Errorf("signature %d of worker %d verifies another message", i, worker)
				}
			}
		})
	}
	all.Wait()
}
