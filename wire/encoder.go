// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/multipart"
)

// Part is a part of a message: what is signed of it, and how long it is.
type Part struct {
	crypto.Part
	ContentType string
	ContentID   string // without brackets, not signed; "" in an Encoder
	Encoding    string // Content-Transfer-Encoding, not signed and not decoded; "" in an Encoder
	Size        int64
	Offset      int64 // of its octets in the Message's package; 0 in an Encoder
}

// SignedParts returns what a signature covers.
func SignedParts(parts []Part) []crypto.Part {
	signed := make([]crypto.Part, len(parts))
	for i, p := range parts {
		signed[i] = p.Part
	}
	return signed
}

// maxFields is how many octets the header fields of all parts of a message may have that are kept to its end.
const maxFields = 4 << 20

// fields gives Parts what is kept of their headers.
type fields struct{ octets int }

// of returns a copy of a field, which does not hold on to the part's whole header.
func (f *fields) of(h multipart.Header, name string) (string, error) {
	value := h.Get(name)
	if f.octets += len(value); f.octets > maxFields {
		return "", Errorf("invalid_content_type", "the Content-Types and Content-IDs of the parts are longer than %d octets together", maxFields)
	}
	return strings.Clone(value), nil
}

// encoderBuffer is what an Encoder gathers before it writes: one TLS record and more.
const encoderBuffer = 32 << 10

// Encoder writes one message to a peer, part by part as they come, in the only order the protocol allows: OCSP
// responses, SOAP, attachments, then Sign or Fault or Close (message-and-transport 5.3 to 5.6).
// It hashes what passes. Errors of the writer are returned and stay. It is not safe for concurrent use.
type Encoder struct {
	to          destination
	out         *bufio.Writer // to it; nil once the message has ended
	outer       *multipart.Writer
	attachments *multipart.Writer // the open container
	letters     string
	digest      crypto.Digest
	hash        hash.Hash
	guard       *multipart.Guard // of the original; nil: nothing is to be looked for
	fields      fields
	parts       []Part
	requestHash []byte
	stage       stage
}

type stage uint8

const (
	stageOCSP stage = iota
	stageSOAP
	stageAttachments
	stageEnd
)

// writers are the buffers of Encoders whose message has ended.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, encoderBuffer) }}

// NewEncoder writes to w. Attachments are hashed with digest, the envelope too.
func NewEncoder(w io.Writer, digest crypto.Digest) *Encoder {
	e := &Encoder{to: destination{Writer: w}, letters: multipart.Letters(30), digest: digest, hash: digest.New()}
	e.out = writers.Get().(*bufio.Writer)
	e.out.Reset(&e.to)
	e.outer = multipart.NewWriter(e.out, "xtop"+e.letters)
	return e
}

// Use makes digest the one of all parts. It is called before the first of them.
func (e *Encoder) Use(digest crypto.Digest) {
	e.enter(stageOCSP)
	e.digest, e.hash = digest, digest.New()
}

// ContentType returns the Content-Type of the HTTP message.
func (e *Encoder) ContentType() string {
	return "multipart/mixed; charset=UTF-8; boundary=xtop" + e.letters
}

// Parts returns what has been written of the message, /message.xml first.
func (e *Encoder) Parts() []Part { return e.parts }

// Watch has the Encoder refuse what a reader of the original's Content-Type could cut in another way than its Reader.
func (e *Encoder) Watch(o *Original) { e.guard = o.guard }

// OCSP writes the OCSP response of a certificate of our TLS chain.
func (e *Encoder) OCSP(der []byte) error {
	e.enter(stageOCSP)
	return e.whole(multipart.NewHeader("content-type", "application/ocsp-response"), der)
}

// SOAP writes the envelope's part and its octets.
func (e *Encoder) SOAP(h multipart.Header, envelope io.Reader) error {
	e.enter(stageSOAP)
	e.stage = stageAttachments
	if err := e.look(h); err != nil {
		return err
	}
	w, err := e.outer.Part(h)
	if err != nil {
		return err
	}
	named := newRequestHash(e.hash, e.digest)
	if err := e.copy(w, named, crypto.Message, h, envelope); err != nil {
		return err
	}
	e.requestHash = named.sum()
	return nil
}

// Attachment writes an attachment and its octets.
func (e *Encoder) Attachment(h multipart.Header, body io.Reader) error {
	e.enter(stageAttachments)
	if err := e.look(h); err != nil {
		return err
	}
	if e.attachments == nil {
		container := multipart.NewHeader("content-type", "multipart/mixed; charset=UTF-8; boundary=xatt"+e.letters)
		w, err := e.outer.Nested(container, "xatt"+e.letters)
		if err != nil {
			return err
		}
		e.attachments = w
	}
	w, err := e.attachments.Part(h)
	if err != nil {
		return err
	}
	return e.copy(w, e.hash, crypto.Attachment(len(e.parts)), h, body)
}

