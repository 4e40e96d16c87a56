// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
			sums := make([][]byte, len(parts))
			for j, p := range parts {
				sums[j] = p.Sum
			}
			row[i] = step(digest, sums...)
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

// step returns the value of a step with those digests.
func step(digest crypto.Digest, sums ...[]byte) []byte {
	var l digestList
	for _, sum := range sums {
		l.add(digest, sum)
	}
	return digest.Sum(l.octets())
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
	var b strings.Builder
	b.Grow(512 + 400*len(way) + 256*len(parts))
	b.WriteString(declaration)
	b.WriteString(`<ns2:HashChain xmlns="` + dsSpace + `" xmlns:ns2="` + hashChainSpace + "\">\n")
	b.WriteString(`    <ns2:DefaultDigestMethod Algorithm="` + digest.URI() + "\"/>\n")
	for n, fork := range way {
		startStep(&b, n)
		if fork.left {
			writeHashValue(&b, fork.sum)
		}
		if n == len(way)-1 && len(parts) == 1 {
			writeDataRef(&b, parts[0])
		} else {
			b.WriteString(`        <ns2:StepRef URI="#STEP` + strconv.Itoa(n+1) + "\"/>\n")
		}
		if !fork.left {
			writeHashValue(&b, fork.sum)
		}
		b.WriteString("    </ns2:HashStep>\n")
	}
	if len(parts) > 1 {
		startStep(&b, len(way))
		for _, p := range parts {
			writeDataRef(&b, p)
		}
		b.WriteString("    </ns2:HashStep>\n")
	}
	b.WriteString("</ns2:HashChain>\n")
	return []byte(b.String())
}

func startStep(b *strings.Builder, n int) {
	b.WriteString(`    <ns2:HashStep id="STEP` + strconv.Itoa(n) + "\">\n")
}

func writeHashValue(b *strings.Builder, sum []byte) {
	b.WriteString("        <ns2:HashValue>\n")
	writeDigestValue(b, sum)
	b.WriteString("        </ns2:HashValue>\n")
}

func writeDataRef(b *strings.Builder, p crypto.Part) {
	b.WriteString(`        <ns2:DataRef URI="` + p.Name + "\">\n")
	writeDigestValue(b, p.Sum)
	b.WriteString("        </ns2:DataRef>\n")
}

func writeDigestValue(b *strings.Builder, sum []byte) {
	b.WriteString("            <DigestValue>" + base64.StdEncoding.EncodeToString(sum) + "</DigestValue>\n")
}
