// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
)

// A record on the disk, integers in network order:
//
//	mark       16  the segment's own random octets
//	lengths    16  of the header (4), the documents (4) and the contents (8)
//	number      8
//	previous   32  the digest of the record before, wherever that is: so they are linked
//	outside     8  the file that has the contents, see outside.go; 0: they follow below
//	header         JSON
//	documents      the signature, its hash chain result, its hash chain
//	digest     32  SHA-256 of all before the header and of the SHA-256 of header and documents
//	contents       the kept parts, one after the other
//	check       4  CRC-32C of the contents, to know a whole record from a torn one
//
// The digest is what this record says, whether contents are kept or not, for the header has those of the parts. The
// links can thus be followed without reading any content.
//
// The mark tells a record from anything that a message may contain: nobody outside knows it, so no content can pass
// for a record when the octets around it are damaged.
const (
	markSize   = 16
	headSize   = markSize + 4 + 4 + 8 + 8 + linkSize + 8
	linkSize   = sha256.Size
	digestSize = linkSize
	checkSize  = 4

	maxHeader    = 16 << 20 // some 60,000 attachments
	maxDocuments = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNotWhole is wrapped where the octets at some place are no whole record: torn, damaged, or not yet written.
var errNotWhole = errors.New("no whole record")

type mark [markSize]byte

// link is the digest of a record, by which the next one names it.
type link [linkSize]byte

// MarshalText implements encoding.TextMarshaler.
func (l link) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, l[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *link) UnmarshalText(b []byte) error {
	if hex.DecodedLen(len(b)) != linkSize {
		return fmt.Errorf("a digest of %d characters", len(b))
	}
	_, err := hex.Decode(l[:], b)
	return err
}

// head is the beginning of a record, and where it lies.
type head struct {
	at                int64
	number            uint64
	previous          link
	header, documents int64 // lengths
	contents          int64
	outside           fileID
	body              [sha256.Size]byte // digest of header and documents, where it is known
}

func (h head) digestAt() int64   { return h.at + headSize + h.header + h.documents }
func (h head) contentsAt() int64 { return h.digestAt() + digestSize }

// contentsIn returns where the contents begin in the file in which they are.
func (h head) contentsIn() int64 {
	if h.outside != 0 {
		return 0
	}
	return h.contentsAt()
}

func (h head) end() int64 {
	if h.outside != 0 {
		return h.contentsAt()
	}
	return h.contentsAt() + h.contents + checkSize
}

// put writes the head into the first octets of b.
func (h head) put(b []byte, m mark) {
	copy(b, m[:])
	b = b[markSize:]
	binary.BigEndian.PutUint32(b, uint32(h.header))
	binary.BigEndian.PutUint32(b[4:], uint32(h.documents))
	binary.BigEndian.PutUint64(b[8:], uint64(h.contents))
	binary.BigEndian.PutUint64(b[16:], h.number)
	copy(b[24:], h.previous[:])
	binary.BigEndian.PutUint64(b[24+linkSize:], uint64(h.outside))
}

// link returns the digest of the record with that head and body.
func (h head) link(m mark) link {
	var b [headSize + sha256.Size]byte
	h.put(b[:], m)
	copy(b[headSize:], h.body[:])
	return sha256.Sum256(b[:])
}

// header is the JSON of a record. Identifiers are kept segment by segment, so that whatever was signed can be kept.
type header struct {
	Time      time.Time    `json:"time"`
	Role      string       `json:"role,omitempty"`
	Response  bool         `json:"response,omitempty"`
	RequestID string       `json:"request_id,omitempty"`
	MessageID string       `json:"message_id,omitempty"`
	Client    [4]string    `json:"client"`  // instance, class, member, subsystem
	Service   [6]string    `json:"service"` // of its provider, then code, version
	Peer      string       `json:"peer,omitempty"`
	Fault     string       `json:"fault,omitempty"`
	Pending   uint64       `json:"pending"`   // all before this number were durable before; 0: nothing is known of it
	Documents [3]int64     `json:"documents"` // lengths of signature, hash chain result, hash chain; of a stamp, see there
	Parts     []headerPart `json:"parts,omitempty"`

	// A record that the store makes for itself has one of these.
	Stamp   *stamp   `json:"stamp,omitempty"`
	Removal *removal `json:"removal,omitempty"`
}

// isMessage reports whether it is a record that Put has put.
func (j *header) isMessage() bool { return j.Stamp == nil && j.Removal == nil }

type headerPart struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type,omitempty"`
	Digest      string `json:"digest,omitempty"`
	Sum         []byte `json:"sum,omitempty"`
	Size        int64  `json:"size"`
	Kept        bool   `json:"kept,omitempty"`
}

