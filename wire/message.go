// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/trust"
)

// Message is a message of a peer that has been read and lies in the spool.
type Message struct {
	OCSP      [][]byte // responses to the peer's TLS certificates
	Header    soap.Header
	Parts     []Part // /message.xml first
	Signature *crypto.Signature
	// RequestHash is the SHA-512 of the envelope, by which a response names it as its request.
	RequestHash []byte

	// FaultCode is not empty if the message is a fault, or ended in one; Parts is empty then, and nothing is signed.
	FaultCode    string
	FaultString  string
	ServiceFault bool // the fault is that of the service, not of the security server

	contentType string
	faultOffset int64
	entry       spool.Entry
}

// Verify proves that the signature is by signer's member and covers exactly the parts, and returns what it says.
// It must have returned nil before anything of the message is used for more than routing and refusing.
// signatures remembers what need not be computed twice. Causes: signature_verification and what follows it
// (signature-and-evidence 7.1).
func (m *Message) Verify(signatures *xades.Verifier, store trust.Store, signer ident.Client, at time.Time) (*xades.Verified, error) {
	v, err := signatures.Verify(m.Signature, SignedParts(m.Parts))
	if err == nil {
		err = store.VerifySign(v.Certificate, v.Extra, v.OCSP, signer, at)
	}
	if err != nil {
		return nil, Because("signature_verification", err)
	}
	return v, nil
}

// ContentType returns the Content-Type of the package: the original one of a multipart message, else text/xml in the
// charset of the envelope.
func (m *Message) ContentType() string { return m.contentType }

// Size returns the octets of the package.
func (m *Message) Size() int64 { return m.entry.Size() - m.faultOffset }

// Open returns a reader of the package: the body as the other information system sent it, cut by ContentType,
// or the fault document. It may be opened any number of times; close each before Discard.
func (m *Message) Open() (io.ReadSeekCloser, error) {
	r, err := m.entry.Open()
	if err != nil || m.faultOffset == 0 {
		return r, err
	}
	if _, err := r.Seek(m.faultOffset, io.SeekStart); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// WritePackage writes the package to w.
func (m *Message) WritePackage(w io.Writer) (int64, error) {
	r, err := m.Open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.Copy(w, r)
}

// Discard frees the spool. It may be called again.
func (m *Message) Discard() {
	if m.entry != nil {
		m.entry.Remove() // an error leaves the file to the sweep of the next start
	}
}
