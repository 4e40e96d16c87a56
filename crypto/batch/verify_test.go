// SPDX-License-Identifier: Apache-2.0

package batch_test

import (
	"context"
	stdcrypto "crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/internal/slowkey"
)

// signer makes a signer of documents with a key of that kind.
func signer(tb testing.TB, kind string) *xades.Signer {
	tb.Helper()
	var key stdcrypto.Signer
	var err error
	if kind == "RSA-2048" {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(4711),
		Subject:      pkix.Name{CommonName: "1111"},
		NotAfter:     time.Date(2044, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:     x509.KeyUsageContentCommitment,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return &xades.Signer{
		Key: key, Certificate: cert, Clock: time.Now,
		OCSP: func(context.Context) ([][]byte, error) { return [][]byte{make([]byte, 1500)}, nil },
	}
}

func text(d crypto.Digest, text string) []crypto.Part {
	return []crypto.Part{{Name: crypto.Message, Digest: d, Sum: d.Sum([]byte(text))}}
}

// TestAllVerify has many sign at once with a slow key, some of whom give up: every signature verifies its own message and
// none that of a neighbour, and there were far fewer operations than messages.
func TestAllVerify(t *testing.T) {
	documents := signer(t, "P-256")
	key := slowkey.New(documents.Key, time.Millisecond)
	documents.Key = key
	s := batch.New(documents, batch.On)
	var v xades.Verifier
	var shared sync.Map
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			for i := range 8 {
				digest := crypto.SHA512
				if n%5 == 0 {
					digest = crypto.SHA256
				}
				parts := text(digest, fmt.Sprint(n, " ", i))
				ctx, cancel := context.WithCancel(t.Context())
				if n%7 == 0 {
					go cancel()
				}
				sig, err := s.Sign(ctx, parts, crypto.Chain)
				cancel()
				if err != nil {
					if n%7 != 0 {
						t.Error(err)
					}
					continue
				}
				if _, err := v.Verify(sig, parts); err != nil {
					t.Error(err)
				}
				if _, err := v.Verify(sig, text(digest, "another")); err == nil {
					t.Error("the signature is good for another message")
				}
				if sig.Form() == crypto.Chain {
					shared.Store(string(sig.XML), true)
				}
			}
		})
	}
	all.Wait()
	batches := 0
	shared.Range(func(any, any) bool { batches++; return true })
	if operations := key.Operations(); batches == 0 || operations > 64*8/2 {
		t.Errorf("%d batches, %d operations", batches, operations)
	}
}

// counted is a key that counts its operations.
type counted struct {
	stdcrypto.Signer
	operations atomic.Int64
}

func (c *counted) Sign(random io.Reader, sum []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	c.operations.Add(1)
	return c.Signer.Sign(random, sum, o)
}

// BenchmarkSign has so many sign one message after another. What is reported: signatures a second, how long it takes all but
// one in a hundred, and how many share an operation.
func BenchmarkSign(b *testing.B) {
	for _, kind := range []string{"P-256", "RSA-2048", "slow"} {
		documents := signer(b, kind)
		modes := []batch.Mode{batch.Off, batch.Auto}
		if kind == "slow" {
			documents.Key = slowkey.New(documents.Key, 10*time.Millisecond)
			modes = append(modes, batch.On)
		}
		key := &counted{Signer: documents.Key}
		documents.Key = key
		for _, mode := range modes {
			for _, callers := range []int{1, 8, 64, 256} {
				b.Run(fmt.Sprintf("%s/%s/%d", kind, mode, callers), func(b *testing.B) {
					s := batch.New(documents, mode)
					took := make([]time.Duration, b.N)
					turns := make(chan int)
					before := key.operations.Load()
					var all sync.WaitGroup
					for n := range callers {
						all.Go(func() {
							parts := text(crypto.SHA512, fmt.Sprint(n))
							for i := range turns {
								begun := time.Now()
								if _, err := s.Sign(b.Context(), parts, crypto.Chain); err != nil {
									b.Error(err)
								}
								took[i] = time.Since(begun)
							}
						})
					}
					for i := range b.N {
						turns <- i
					}
					close(turns)
					all.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "signatures/s")
					slices.Sort(took)
					b.ReportMetric(float64(took[b.N*99/100])/1e6, "p99-ms")
					b.ReportMetric(float64(b.N)/float64(key.operations.Load()-before), "a-batch")
				})
			}
		}
	}
}
