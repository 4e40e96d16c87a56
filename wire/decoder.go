// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/spool"
)

// Limits of what one message from a peer may make a Decoder hold in memory.
const (
	maxOCSPResponse = 256 << 10 // octets of one OCSP response
	maxOCSPCount    = 8         // OCSP responses: a TLS chain has no more certificates
	maxSignature    = 2 << 20   // octets of a signature document
	maxChainResult  = 16 << 10  // octets of a hash chain result
	maxChain        = 5 << 20   // octets of a hash chain: a line of some 250 for each attachment
	maxFault        = 1 << 20   // octets of a fault that are looked at; longer ones are passed on all the same
	maxEpilogue     = 64 << 10  // octets after the last delimiter that are read, to see that the body is complete
)

// peerLimits are those of an information system's message, and room for what security servers add to it: OCSP responses,
// the container, the hash chain and the signature.
var peerLimits = multipart.Limits{
	Parts:  multipart.DefaultLimits.Parts + maxOCSPCount + 8,
	Fields: multipart.DefaultLimits.Fields + 1000,
}

// Decoder reads a message from a peer into a spool.
type Decoder struct {
	Place  Place // who reads: AtReceiver reads requests, AtSender responses
	Digest crypto.Digest
	Spool  spool.Store
}

// Incoming is the HTTP message of a peer.
type Incoming struct {
	ContentType string // of the HTTP message
	Original    string // x-original-content-type
	Body        io.Reader
	// Length is how many octets the message has, as far as its sender said so, else 0 or less. The spool must have room
	// for them when the header has been read; a message that is longer after all finds room as it comes.
	Length int64
}

// Decode reads a message to its end (message-and-transport 5.5). check is called when the X-Road header is known, with
// the OCSP responses and the header in m, before any attachment is read; its error ends the reading and is returned
// as it is if it has a place. Nothing is verified yet: see Message.Verify. The caller owns the Message and must call
// Discard, whatever becomes of it; after an error there is nothing to discard.
func (d *Decoder) Decode(ctx context.Context, in Incoming, check func(m *Message) error) (*Message, error) {
	m := &Message{}
	err := d.decode(ctx, in, check, m)
	if err == nil {
		err = d.complete(m)
	}
	if err == nil {
		err = At(d.Place, m.entry.Done())
	}
	if err != nil {
		m.Discard()
		return nil, At(d.Place.NextHop(), err)
	}
	return m, nil
}

// complete says what is missing. These codes have no service_failed in them.
func (d *Decoder) complete(m *Message) error {
	switch {
	case m.FaultCode != "":
		return nil
	case len(m.Parts) == 0:
		return At(d.Place, Errorf("missing_soap", "the peer's message has no SOAP part"))
	case m.Signature == nil:
		return At(d.Place, Errorf("missing_signature", "the peer's message has no signature"))
	}
	return nil
}

func (d *Decoder) decode(ctx context.Context, in Incoming, check func(*Message) error, m *Message) error {
	outer, err := multipart.ParseContentType(in.ContentType)
	if err != nil {
		return Because("invalid_content_type", err)
	}
	entry, err := d.Spool.Create(ctx)
	if err != nil {
		return err
	}
	m.entry = entry
	p := &parcel{entry: entry, place: d.Place, digest: d.Digest, hash: d.Digest.New()}
	if outer.Type == "text/xml" && d.Place == AtSender {
		return d.bareFault(in, p, m)
	}
	boundary, ok := outer.Param("boundary")
	if outer.Type != "multipart/mixed" || !ok {
		return Errorf("invalid_content_type", "a message between security servers is multipart/mixed with a boundary, not %q", in.ContentType)
	}
	if err := p.address(in.Original, m); err != nil {
		return err
	}
	s := &slots{Decoder: d, in: in, check: check, m: m, parcel: p}
	reader := multipart.NewReader(in.Body, boundary, peerLimits)
	for {
		part, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = s.part(part)
			if err != nil && s.broken(part) {
				err = s.reason(reader, err)
			}
		}
		if errors.Is(err, multipart.ErrTruncated) {
			m.Signature = nil
			return nil // complete says what is missing
		}
		if err != nil {
			return err
		}
	}
	if err := p.close(); err != nil {
		return err
	}
	// The last delimiter ends the message, the end of the HTTP body proves that nothing was cut.
	if err := reader.Trailing(maxEpilogue); err != nil && !errors.Is(err, multipart.ErrTrailing) {
		return err
	}
	return nil
}

