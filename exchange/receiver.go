// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// Receiver receives messages of other security servers.
type Receiver struct{ Server *SecurityServer }

// Serve answers one peer over w. A request whose service has no To is handed to next, on this goroutine; ServiceOf tells
// next which service that is. If next panics, so does Serve, once the peer has been told.
func (v *Receiver) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	x := &receiving{
		server:  v.Server,
		line:    newLine(w, r),
		outcome: Outcome{Role: "receive", RequestID: wire.CheckRequestID(r.Header.Get(wire.HeaderRequestID))},
	}
	ctx, t := v.Server.begin(r.Context(), x.outcome.Role, x.outcome.RequestID, x.line.body, wire.LengthOf(r.Header, r.ContentLength))
	x.transfer, r = t, r.WithContext(ctx)
	defer t.end()
	defer x.line.quiet()
	release := x.line.watch(ctx, t)
	w.Header().Set(wire.HeaderFairway, wire.FairwayDigest.String())
	err := x.exchange(r, next)
	if err != nil {
		err = t.explain(err)
		fault := wire.Fault(err, x.outcome.RequestID)
		x.outcome.Fault, x.outcome.Err = fault.Code, err
		if x.encoder == nil {
			if retryAfter(x.line.header(), err) { // no interim answer is made of it any more
				x.line.spare(x.length)
			}
			x.refuse(fault.Bytes())
		} else if x.encoder.Fault(fault.Bytes()) != nil {
			defer panic(http.ErrAbortHandler) // the peer must see a broken answer, not a short one
		}
	}
	t.end()
	release()
	x.outcome.report(ctx)
	x.line.linger(v.Server.admissions.lingering, x.outcome.Peer)
	if x.repanic != nil {
		panic(x.repanic.value)
	}
}

// refuse answers with a bare fault.
func (x *receiving) refuse(fault []byte) {
	h := x.line.header()
	h.Set("Content-Type", wire.FaultContentType)
	h.Set("Content-Length", strconv.Itoa(len(fault)))
	x.line.answer(http.StatusOK)
	x.line.w.Write(fault) // if the peer is gone there is nobody to tell
}

// receiving is one exchange at the receiving security server.
type receiving struct {
	server   *SecurityServer
	line     *line
	outcome  Outcome
	transfer *transfer
	id       string        // the peer's x-road-request-id, "" where it gives none
	service  *Service      // nil: a metaservice
	limit    int64         // octets of the request, once its header is known; 0 is none
	encoder  *wire.Encoder // of the response, once it has been begun
	peer     ident.Server
	stranger error         // why the peer is none, nil where it is known
	version  string        // the peer's x-proxy-version
	akin     bool          // the peer is a Fairway
	digest   crypto.Digest // of the request's parts
	length   int64         // octets that the request will have, -1 where nobody says
	ctx      context.Context
	action   string
	message  *wire.Message // while it is being read, once its header is known
	gated    *gated        // the service's call, where that has begun before the request was verified
	repanic  *panicked
	pace     *paced // of the request, once the peer is known
}

// exchange is the straight line of one message (docs/architecture.md, "Receive").
func (x *receiving) exchange(r *http.Request, next http.Handler) error {
	s, here := x.server, wire.AtReceiver
	x.ctx = r.Context()
	var err error
	if x.action, err = x.checkHTTP(r); err != nil {
		return wire.At(here, err)
	}
	if r.Header.Get("Expect") != "" {
		if err = x.checkLength(); err != nil {
			return wire.At(here, err)
		}
	}
	x.meet(r)
	if err = x.transfer.take(x.ctx, s.admissions.receiving, x.outcome.Peer); err != nil {
		return wire.At(here, err)
	}
	defer func() {
		if x.gated != nil {
			x.gated.end()
		}
	}()
	decoder := wire.Decoder{Place: here, Digest: x.digest, Spool: s.Spool}
	message, err := decoder.Decode(r.Context(), wire.Incoming{
		ContentType: r.Header.Get("Content-Type"),
		Original:    r.Header.Get(wire.HeaderOriginalContentType),
		Body:        &limited{Reader: r.Body, x: x},
		Length:      x.length,
	}, func(m *wire.Message) error { return x.check(r, m) })
	if err == nil {
		defer message.Discard()
		x.transfer.enter(verifying)
		err = x.prove(message)
	}
	if err == nil {
		err = x.transfer.cancelled()
	}
	if x.gated != nil {
		return x.deliver(message, err)
	}
	if err != nil {
		return err
	}
	message.Signature = nil // evidence has it, and the service may take long
	if x.service == nil || x.service.Delivery != ByFile {
		message.Parts = nil
	}
	switch {
	case x.service == nil:
		return x.respond(x.ctx, s.metaservice(&message.Header), message)
	case x.service.Delivery == ByFile && len(message.Parts) > 1:
		return x.forwardFiles(x.ctx, message, x.action)
	case x.service.To != "":
		return x.forward(x.ctx, message, x.action)
	}
	return x.handOver(r, next, message, x.action)
}

// prove verifies a request that has been read and keeps the evidence.
func (x *receiving) prove(message *wire.Message) error {
	s, here := x.server, wire.AtReceiver
	verified, err := message.Verify(&s.signatures, s.Trust, message.Header.Client, s.Clock())
	if err != nil {
		return wire.At(here, err)
	}
	// An id is used once its request is whole and right. One that was broken off or refused may come again.
	if !s.replays.use(x.peer, x.id, s.Clock()) {
		return errReplay(x.peer, x.id)
	}
	x.outcome.sent(message.Parts, verified.Form)
	record := s.record(&x.outcome, &message.Header, false)
	record.Signature = *message.Signature
	return wire.At(here, s.putDurably(x.ctx, record, message.Parts, message.Open))
}

