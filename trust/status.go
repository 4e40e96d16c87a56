// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
)

// Time limits of OCSP responders (signature-and-evidence 8.6).
const (
	connectTimeout = 20 * time.Second
	readTimeout    = 60 * time.Second
)

// newClient returns a client for OCSP responders, which are named by the configuration: it goes to no other place than
// is named, neither by a redirect nor by a proxy.
func newClient() *http.Client {
	return &http.Client{
		Timeout: connectTimeout + readTimeout,
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout:   connectTimeout,
			ResponseHeaderTimeout: readTimeout,
			MaxIdleConnsPerHost:   1,
			IdleConnTimeout:       readTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Status implements Store: it asks the responders configured for the issuer, in order, and then those that the
// certificate names, until one gives a response by a responder that may give it. Whether that is good now, the caller
// judges.
func (s *instance) Status(ctx context.Context, cert *x509.Certificate) ([]byte, error) {
	e := era{sha1: true} // responders of the past are told apart when the response is judged
	issuers, err := s.issuers(cert, e)
	if err != nil {
		return nil, err
	}
	issuer := issuers[0]
	if !s.issued(issuer.Certificate, cert, e) {
		return nil, refuse("cannot_create_cert_path", "certificate %s is not signed by the approved CA that it names", ocsp.Name(cert))
	}
	if s.ask != nil {
		return s.ask(ctx, cert, issuer.Certificate)
	}
	var failures []error
	for _, url := range append(issuer.urls[:len(issuer.urls):len(issuer.urls)], cert.OCSPServer...) {
		response, err := ocsp.Fetch(ctx, s.client, []string{url}, cert, issuer.Certificate)
		if err == nil {
			if _, err = s.authenticate([][]byte{response}, cert, issuer.Certificate, s.policy(issuer.Certificate, messages)); err == nil {
				return response, nil
			}
			err = fmt.Errorf("asking %q: %w", url, err)
		}
		failures = append(failures, err)
	}
	if failures == nil {
		return nil, fmt.Errorf("certificate %s has no OCSP responder: none is configured for its issuer, and it names none", ocsp.Name(cert))
	}
	return nil, errors.Join(failures...)
}
