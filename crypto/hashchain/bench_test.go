// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"fmt"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// BenchmarkMessage builds and verifies the hash chain of a message with attachments.
func BenchmarkMessage(b *testing.B) {
	for _, attachments := range []int{1, 1000} {
		parts := message(crypto.SHA512, make([]string, 1+attachments)...)
		result, chains, err := Build([][]crypto.Part{parts}, crypto.SHA512)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d attachments/build", attachments), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Build([][]crypto.Part{parts}, crypto.SHA512); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d attachments/verify", attachments), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Verify(result, chains[0], parts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
