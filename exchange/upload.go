// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/wire"
)

// wrapping is one message on its way to a peer: hashed as it passes, signed, and put into evidence.
type wrapping struct {
	server  *SecurityServer
	signer  ident.Client // whose member signs
	record  *evidence.Record
	peer    ident.Server
	version string // the peer's x-proxy-version, "" where unknown
	akin    bool   // the peer is a Fairway
	keeper  keeper
	seal    func() error // asked before the message is put into evidence and the signature leaves; nil: nothing speaks against it
}

// send writes envelope and attachments of o and the signature. The record is durable before the signature leaves if
// awaited is set; else wait does that.
func (w *wrapping) send(ctx context.Context, enc *wire.Encoder, o *wire.Original, envelope io.Reader, awaited bool) (wait func() error, err error) {
	w.keeper = keeper{keep: w.server.Keep, spool: w.server.Spool, place: w.place()}
	defer w.keeper.discard()
	enc.Watch(o)
	if err := enc.SOAP(o.Header, w.keeper.tap(crypto.Message, envelope)); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		part, err := o.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := enc.Attachment(part.Header, w.keeper.tap(crypto.Attachment(n), part)); err != nil {
			return nil, err
		}
	}
	if err := enc.Flush(); err != nil { // the peer can look at everything while we sign
		return nil, err
	}
	return w.sign(ctx, enc, awaited)
}

// sign ends the message with its signature.
func (w *wrapping) sign(ctx context.Context, enc *wire.Encoder, awaited bool) (wait func() error, err error) {
	here := func(err error) error { return wire.At(w.place(), err) }
	form := w.server.form(w, enc.Parts())
	if form == crypto.Chain && len(enc.Parts()) > 1 && w.keeper.digests {
		// signature-and-evidence 14.2: such a part could later be shown as a step of the chain.
		return nil, here(wire.Errorf("cannot_create_signature", "a part of the message begins like a list of digests, which the hash chain form must not sign"))
	}
	signature, err := w.server.sign(ctx, w.signer, enc.Parts(), form)
	if err != nil {
		return nil, here(err)
	}
	if w.seal != nil {
		if err := w.seal(); err != nil {
			return nil, err
		}
	}
	w.record.Signature = *signature
	w.record.Time = w.server.Clock()
	wait, err = w.server.put(ctx, w.record, w.keeper.parts(enc.Parts()), w.keeper.open)
	if err == nil && awaited {
		err = wait()
	}
	if err != nil {
		return nil, here(err)
	}
	if err := enc.Sign(signature); err != nil {
		return nil, err
	}
	return wait, nil
}

func (w *wrapping) place() wire.Place {
	if w.record.Role == "send" {
		return wire.AtSender
	}
	return wire.AtReceiver
}

// upload is a request on its way: the body of the POST to the receiving security server. It implements peer.Body.
type upload struct {
	wrapping
	ctx       context.Context
	transfer  *transfer
	original  *wire.Original
	beginning *beginning // of the original, by which it can be sent again
	kind      string     // its Content-Type
	ocsp      [][]byte   // responses to our TLS certificates
	out       peerWriter
	encoder   *wire.Encoder
	silence   *silence // of the peer
	done      chan struct{}

	mu     sync.Mutex   // guards what follows until done is closed
	begun  bool         // something of it may have been sent
	sealed bool         // it is in evidence, or about to be, and its signature leaves: it must not be sent again
	err    error        // why it ended early, if that lies with us or with the information system
	wait   func() error // until its evidence is durable
}

func newUpload(ctx context.Context, t *transfer, w wrapping, original *wire.Original, ocsp [][]byte) *upload {
	u := &upload{wrapping: w, ctx: ctx, transfer: t, original: original, ocsp: ocsp, done: make(chan struct{})}
	u.encoder = wire.NewEncoder(&u.out, crypto.SHA512)
	u.seal = u.sealIt
	return u
}

