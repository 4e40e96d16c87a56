// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
)

// Outcome is what happened in one exchange, as far as it came.
type Outcome struct {
	Role        string // "send" or "receive"
	RequestID   string
	MessageID   string
	Client      ident.Client
	Service     ident.Service
	Peer        string      // the other security server
	Attachments int         // of the request
	Octets      int64       // of the request's envelope and attachments
	Form        crypto.Form // of the request's signature
	Fault       string      // fault code, "" for success
	Err         error       // why, for the log; never holds content
}

// Observer sees an exchange as it goes on, in the manner of net/http/httptrace. Its functions may be nil.
type Observer struct {
	// Done is called once, on the goroutine of RoundTrip or Serve, when the exchange has its outcome: for a sender,
	// before the answer is read.
	Done func(Outcome)
}

type observerKey struct{}

// WithObserver returns a context whose exchange o observes.
func WithObserver(ctx context.Context, o *Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

func (o *Outcome) report(ctx context.Context) {
	if observer, ok := ctx.Value(observerKey{}).(*Observer); ok && observer.Done != nil {
		observer.Done(*o)
	}
}