// bareFault reads a response that is only a fault.
func (d *Decoder) bareFault(in Incoming, p *parcel, m *Message) error {
	env, err := soap.Open(in.Body, "", soap.Limits{})
	if err != nil {
		return err
	}
	if !env.Fault {
		return Errorf("invalid_message", "the peer answered with a SOAP message that is neither signed nor a fault")
	}
	return p.fault(env, m)
}

// slots waits for one kind of part after another; a part that does not fit is tried in the next slot.
type slots struct {
	*Decoder
	in     Incoming
	check  func(*Message) error
	m      *Message
	parcel *parcel
	at     slot
	result []byte
	chain  []byte
}

type slot uint8

const (
	slotOCSP slot = iota
	slotSOAP
	slotAttachments
	slotChainResult
	slotChain
	slotSignature
	slotEnd
)

func (s *slots) part(part *multipart.Part) error {
	ct, err := multipart.ParseContentType(part.Header.Get("Content-Type"))
	if err != nil {
		return Because("invalid_content_type", err)
	}
	switch {
	case s.at == slotOCSP && ct.Type == "application/ocsp-response":
		return s.ocsp(part)
	case s.at <= slotSOAP && isEnvelope(ct.Type):
		s.at = slotAttachments
		return s.soap(part)
	case s.at <= slotSOAP:
		return Errorf("invalid_content_type", "%q stands where the SOAP part belongs", ct.Type)
	case s.at == slotAttachments && ct.Type == "multipart/mixed":
		s.at = slotChainResult
		return s.attachments(part, ct)
	case s.at <= slotChainResult && ct.Type == "application/hash-chain-result":
		s.at = slotChain
		s.result, err = whole(part, maxChainResult)
		return err
	case s.at <= slotChain && ct.Type == "application/hash-chain":
		s.at = slotSignature
		s.chain, err = whole(part, maxChain)
		return err
	case s.at <= slotSignature && ct.Type == "signature/bdoc-1.0/ts":
		s.at = slotEnd
		doc, err := whole(part, maxSignature)
		s.m.Signature = &crypto.Signature{XML: doc, HashChainResult: s.result, HashChain: s.chain}
		return err
	case s.at <= slotSignature && ct.Type == "text/xml":
		s.at = slotEnd
		return s.lateFault(part)
	case s.at == slotEnd:
		return Errorf("invalid_message", "extra content after the signature")
	}
	return Errorf("invalid_content_type", "received invalid content type %q instead of signature", ct.Type)
}

func (s *slots) ocsp(part *multipart.Part) error {
	if len(s.m.OCSP) == maxOCSPCount {
		return Errorf("invalid_message", "more than %d OCSP responses", maxOCSPCount)
	}
	der, err := whole(part, maxOCSPResponse)
	if err != nil {
		return err
	}
	var response struct {
		Status asn1.Enumerated
		Bytes  asn1.RawValue `asn1:"optional,explicit,tag:0"`
	}
	if _, err := asn1.Unmarshal(der, &response); err != nil {
		return Errorf("io_error", "an OCSP part is not an OCSP response: %w", err)
	}
	s.m.OCSP = append(s.m.OCSP, der)
	return nil
}

func (s *slots) soap(part *multipart.Part) error {
	env, err := s.envelope(part)
	if err != nil {
		return err
	}
	if env.Fault {
		if s.Place == AtReceiver {
			return At(s.Place, Errorf("missing_soap", "the peer sent a fault where a request belongs"))
		}
		s.m.ServiceFault = true
		return s.parcel.fault(env, s.m)
	}
	if s.parcel.outer.Type == "multipart/related" {
		if err := checkRoot(s.parcel.outer, part.Header, s.parcel.guard); err != nil {
			return err
		}
	}
	s.m.Header = env.Header
	if !s.parcel.multipart() && !env.IsUTF8() {
		s.m.contentType = "text/xml; charset=" + env.Charset() // a service that believes it must not read another header
	}
	if err := s.check(s.m); err != nil {
		return err
	}
	if err := s.parcel.entry.Reserve(s.in.Length); err != nil {
		return At(s.Place, err)
	}
	named := newRequestHash(s.parcel.hash, s.parcel.digest)
	if err := s.parcel.add(crypto.Message, part.Header, named, env, s.m); err != nil {
		return err
	}
	s.m.RequestHash = named.sum()
	return nil
}

