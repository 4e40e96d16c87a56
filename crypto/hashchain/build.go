// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/caddy-fairway/fairway/crypto"
)

// Build makes one hash chain result over the messages and a chain for each, in order (section 5.2). All parts have the
// digest method of the chain, for nobody can verify others. A single message of one part needs none: all is nil then.
func Build(messages [][]crypto.Part, digest crypto.Digest) (result []byte, chains [][]byte, err error) {
	for i, parts := range messages {
		if err := check(parts, digest); err != nil {
			return nil, nil, fmt.Errorf("building the hash chain of message %d: %w", i, err)
		}
	}
	if len(messages) == 0 || len(messages) == 1 && len(messages[0]) == 1 {
		return nil, nil, nil
	}
	levels := tree(messages, digest)
	chains = make([][]byte, len(messages))
	for i, parts := range messages {
		chains[i] = chainDocument(branches(levels, i), parts, digest)
	}
	return resultDocument(crypto.HashChain, top(levels), digest), chains, nil
}

func check(parts []crypto.Part, digest crypto.Digest) error {
	if err := crypto.CheckParts(parts); err != nil {
		return err
	}
	if len(parts) > MaxParts {
		return fmt.Errorf("%d parts, more than %d", len(parts), MaxParts)
	}
	for _, p := range parts {
		if p.Digest != digest {
			return fmt.Errorf("%s has a digest of method %s, not %s", p.Name, p.Digest, digest)
		}
	}
	return nil
}

// tree returns the rows of digests from the messages up to the one at the top.
func tree(messages [][]crypto.Part, digest crypto.Digest) [][][]byte {
	row := make([][]byte, len(messages))
	for i, parts := range messages {
		row[i] = parts[0].Sum
		if len(parts) > 1 {
			row[i] = partList(parts, digest)
		}
	}
	levels := [][][]byte{row}
	for len(row) > 1 {
		var above [][]byte
		for pair := range slices.Chunk(row, 2) {
			if len(pair) == 2 {
				above = append(above, step(digest, pair...))
			} else {
				above = append(above, pair[0])
			}
		}
		levels = append(levels, above)
		row = above
	}
	return levels
}

// partList returns the value of the step that lists the parts of one message.
func partList(parts []crypto.Part, digest crypto.Digest) []byte {
	sums := make([][]byte, len(parts))
	for i, p := range parts {
		sums[i] = p.Sum
	}
	return step(digest, sums...)
}

// step returns the value of a step with those digests. Its digest list, whose length comes first, is not held as a whole.
func step(digest crypto.Digest, sums ...[]byte) []byte {
	var item []byte
	size := 0
	for _, sum := range sums {
		item = appendItem(item[:0], digest, sum)
		size += len(item)
	}
	h := digest.New()
	h.Write(appendHeader(nil, sequence, size))
	for _, sum := range sums {
		item = appendItem(item[:0], digest, sum)
		h.Write(item)
	}
	return h.Sum(nil)
}

// top returns the digest at the top of a tree.
func top(levels [][][]byte) []byte { return levels[len(levels)-1][0] }

// branch is the other side of a fork on the way from the top to a message.
type branch struct {
	sum  []byte
	left bool
}

// branches returns the forks on the way to message i, from the top down.
func branches(levels [][][]byte, i int) []branch {
	var way []branch
	for _, row := range levels[:len(levels)-1] {
		if sibling := i ^ 1; sibling < len(row) {
			way = append(way, branch{row[sibling], sibling < i})
		}
		i /= 2
	}
	slices.Reverse(way)
	return way
}

const declaration = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"

func resultDocument(chain string, top []byte, digest crypto.Digest) []byte {
	return []byte(declaration +
		`<ns2:HashChainResult URI="` + chain + `#STEP0" xmlns="` + dsSpace + `" xmlns:ns2="` + hashChainSpace + "\">\n" +
		`    <DigestMethod Algorithm="` + digest.URI() + "\"/>\n" +
		`    <DigestValue>` + base64.StdEncoding.EncodeToString(top) + "</DigestValue>\n" +
		"</ns2:HashChainResult>\n")
}

func chainDocument(way []branch, parts []crypto.Part, digest crypto.Digest) []byte {
	b := make([]byte, 0, 512+400*len(way)+(120+base64.StdEncoding.EncodedLen(digest.Size()))*len(parts))
	for piece := range chainPieces(way, parts, digest) {
		b = append(b, piece...)
	}
	return b
}

// chainPieces yields a chain document in pieces, each of which is good until the next.
func chainPieces(way []branch, parts []crypto.Part, digest crypto.Digest) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		b = append(b, declaration...)
		b = append(b, `<ns2:HashChain xmlns="`+dsSpace+`" xmlns:ns2="`+hashChainSpace+"\">\n"...)
		b = append(b, `    <ns2:DefaultDigestMethod Algorithm="`+digest.URI()+"\"/>\n"...)
		for n, fork := range way {
			b = startStep(b, n)
			if fork.left {
				b = appendHashValue(b, fork.sum)
			}
			if n == len(way)-1 && len(parts) == 1 {
				b = appendDataRef(b, parts[0])
			} else {
				b = append(b, `        <ns2:StepRef URI="#STEP`+strconv.Itoa(n+1)+"\"/>\n"...)
			}
			if !fork.left {
				b = appendHashValue(b, fork.sum)
			}
			b = append(b, "    </ns2:HashStep>\n"...)
		}
		if len(parts) > 1 {
			b = startStep(b, len(way))
			for _, p := range parts {
				if b = appendDataRef(b, p); !yield(b) {
					return
				}
				b = b[:0]
			}
			b = append(b, "    </ns2:HashStep>\n"...)
		}
		yield(append(b, "</ns2:HashChain>\n"...))
	}
}

// isBuilt reports whether result and chain are, octet for octet, what Build makes of the parts, which crypto.CheckParts has
// seen, of one message.
func isBuilt(result, chain []byte, parts []crypto.Part) bool {
	digest := parts[0].Digest
	other := func(p crypto.Part) bool { return p.Digest != digest }
	if len(parts) < 2 || len(parts) > MaxParts || slices.ContainsFunc(parts, other) {
		return false
	}
	for piece := range chainPieces(nil, parts, digest) {
		var ok bool
		if chain, ok = bytes.CutPrefix(chain, piece); !ok {
			return false
		}
	}
	return len(chain) == 0 && bytes.Equal(result, resultDocument(crypto.HashChain, partList(parts, digest), digest))
}

func startStep(b []byte, n int) []byte {
	return append(b, `    <ns2:HashStep id="STEP`+strconv.Itoa(n)+"\">\n"...)
}

func appendHashValue(b, sum []byte) []byte {
	b = append(b, "        <ns2:HashValue>\n"...)
	b = appendDigestValue(b, sum)
	return append(b, "        </ns2:HashValue>\n"...)
}

func appendDataRef(b []byte, p crypto.Part) []byte {
	b = append(b, `        <ns2:DataRef URI="`...)
	b = append(b, p.Name...)
	b = append(b, "\">\n"...)
	b = appendDigestValue(b, p.Sum)
	return append(b, "        </ns2:DataRef>\n"...)
}

func appendDigestValue(b, sum []byte) []byte {
	b = append(b, "            <DigestValue>"...)
	b = base64.StdEncoding.AppendEncode(b, sum)
	return append(b, "</DigestValue>\n"...)
}
