// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/crypto/xades"
)

// Proof is what a container proves, as far as it goes by itself: which octets the owner of the key of Certificate signed.
// Whose that certificate is, and was it good when the container was stamped, is for trust.
type Proof struct {
	*xades.Evidence

	stamped, token []byte
	inside         int // time-stamps in the signature document
}

// Verify checks what is in the container (section 10.3 steps 2 to 4, but for the token and for the certificate): that the
// time-stamp's hash chain leads to the signature document, that the signature covers the message and every attachment that
// is there, and that all of it is what was signed. Every attachment is read once.
//
// An attachment that nothing references is an error, and so is one that contradicts its digest, in whichever form.
// Where attachments are missing that the signature names itself, or the message is, the Proof comes with a
// *xades.NeedsFilesError: everything else is proved. Attachments of which a hash chain has the digest are merely Missing.
// Errors are *Error, or those of xades.VerifyEvidence.
func (c *Container) Verify() (*Proof, error) {
	if err := c.verifyStamp(); err != nil {
		return nil, err
	}
	evidence, err := xades.VerifyEvidence(&c.Signature, c.resolve)
	var needs *xades.NeedsFilesError
	if err != nil && !errors.As(err, &needs) {
		var own *Error
		if errors.As(err, &own) {
			return nil, own // what was read was no good: that comes before what follows from it
		}
		return nil, err
	}
	for _, n := range c.numbers() {
		if !slices.Contains(evidence.Proved, crypto.Attachment(n)) {
			return nil, failf(malformed, "attachment %d is in the container, but the signature does not cover it", n)
		}
	}
	return c.proof(evidence), err
}

// resolve opens the parts of the message.
func (c *Container) resolve(uri string) (io.ReadCloser, error) {
	open := c.Attachments[attachmentNumber(uri)]
	if uri == crypto.Message {
		open = c.Message
	}
	if open == nil {
		return nil, hashchain.ErrDeclined
	}
	return open()
}

// stampedURI is what hash chains of time-stamps lead to.
const stampedURI = "/" + signatureName

// verifyStamp checks that the hash chain of a batch time-stamp leads to the signature document (sections 7.5 rule 8 and
// 10.3 step 3).
func (c *Container) verifyStamp() error {
	if len(c.Stamp.HashChainResult) == 0 {
		return nil
	}
	read := false
	path, err := hashchain.Follow(c.Stamp.HashChainResult, []crypto.Part{{Name: stampedURI}}, func(uri string) (io.ReadCloser, error) {
		switch {
		case uri == "/"+tsChainName:
			return io.NopCloser(bytes.NewReader(c.Stamp.HashChain)), nil
		case uri == stampedURI && !read:
			read = true // an honest chain refers to it once
			return io.NopCloser(bytes.NewReader(c.Signature.XML)), nil
		}
		return nil, fs.ErrNotExist
	})
	if err == nil {
		err = path.Shape(stampedURI)
	}
	if err != nil {
		return failf(malformed, "the time-stamp is not over this signature: %v", err) // X-Road names no cause
	}
	return nil
}

// proof adds to the evidence what the time-stamp is over, and its token: that beside the document or else the one inside.
func (c *Container) proof(e *xades.Evidence) *Proof {
	p := &Proof{Evidence: e, stamped: e.Value, token: c.Stamp.Token, inside: len(e.Stamps)}
	if len(c.Stamp.HashChainResult) > 0 {
		p.stamped = c.Stamp.HashChainResult
	}
	if len(p.token) == 0 && len(e.Stamps) == 1 {
		p.token = e.Stamps[0]
	}
	return p
}

// Stamp returns the octets that were time-stamped and the token over them, DER, for tsp to judge. Its time is the one at
// which everything else must have been good. Without a time-stamp, or with several of which none counts more than the
// others, it returns an error; where there is none at all, that is ErrUnstamped.
func (p *Proof) Stamp() (stamped, token []byte, err error) {
	switch {
	case len(p.token) > 0:
		return p.stamped, p.token, nil
	case p.inside > 1:
		return nil, nil, failf(malformed, "there are %d time-stamps in %s", p.inside, signatureName)
	default:
		return nil, nil, &Error{malformed, ErrUnstamped}
	}
}
