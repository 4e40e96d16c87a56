// SPDX-License-Identifier: Apache-2.0

package asice

import "testing"

// TestDerivedVectors are the cases that the index of the vectors derives from containers, as far as they are no attacks with
// a number of their own.
func TestDerivedVectors(t *testing.T) {
	attack(t, "hash chain, an attachment with any content", "valid-signed-hashchain", "malformed_signature.invalid_hash_chain_ref", func(e map[string]string) {
		e["attachment1"] = "any content"
	})
	attack(t, "direct, an attachment changed", "read/valid-signed-message-with-attachments", "invalid_signature_value", func(e map[string]string) {
		e["attachment2"] += "\n"
	})
	// What is signed is wrong then, too, but the time-stamp comes first.
	attack(t, "batch time-stamp, the policy's description changed", "valid-batch-ts", malformed, func(e map[string]string) {
		replace(t, e, signatureName, "Profile for High", "Profile for Hugh")
	})
}
