// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/trust"
)

// silentResponder is a trust.Store whose OCSP responder does not answer.
type silentResponder struct{ trust.Store }

func (silentResponder) Status(context.Context, *x509.Certificate) ([]byte, error) {
	return nil, errors.New("the responder does not answer")
}

// TestResponderDown: the operator is told at once, and a message gets a fault that says why.
func TestResponderDown(t *testing.T) {
	reports := make(chan error, 16)
	bed := testbed.New(t, testbed.Options{Sender: func(s *exchange.SecurityServer) {
		s.Trust = silentResponder{s.Trust}
		s.Report = func(err error) { reports <- err }
	}})
	if err := <-reports; !strings.Contains(err.Error(), "the responder does not answer") {
		t.Error(err)
	}
	_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
	if got := faultCode(t, answer); got != "server.clientproxy.ssl_authentication_failed" || !bytes.Contains(answer, []byte("the responder does not answer")) {
		t.Errorf("got %s\n%s", got, answer)
	}
	bed.CheckClean()
}
