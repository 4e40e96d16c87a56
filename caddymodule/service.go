// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/exchange"
)

// service is the next handlers of a site as the service that a message calls.
type service struct {
	next caddyhttp.Handler
	peer *http.Request // as it came from the other security server
	err  error         // of next
}

// ServeHTTP implements http.Handler. The handlers see the information system's request alone, in placeholders too.
// Where they fail before they have written anything, the status of the failure is the answer; where they fail later,
// the answer must not become a whole one.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	outer := s.peer.Context()
	repl := caddy.NewReplacer()
	if called, ok := exchange.ServiceOf(r.Context()); ok {
		repl.Set("http.xroad.role", "receive")
		repl.Set("http.xroad.service", called.String())
	}
	site, _ := outer.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	r = caddyhttp.PrepareRequest(r, repl, w, site)
	ctx := r.Context()
	for _, kept := range []caddy.CtxKey{caddyhttp.VarsCtxKey, caddyhttp.ExtraLogFieldsCtxKey} {
		ctx = context.WithValue(ctx, kept, outer.Value(kept))
	}
	*r = *r.WithContext(ctx) // in place: the placeholders look at this very request

	watched := &writeWatch{ResponseWriter: w}
	if s.err = s.next.ServeHTTP(watched, r); s.err == nil {
		return
	}
	if watched.wrote {
		panic(http.ErrAbortHandler)
	}
	status := http.StatusInternalServerError
	var failed caddyhttp.HandlerError
	if errors.As(s.err, &failed) && failed.StatusCode != 0 {
		status = failed.StatusCode
	}
	w.WriteHeader(status)
}

// writeWatch knows whether an answer has begun.
type writeWatch struct {
	http.ResponseWriter
	wrote bool
}

// WriteHeader implements http.ResponseWriter.
func (w *writeWatch) WriteHeader(status int) {
	w.wrote = w.wrote || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writeWatch) Write(p []byte) (int, error) {
	w.wrote = true
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *writeWatch) Unwrap() http.ResponseWriter { return w.ResponseWriter }
