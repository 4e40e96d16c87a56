// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"errors"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
)

// What goes wrong in the background of a security server is logged when it begins, when messages begin to fail for it,
// once an hour as long as it lasts, and when it is over; never for each message. Each line says why and what to do.

// report is told what goes wrong, most of all with the OCSP responses of our certificates.
func (h Host) report(err error) {
	log := caddy.Log().Named("xroad").With(zap.Stringer("server", h.ID))
	var e *exchange.StatusError
	if !errors.As(err, &e) {
		log.Warn(err.Error())
		return
	}
	log = log.Named("ocsp").With(zap.String("certificate", ocsp.Name(e.Certificate)))
	const advice = "check that this machine reaches the OCSP responder and that it answers for this certificate; it is asked again by itself"
	switch {
	case e.Over:
		log.Info("OCSP responses for our certificate come again")
	case e.ThisUpdate.IsZero():
		log.Error("other security servers refuse our certificate: there is no OCSP response for it",
			zap.Duration("limit", e.Limit), zap.Error(e.Err), zap.String("advice", advice))
	case e.Stale():
		log.Error("other security servers refuse our certificate: there is no fresh OCSP response for it",
			zap.Time("response_of", e.ThisUpdate), zap.Duration("limit", e.Limit), zap.Error(e.Err), zap.String("advice", advice))
	default:
		log.Warn("no new OCSP response comes for our certificate; the last one is still good",
			zap.Time("response_of", e.ThisUpdate), zap.Time("good_until", e.GoodUntil), zap.Error(e.Err), zap.String("advice", advice))
	}
}

// reportStamps is told how time-stamping goes.
func (h Host) reportStamps(s evidence.Status) {
	log := caddy.Log().Named("xroad.timestamps").With(zap.Stringer("server", h.ID), zap.Int("unstamped", s.Unstamped))
	if s.Failing.IsZero() {
		log.Info("evidence is time-stamped again")
		return
	}
	log = log.With(zap.Time("failing_since", s.Failing), zap.Error(s.Reason))
	const advice = "check that this machine reaches the time-stamping authority and that the instance has approved it; it is asked again every minute"
	switch {
	case s.Refusing.IsZero():
		log.Warn("evidence is not time-stamped", zap.String("advice", advice))
	case h.Clock().Before(s.Refusing):
		log.Warn("evidence is not time-stamped; messages pass until the limit", zap.Time("refusing_from", s.Refusing), zap.String("advice", advice))
	default:
		log.Error("messages are refused: evidence has not been time-stamped for too long",
			zap.Time("refusing_from", s.Refusing), zap.String("advice", advice+", or write a longer limit in timestamper tsp"))
	}
}
