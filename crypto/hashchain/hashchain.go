// SPDX-License-Identifier: Apache-2.0

// Package hashchain builds and verifies the hash chains that let one signature cover many parts or many messages.
// (signature-and-evidence sections 5 and 7.3)
package hashchain

import "github.com/caddy-fairway/fairway/crypto"

// Build makes one hash chain result over the messages and a chain for each, in order (section 5.2).
// A single message of one part needs none: all is nil then.
func Build(messages [][]crypto.Part, digest crypto.Digest) (result []byte, chains [][]byte, err error) {
	panic("stub")
}

// Verify checks that the chain leads from the parts to the result, with the shape rules for messages
// (sections 7.3, 7.5 rules 7 and 8). Errors have the causes of section 7.1.
func Verify(result, chain []byte, parts []crypto.Part) error { panic("stub") }