// broken reports whether a response's envelope that is not good ends where it stopped being good: the receiving security
// server passes on what it gets until it finds out what is wrong, ends there, and sends a fault in place of the signature.
func (s *slots) broken(part *multipart.Part) bool {
	if s.Place != AtSender || s.at != slotAttachments {
		return false
	}
	n, err := part.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

// reason reads the fault that follows such an envelope. Without one, err is what is wrong.
func (s *slots) reason(reader *multipart.Reader, err error) error {
	part, bad := reader.Next()
	if bad != nil {
		return err
	}
	if ct, bad := multipart.ParseContentType(part.Header.Get("Content-Type")); bad != nil || ct.Type != "text/xml" {
		return err
	}
	s.at = slotEnd
	return s.lateFault(part)
}

// envelope opens the SOAP part. The Content-Type of a bare request says UTF-8 on its way, whatever the envelope is in
// (message-and-transport 3.6): what the information system said of it counts.
func (s *slots) envelope(part *multipart.Part) (*soap.Envelope, error) {
	if s.Place == AtReceiver && isEnvelope(s.parcel.outer.Type) {
		charset, _ := s.parcel.outer.Param("charset")
		return soap.Open(part, charset, soap.Limits{})
	}
	return openPart(part)
}

func (s *slots) attachments(container *multipart.Part, ct multipart.ContentType) error {
	boundary, ok := ct.Param("boundary")
	if !ok {
		return Errorf("invalid_content_type", "the container of the attachments has no boundary")
	}
	if !s.parcel.multipart() && s.m.FaultCode == "" {
		return Errorf("invalid_content_type", "attachments came with the original Content-Type %q, which has none", s.in.Original)
	}
	reader := container.Nested(boundary)
	for n := 1; ; n++ {
		part, err := reader.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if s.m.FaultCode != "" {
			continue
		}
		if err := checkAttachment(s.parcel.outer, n, part.Header); err != nil {
			return err
		}
		if err := s.parcel.add(crypto.Attachment(n), part.Header, s.parcel.hash, part, s.m); err != nil {
			return err
		}
	}
}

// lateFault reads the fault that a peer sends in place of the signature. It wins over everything received before.
func (s *slots) lateFault(part *multipart.Part) error {
	if s.m.FaultCode != "" {
		return nil
	}
	env, err := openPart(part)
	if err != nil {
		return err
	}
	if !env.Fault {
		return Errorf("invalid_message", "the peer sent a SOAP message that is no fault in place of the signature")
	}
	return s.parcel.fault(env, s.m)
}

// rooms are where parts are gathered whose length is not known before.
var rooms = sync.Pool{New: func() any { return new([maxRoom]byte) }}

// maxRoom is how long a part of a usual message is at most that is read as a whole.
const maxRoom = 32 << 10

// whole returns a part of up to limit octets.
func whole(r io.Reader, limit int) ([]byte, error) {
	r = io.LimitReader(r, int64(limit)+1)
	room := rooms.Get().(*[maxRoom]byte)
	defer rooms.Put(room)
	n, err := 0, error(nil)
	for n < maxRoom && err == nil {
		var k int
		k, err = r.Read(room[n:])
		n += k
	}
	b := bytes.Clone(room[:n])
	if err == nil {
		var rest []byte
		rest, err = io.ReadAll(r)
		b = append(b, rest...)
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(b) > limit {
		return nil, Errorf("invalid_message", "a part is longer than the %d octets that it may have", limit)
	}
	return b, nil
}

// parcel writes a message into the spool as the body that an information system will get: envelope and attachments
// between the delimiters of the original Content-Type, or the bare envelope.
type parcel struct {
	entry  spool.Entry
	place  Place                 // whose spool it is
	outer  multipart.ContentType // of the original message
	writer *multipart.Writer     // nil: a bare envelope
	guard  *multipart.Guard      // looks for the original boundary inside the parts
	digest crypto.Digest
	hash   hash.Hash
	fields fields
}

func (p *parcel) multipart() bool { return p.writer != nil }

// address reads the original Content-Type, by which the body is going to be cut.
func (p *parcel) address(original string, m *Message) error {
	m.contentType = PlainContentType
	if original == "" {
		return nil // X-Road says so only when the message is delivered
	}
	ct, err := multipart.ParseContentType(original)
	if err != nil {
		return Because("invalid_content_type", fmt.Errorf("original Content-Type: %w", err))
	}
	p.outer = ct
	switch {
	case isEnvelope(ct.Type):
		return nil
	case ct.Type != "multipart/related":
		return Errorf("invalid_content_type", "the original Content-Type %q is none of text/xml, application/xop+xml and multipart/related", ct.Type)
	}
	boundary, ok := ct.Param("boundary")
	if !ok {
		return Errorf("invalid_content_type", "the original multipart/related Content-Type has no boundary")
	}
	if p.guard, err = ct.Guard(); err != nil {
		return Because("invalid_content_type", fmt.Errorf("original Content-Type: %w", err))
	}
	m.contentType = original
	p.writer = multipart.NewWriter(p.entry, boundary)
	return nil
}

// add appends a part, hashing it and looking for the original boundary in it.
func (p *parcel) add(name string, h multipart.Header, hash io.Writer, octets io.Reader, m *Message) error {
	var kept [3]string
	for i, field := range []string{"Content-Type", "Content-ID", "Content-Transfer-Encoding"} {
		var err error
		if kept[i], err = p.fields.of(h, field); err != nil {
			return err
		}
	}
	var w io.Writer = p.entry
	if p.writer != nil {
		var err error
		if w, err = p.writer.Part(h); err != nil {
			return err
		}
		if err := p.guard.Header(h); err != nil {
			return err
		}
	}
	p.hash.Reset()
	offset := p.entry.Size()
	n, err := io.Copy(&watched{w, p.place, hash, p.guard}, octets)
	if err == nil && p.guard != nil {
		err = p.guard.End()
	}
	if err != nil {
		return err
	}
	m.Parts = append(m.Parts, Part{
		Part:        crypto.Part{Name: name, Digest: p.digest, Sum: p.hash.Sum(nil)},
		ContentType: kept[0],
		ContentID:   bareID(kept[1]),
		Encoding:    kept[2],
		Size:        n,
		Offset:      offset,
	})
	return nil
}

func (p *parcel) close() error {
	if p.writer == nil {
		return nil
	}
	return p.writer.Close()
}

// fault keeps a fault document as the message, and nothing else of it.
func (p *parcel) fault(env *soap.Envelope, m *Message) error {
	p.writer, p.guard = nil, nil
	m.Parts, m.contentType = nil, FaultContentType
	m.faultOffset = p.entry.Size()
	if _, err := io.Copy(p.entry, env); err != nil {
		return err
	}
	r, err := m.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	document, err := io.ReadAll(io.LimitReader(r, maxFault))
	if err != nil {
		return err
	}
	fault, err := soap.ParseFault(document)
	if err != nil {
		return err
	}
	m.FaultCode, m.FaultString = fault.Code, fault.String
	if m.FaultCode == "" {
		m.FaultCode = "fault"
	}
	return nil
}

// watched writes a part to the spool, to its hash and past the guard.
type watched struct {
	w     io.Writer
	place Place
	hash  io.Writer
	guard *multipart.Guard
}

func (t *watched) Write(b []byte) (int, error) {
	if t.guard != nil {
		if _, err := t.guard.Write(b); err != nil {
			return 0, err
		}
	}
	t.hash.Write(b)
	n, err := t.w.Write(b)
	return n, At(t.place, err) // a spool without room is nobody else's mistake
}
