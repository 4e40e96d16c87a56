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
type digestList struct{ items []byte }

// expect makes room for n items of the longest digests.
func (l *digestList) expect(n int) { l.items = make([]byte, 0, 112*n) }

func (l *digestList) add(digest crypto.Digest, sum []byte) {
	l.items = appendItem(l.items, digest, sum)
}

// octets returns the digest list.
func (l *digestList) octets() []byte {
	return append(appendHeader(nil, sequence, len(l.items)), l.items...)
}

// appendItem appends an item: a digest, its method and transforms, which are always empty.
func appendItem(to []byte, digest crypto.Digest, sum []byte) []byte {
	method := digest.URI()
	to = appendHeader(to, sequence, sizeOf(len(sum))+sizeOf(len(method))+2)
	to = append(appendHeader(to, octetString, len(sum)), sum...)
	to = append(appendHeader(to, utf8String, len(method)), method...)
	return append(to, sequence, 0)
}

// appendHeader appends tag and length of an element of DER.
func appendHeader(to []byte, tag byte, n int) []byte {
	if n < 0x80 {
		return append(to, tag, byte(n))
	}
	size := lengthSize(n)
	to = append(to, tag, 0x80|byte(size))
	for i := size - 1; i >= 0; i-- {
		to = append(to, byte(n>>(8*i)))
	}
	return to
}

// sizeOf returns the size of an element with n octets of content.
func sizeOf(n int) int {
	if n < 0x80 {
		return 2 + n
	}
	return 2 + lengthSize(n) + n
}

// lengthSize returns how many octets a length of n has that does not fit into one with its tag.
func lengthSize(n int) (size int) {
	for ; n > 0; n >>= 8 {
		size++
	}
	return size
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
