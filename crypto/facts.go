// SPDX-License-Identifier: Apache-2.0

package crypto

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// MaxFacts is how many facts are kept. When there are more, all are forgotten.
const MaxFacts = 1000

// Facts remembers what public-key arithmetic has proved: that a certificate is signed by an issuer, that an OCSP response
// is by someone who may give it, that a signature value is right. What depends on time, or on anything but the octets, is
// not a fact; what depends on parameters lives with them. Only what was proved is kept, so that refusals leave no trace.
// The zero value knows nothing. It is safe for concurrent use.
//
// A fact is known by SHA-256 over all octets that it follows from: no other octets can borrow it
// (signature-and-evidence 8.3 and 14.3, attack 20).
type Facts struct {
	kept  sync.Map // [sha256.Size]byte to any
	count atomic.Int64
}

// Get returns the fact that follows from the octets, proving it where it is not known. Octets of one kind of fact begin
// with its name.
func (f *Facts) Get(prove func() (any, error), octets ...[]byte) (any, error) {
	h := sha256.New()
	for _, o := range octets {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(o)))
		h.Write(size[:])
		h.Write(o)
	}
	key := [sha256.Size]byte(h.Sum(nil))
	if fact, ok := f.kept.Load(key); ok {
		return fact, nil
	}
	fact, err := prove()
	if err != nil {
		return nil, err
	}
	if f.count.Add(1) > MaxFacts {
		f.kept.Clear()
		f.count.Store(1)
	}
	f.kept.Store(key, fact)
	return fact, nil
}

// Len returns how many facts are kept.
func (f *Facts) Len() int { return int(f.count.Load()) }
