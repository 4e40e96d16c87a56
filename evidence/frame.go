// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
)

// A record on the disk, integers in network order:
//
//	mark       16  the segment's own random octets
//	lengths    16  of the header (4), the documents (4) and the contents (8)
//	number      8
//	header         JSON
//	documents      the signature, its hash chain result, its hash chain
//	digest     32  SHA-256 of all before: what this record says, whether contents are kept or not
//	contents       the kept parts, one after the other
//	check       4  CRC-32C of the contents, to know a whole record from a torn one; their own digests are in the header
//
// The mark tells a record from anything that a message may contain: nobody outside knows it, so no content can pass
// for a record when the octets around it are damaged.
const (
	markSize   = 16
	headSize   = markSize + 4 + 4 + 8 + 8
	digestSize = sha256.Size
	checkSize  = 4

	maxHeader    = 16 << 20 // some 60,000 attachments
	maxDocuments = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errNotWhole is wrapped where the octets at some place are no whole record: torn, damaged, or not yet written.
var errNotWhole = errors.New("no whole record")

type mark [markSize]byte

// head is the beginning of a record, and where it lies.
type head struct {
	at                int64
	number            uint64
	header, documents int64 // lengths
	contents          int64
}

func (h head) digestAt() int64   { return h.at + headSize + h.header + h.documents }
func (h head) contentsAt() int64 { return h.digestAt() + digestSize }
func (h head) end() int64        { return h.contentsAt() + h.contents + checkSize }

// put writes the head into the first octets of b.
func (h head) put(b []byte, m mark) {
	copy(b, m[:])
	binary.BigEndian.PutUint32(b[markSize:], uint32(h.header))
	binary.BigEndian.PutUint32(b[markSize+4:], uint32(h.documents))
	binary.BigEndian.PutUint64(b[markSize+8:], uint64(h.contents))
	binary.BigEndian.PutUint64(b[markSize+16:], h.number)
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
	Documents [3]int64     `json:"documents"` // lengths of signature, hash chain result, hash chain
	Parts     []headerPart `json:"parts,omitempty"`
}

type headerPart struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type,omitempty"`
	Digest      string `json:"digest,omitempty"`
	Sum         []byte `json:"sum,omitempty"`
	Size        int64  `json:"size"`
	Kept        bool   `json:"kept,omitempty"`
}

// encode returns a record up to its contents, with room for its mark, number and digest, which seal fills in.
func encode(r *Record) ([]byte, head, error) {
	var h head
	j := header{
		Time: r.Time.UTC(), Role: text(r.Role), Response: r.Response,
		RequestID: text(r.RequestID), MessageID: text(r.MessageID),
		Client: clientSegments(r.Client), Service: serviceSegments(r.Service),
		Peer: text(r.Peer), Fault: text(r.Fault),
		Documents: [3]int64{int64(len(r.Signature.XML)), int64(len(r.Signature.HashChainResult)), int64(len(r.Signature.HashChain))},
		Parts:     make([]headerPart, len(r.Parts)),
	}
	for i, p := range r.Parts {
		if p.Digest > crypto.SHA512 {
			return nil, h, fmt.Errorf("part %s: unknown digest method %d", p.Name, uint8(p.Digest))
		}
		j.Parts[i] = headerPart{
			Name: text(p.Name), ContentType: text(p.ContentType), Digest: p.Digest.String(), Sum: p.Sum,
			Size: p.Size, Kept: p.Content != nil,
		}
		if p.Content == nil {
			continue
		}
		if p.Size < 0 || p.Size > math.MaxInt64/2-h.contents {
			return nil, h, fmt.Errorf("part %s: impossible size %d", p.Name, p.Size)
		}
		h.contents += p.Size
	}
	b, err := json.Marshal(j)
	if err != nil {
		return nil, h, err
	}
	h.header = int64(len(b))
	h.documents = j.Documents[0] + j.Documents[1] + j.Documents[2]
	if h.header > maxHeader || h.documents > maxDocuments {
		return nil, h, fmt.Errorf("a header of %d and a signature of %d octets; the limits are %d and %d", h.header, h.documents, maxHeader, maxDocuments)
	}
	frame := make([]byte, headSize, h.end()-h.contents+min(h.contents, readAhead))
	frame = append(frame, b...)
	frame = append(frame, r.Signature.XML...)
	frame = append(frame, r.Signature.HashChainResult...)
	frame = append(frame, r.Signature.HashChain...)
	return frame[:len(frame)+digestSize], h, nil
}

// seal completes what encode made.
func (h head) seal(frame []byte, m mark) {
	h.put(frame, m)
	n := headSize + h.header + h.documents
	sum := sha256.Sum256(frame[:n])
	copy(frame[n:], sum[:])
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
	h.header = int64(binary.BigEndian.Uint32(b[markSize:]))
	h.documents = int64(binary.BigEndian.Uint32(b[markSize+4:]))
	contents := binary.BigEndian.Uint64(b[markSize+8:])
	h.number = binary.BigEndian.Uint64(b[markSize+16:])
	if h.header > maxHeader || h.documents > maxDocuments || contents > math.MaxInt64/2 {
		return h, fmt.Errorf("%w: impossible lengths", errNotWhole)
	}
	if h.contents = int64(contents); h.end() > size {
		return h, fmt.Errorf("%w: it ends at %d and the file at %d", errNotWhole, h.end(), size)
	}
	return h, nil
}

// read reads all of a record but its contents, and checks the digest.
func (h head) read(f io.ReaderAt, m mark) (*header, []byte, error) {
	frame := make([]byte, headSize+h.header+h.documents+digestSize)
	if err := readAt(f, frame, h.at); err != nil {
		return nil, nil, err
	}
	h.put(frame, m) // the one that is judged is the one that was checked
	n := len(frame) - digestSize
	if sum := sha256.Sum256(frame[:n]); !bytes.Equal(sum[:], frame[n:]) {
		return nil, nil, fmt.Errorf("%w: its digest does not match", errNotWhole)
	}
	j, err := h.decode(frame[headSize : headSize+h.header])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNotWhole, err)
	}
	return j, frame[headSize+h.header : n], nil
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
		if p.Size < 0 || p.Size > rest {
			return nil, errors.New("the contents do not fit their length")
		}
		rest -= p.Size
	}
	if left != 0 || rest != 0 {
		return nil, errors.New("the lengths hold more than the header tells")
	}
	return j, nil
}

// checkContents reads the contents and compares their checksum.
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

// record builds the Record, with contents that are read from f.
func (h head) record(j *header, documents []byte, f io.ReaderAt) *Record {
	r := &Record{
		Number: h.number, Time: j.Time, Role: j.Role, Response: j.Response,
		RequestID: j.RequestID, MessageID: j.MessageID, Client: j.client(), Service: j.service(),
		Peer: j.Peer, Fault: j.Fault,
	}
	for i, to := range []*[]byte{&r.Signature.XML, &r.Signature.HashChainResult, &r.Signature.HashChain} {
		if n := j.Documents[i]; n > 0 {
			*to, documents = documents[:n:n], documents[n:]
		}
	}
	at := h.contentsAt()
	for _, p := range j.Parts {
		part := Part{Name: p.Name, ContentType: p.ContentType, Digest: crypto.DigestByName(p.Digest), Sum: p.Sum, Size: p.Size}
		if p.Kept {
			part.Content = io.NewSectionReader(f, at, p.Size)
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
