// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
)

// Evidence is what a signature proves of a message that is looked at later.
type Evidence struct {
	Verified
	Value  []byte   // of ds:SignatureValue, decoded: what a single time-stamp is over (section 9.1)
	Stamps [][]byte // time-stamp tokens inside the document, DER; nobody has judged them

	Proved  []string      // parts whose octets were there and are what was signed
	Missing []crypto.Part // signed parts whose octets were not there, with the digests that were signed

	// Batch says that the hash chain has the digest of something else beside the message's. The signature then proves that
	// its maker hashed these octets, not that they were a message (section 14.2).
	Batch bool
	// Unreferenced says that a hash chain came along of which the signature says nothing. It was not looked at.
	Unreferenced bool
}

// NeedsFilesError says that everything that was there is proved, and that it is not enough: the octets of these parts are
// needed too. A signature through a hash chain needs the message alone, for it stands for attachments by their digests;
// one in the direct form needs all parts.
type NeedsFilesError struct{ Parts []crypto.Part }

// Error implements error.
func (e *NeedsFilesError) Error() string {
	names := make([]string, 0, 4)
	for _, p := range e.Parts {
		if len(names) == cap(names)-1 && len(e.Parts) > cap(names) {
			names = append(names, fmt.Sprintf("%d more", len(e.Parts)-len(names)))
			break
		}
		names = append(names, p.Name)
	}
	return "verifying the signature: it also covers " + strings.Join(names, ", ") + ", of which only digests are there"
}

// Cause returns "invalid_reference" (section 7.1).
func (e *NeedsFilesError) Cause() string { return invalidURI }

// VerifyEvidence checks a signature as Verify does, for a message that was kept: its parts are those that the signature
// names, and resolve finds their octets (section 10.3 step 4). It asks for each part once, and for whatever else a
// dishonest hash chain names. ErrDeclined from it means that the octets of a part were not kept. An attachment through a
// hash chain is then Missing, as is usual. Where more than that is missing, the Evidence comes with a *NeedsFilesError.
//
// A hash chain that the signature does not reference is no error here (section 7.5 rule 4). Time-stamps are for the caller
// to judge. Errors are *Error with the causes of section 7.1, but for *NeedsFilesError.
func VerifyEvidence(sig *crypto.Signature, resolve hashchain.Resolver) (*Evidence, error) {
	d, err := read(sig.XML)
	if err != nil {
		return nil, err
	}
	e := &Evidence{Value: d.value, Stamps: d.stamps}
	if !d.refersTo(crypto.HashChainResult) {
		e.Unreferenced = len(sig.HashChainResult) > 0 || len(sig.HashChain) > 0
		sig = &crypto.Signature{XML: sig.XML}
	}
	form, err := d.covers(sig, d.named())
	if err != nil {
		return nil, err
	}
	f := finder{resolve: resolve, found: make(map[string]bool), evidence: e}
	if form == crypto.Chain {
		if err := f.follow(sig); err != nil {
			return nil, &Error{malformed, err}
		}
	}
	v, err := new(Verifier).verify(d, form, sig.HashChainResult, f.sum)
	if err != nil {
		return nil, err
	}
	e.Verified = *v
	return e, e.needs()
}

// needs returns an error if parts are missing that must be there.
func (e *Evidence) needs() error {
	needed := e.Missing
	if e.Form == crypto.Chain {
		needed = slices.DeleteFunc(slices.Clone(needed), func(p crypto.Part) bool { return p.Name != crypto.Message })
	}
	if len(needed) > 0 {
		return &NeedsFilesError{needed}
	}
	return nil
}

func (d *document) refersTo(uri string) bool {
	return slices.ContainsFunc(d.references, func(ref reference) bool { return ref.uri == uri })
}

// named returns the parts of a message that has as many attachments as the document refers to: if it is honest, it refers
// to these and to nothing else.
func (d *document) named() []crypto.Part {
	digests := make(map[string]crypto.Digest)
	attachments := 0
	for _, ref := range d.references {
		digests[ref.uri] = ref.digest
		if strings.HasPrefix(ref.uri, "/attachment") {
			attachments++
		}
	}
	parts := []crypto.Part{{Name: crypto.Message, Digest: digests[crypto.Message]}}
	for n := range attachments {
		name := crypto.Attachment(n + 1)
		parts = append(parts, crypto.Part{Name: name, Digest: digests[name]})
	}
	return parts
}

// finder finds the octets of parts and notes which were there.
type finder struct {
	resolve  hashchain.Resolver
	found    map[string]bool
	evidence *Evidence
}

// open opens a part, once: an honest signature refers to it once, and many references to one large part would cost their
// number times its size.
func (f *finder) open(name string) (io.ReadCloser, error) {
	if f.found[name] {
		return nil, errors.New("it was referred to before")
	}
	r, err := f.resolve(name)
	if err == nil {
		f.found[name] = true
		f.evidence.Proved = append(f.evidence.Proved, name)
	}
	return r, err
}

// sum returns the digest of what a reference names, or the one that the reference has where the octets are missing.
func (f *finder) sum(ref *reference) ([]byte, error) {
	r, err := f.open(ref.uri)
	if errors.Is(err, hashchain.ErrDeclined) {
		f.evidence.Missing = append(f.evidence.Missing, crypto.Part{Name: ref.uri, Digest: ref.digest, Sum: ref.sum})
		return ref.sum, nil
	}
	if err != nil {
		return nil, failf(invalidURI, "resolving %s: %w", ref.uri, err)
	}
	defer r.Close()
	h := ref.digest.New()
	if _, err := io.Copy(h, r); err != nil {
		return nil, failf(invalidURI, "reading %s: %w", ref.uri, err)
	}
	return h.Sum(nil), nil
}

// follow follows the hash chain to the message and to what else it lists, and demands the shape of an honest one.
func (f *finder) follow(sig *crypto.Signature) error {
	path, err := hashchain.Follow(sig.HashChainResult, []crypto.Part{{Name: crypto.Message}}, func(uri string) (io.ReadCloser, error) {
		if uri == crypto.HashChain {
			return io.NopCloser(bytes.NewReader(sig.HashChain)), nil
		}
		return f.open(uri)
	})
	if err != nil {
		return err
	}
	f.evidence.Missing, f.evidence.Batch = path.Unresolved, path.Batch
	return path.Shape(crypto.Message)
}
