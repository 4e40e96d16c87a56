// SPDX-License-Identifier: Apache-2.0

package hashchain

import "github.com/caddy-fairway/fairway/crypto"

// Tags of DER.
const (
	octetString = 0x04
	utf8String  = 0x0c
	sequence    = 0x30
)

// digestList is what a step hashes to: its items as DER (section 5.1), without the header of the whole.
type digestList struct{ items, item []byte }

// expect makes room for n items of the longest digests.
func (l *digestList) expect(n int) { l.items = make([]byte, 0, 112*n) }

func (l *digestList) add(digest crypto.Digest, sum []byte) {
	l.item = appendDER(l.item[:0], octetString, sum)
	l.item = appendDER(l.item, utf8String, digest.URI())
	l.item = append(l.item, sequence, 0) // transforms, always empty
	l.items = appendDER(l.items, sequence, l.item)
}

// octets returns the digest list.
func (l *digestList) octets() []byte { return appendDER(nil, sequence, l.items) }

// appendDER appends an element of DER.
func appendDER[T []byte | string](to []byte, tag byte, content T) []byte {
	n := len(content)
	to = append(to, tag)
	if n < 0x80 {
		return append(append(to, byte(n)), content...)
	}
	size := 1
	for m := n; m > 0xff; m >>= 8 {
		size++
	}
	to = append(to, 0x80|byte(size))
	for i := size - 1; i >= 0; i-- {
		to = append(to, byte(n>>(8*i)))
	}
	return append(to, content...)
}

// PrefixLength is how many octets of an attachment LooksLikeDigestList wants to see.
const PrefixLength = 256

// LooksLikeDigestList reports whether an attachment that begins so could be a digest list. A signer refuses such an
// attachment where the message is signed in the chain form, because its content could later be shown as a step of the
// chain, with parts that nobody signed; no honest content starts so (section 14.2). The prefix is the first PrefixLength
// octets of the attachment, or all of it where it is shorter. The method that follows the first digest is not looked at,
// and a digest that runs out of the prefix counts, for the verifier of another vendor may take any.
func LooksLikeDigestList(prefix []byte) bool {
	rest, _, list := derHeader(prefix, sequence)
	rest, _, item := derHeader(rest, sequence)
	rest, size, digest := derHeader(rest, octetString)
	if !list || !item || !digest {
		return false
	}
	if size >= uint64(len(rest)) {
		return len(prefix) >= PrefixLength
	}
	return rest[size] == utf8String
}

// derHeader reads tag and length of an element.
func derHeader(b []byte, tag byte) (rest []byte, size uint64, ok bool) {
	if len(b) < 2 || b[0] != tag {
		return nil, 0, false
	}
	size, b = uint64(b[1]), b[2:]
	if size < 0x80 {
		return b, size, true
	}
	n := int(size & 0x7f)
	if n == 0 || n > 8 || n > len(b) {
		return nil, 0, false
	}
	size = 0
	for _, c := range b[:n] {
		size = size<<8 | uint64(c)
	}
	return b[n:], size, true
}