// RequestHash returns the SHA-512 of the envelope, by which a response names it as its request, once that was written.
func (e *Encoder) RequestHash() []byte { return e.requestHash }

// Flush hands over what has been gathered. Call it before waiting for something slow. A message so short that nothing of it
// has left yet stays: it goes out at once when it is complete.
func (e *Encoder) Flush() error {
	if !e.to.began {
		return nil
	}
	return e.out.Flush()
}

// destination is where a message goes.
type destination struct {
	io.Writer
	began bool
}

func (d *destination) Write(p []byte) (int, error) {
	d.began = true
	return d.Writer.Write(p)
}

// Sign writes the signature over Parts and ends the message.
func (e *Encoder) Sign(s *crypto.Signature) error {
	e.enter(stageAttachments)
	if err := e.closeAttachments(); err != nil {
		return err
	}
	if s.Form() == crypto.Chain {
		if err := e.whole(multipart.NewHeader("content-type", "application/hash-chain-result"), s.HashChainResult); err != nil {
			return err
		}
		if err := e.whole(multipart.NewHeader("content-type", "application/hash-chain"), s.HashChain); err != nil {
			return err
		}
	}
	if err := e.whole(multipart.NewHeader("content-type", "signature/bdoc-1.0/ts"), s.XML); err != nil {
		return err
	}
	return e.Close()
}

// Fault writes a fault in place of the signature and ends the message, which its reader then refuses. The part that is
// being sent simply ends early. A message that has ended well cannot be taken back: that is an error.
func (e *Encoder) Fault(fault []byte) error {
	if e.out == nil {
		return errors.New("the message has ended")
	}
	if err := e.closeAttachments(); err != nil {
		return err
	}
	if err := e.whole(multipart.NewHeader("content-type", PlainContentType), fault); err != nil {
		return err
	}
	return e.Close()
}

// Close ends the message without a signature, as a service's fault is sent. Sign and Fault call it. Where it succeeds
// nothing can be written any more.
func (e *Encoder) Close() error {
	e.stage = stageEnd
	if err := e.closeAttachments(); err != nil {
		return err
	}
	if err := e.outer.Close(); err != nil {
		return err
	}
	if err := e.out.Flush(); err != nil {
		return err
	}
	out := e.out
	e.out, e.outer = nil, nil
	out.Reset(nil)
	writers.Put(out)
	return nil
}

func (e *Encoder) enter(s stage) {
	if e.stage > s {
		panic(fmt.Sprintf("wire: Encoder used out of order: %d after %d", s, e.stage))
	}
}

func (e *Encoder) whole(h multipart.Header, content []byte) error {
	w, err := e.outer.Part(h)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// look shows a header block to the guard before it is written.
func (e *Encoder) look(h multipart.Header) error {
	if e.guard == nil {
		return nil
	}
	return e.guard.Header(h)
}

func (e *Encoder) copy(w, hash io.Writer, name string, h multipart.Header, body io.Reader) error {
	contentType, err := e.fields.of(h, "Content-Type")
	if err != nil {
		return err
	}
	e.hash.Reset()
	n, err := io.Copy(&both{w, hash, e.guard}, body)
	if err == nil && e.guard != nil {
		err = e.guard.End()
	}
	if err != nil {
		return err
	}
	e.parts = append(e.parts, Part{
		Part:        crypto.Part{Name: name, Digest: e.digest, Sum: e.hash.Sum(nil)},
		ContentType: contentType,
		Size:        n,
	})
	return nil
}

func (e *Encoder) closeAttachments() error {
	if e.attachments == nil {
		return nil
	}
	w := e.attachments
	e.attachments = nil
	return w.Close()
}

// both hashes what was written, once the guard has let it pass.
type both struct {
	w, hash io.Writer
	guard   *multipart.Guard
}

func (b *both) Write(p []byte) (int, error) {
	if b.guard != nil {
		if _, err := b.guard.Write(p); err != nil {
			return 0, err
		}
	}
	n, err := b.w.Write(p)
	b.hash.Write(p[:n])
	return n, err
}

// requestHash is the hash of an envelope that passes: that of the part, and SHA-512, by which a response names its request
// whatever the digest of the parts is (message-and-transport 7).
type requestHash struct{ part, sha512 hash.Hash }

func newRequestHash(part hash.Hash, digest crypto.Digest) requestHash {
	if digest == crypto.SHA512 {
		return requestHash{part, part}
	}
	return requestHash{part, crypto.SHA512.New()}
}

func (r requestHash) Write(p []byte) (int, error) {
	if r.sha512 != r.part {
		r.sha512.Write(p)
	}
	return r.part.Write(p)
}

func (r requestHash) sum() []byte { return r.sha512.Sum(nil) }
