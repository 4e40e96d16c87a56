// SPDX-License-Identifier: Apache-2.0

// Package xades writes signature documents by template and verifies them strictly.
// (signature-and-evidence sections 3, 4 and 7)
//
// Writing fills in a text of which canonical form and document are known beforehand. Reading knows every element that may
// occur and its place; it looks at the nodes that it verified and at no others.
package xades

import (
	"context"
	stdcrypto "crypto"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
)

// DirectAttachments is how many attachments a message in the direct form may have: X-Road verifies at most 30 references
// (section 2).
const DirectAttachments = 28

// Namespaces and names that reading and writing share (section 1.1).
const (
	asicSpace  = "http://uri.etsi.org/02918/v1.2.1#"
	dsSpace    = "http://www.w3.org/2000/09/xmldsig#"
	xadesSpace = "http://uri.etsi.org/01903/v1.3.2#"
	xsiSpace   = "http://www.w3.org/2001/XMLSchema-instance"

	propertiesType = "http://uri.etsi.org/01903#SignedProperties"
)

// Causes of section 7.1.
const (
	cannotCreate     = "cannot_create_signature"
	invalidXML       = "invalid_xml"
	malformed        = "malformed_signature"
	invalidSignature = "invalid_signature_value"
	invalidURI       = "invalid_reference"
	internalError    = "internal_error"
)

// Error says why a signature was refused or could not be made. Where a hash chain is the reason, its error is inside.
type Error struct {
	cause string
	err   error
}

// Error implements error.
func (e *Error) Error() string {
	if e.cause == cannotCreate {
		return "signing: " + e.err.Error()
	}
	return "verifying the signature: " + e.err.Error()
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.err }

// Cause returns X-Road's cause, such as "invalid_signature_value" (section 7.1).
func (e *Error) Cause() string { return e.cause }

func failf(cause, format string, args ...any) error {
	return &Error{cause, fmt.Errorf(format, args...)}
}

// Signer signs with one key: a crypto.Signer. It is safe for concurrent use if Key, OCSP and Clock are. Its fields stay as they
// are once it has signed.
type Signer struct {
	Key         stdcrypto.Signer    // RSA of at least 2048 bits, or ECDSA on P-256 or P-384
	Certificate *x509.Certificate   // of Key
	Extra       []*x509.Certificate // between Certificate and its root, nearest first, the root left out
	// OCSP returns a response for Certificate and each of Extra, in that order, DER.
	OCSP  func(ctx context.Context) ([][]byte, error)
	Clock func() time.Time

	once  sync.Once
	fixed fixed                    // what all of its documents have in common
	last  atomic.Pointer[unsigned] // what the last one had, and the next may have, too
}

// Sign implements crypto.Signer. The direct form refers to parts by their own digests, the hash chain has one digest method
// for all parts and itself; everything else is SHA-512. A message of one part has the same document in both forms. Errors are *Error of
// cause cannot_create_signature.
//
// A hash chain cannot tell an attachment from a digest list. Where the form is Chain, the caller has looked at the first
// octets of every attachment with hashchain.LooksLikeDigestList and refused the message if one does (section 14.2).
func (s *Signer) Sign(ctx context.Context, parts []crypto.Part, form crypto.Form) (*crypto.Signature, error) {
	if err := crypto.CheckParts(parts); err != nil {
		return nil, &Error{cannotCreate, err}
	}
	if form == crypto.Chain && len(parts) > 1 {
		signatures, err := s.SignBatch(ctx, [][]crypto.Part{parts})
		if err != nil {
			return nil, err
		}
		return signatures[0], nil
	}
	if attachments := len(parts) - 1; attachments > DirectAttachments {
		return nil, failf(cannotCreate, "%d attachments in the direct form, more than %d", attachments, DirectAttachments)
	}
	xml, err := s.document(ctx, parts, "text/xml")
	if err != nil {
		return nil, &Error{cannotCreate, err}
	}
	return &crypto.Signature{XML: xml}, nil
}

// SignBatch makes one signature for many messages, which differ only in their hash chains (section 4 step 8). What Sign
// says of the chain form holds for each.
func (s *Signer) SignBatch(ctx context.Context, messages [][]crypto.Part) ([]*crypto.Signature, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	if len(messages[0]) == 0 {
		return nil, failf(cannotCreate, "a message without parts")
	}
	result, chains, err := hashchain.Build(messages, messages[0][0].Digest)
	if err != nil {
		return nil, &Error{cannotCreate, err}
	}
	if result == nil {
		only, err := s.Sign(ctx, messages[0], crypto.Direct)
		if err != nil {
			return nil, err
		}
		return []*crypto.Signature{only}, nil
	}
	xml, err := s.document(ctx, []crypto.Part{
		{Name: crypto.HashChainResult, Digest: crypto.SHA512, Sum: crypto.SHA512.Sum(result)},
	}, "application/hash-chain-result")
	if err != nil {
		return nil, &Error{cannotCreate, err}
	}
	signatures := make([]*crypto.Signature, len(messages))
	for i := range signatures {
		signatures[i] = &crypto.Signature{XML: xml, HashChainResult: result, HashChain: chains[i]}
	}
	return signatures, nil
}

// Verified is what a signature proves about its signer, to be judged by trust.
type Verified struct {
	Certificate *x509.Certificate
	Extra       []*x509.Certificate
	OCSP        [][]byte
	SigningTime time.Time // informative; zero where it is missing or unreadable
	Form        crypto.Form
}

// Verifier verifies signatures. It remembers exactly one fact of a signature: that this SignatureValue verifies over this
// SignedInfo with this certificate; so the many messages of one batch take one public-key operation. All else is judged
// for every message. The zero value is ready, and it is safe for concurrent use.
type Verifier struct {
	values       crypto.Facts
	certificates crypto.Facts // parsed, and fit to sign by themselves
}

// Verify checks that sig is a signature of the profile, by the certificate inside it, over exactly the parts:
// structure, coverage, digests, value (7.2 steps 1 to 6 except the member, 7.5). It does not judge the certificate
// chain, its member or the OCSP responses; that is for trust. It is for the message exchange: a hash chain that came
// along unused is an error. Errors are *Error with the causes of section 7.1.
func (v *Verifier) Verify(sig *crypto.Signature, parts []crypto.Part) (*Verified, error) {
	if err := crypto.CheckParts(parts); err != nil {
		return nil, &Error{internalError, err}
	}
	d, err := read(sig.XML)
	if err != nil {
		return nil, err
	}
	form, err := d.covers(sig, parts)
	if err != nil {
		return nil, err
	}
	if form == crypto.Chain {
		if err := hashchain.Verify(sig.HashChainResult, sig.HashChain, parts); err != nil {
			return nil, &Error{malformed, err}
		}
	}
	return v.verify(d, form, sig.HashChainResult, func(ref *reference) ([]byte, error) { return ref.part.Sum, nil })
}

// Verify is that of a new Verifier.
func Verify(sig *crypto.Signature, parts []crypto.Part) (*Verified, error) {
	return new(Verifier).Verify(sig, parts)
}
