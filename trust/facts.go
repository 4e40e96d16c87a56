// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// maxFacts is how many facts are kept.
const maxFacts = 1000

// facts remembers what public key arithmetic has proved: that a certificate is signed by an issuer, that an OCSP
// response is by someone who may give it. Such a fact holds as long as the parameters do, so it lives with them; what
// depends on time is never kept here. Only proofs are kept, so strangers cannot fill it.
//
// A fact is known by SHA-256 over all octets that it follows from: no other octets can borrow it
// (signature-and-evidence 8.3 and 14.3, attack 20).
type facts struct {
	kept  sync.Map // [sha256.Size]byte to any
	count atomic.Int64
}

// get returns the fact that follows from the octets, proving it where it is not known.
func (f *facts) get(prove func() (any, error), octets ...[]byte) (any, error) {
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
	if f.count.Add(1) > maxFacts {
		f.kept.Clear()
		f.count.Store(1)
	}
	f.kept.Store(key, fact)
	return fact, nil
}
