// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestStatus(t *testing.T) {
	ca := issue(t, named("CA"), nil, certifying)
	configured := issue(t, named("configured"), issue(t, named("elsewhere"), nil, certifying), nil)
	leaf := issue(t, named("leaf"), ca, nil)
	byCA, byConfigured, byItself := good(t, leaf, ca, ca, now), good(t, leaf, ca, configured, now), good(t, leaf, ca, leaf, now)
	serve := func(status int, body []byte) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status == http.StatusFound {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(status)
			w.Write(body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	fails, first, second := serve(500, nil), serve(200, byConfigured), serve(200, byCA)
	forged, moved := serve(200, byItself), serve(http.StatusFound, byCA)
	withAIA := func(url string) *pair {
		return issueFor(t, named("leaf"), ca, leaf.key, func(c *x509.Certificate) { c.SerialNumber = leaf.SerialNumber; c.OCSPServer = []string{url} })
	}

	for _, c := range []struct {
		name  string
		urls  []string
		cert  *pair
		want  []byte
		words string
	}{
		{"the first that is configured", []string{first, second}, leaf, byConfigured, ""},
		{"the next where that fails", []string{fails, second, first}, leaf, byCA, ""},
		{"the next where that is not acceptable", []string{forged, second}, leaf, byCA, ""},
		{"the certificate's own, after those", []string{fails}, withAIA(second), byCA, ""},
		{"configured before the certificate's own", []string{first}, withAIA(second), byConfigured, ""},
		{"none", nil, leaf, nil, "no OCSP responder"},
		{"attack 18: only a forged one", []string{forged}, leaf, nil, "may not sign OCSP responses"},
		{"a redirect", []string{moved}, leaf, nil, "302"},
		{"attack 38: another scheme", nil, withAIA("file:///etc/passwd"), nil, "only http"},
		{"a certificate of others", nil, issue(t, named("x"), issue(t, named("other"), nil, certifying), nil), nil, "no approved CA"},
		{"a certificate of others with that name", nil, issue(t, named("x"), issue(t, named("CA"), nil, certifying), nil), nil, "not signed by"},
	} {
		t.Run(c.name, func(t *testing.T) {
			responders := []Responder{{Certificate: configured.Certificate}}
			for _, u := range c.urls {
				responders = append(responders, Responder{URL: u})
			}
			s, err := New(Parameters{Instance: "DEV", Freshness: time.Hour, CAs: []CA{{Authorities: []Authority{{ca.Certificate, responders}}}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := s.Status(context.Background(), c.cert.Certificate)
			if !bytes.Equal(got, c.want) || (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %d octets, %v; want words %q", len(got), err, c.words)
			}
		})
	}
}

func TestStatusByAsking(t *testing.T) {
	ca := issue(t, named("CA"), nil, certifying)
	leaf := issue(t, named("leaf"), ca, nil)
	s, err := New(Parameters{Instance: "DEV", Freshness: time.Hour, CAs: []CA{{Authorities: []Authority{{Certificate: ca.Certificate}}}}},
		func(_ context.Context, cert, issuer *x509.Certificate) ([]byte, error) {
			if cert != leaf.Certificate || issuer != ca.Certificate {
				return nil, errors.New("asked about others")
			}
			return []byte("answer"), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Status(context.Background(), leaf.Certificate); string(got) != "answer" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
