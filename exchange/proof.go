// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/wire"
)

// evidenceTimeout bounds the writing of one record, which goes on when the exchange has been given up.
const evidenceTimeout = 60 * time.Second

// record begins the evidence of one message of the exchange.
func (s *SecurityServer) record(o *Outcome, h *soap.Header, response bool) *evidence.Record {
	return &evidence.Record{
		Time:      s.Clock(),
		Role:      o.Role,
		Response:  response,
		RequestID: o.RequestID,
		MessageID: h.ID,
		Client:    h.Client,
		Service:   h.Service,
		Peer:      o.Peer,
	}
}

// put hands a record to the evidence store and returns the function that waits until it is durable. Hanging up does
// not erase what was signed. open gives the octets in which the parts lie; nil keeps digests only.
func (s *SecurityServer) put(ctx context.Context, r *evidence.Record, parts []wire.Part, open func() (io.ReadSeekCloser, error)) (wait func() error, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), evidenceTimeout)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	var octets io.ReadSeekCloser
	r.Parts = slices.Grow(r.Parts, len(parts))
	for _, p := range parts {
		kept := evidence.Part{Name: p.Name, ContentType: p.ContentType, Digest: p.Digest, Sum: p.Sum, Size: p.Size}
		if open != nil && p.Offset >= 0 && s.Keep.wants(p.Name, p.Size) {
			if octets == nil {
				if octets, err = open(); err != nil {
					return nil, wire.Because("logging_failed", err)
				}
				defer octets.Close()
			}
			kept.Content = &section{octets: octets, offset: p.Offset, left: p.Size}
		}
		r.Parts = append(r.Parts, kept)
	}
	durable, err := s.Evidence.Put(ctx, r)
	if err != nil {
		return nil, wire.Because("logging_failed", err)
	}
	return func() error {
		defer cancel()
		return wire.Because("logging_failed", durable())
	}, nil
}

// putDurably is put and the waiting for it.
func (s *SecurityServer) putDurably(ctx context.Context, r *evidence.Record, parts []wire.Part, open func() (io.ReadSeekCloser, error)) error {
	wait, err := s.put(ctx, r, parts, open)
	if err != nil {
		return err
	}
	return wait()
}

func (k Keep) wants(name string, size int64) bool {
	if size > k.UpTo {
		return false
	}
	if name == crypto.Message {
		return k.Message
	}
	return k.Attachments
}

// section reads a part where it lies.
type section struct {
	octets io.ReadSeeker
	offset int64
	left   int64
	begun  bool
}

func (s *section) Read(p []byte) (int, error) {
	if !s.begun {
		if _, err := s.octets.Seek(s.offset, io.SeekStart); err != nil {
			return 0, err
		}
		s.begun = true
	}
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.octets.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// keeper keeps, of a message that streams by, what evidence will keep of it.
type keeper struct {
	keep    Keep
	spool   spool.Store
	place   wire.Place
	entry   spool.Entry
	offsets []int64 // of the parts; -1: not kept
	digests bool    // a part looks like a list of digests: see hashchain.LooksLikeDigestList
}

// tap returns a reader of the part that keeps what passes.
func (k *keeper) tap(name string, src io.Reader) *tap {
	return &tap{keeper: k, src: src, name: name, kept: k.keep.wants(name, 0)}
}

// parts returns what the Encoder wrote with the offsets of what was kept.
func (k *keeper) parts(written []wire.Part) []wire.Part {
	parts := make([]wire.Part, len(written))
	for i, p := range written {
		p.Offset = k.offsets[i]
		parts[i] = p
	}
	return parts
}

func (k *keeper) open() (io.ReadSeekCloser, error) { return k.entry.Open() }

func (k *keeper) discard() {
	if k.entry != nil {
		k.entry.Remove() // an error leaves the file to the sweep of the next start
	}
}

// tap passes a part on, unchanged.
type tap struct {
	keeper *keeper
	src    io.Reader
	name   string
	kept   bool  // so far
	offset int64 // in the keeper's entry
	size   int64
	prefix []byte
	failed error // of keeping, which fails the message: what cannot be proved is not sent
}

// Read implements io.Reader for the Encoder, which copies by WriteTo.
func (t *tap) Read([]byte) (int, error) { return 0, errors.New("exchange: a tap writes itself") }

func (t *tap) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(&tapWriter{t, w}, t.src)
	if err == nil {
		t.end()
	}
	return n, err
}

type tapWriter struct {
	*tap
	w io.Writer
}

func (t *tapWriter) Write(p []byte) (int, error) {
	t.note(p)
	if t.failed != nil {
		return 0, t.failed
	}
	return t.w.Write(p)
}

func (t *tap) note(p []byte) {
	if missing := hashchain.PrefixLength - len(t.prefix); missing > 0 {
		t.prefix = append(t.prefix, p[:min(missing, len(p))]...)
	}
	t.size += int64(len(p))
	if !t.kept {
		return
	}
	k := t.keeper
	if t.size > k.keep.UpTo {
		t.kept = false
		return
	}
	if err := t.keep(p); err != nil {
		t.failed = wire.At(k.place, wire.Because("logging_failed", err))
	}
}

func (t *tap) keep(p []byte) (err error) {
	k := t.keeper
	if k.entry == nil {
		if k.entry, err = k.spool.Create(context.Background()); err != nil {
			return err
		}
	}
	if t.size == int64(len(p)) {
		t.offset = k.entry.Size()
	}
	_, err = k.entry.Write(p)
	return err
}

func (t *tap) end() {
	k := t.keeper
	offset := int64(-1)
	if t.kept && k.entry != nil {
		offset = t.offset
		if t.size == 0 {
			offset = k.entry.Size()
		}
	}
	k.offsets = append(k.offsets, offset)
	if hashchain.LooksLikeDigestList(t.prefix) {
		k.digests = true
	}
}