// encode returns a draft of a record. All before the number pending are durable.
func encode(r *Record, pending uint64) (*draft, error) {
	j := &header{
		Pending: pending,
		Time:    r.Time.UTC(), Role: text(r.Role), Response: r.Response,
		RequestID: text(r.RequestID), MessageID: text(r.MessageID),
		Client: clientSegments(r.Client), Service: serviceSegments(r.Service),
		Peer: text(r.Peer), Fault: text(r.Fault),
		Parts: make([]headerPart, len(r.Parts)),
	}
	contents := int64(0)
	for i, p := range r.Parts {
		if p.Digest != 0 && !p.Digest.Known() {
			return nil, fmt.Errorf("part %s: unknown digest method %d", p.Name, uint8(p.Digest))
		}
		j.Parts[i] = headerPart{
			Name: text(p.Name), ContentType: text(p.ContentType), Digest: p.Digest.String(), Sum: p.Sum,
			Size: p.Size, Kept: p.Content != nil,
		}
		if p.Content == nil {
			continue
		}
		if err := j.Parts[i].check(); err != nil {
			return nil, err
		}
		if p.Size > maxContents-contents {
			return nil, fmt.Errorf("part %s: impossible size %d", p.Name, p.Size)
		}
		contents += p.Size
	}
	return j.encode(contents, r.Signature.XML, r.Signature.HashChainResult, r.Signature.HashChain)
}

const maxContents = math.MaxInt64 / 2

// check sees that a part that is kept can be proved.
func (p *headerPart) check() error {
	d := crypto.DigestByName(p.Digest)
	switch {
	case p.Size < 0:
		return fmt.Errorf("part %s: impossible size %d", p.Name, p.Size)
	case !d.Known() || len(p.Sum) != d.Size():
		return fmt.Errorf("part %s is to be kept and has no digest", p.Name)
	}
	return nil
}

// draft is a record that is not written yet.
type draft struct {
	head
	*header
	frame []byte // up to its digest, perhaps with the contents behind; seal fills it in
}

// frames are the memory of drafts that have been written.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// maxFrame is the longest frame whose memory serves another.
const maxFrame = 64 << 10

func newFrame() []byte { return (*frames.Get().(*[]byte))[:0] }

// forget gives back the memory of a draft that has been written.
func (w *draft) forget() {
	if frame := w.frame; cap(frame) <= maxFrame {
		frames.Put(&frame)
	}
	w.frame = nil
}

func (j *header) encode(contents int64, documents ...[]byte) (*draft, error) {
	h := head{contents: contents}
	for i, d := range documents {
		j.Documents[i] = int64(len(d))
		h.documents += int64(len(d))
	}
	if h.documents > maxDocuments {
		return nil, fmt.Errorf("documents of %d octets; the limit is %d", h.documents, maxDocuments)
	}
	behind := h.documents + digestSize + checkSize
	if contents <= inside {
		behind += contents
	}
	frame, err := j.appendTo(append(newFrame(), make([]byte, headSize)...), behind)
	if err != nil {
		return nil, err
	}
	if h.header = int64(len(frame)) - headSize; h.header > maxHeader {
		return nil, fmt.Errorf("a header of %d octets; the limit is %d", h.header, maxHeader)
	}
	for _, d := range documents {
		frame = append(frame, d...)
	}
	h.body = sha256.Sum256(frame[headSize:])
	return &draft{h, j, frame[:len(frame)+digestSize]}, nil
}

