// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/wire"
)

// forward hands the verified request to the service's To and wraps its answer (message-and-transport 6).
func (x *receiving) forward(ctx context.Context, m *wire.Message, action string) error {
	return x.post(ctx, m, outgoing{
		header: serviceHeader(m, action),
		size:   m.Size(),
		open:   m.Open, // goes to the transport as it is: a file is then copied by the kernel
	})
}

// outgoing is the call of a service.
type outgoing struct {
	header   http.Header
	size     int64
	open     func() (io.ReadSeekCloser, error) // the body, each time from its beginning
	answered func(http.Header)                 // is told the header of the answer; nil: nobody is
}

// post calls the service with what is made of the request m and wraps its answer.
func (x *receiving) post(ctx context.Context, m *wire.Message, o outgoing) error {
	ctx, silence := watchService(ctx, x.service)
	defer silence.stop()
	open := func() (io.ReadCloser, error) {
		octets, err := o.open()
		if err == nil {
			silence.body.Store(&octets)
		}
		return octets, err
	}
	body, err := open()
	if err != nil {
		return wire.At(wire.AtReceiver, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.service.To, body)
	if err != nil {
		body.Close()
		return wire.At(wire.AtReceiver, wire.Errorf("service_malformed_url", "address of service %s: %w", x.service.ID, err))
	}
	req.ContentLength, req.GetBody = o.size, open
	req.Header = o.header
	x.transfer.moves(forwarding, o.size, silence.taken(o.size))
	response, err := x.server.backends.of(x.service).RoundTrip(req)
	if err != nil {
		return x.calling(x.hungUp(err), silence)
	}
	if o.answered != nil {
		o.answered(response.Header)
	}
	return x.passOn(ctx, response, silence, m)
}

// calling is the error of a call that failed, nil for none.
func (x *receiving) calling(err error, silence *silence) error {
	if err == nil {
		return nil
	}
	return wire.At(wire.AtReceiver.NextHop(), silence.explain(wire.OrElse("network_error", fmt.Errorf("calling service %s: %w", x.service.ID, err))))
}

// hungUp says of an error that ended our wait for the service when the peer is the reason.
func (x *receiving) hungUp(err error) error {
	if context.Cause(x.ctx) == context.Canceled {
		return fmt.Errorf("the other security server has hung up: %w", err)
	}
	return err
}

// passOn wraps the service's answer.
func (x *receiving) passOn(ctx context.Context, response *http.Response, silence *silence, m *wire.Message) error {
	defer response.Body.Close()
	silence.answered()
	err := x.respond(ctx, answer{response.StatusCode, response.Header, silence.listen(&counted{Reader: response.Body, octets: &x.transfer.answer})}, m)
	return silence.explain(err)
}

// serviceHeader is all that the protocol keeps of a request's header. SOAPAction is spelt as old services look for it.
func serviceHeader(m *wire.Message, action string) http.Header {
	return http.Header{"Content-Type": {m.ContentType()}, "SOAPAction": {action}, "User-Agent": {""}}
}

// serviceIdle is how long a connection to a service is kept without use: less than the five seconds after which many
// services close theirs, for a request that meets the closing is lost.
const serviceIdle = 4 * time.Second

// backends keeps the connections to services. It is safe for concurrent use.
type backends struct {
	plain *http.Transport
	mu    sync.Mutex
	tls   map[*Service]*http.Transport
}

func newBackends(base *http.Transport) *backends {
	plain := base.Clone()
	plain.DisableCompression = true
	plain.IdleConnTimeout = serviceIdle
	return &backends{plain: plain, tls: make(map[*Service]*http.Transport)}
}

// of returns the transport to a service. Each https service has its own, with its own idea of whom to trust.
func (b *backends) of(s *Service) *http.Transport {
	if len(s.Trusted) == 0 && !s.AnyCert {
		return b.plain // an https service proves itself by its host name and the machine's authorities
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tls[s]
	if !ok {
		t = b.plain.Clone()
		t.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, // verifyBackend compares the certificate itself
			VerifyConnection:   func(state tls.ConnectionState) error { return verifyBackend(s, state) },
		}
		b.tls[s] = t
	}
	return t
}

// fresh returns a transport that makes a new connection for each call, and keeps none: a call whose body cannot be sent
// twice must not meet the closing of a kept one.
func (b *backends) fresh(s *Service) *http.Transport {
	t := b.of(s).Clone()
	t.DisableKeepAlives = true
	return t
}

func (b *backends) close() {
	b.plain.CloseIdleConnections()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tls {
		t.CloseIdleConnections()
	}
}

// verifyBackend compares the service's certificate with those that its operator gave (message-and-transport 6.2).
func verifyBackend(s *Service, state tls.ConnectionState) error {
	if s.AnyCert {
		return nil
	}
	if len(state.PeerCertificates) > 0 {
		for _, known := range s.Trusted {
			if bytes.Equal(known.Raw, state.PeerCertificates[0].Raw) {
				return nil
			}
		}
	}
	return wire.Because("ssl_authentication_failed", errors.New("the service shows a certificate that is none of those configured for it"))
}