// checkHTTP looks at what comes before the message (message-and-transport 5.2 and 5.9 step 1).
func (x *receiving) checkHTTP(r *http.Request) (action string, err error) {
	if r.Method != http.MethodPost {
		return "", wire.Errorf("invalid_http_method", "a message between security servers is sent by POST, not by %s", r.Method)
	}
	if err := x.server.Trust.Valid(x.server.Clock()); err != nil {
		return "", err
	}
	if kind := r.Header.Get(wire.HeaderMessageType); kind != "" && kind != "SOAP" {
		return "", wire.Errorf("service_type", "messages of type %q are not carried", kind)
	}
	if _, err := contentType(r.Header); err != nil {
		return "", err
	}
	if err := single(r.Header, wire.HeaderHashAlgorithm, wire.HeaderOriginalContentType, wire.HeaderProxyVersion, wire.HeaderMessageType, wire.HeaderRequestID, wire.HeaderFairway, wire.HeaderLength); err != nil {
		return "", err
	}
	if x.digest, err = wire.DigestOf(r.Header); err != nil {
		return "", err
	}
	x.akin, x.length = wire.IsFairway(r.Header), wire.LengthOf(r.Header, r.ContentLength)
	x.version, x.id = r.Header.Get(wire.HeaderProxyVersion), r.Header.Get(wire.HeaderRequestID)
	if x.akin { // X-Road peers never see interim answers
		x.line.keepAlive(stillHere)
	}
	return wire.SOAPAction(r.Header, wire.HeaderOriginalSOAPAction)
}

// checkLength judges a request that its peer sends when it is told to go on (Expect: 100-continue), which the first read
// of the body does. Only what is announced is known: it may be too long for every service, or for the spool. All other
// requests are judged when it is known, too, whose they are.
func (x *receiving) checkLength() error {
	if most := x.server.Local.longest(); most > 0 && x.length > most {
		return wire.Errorf("invalid_request", "the message is longer than the %d octets that any service here takes", most)
	}
	return x.server.Spool.Room(x.length)
}

// check judges a request by its header, before any attachment is read (message-and-transport 5.9 steps 2 and 5).
func (x *receiving) check(r *http.Request, m *wire.Message) error {
	s, h := x.server, &m.Header
	x.outcome.MessageID, x.outcome.Client, x.outcome.Service = h.ID, h.Client, h.Service
	x.transfer.names(&x.outcome)
	if h.SecurityServer != nil && *h.SecurityServer != s.ID {
		return wire.Errorf("invalid_security_server", "this is security server %s, not %s", s.ID, *h.SecurityServer)
	}
	if !s.Local.provides(h.Service.Client) {
		return wire.Errorf("unknown_member", "provider %s is not a client of this security server", h.Service.Client)
	}
	if _, err := s.signers.of(h.Service.Client); err != nil {
		return err
	}
	if err := x.checkPeer(r, m); err != nil {
		return err
	}
	if s.replays.used(x.peer, x.id, s.Clock()) { // before it is uploaded; prove decides
		return errReplay(x.peer, x.id)
	}
	if isMetaservice(h.Service) {
		x.limit = metaserviceLimit
		return x.fits(x.length) // before room is made for it
	}
	service, err := s.Local.permit(h.Service, h.Client, s.Trust)
	if err != nil {
		return wire.At(wire.AtReceiver, err)
	}
	x.service, x.limit, x.message = service, service.Limit, m
	return x.fits(x.length)
}

// fits refuses a message of n octets that is too long for its service.
func (x *receiving) fits(n int64) error {
	if x.limit > 0 && n > x.limit {
		return wire.At(wire.AtReceiver, wire.Errorf("invalid_request", "the message is longer than the %d octets that service %s takes (setting: limit of the service)", x.limit, x.outcome.Service))
	}
	return nil
}

// meet learns from its certificate who the TLS peer is. Strangers share the places of one peer, if any come: TLS has asked.
func (x *receiving) meet(r *http.Request) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		x.stranger = wire.Errorf("ssl_authentication_failed", "the peer has not shown a certificate")
		return
	}
	if x.peer, x.stranger = x.server.Trust.ServerOf(r.TLS.PeerCertificates[0]); x.stranger == nil {
		x.outcome.Peer = x.peer.String()
		x.transfer.meets(x.peer)
	}
}

// checkPeer proves that the TLS peer is a security server of the client.
func (x *receiving) checkPeer(r *http.Request, m *wire.Message) error {
	s := x.server
	if x.stranger != nil {
		return x.stranger
	}
	if len(m.OCSP) == 0 {
		return wire.Errorf("ssl_authentication_failed", "the message has no OCSP response for the peer's certificate")
	}
	x.pace = &paced{pace: s.pace(x.peer, 1), ctx: x.ctx}
	return s.Trust.VerifyAuth(r.TLS.PeerCertificates, m.OCSP, m.Header.Client, s.Clock())
}

// metaserviceLimit is how many octets a request to a metaservice may have. Every registered member may send one.
const metaserviceLimit = 1 << 20

// limited refuses a request that grows beyond the limit of its service, and lets its gated call advance.
type limited struct {
	io.Reader
	x *receiving
	n int64
}

func (l *limited) Read(p []byte) (int, error) {
	if err := l.x.advance(); err != nil {
		return 0, err
	}
	n, err := l.Reader.Read(p)
	l.n += int64(n)
	if l.x.pace != nil && err == nil {
		err = l.x.pace.passes(n)
	}
	if err := l.x.fits(l.n); err != nil {
		return n, err
	}
	return n, err
}
