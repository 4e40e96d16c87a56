// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/wire"
)

// Sender sends messages of information systems to other security servers.
type Sender struct{ Server *SecurityServer }

// RoundTrip implements http.RoundTripper: req is what the information system sent (its RemoteAddr and TLS say how it
// came), the response what it gets. Faults are responses, not errors. The caller must close the response's body: that
// frees the spool. As with every RoundTripper, the request's body may still be read for a while afterwards.
func (s *Sender) RoundTrip(req *http.Request) (*http.Response, error) {
	x, req := s.begin(req)
	return x.roundTrip(req), nil
}

// begin enters the exchange of a request and returns the request to read.
func (s *Sender) begin(req *http.Request) (*sending, *http.Request) {
	x := &sending{server: s.Server, outcome: Outcome{Role: "send", RequestID: wire.NewRequestID()}}
	body, ok := req.Body.(*tracked)
	if !ok {
		body = &tracked{ReadCloser: req.Body}
	}
	ctx, t := s.Server.begin(req.Context(), x.outcome.Role, x.outcome.RequestID, body, req.ContentLength)
	x.transfer, req = t, req.WithContext(ctx)
	req.Body = body
	return x, req
}

// roundTrip ends the transfer of the exchange, or leaves that to the closing of the response's body.
func (x *sending) roundTrip(req *http.Request) *http.Response {
	response, err := x.exchange(req.Context(), req)
	if err == nil && x.transfer.cancelled() != nil && !isEarly(response) {
		response.Body.Close()
		err = x.transfer.cancelled()
	}
	if err != nil {
		x.transfer.end()
		err = x.transfer.explain(err)
		fault := wire.Fault(err, x.outcome.RequestID)
		x.outcome.Fault, x.outcome.Err = fault.Code, err
		response = faultResponse(bytes.NewReader(fault.Bytes()), int64(len(fault.Bytes())))
		if retryAfter(response.Header, err) && x.line != nil {
			x.line.spare(req.ContentLength)
		}
	}
	response.Request = req
	if !isEarly(response) {
		x.outcome.report(req.Context())
	}
	return response
}

// Serve answers one information system over w. A fault is sent while the system may still be uploading; what it sends
// after that is read and thrown away for a while, so that it comes to read its answer.
func (s *Sender) Serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/listClients" {
		s.Server.listClients(w, r)
		return
	}
	if isREST(r) {
		s.Server.refuseREST(w, r)
		return
	}
	line := newLine(w, r)
	x, r := s.begin(r)
	x.line = line
	defer x.transfer.end()
	defer line.quiet()
	release := line.watch(r.Context(), x.transfer)
	response := x.roundTrip(r)
	defer response.Body.Close()
	h := line.header()
	for name, values := range response.Header {
		h[name] = values
	}
	if response.ContentLength >= 0 {
		h.Set("Content-Length", strconv.FormatInt(response.ContentLength, 10))
	}
	line.answer(response.StatusCode)
	var err error
	if r.Method != http.MethodHead {
		_, err = io.Copy(w, response.Body)
	}
	x.transfer.end()
	release()
	line.linger(s.Server.admissions.lingering, hostOf(r.RemoteAddr))
	if x.upload != nil {
		<-x.upload.done // it may still have been reading r's body
	}
	if err != nil {
		s.Server.tell(fmt.Errorf("exchange %s: the answer was not taken to its end: %w", x.outcome.RequestID, err))
		line.breakOff() // what was promised cannot be kept
	}
}

// sending is one exchange at the sending security server.
type sending struct {
	server   *SecurityServer
	outcome  Outcome
	transfer *transfer
	upload   *upload
	line     *line // nil: the information system is not ours to answer
}

