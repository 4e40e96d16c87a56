// SPDX-License-Identifier: Apache-2.0

// Package hashchain builds and verifies the hash chains that let one signature cover many parts or many messages.
// (signature-and-evidence sections 5 and 7.3)
//
// A chain is a list of steps, and a step is a list of digests: of parts, of messages that someone else received, or of the
// next step. Its first step is the signed result. Chains do not bind names (section 14.2); what a chain proves is
// therefore bound to the shape that Path.Shape requires.
package hashchain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// MaxParts is how many parts a message may have in a hash chain.
const MaxParts = 20000

// maxSteps is how many steps the hash chains of one result may have together (section 7.5 rule 7). A chain of that many
// would come from a batch of 2^64 messages.
const maxSteps = 64

// limits bounds hash chain documents: MaxParts need 7 nodes and some 200 octets each.
var limits = c14n.Limits{Size: 5 << 20, Depth: 8, Attributes: 16, Nodes: 8 * MaxParts}

// maxTags is how many tags a hash chain document may have: MaxParts need 4 each, and steps some more. A tree of elements
// without anything in them would take ten times the memory of an honest one.
const maxTags = 4*MaxParts + 16*maxSteps

// Error says why a hash chain was refused.
type Error struct {
	cause string
	err   error
}

// Error implements error.
func (e *Error) Error() string { return "verifying the hash chain: " + e.err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.err }

// Cause returns X-Road's cause, such as "invalid_hash_chain" (section 7.1).
func (e *Error) Cause() string { return e.cause }

// Causes of section 7.1.
const (
	malformed     = "malformed_hash_chain"
	invalidTop    = "invalid_hash_chain"
	invalidData   = "invalid_hash_chain_ref"
	invalidURI    = "invalid_reference"
	unusedInputs  = "hashchain_unused_inputs"
	internalError = "internal_error"
)

func failf(cause, format string, args ...any) error {
	return &Error{cause, fmt.Errorf(format, args...)}
}

// Verify checks that the chain leads from the result to exactly the parts, with the shape rules for messages
// (sections 7.3, 7.5 rules 7 and 8). It also refuses a chain that leads there although it claims other digests for the
// parts: kept as evidence, such a chain would not verify any more. Errors are *Error with the causes of section 7.1.
func Verify(result, chain []byte, parts []crypto.Part) error {
	if err := crypto.CheckParts(parts); err != nil {
		return &Error{internalError, err}
	}
	if isBuilt(result, chain, parts) { // as nearly all are: what is below takes a thousand octets for each part
		return nil
	}
	return verify(result, chain, parts)
}

// verify is Verify of parts that may be a message's, whoever wrote the chain.
func verify(result, chain []byte, parts []crypto.Part) error {
	path, err := Follow(result, parts, func(uri string) (io.ReadCloser, error) {
		if uri != crypto.HashChain || len(chain) == 0 {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(bytes.NewReader(chain)), nil
	})
	if err != nil {
		return err
	}
	if path.otherwise != "" {
		return failf(invalidData, "%.128q is not what the chain says", path.otherwise)
	}
	return path.Shape(crypto.Message)
}

// ErrDeclined is what a Resolver answers for data that it does not have and that need not be there.
var ErrDeclined = errors.New("not resolved")

// Resolver opens what a URI names: a hash chain document or the data of a part. ErrDeclined leaves the data alone, so that
// the digest in the chain is taken as it stands; any other error refuses the chain. Follow closes what it got.
type Resolver func(uri string) (io.ReadCloser, error)
