// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/caddy-fairway/fairway/crypto"
)

// Names of the documents of a batch time-stamp, as references spell them: what is stamped, the hash chain of one message,
// and the signature document to which it leads.
const (
	TimestampResult   = "/ts-hashchainresult.xml"
	TimestampChain    = "/ts-hashchain.xml"
	SignatureDocument = "/META-INF/signatures.xml"
)

// BuildTimestamp makes one hash chain result over signature documents, of which it gets the digests, and a function that
// writes the chain of each when it is wanted (section 9.1): the chains of a large batch are large together. A batch has
// two documents at least; a single one is stamped without a chain.
func BuildTimestamp(sums [][]byte, digest crypto.Digest) (result []byte, chain func(i int) []byte, err error) {
	if len(sums) < 2 {
		return nil, nil, errors.New("building the hash chain of a time-stamp: a batch has two signatures at least")
	}
	documents := make([][]crypto.Part, len(sums))
	for i, sum := range sums {
		if !digest.Known() || len(sum) != digest.Size() {
			return nil, nil, fmt.Errorf("building the hash chain of a time-stamp: signature %d does not have a digest of the method", i)
		}
		documents[i] = []crypto.Part{{Name: SignatureDocument, Digest: digest, Sum: sum}}
	}
	levels := tree(documents, digest)
	chain = func(i int) []byte { return chainDocument(branches(levels, i), documents[i], digest) }
	return resultDocument(TimestampChain, top(levels), digest), chain, nil
}

// VerifyTimestamp checks that the chain leads from the result, which is what was stamped, to the signature document, with
// the shape rule for time-stamps (sections 7.3, 7.5 rules 7 and 8). Errors are *Error with the causes of section 7.1.
func VerifyTimestamp(result, chain, signature []byte) error {
	path, err := Follow(result, []crypto.Part{{Name: SignatureDocument}}, func(uri string) (io.ReadCloser, error) {
		switch uri {
		case TimestampChain:
			return io.NopCloser(bytes.NewReader(chain)), nil
		case SignatureDocument:
			return io.NopCloser(bytes.NewReader(signature)), nil
		}
		return nil, fs.ErrNotExist
	})
	if err != nil {
		return err
	}
	return path.Shape(SignatureDocument)
}