// exchange is the straight line of one message (docs/architecture.md, "Send").
func (x *sending) exchange(ctx context.Context, req *http.Request) (*http.Response, error) {
	s, now := x.server, x.server.Clock()
	if err := s.Trust.Valid(now); err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	action, kind, err := checkHTTP(req)
	if err != nil {
		return nil, wire.At(wire.AtClient, err)
	}
	if err := x.transfer.take(ctx, s.admissions.asking, hostOf(req.RemoteAddr)); err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	from := &beginning{Reader: req.Body}
	original, err := wire.Open(kind, from)
	if err == nil && original.Envelope.Fault {
		err = refuseFault(original.Envelope)
	}
	if err != nil {
		return nil, wire.At(wire.AtClient, err)
	}
	header := &original.Envelope.Header
	x.outcome.MessageID, x.outcome.Client, x.outcome.Service = header.ID, header.Client, header.Service
	x.transfer.names(&x.outcome)
	if err := s.Local.authenticate(header.Client, req.RemoteAddr, req.TLS); err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	if x.line != nil {
		x.line.keepAlive(s.Local.Clients[header.Client].KeepAlive)
	}
	if err := x.prepare(ctx, original); err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	x.upload.beginning, x.upload.kind = from, kind
	head := http.Header{
		wire.HeaderFairway:             {wire.FairwayDigest.String()},
		wire.HeaderProxyVersion:        {wire.ProxyVersion},
		wire.HeaderOriginalContentType: {kind},
		wire.HeaderOriginalSOAPAction:  {action},
		wire.HeaderRequestID:           {x.outcome.RequestID},
		"User-Agent":                   {""},
	}
	if req.ContentLength > 0 {
		head.Set(wire.HeaderLength, strconv.FormatInt(req.ContentLength, 10))
	}
	x.transfer.enter(connecting)
	ctx, silence := watchPeer(ctx)
	x.upload.silence = silence
	response, server, err := s.Peers.Post(ctx, peer.Request{
		Provider: header.Service.Client,
		Server:   header.SecurityServer,
		Header:   head,
		Body:     x.upload,
		Towards:  func(server ident.Server) error { return x.goesTowards(ctx, server) },
		Judged:   x.upload.goesTo,
		Akin:     wire.IsFairway,
	})
	if server != (ident.Server{}) {
		x.outcome.Peer = server.String()
	}
	if err != nil {
		if own := x.upload.failed(); own != nil {
			err = own
		} else if context.Cause(ctx) == context.Canceled {
			err = fmt.Errorf("the information system has hung up: %w", err)
		}
		err = silence.explain(err)
		silence.stop()
		return nil, wire.At(wire.AtSender, err)
	}
	silence.answered()
	if s.Local.Clients[header.Client].Delivery == Gated && req.ProtoAtLeast(1, 1) {
		return x.receiveGated(ctx, response, header)
	}
	return x.receive(ctx, response, header, nil)
}

// goesTowards takes a place among the exchanges with the security server to which the message will probably go.
func (x *sending) goesTowards(ctx context.Context, server ident.Server) error {
	peer := server.String()
	err := x.transfer.take(ctx, x.server.admissions.sending, peer)
	if err != nil {
		x.outcome.Peer = peer
	}
	return err
}

// prepare makes the upload. What is known to fail fails here, before a connection is made.
func (x *sending) prepare(ctx context.Context, original *wire.Original) error {
	s, header := x.server, &original.Envelope.Header
	if _, err := s.signers.of(header.Client); err != nil {
		return err
	}
	responses, err := s.statuses.responses(ctx, s.authChain())
	if err != nil {
		return wire.Because("ssl_authentication_failed", err)
	}
	x.upload = newUpload(ctx, x.transfer, wrapping{server: s, signer: header.Client, record: s.record(&x.outcome, header, false)}, original, responses)
	return nil
}

// receive reads the peer's answer, proves it and puts it into evidence. advance, if it is not nil, is called whenever more
// of it is going to be read, once its header is known.
func (x *sending) receive(ctx context.Context, response *http.Response, request *soap.Header, advance func(*wire.Message) error) (*http.Response, error) {
	defer x.upload.silence.stop()
	defer response.Body.Close()
	s, next := x.server, wire.AtSender.NextHop()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusInternalServerError {
		return nil, wire.At(wire.AtSender, wire.Errorf("http_error", "security server %s answered with HTTP status %d", x.outcome.Peer, response.StatusCode))
	}
	kind, err := contentType(response.Header)
	if err == nil {
		err = single(response.Header, wire.HeaderHashAlgorithm, wire.HeaderOriginalContentType, wire.HeaderFairway)
	}
	if err != nil {
		return nil, wire.At(next, err)
	}
	x.transfer.moves(receivingAnswer, response.ContentLength, x.transfer.answer.Load)
	digest, unknown := wire.DigestOf(response.Header)
	decoder := wire.Decoder{Place: wire.AtSender, Digest: digest, Spool: s.Spool}
	answered := x.upload.silence.listen(&counted{Reader: response.Body, octets: &x.transfer.answer})
	body := &advancing{Reader: s.from(ctx, x.upload.peer, answered), advance: advance}
	message, err := decoder.Decode(ctx, wire.Incoming{
		ContentType: kind,
		Original:    response.Header.Get(wire.HeaderOriginalContentType),
		Body:        body,
		Length:      response.ContentLength,
	}, func(m *wire.Message) error { body.message = m; return unknown })
	if err != nil {
		if own := x.upload.failed(); own != nil {
			err = own
		}
		return nil, x.upload.silence.explain(err)
	}
	answer, err := x.accept(ctx, message, request)
	if err != nil {
		message.Discard()
		return nil, wire.At(next, err)
	}
	return answer, nil
}

