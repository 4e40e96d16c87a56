// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/wire"
)

// answer is what a service answered.
type answer struct {
	status int
	header http.Header
	body   io.Reader
}

// respond wraps the service's answer to the request m: the request's hash goes into the envelope, attachments stream
// through, the signature comes last and only after its record is durable (message-and-transport 5.6, 6.3).
func (x *receiving) respond(ctx context.Context, a answer, m *wire.Message) error {
	x.transfer.moves(answering, lengthOf(a.header), x.transfer.answer.Load)
	next := wire.AtReceiver.NextHop()
	if a.status != http.StatusOK && a.status != http.StatusInternalServerError {
		return wire.At(next, wire.Errorf("http_error", "service %s answered with HTTP status %d", x.outcome.Service, a.status))
	}
	kind, err := contentType(a.header)
	var original *wire.Original
	if err == nil {
		original, err = wire.Open(kind, a.body)
	}
	if errors.Is(err, wire.ErrNoPart) {
		err = wire.Errorf("invalid_message", "it is multipart and has no part: its boundary never occurs")
	}
	if err != nil {
		return wire.At(next, fmt.Errorf("the answer of service %s (HTTP status %d): %w", x.outcome.Service, a.status, err))
	}
	h := x.line.header()
	digest := digestFor(x.akin)
	x.encoder = wire.NewEncoder(x.server.to(x.ctx, x.peer, toPeer{x.line.w}), digest)
	h.Set("Content-Type", x.encoder.ContentType())
	h.Set(wire.HeaderHashAlgorithm, digest.String())
	h.Set(wire.HeaderOriginalContentType, kind)
	x.line.answer(http.StatusOK)
	if original.Envelope.Fault {
		return x.passFault(original)
	}
	header := &original.Envelope.Header
	w := wrapping{
		server: x.server,
		signer: m.Header.Service.Client,
		record: x.server.record(&x.outcome, header, true),
		peer:   x.peer, version: x.version, akin: x.akin,
	}
	original.Header = original.HeaderInUTF8()
	_, err = w.send(ctx, x.encoder, original, original.Envelope.WithRequestHash(m.RequestHash), true)
	return wire.At(next, err) // what is not placed yet comes from reading the service's answer
}

// passFault hands the service's fault document on, in UTF-8 and unsigned. What comes with it is dropped.
func (x *receiving) passFault(original *wire.Original) error {
	x.outcome.Fault, x.outcome.Err = "service", fmt.Errorf("service %s answered with a fault", x.outcome.Service)
	header := multipart.NewHeader("Content-Type", wire.PlainContentType)
	if err := x.encoder.SOAP(header, original.Envelope.InUTF8()); err != nil {
		return wire.At(wire.AtReceiver.NextHop(), err)
	}
	return x.encoder.Close()
}

// toPeer says of errors in writing an answer that they are not the service's.
type toPeer struct{ w io.Writer }

func (p toPeer) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err != nil {
		err = wire.At(wire.AtReceiver, fmt.Errorf("answering the other security server: %w", err))
	}
	return n, err
}
