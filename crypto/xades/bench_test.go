// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"context"
	stdcrypto "crypto"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// stub is a key that gives the same signature every time, so that what is measured is all the rest.
type stub struct {
	stdcrypto.Signer
	value []byte
}

func (s stub) Sign(io.Reader, []byte, stdcrypto.SignerOpts) ([]byte, error) { return s.value, nil }

// busy makes a signer with one OCSP response of 1.5 KB, as responders give them.
func busy(b *testing.B, kind string) *Signer {
	s := signer(b, kind, 0)
	response := make([]byte, 1500)
	rand.NewChaCha8([32]byte{}).Read(response)
	s.OCSP = func(context.Context) ([][]byte, error) { return [][]byte{response}, nil }
	return s
}

// BenchmarkSign makes signature documents: with a key, and with one that costs nothing.
func BenchmarkSign(b *testing.B) {
	for _, kind := range []string{"RSA-2048", "P-256"} {
		for _, attachments := range []int{0, 2} {
			parts := attached(crypto.SHA512, attachments)
			run := func(name string, s *Signer) {
				b.Run(fmt.Sprintf("%s %s/%d attachments", kind, name, attachments), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						mustSign(b, s, parts, crypto.Direct)
					}
				})
			}
			s := busy(b, kind)
			run("key", s)
			value, err := s.Key.Sign(nil, make([]byte, 64), stdcrypto.SHA512)
			if err != nil {
				b.Fatal(err)
			}
			s.Key = stub{s.Key, value}
			run("stub", s)
		}
	}
}

// BenchmarkVerify verifies signature documents: new ones, and those whose value was verified before.
func BenchmarkVerify(b *testing.B) {
	for _, kind := range []string{"RSA-2048", "P-256"} {
		for _, attachments := range []int{0, 2} {
			parts := attached(crypto.SHA512, attachments)
			sig := mustSign(b, busy(b, kind), parts, crypto.Direct)
			run := func(name string, v func() *Verifier) {
				b.Run(fmt.Sprintf("%s %s/%d attachments", kind, name, attachments), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := v().Verify(sig, parts); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			run("new", func() *Verifier { return new(Verifier) })
			var warm Verifier
			run("known", func() *Verifier { return &warm })
		}
	}
}

// BenchmarkBatch signs and verifies 64 messages of one part together: one operation is all 64.
func BenchmarkBatch(b *testing.B) {
	const size = 64
	var messages [][]crypto.Part
	for i := range size {
		messages = append(messages, message(crypto.SHA512, fmt.Sprint("<m>", i, "</m>")))
	}
	for _, kind := range []string{"RSA-2048", "P-256"} {
		s := busy(b, kind)
		var signatures []*crypto.Signature
		b.Run(kind+"/sign", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if signatures, err = s.SignBatch(context.Background(), messages); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(kind+"/verify", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v Verifier
				for i, sig := range signatures {
					if _, err := v.Verify(sig, messages[i]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