// appendTo appends the JSON to b, some parts at a time, for a message may have thousands; with room for what is behind.
func (j *header) appendTo(b []byte, behind int64) ([]byte, error) {
	const some = 64
	parts := j.Parts
	j.Parts = nil
	fixed, err := json.Marshal(j)
	j.Parts = parts
	if err != nil {
		return nil, err
	}
	room := int64(len(fixed)) + behind
	for _, p := range j.Parts {
		room += p.room()
	}
	b = append(slices.Grow(b, int(room)), fixed...)
	if len(j.Parts) == 0 {
		return b, nil
	}
	b = append(b[:len(b)-1], `,"parts":`...) // in place of the brace
	for i := 0; i < len(j.Parts); i += some {
		list, err := json.Marshal(j.Parts[i:min(i+some, len(j.Parts))])
		if err != nil {
			return nil, err
		}
		if i > 0 { // in place of the brackets between this list and the one before
			b[len(b)-1], list = ',', list[1:]
		}
		b = append(b, list...)
	}
	return slices.Grow(append(b, '}'), int(behind)), nil // the parts may be longer than they usually are
}

// room returns how long its JSON usually is.
func (p *headerPart) room() int64 {
	const fixed = `{"name":"","content_type":"","digest":"","sum":"","size":1099511627775,"kept":true},`
	return int64(len(fixed) + len(p.Name) + len(p.ContentType) + len(p.Digest) + base64.StdEncoding.EncodedLen(len(p.Sum)))
}

// seal fills in the head and the digest, which it returns.
func (w *draft) seal(m mark) link {
	w.put(w.frame, m)
	sum := w.link(m)
	copy(w.frame[w.digestAt()-w.at:], sum[:])
	return sum
}

// readHead reads the head of a record at an offset of a segment of so many octets.
func readHead(f io.ReaderAt, at, size int64, m mark) (head, error) {
	h := head{at: at}
	if size-at < headSize {
		return h, fmt.Errorf("%w: %d octets", errNotWhole, size-at)
	}
	var b [headSize]byte
	if err := readAt(f, b[:], at); err != nil {
		return h, err
	}
	if mark(b[:markSize]) != m {
		return h, fmt.Errorf("%w: another mark", errNotWhole)
	}
	lengths := b[markSize:]
	h.header = int64(binary.BigEndian.Uint32(lengths))
	h.documents = int64(binary.BigEndian.Uint32(lengths[4:]))
	contents := binary.BigEndian.Uint64(lengths[8:])
	h.number = binary.BigEndian.Uint64(lengths[16:])
	copy(h.previous[:], lengths[24:])
	h.outside = fileID(binary.BigEndian.Uint64(lengths[24+linkSize:]))
	if h.header > maxHeader || h.documents > maxDocuments || contents > maxContents {
		return h, fmt.Errorf("%w: impossible lengths", errNotWhole)
	}
	if h.contents = int64(contents); h.end() > size {
		return h, fmt.Errorf("%w: it ends at %d and the file at %d", errNotWhole, h.end(), size)
	}
	return h, nil
}

// whole is a record but its contents, as it was read.
type whole struct {
	head
	*header
	papers []byte // the documents, one after the other
	digest link
}

// read reads all of a record but its contents, and checks the digest.
func (h head) read(f io.ReaderAt, m mark) (*whole, error) {
	b := make([]byte, h.header+h.documents+digestSize)
	if err := readAt(f, b, h.at+headSize); err != nil {
		return nil, err
	}
	n := len(b) - digestSize
	h.body = sha256.Sum256(b[:n])
	w := &whole{head: h, papers: b[h.header:n:n], digest: h.link(m)} // of the head that was judged
	if !bytes.Equal(w.digest[:], b[n:]) {
		return nil, fmt.Errorf("%w: its digest does not match", errNotWhole)
	}
	var err error
	if w.header, err = h.decode(b[:h.header]); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotWhole, err)
	}
	return w, nil
}

