// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Limits of an authority (section 9.2).
const (
	connectTimeout = 20 * time.Second
	readTimeout    = 60 * time.Second
	maxResponse    = maxToken + 1<<10 // octets
)

const queryType, replyType = "application/timestamp-query", "application/timestamp-reply"

// NewClient returns a client for time-stamping authorities with the time limits of section 9.2. It uses no proxy.
func NewClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: readTimeout,
		MaxIdleConnsPerHost:   1,
		IdleConnTimeout:       readTimeout,
	}}
}

// Fetch asks the authorities at the URLs in order, and returns the first token that Request.Accept takes. Whatever the
// client allows, none may take longer than 80 seconds, and redirects are not followed: the configuration says who is
// asked. Where all fail, the error tells what each did and has the cause of the last.
func Fetch(ctx context.Context, client *http.Client, urls []string, r Request, authorities []*x509.Certificate) (*Token, error) {
	query, err := r.DER()
	if err != nil {
		return nil, err
	}
	err = failf(noProvider, "no time-stamping authority has an address")
	for i, u := range urls {
		response, failed := ask(ctx, client, u, query)
		if failed == nil {
			var t *Token
			if t, failed = r.Accept(response, authorities); failed == nil {
				return t, nil
			}
		}
		if i == 0 {
			err = fmt.Errorf("asking %q: %w", u, failed)
		} else {
			err = fmt.Errorf("asking %q: %w; before, %v", u, failed, err)
		}
	}
	return nil, fmt.Errorf("fetching a time-stamp: %w", err)
}

func ask(ctx context.Context, client *http.Client, address string, query []byte) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("its scheme is %q; only http and https are asked", u.Scheme)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+readTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(query))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", queryType)
	straight := *client
	straight.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := straight.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, failf(notOK, "it answered %d", response.StatusCode)
	}
	return readLimited(response.Body, maxResponse)
}

// readLimited reads all there is, of at most limit octets.
func readLimited(r io.Reader, limit int) ([]byte, error) {
	octets, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(octets) > limit {
		err = fmt.Errorf("it has more than %d octets", limit)
	}
	return octets, err
}