// accept judges a message that has been read.
func (x *sending) accept(ctx context.Context, m *wire.Message, request *soap.Header) (*http.Response, error) {
	s := x.server
	if m.FaultCode != "" {
		if own := x.upload.failed(); own != nil {
			return nil, own // the peer only complains of what we know better
		}
		x.outcome.Fault, x.outcome.Err = m.FaultCode, told(m)
		record := s.record(&x.outcome, request, true)
		record.Fault = m.FaultCode
		if err := s.putDurably(ctx, record, nil, nil); err != nil {
			return nil, wire.At(wire.AtSender, err)
		}
		return x.packageResponse(m)
	}
	sent, durable, err := x.upload.finished(ctx)
	if err != nil {
		return nil, err
	}
	x.outcome.sent(sent, x.upload.record.Signature.Form())
	hash := x.upload.encoder.RequestHash()
	x.upload.forget()
	if _, err := m.Verify(&s.signatures, s.Trust, request.Service.Client, s.Clock()); err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	if err := soap.Consistent(request, &m.Header); err != nil {
		return nil, err // with service_failed
	}
	if err := answers(&m.Header, hash); err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	record := s.record(&x.outcome, &m.Header, true)
	record.Signature = *m.Signature
	wait, err := s.put(ctx, record, m.Parts, m.Open)
	for _, step := range []func() error{durable, wait} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return nil, wire.At(wire.AtSender, err)
	}
	m.Parts, m.Signature = nil, nil // evidence has them, and the information system may take long
	return x.packageResponse(m)
}

// told says what a fault of the other side was, for the log. The words of a service are content and stay out of it.
func told(m *wire.Message) error {
	if m.ServiceFault {
		return errors.New("the service answered with a fault of its own")
	}
	return errors.New(m.FaultString)
}

// answers compares the requestHash of a response with that of the request.
func answers(response *soap.Header, request []byte) error {
	want := base64.StdEncoding.EncodeToString(request)
	if response.RequestHash == nil {
		return wire.Errorf("inconsistent_response", "the response has no requestHash")
	}
	if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(*response.RequestHash)), []byte(want)) != 1 {
		return wire.Errorf("inconsistent_response", "the response's requestHash is not that of the request")
	}
	return nil
}

// checkHTTP looks at what comes before the message (message-and-transport 2.2 and 2.3). An information system that waits
// for being told to go on (Expect: 100-continue) is told so by the first read of the body, so what is refused here is
// refused without. How long a message may be, and whether there is room for it, is for the receiving security server to
// say, whose service the body names: here nothing of requests is spooled but what evidence keeps of short parts.
func checkHTTP(req *http.Request) (action, kind string, err error) {
	if req.Method != http.MethodPost {
		return "", "", wire.Errorf("invalid_http_method", "a SOAP message is sent by POST, not by %s", req.Method)
	}
	if action, err = wire.SOAPAction(req.Header, "SOAPAction"); err != nil {
		return "", "", err
	}
	kind, err = contentType(req.Header)
	return action, kind, err
}

// refuseFault returns the error for an information system that sends a fault as its request.
func refuseFault(envelope io.Reader) error {
	document, err := io.ReadAll(io.LimitReader(envelope, maxFaultRequest))
	if err != nil {
		return err
	}
	fault, err := soap.ParseFault(document)
	if err != nil {
		return err
	}
	code := strings.ToLower(fault.Code)
	if !faultCode.MatchString(code) {
		code = "fault"
	}
	return wire.Errorf(code, "the request is a fault")
}

