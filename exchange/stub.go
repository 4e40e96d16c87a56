// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"net/http"

	"github.com/caddy-fairway/fairway/ident"
)

type (
	statuses struct{}
	signers  struct{}
	backends struct{}
)

// Start prepares the server for its first exchange and begins to keep the OCSP responses of its certificates fresh.
// The fields must be set. ctx bounds the start only.
func (s *SecurityServer) Start(ctx context.Context) error { panic("stub") }

// Close ends background work and closes Trust, Spool and Evidence.
func (s *SecurityServer) Close() error { panic("stub") }

// Sender sends messages of information systems. It is an http.RoundTripper: the request is what the information
// system sent (its RemoteAddr and TLS say how), the response what it gets; faults are responses, not errors.
type Sender struct{ Server *SecurityServer }

// RoundTrip implements http.RoundTripper. The caller must close the response's body: that frees the spool.
func (s *Sender) RoundTrip(req *http.Request) (*http.Response, error) { panic("stub") }

// Serve answers one information system over w: RoundTrip, with the fault sent while the system may still be uploading.
func (s *Sender) Serve(w http.ResponseWriter, r *http.Request) { panic("stub") }

// Receiver receives messages of other security servers.
type Receiver struct{ Server *SecurityServer }

// Serve answers one peer. A service without To is called as next, on this goroutine.
func (v *Receiver) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) { panic("stub") }

// ServiceOf returns the service of a request that Receiver.Serve handed to next.
func ServiceOf(ctx context.Context) (ident.Service, bool) { panic("stub") }

// ServeOCSP answers peers that ask for the OCSP responses of our authentication certificates (port 5577).
func (s *SecurityServer) ServeOCSP(w http.ResponseWriter, r *http.Request) { panic("stub") }

// Outcome is what happened in one exchange.
type Outcome struct {
	Role      string // "send" or "receive"
	RequestID string
	MessageID string
	Client    ident.Client
	Service   ident.Service
	Peer      string
	Fault     string // fault code, "" for success
	Err       error  // why, for the log; never holds content
}

// Observer sees an exchange as it goes on, in the manner of net/http/httptrace. Its functions may be nil.
// Done is called once, on the goroutine of RoundTrip or Serve.
type Observer struct {
	Done func(Outcome)
}

// WithObserver returns a context whose exchange o observes.
func WithObserver(ctx context.Context, o *Observer) context.Context { panic("stub") }