// decode reads the JSON, which must fit the lengths of the head.
func (h head) decode(b []byte) (*header, error) {
	j := new(header)
	if err := json.Unmarshal(b, j); err != nil {
		return nil, err
	}
	left := h.documents
	for _, n := range j.Documents {
		if n < 0 || n > left {
			return nil, errors.New("the documents do not fit their length")
		}
		left -= n
	}
	rest := h.contents
	for _, p := range j.Parts {
		if !p.Kept {
			continue
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		if p.Size > rest {
			return nil, errors.New("the contents do not fit their length")
		}
		rest -= p.Size
	}
	if left != 0 || rest != 0 {
		return nil, errors.New("the lengths hold more than the header tells")
	}
	return j, nil
}

// checkContents reads contents that are not outside and compares their checksum.
func (h head) checkContents(f io.ReaderAt) error {
	sum := crc32.New(castagnoli)
	if h.contents > 0 {
		buffer := make([]byte, min(h.contents, copySize))
		if _, err := io.CopyBuffer(sum, io.NewSectionReader(f, h.contentsAt(), h.contents), buffer); err != nil {
			return err
		}
	}
	var b [checkSize]byte
	if err := readAt(f, b[:], h.contentsAt()+h.contents); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(b[:]) != sum.Sum32() {
		return fmt.Errorf("%w: the checksum of its contents does not match", errNotWhole)
	}
	return nil
}

// document returns one of the documents, or nil.
func (w *whole) document(i int) []byte {
	at := int64(0)
	for _, n := range w.Documents[:i] {
		at += n
	}
	if n := w.Documents[i]; n > 0 {
		return w.papers[at : at+n : at+n]
	}
	return nil
}

// record builds the Record, with contents that are read from the file that open opens.
func (w *whole) record(open func() (*os.File, error)) *Record {
	r := &Record{
		Number: w.number, Time: w.Time, Role: w.Role, Response: w.Response,
		RequestID: w.RequestID, MessageID: w.MessageID, Client: w.client(), Service: w.service(),
		Peer: w.Peer, Fault: w.Fault,
		Signature: crypto.Signature{XML: w.document(0), HashChainResult: w.document(1), HashChain: w.document(2)},
	}
	at := w.contentsIn()
	for _, p := range w.Parts {
		part := Part{Name: p.Name, ContentType: p.ContentType, Digest: crypto.DigestByName(p.Digest), Sum: p.Sum, Size: p.Size}
		if p.Kept {
			part.Content = &stored{open, at, p.Size}
			at += p.Size
		}
		r.Parts = append(r.Parts, part)
	}
	return r
}

func (j *header) client() ident.Client {
	return ident.Client{Instance: j.Client[0], Class: j.Client[1], Member: j.Client[2], Subsystem: j.Client[3]}
}

func (j *header) service() ident.Service {
	s := j.Service
	return ident.Service{
		Client: ident.Client{Instance: s[0], Class: s[1], Member: s[2], Subsystem: s[3]},
		Code:   s[4], Version: s[5],
	}
}

func clientSegments(c ident.Client) [4]string {
	return [4]string{text(c.Instance), text(c.Class), text(c.Member), text(c.Subsystem)}
}

func serviceSegments(s ident.Service) [6]string {
	c := clientSegments(s.Client)
	return [6]string{c[0], c[1], c[2], c[3], text(s.Code), text(s.Version)}
}

// text returns s as JSON can hold it: every octet that is no UTF-8 becomes U+FFFD.
func text(s string) string { return strings.Map(func(r rune) rune { return r }, s) }

// readAt fills b. A file that ends before was cut meanwhile, and holds no whole record there.
func readAt(f io.ReaderAt, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("%w: the file ends", errNotWhole)
	}
	return err
}
