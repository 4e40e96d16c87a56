// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Fetch asks the responders in order and returns the first successful response, DER (section 8.6). Time limits are
// those of the client and the context; of which certificate an error is, the caller knows. Whether the response is acceptable, Verify tells.
func Fetch(ctx context.Context, client *http.Client, urls []string, cert, issuer *x509.Certificate) ([]byte, error) {
	request, err := requestFor(idOf(cert, issuer))
	if err != nil {
		return nil, err
	}
	err = errors.New("it has no responder: none is configured, and the certificate names none")
	for _, u := range urls {
		response, failed := ask(ctx, client, u, request)
		if failed == nil {
			return response, nil
		}
		err = fmt.Errorf("asking %q: %w", u, failed)
	}
	return nil, fmt.Errorf("fetching an OCSP response: %w", err)
}

// requestFor writes an OCSPRequest (RFC 6960 section 4.1.1) without signature, requestor and nonce.
func requestFor(id certID) ([]byte, error) {
	type request struct{ ID certID }
	type tbsRequest struct{ List []request }
	der, err := asn1.Marshal(struct{ TBS tbsRequest }{tbsRequest{[]request{{id}}}})
	if err != nil {
		return nil, fmt.Errorf("writing an OCSP request: %w", err)
	}
	return der, nil
}

func ask(ctx context.Context, client *http.Client, address string, request []byte) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("its scheme is %q; only http and https are asked", u.Scheme)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/ocsp-request")
	r.Header.Set("Accept", "application/ocsp-response")
	answer, err := straight(client).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d", answer.StatusCode)
	}
	der, err := readLimited(answer.Body)
	if err != nil {
		return nil, err
	}
	if _, err := parse(der); err != nil {
		return nil, err
	}
	return der, nil
}

// readLimited reads one response of at most maxResponse octets.
func readLimited(r io.Reader) ([]byte, error) {
	der, err := io.ReadAll(io.LimitReader(r, maxResponse+1))
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if len(der) > maxResponse {
		return nil, fmt.Errorf("the response has more than %d octets", maxResponse)
	}
	return der, nil
}

// straight is the client without redirections: who answers must not choose whom we ask next, from our place in the network.
func straight(client *http.Client) *http.Client {
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}