// faultCode is what an information system's fault code must look like to become part of ours.
var faultCode = regexp.MustCompile(`^[[:graph:]]{1,128}$`)

// maxFaultRequest is what is read of a fault that comes as a request.
const maxFaultRequest = 64 << 10

func (x *sending) packageResponse(m *wire.Message) (*http.Response, error) {
	octets, err := m.Open()
	if err != nil {
		return nil, err
	}
	body := &packageBody{octets, m, x.transfer}
	x.transfer.moves(delivering, m.Size(), position(octets, m.Size()))
	if m.FaultCode != "" {
		return faultResponse(body, m.Size()), nil
	}
	return newResponse(http.Header{"Content-Type": {m.ContentType()}}, body, m.Size()), nil
}

func faultResponse(body io.Reader, size int64) *http.Response {
	return newResponse(http.Header{"Content-Type": {wire.FaultContentType}, "SOAPAction": {""}}, body, size)
}

// newResponse is always status 200: SOAP faults say themselves what they are (message-and-transport 2.6).
func newResponse(h http.Header, body io.Reader, size int64) *http.Response {
	closer, ok := body.(io.ReadCloser)
	if !ok {
		closer = io.NopCloser(body)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: closer, ContentLength: size,
	}
}

// packageBody ends the transfer and frees the spool when it is closed.
type packageBody struct {
	io.ReadCloser
	message  *wire.Message
	transfer *transfer
}

func (b *packageBody) Read(p []byte) (int, error) {
	if err := b.transfer.cancelled(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

// fileStep is what is handed over of a file before somebody looks whether the exchange has been cancelled.
const fileStep = 1 << 20

// WriteTo implements io.WriterTo. A file is handed over as it is: towards a plain connection the kernel then copies it.
// Where that waits, what interrupts it is the deadline of an exchange that is cancelled, see line.watch.
func (b *packageBody) WriteTo(w io.Writer) (int64, error) {
	file, isFile := b.ReadCloser.(*os.File)
	to, takes := w.(io.ReaderFrom)
	if memory, itself := b.ReadCloser.(io.WriterTo); itself && !isFile {
		return memory.WriteTo(&untilCancelled{w, b.transfer})
	}
	if !isFile || !takes {
		return io.Copy(w, struct{ io.Reader }{b})
	}
	if _, cuts := w.(Piecewise); cuts {
		return to.ReadFrom(&packageFile{file, b.transfer})
	}
	for total := int64(0); ; {
		if err := b.transfer.cancelled(); err != nil {
			return total, err
		}
		n, err := to.ReadFrom(io.LimitReader(file, fileStep))
		if total += n; n < fileStep || err != nil {
			return total, err
		}
	}
}

// untilCancelled writes on until the exchange is cancelled.
type untilCancelled struct {
	w        io.Writer
	transfer *transfer
}

func (u *untilCancelled) Write(p []byte) (int, error) {
	if err := u.transfer.cancelled(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

// Piecewise is a writer that asks for a file in pieces itself, as it does where Caddy's write_idle is set. A limit of ours
// around the file would hide it from the kernel, which sees one limit and no second.
type Piecewise interface {
	io.ReaderFrom
	Piecewise()
}

// packageFile is a file that can be copied by the kernel, piece by piece, until its transfer is cancelled.
type packageFile struct {
	*os.File
	transfer *transfer
}

// Read implements io.Reader.
func (f *packageFile) Read(p []byte) (int, error) {
	if err := f.transfer.cancelled(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

// SyscallConn implements syscall.Conn, by which the kernel gets the file. After an error of it, Read is called.
func (f *packageFile) SyscallConn() (syscall.RawConn, error) {
	if err := f.transfer.cancelled(); err != nil {
		return nil, err
	}
	return f.File.SyscallConn()
}

func (b *packageBody) Close() error {
	b.transfer.end()
	err := b.ReadCloser.Close()
	b.message.Discard()
	return err
}

// sent notes what the request was.
func (o *Outcome) sent(parts []wire.Part, form crypto.Form) {
	o.Attachments, o.Form, o.Octets = len(parts)-1, form, 0
	for _, p := range parts {
		o.Octets += p.Size
	}
}

var _ http.RoundTripper = (*Sender)(nil)