// goesTo is told the security server before the header is sent and SendTo is called: its form of signature counts, and
// evidence names it. A peer that is akin has announced its digest on this connection.
func (u *upload) goesTo(server ident.Server, akin bool, header http.Header) {
	u.peer, u.record.Peer, u.akin = server, server.String(), akin
	u.transfer.meets(server)
	u.silence.meets(server, u.server.Local.ruleFor(server).Timeout)
	digest := digestFor(akin)
	u.encoder.Use(digest)
	header.Set("Content-Type", u.encoder.ContentType())
	header.Set(wire.HeaderHashAlgorithm, digest.String())
}

// digestFor returns the digest of the parts of a message to a peer.
func digestFor(akin bool) crypto.Digest {
	if akin {
		return wire.FairwayDigest
	}
	return crypto.SHA512
}

// SendTo implements peer.Body. It is called on a goroutine of the connection.
func (u *upload) SendTo(line peer.Line) (int64, error) {
	u.mu.Lock()
	u.begun = true
	u.mu.Unlock()
	u.beginning.line = line
	u.out.w = u.server.to(u.ctx, u.peer, u.silence.sending(line))
	u.transfer.enter(uploading)
	var wait func() error
	err := u.server.caught(wire.AtSender, func() (err error) {
		wait, err = u.write()
		return err
	})
	if err == nil {
		u.transfer.enter(waitingForAnswer)
		u.silence.await()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wait = wait
	if err != nil && u.out.err == nil && !u.beginning.broken {
		u.err = wire.At(wire.AtClient, err) // what is not placed yet comes from reading the information system's message
	}
	return u.out.n, err
}

// sealIt is asked when the message has been signed. From then on it is not sent again. Where its connection is known to be
// broken by now, nobody gets the signature, and nothing is put into evidence.
func (u *upload) sealIt() error {
	if u.beginning.line.Broken() {
		u.beginning.broken = true
		return errBroken
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sealed = true
	u.beginning.forget()
	return nil
}

// Again implements peer.Body. A message can be sent again as long as it is not sealed, for without its signature nobody
// takes it for one, and no more of it has been read than is kept.
func (u *upload) Again() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.begun {
		return true
	}
	if u.sealed || u.err != nil {
		return false
	}
	again, ok := u.beginning.again()
	if !ok {
		return false
	}
	original, err := wire.Open(u.kind, again) // as it was opened before
	if err != nil {
		return false
	}
	u.original, u.out, u.begun = original, peerWriter{}, false
	u.encoder = wire.NewEncoder(&u.out, crypto.SHA512)
	return true
}

func (u *upload) write() (wait func() error, err error) {
	for _, der := range u.ocsp {
		if err := u.encoder.OCSP(der); err != nil {
			return nil, err
		}
	}
	return u.send(u.ctx, u.encoder, u.original, u.original.Envelope, false)
}

// Close implements io.Closer: the body will not be used any more.
func (u *upload) Close() error {
	close(u.done)
	return nil
}

// failed returns why the upload ended early, or nil while that is not known or not our side's doing.
func (u *upload) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

var errUnfinished = errors.New("the peer answered before the message was complete")

// finished waits for the end of the upload and returns what was sent.
func (u *upload) finished(ctx context.Context) (parts []wire.Part, wait func() error, err error) {
	select {
	case <-u.done:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.err != nil:
		return nil, nil, u.err
	case u.wait == nil:
		return nil, nil, wire.At(wire.AtSender.NextHop(), wire.Because("io_error", errUnfinished))
	}
	return u.encoder.Parts(), u.wait, nil
}

// forget lets go of what is known of each attachment that was sent, once finished has returned it.
func (u *upload) forget() { u.record, u.encoder, u.original, u.beginning = nil, nil, nil, nil }

// peerWriter remembers that it was the peer's connection which failed.
type peerWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (p *peerWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.n += int64(n)
	if err != nil {
		p.err = err
	}
	return n, err
}
