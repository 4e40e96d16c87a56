// SPDX-License-Identifier: Apache-2.0

// Package slowkey is a key as slow as one in a device, for tests and benchmarks.
package slowkey

import (
	stdcrypto "crypto"
	"io"
	"sync/atomic"
	"time"
)

// Key signs with another key, one operation at a time, each taking a while. It is safe for concurrent use.
type Key struct {
	stdcrypto.Signer
	takes      time.Duration
	turn       chan struct{}
	operations atomic.Int64
}

// New returns a key whose operations take that long each: a second has 1s/takes of them.
func New(key stdcrypto.Signer, takes time.Duration) *Key {
	return &Key{Signer: key, takes: takes, turn: make(chan struct{}, 1)}
}

// Sign implements crypto.Signer of the standard library.
func (k *Key) Sign(random io.Reader, sum []byte, o stdcrypto.SignerOpts) ([]byte, error) {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	k.operations.Add(1)
	time.Sleep(k.takes)
	return k.Signer.Sign(random, sum, o)
}

// Operations returns how many operations have begun.
func (k *Key) Operations() int { return int(k.operations.Load()) }
