// SPDX-License-Identifier: Apache-2.0

// Package crypto is the vocabulary of signing: digests, the parts that are signed, signatures and those who make them.
//
// The tools that work with it are its subpackages. Terms and names are those of the X-Road signature profile:
// a message is a list of parts, /message.xml first and then its attachments, and one signature covers them all.
package crypto

import (
	"context"
	"crypto"
	_ "crypto/sha256" // the digests of this package
	_ "crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"strconv"
)

// Names of the parts of a message and of the files beside them, as references spell them.
const (
	Message         = "/message.xml"
	HashChainResult = "/sig-hashchainresult.xml"
	HashChain       = "/sig-hashchain.xml"
)

// Attachment returns the name of the nth attachment, counted from 1.
func Attachment(n int) string { return "/attachment" + strconv.Itoa(n) }

// Digest names a digest method. The zero value is none.
type Digest uint8

// The digest methods that Fairway makes and accepts.
const (
	SHA256 Digest = iota + 1
	SHA384
	SHA512
)

var digests = [...]struct {
	name, uri string
	hash      crypto.Hash
}{
	SHA256: {"SHA-256", "http://www.w3.org/2001/04/xmlenc#sha256", crypto.SHA256},
	SHA384: {"SHA-384", "http://www.w3.org/2001/04/xmldsig-more#sha384", crypto.SHA384},
	SHA512: {"SHA-512", "http://www.w3.org/2001/04/xmlenc#sha512", crypto.SHA512},
}

// DigestByURI returns the digest method of an XML algorithm URI, or 0.
func DigestByURI(uri string) Digest {
	for d := SHA256; d <= SHA512; d++ {
		if digests[d].uri == uri {
			return d
		}
	}
	return 0
}

// DigestByName returns the digest method of a header name such as "SHA-512", or 0.
func DigestByName(name string) Digest {
	for d := SHA256; d <= SHA512; d++ {
		if digests[d].name == name {
			return d
		}
	}
	return 0
}

// Known reports whether d is one of the digest methods. The other methods are for those only.
func (d Digest) Known() bool { return SHA256 <= d && d <= SHA512 }

// String returns the name used in headers, such as "SHA-512".
func (d Digest) String() string { return digests[d].name }

// URI returns the XML algorithm URI.
func (d Digest) URI() string { return digests[d].uri }

// Hash returns the digest method as the standard library knows it.
func (d Digest) Hash() crypto.Hash { return digests[d].hash }

// New returns a new hash state.
func (d Digest) New() hash.Hash { return digests[d].hash.New() }

// Size returns the length of a digest in octets.
func (d Digest) Size() int { return digests[d].hash.Size() }

// Sum returns the digest of data.
func (d Digest) Sum(data []byte) []byte {
	h := d.New()
	h.Write(data)
	return h.Sum(nil)
}

// Part is one signed part of a message: its name and the digest of its octets.
type Part struct {
	Name   string
	Digest Digest
	Sum    []byte
}

// CheckParts returns an error unless the parts are those of one message: /message.xml, then its attachments in order, each
// with a digest of a known method.
func CheckParts(parts []Part) error {
	if len(parts) == 0 {
		return errors.New("a message without parts")
	}
	for i, p := range parts {
		name := Message
		if i > 0 {
			name = Attachment(i)
		}
		switch {
		case p.Name != name:
			return fmt.Errorf("part %d is %q, not %s", i, p.Name, name)
		case !p.Digest.Known():
			return fmt.Errorf("%s has no digest method", name)
		case len(p.Sum) != p.Digest.Size():
			return fmt.Errorf("%s has a digest of %d octets, not %d", name, len(p.Sum), p.Digest.Size())
		}
	}
	return nil
}

// Form says how a signature refers to the parts.
type Form uint8

const (
	// Direct references every part by name inside SignedInfo.
	Direct Form = iota
	// Chain references a hash chain whose last step lists the parts. A message of one part has no chain of its own.
	Chain
)

// String returns "direct" or "chain".
func (f Form) String() string {
	if f == Chain {
		return "chain"
	}
	return "direct"
}

// Signature is what proves a message: the signature document and, in the chain form, the two hash chain documents.
// All three are octets as they travel and are kept; nobody changes them.
type Signature struct {
	XML             []byte
	HashChainResult []byte
	HashChain       []byte
}

// Form tells the form by the presence of a hash chain.
func (s *Signature) Form() Form {
	if len(s.HashChainResult) > 0 {
		return Chain
	}
	return Direct
}

// Signer signs messages for one member. It is safe for concurrent use.
type Signer interface {
	// Sign signs the parts, /message.xml first and then the attachments in order.
	// The parts are not kept after it returns.
	Sign(ctx context.Context, parts []Part, form Form) (*Signature, error)
}
