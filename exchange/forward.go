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
	next := wire.AtReceiver.NextHop()
	ctx, silence := watchSilence(ctx, x.service)
	defer silence.stop()
	open := func() (io.ReadCloser, error) {
		octets, err := m.Open()
		return silence.closer(octets), err
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
	req.ContentLength, req.GetBody = m.Size(), open
	req.Header = serviceHeader(m, action)
	response, err := x.server.backends.of(x.service).RoundTrip(req)
	if err != nil {
		return wire.At(next, silence.explain(wire.OrElse("network_error", fmt.Errorf("calling service %s: %w", x.service.ID, err))))
	}
	defer response.Body.Close()
	err = x.respond(ctx, answer{response.StatusCode, response.Header.Get("Content-Type"), silence.reader(response.Body)}, m)
	return silence.explain(err)
}

// serviceHeader is all that the protocol keeps of a request's header. SOAPAction is spelt as old services look for it.
func serviceHeader(m *wire.Message, action string) http.Header {
	return http.Header{"Content-Type": {m.ContentType()}, "SOAPAction": {action}, "User-Agent": {""}}
}

// silence ends a call whose service has neither taken nor sent an octet for its timeout.
type silence struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	reason error
	ctx    context.Context
}

func watchSilence(ctx context.Context, s *Service) (context.Context, *silence) {
	limit := s.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	w := &silence{limit: limit}
	w.reason = wire.Errorf("io_error", "service %s was silent for %s (setting: timeout of the service)", s.ID, limit)
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(limit, func() { w.cancel(w.reason) })
	return w.ctx, w
}

func (w *silence) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain replaces the transport's words for a call that silence has ended.
func (w *silence) explain(err error) error {
	if err != nil && context.Cause(w.ctx) == w.reason {
		return wire.At(wire.AtReceiver.NextHop(), w.reason)
	}
	return err
}

func (w *silence) reader(r io.Reader) io.Reader { return &heard{r, w} }

func (w *silence) closer(r io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{w.reader(r), r}
}

// heard puts the end of the silence off each time octets pass.
type heard struct {
	io.Reader
	silence *silence
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.silence.timer.Reset(h.silence.limit)
	return n, err
}

// backends keeps the connections to services. It is safe for concurrent use.
type backends struct {
	plain *http.Transport
	mu    sync.Mutex
	tls   map[*Service]*http.Transport
}

func newBackends(base *http.Transport) *backends {
	plain := base.Clone()
	plain.DisableCompression = true
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
