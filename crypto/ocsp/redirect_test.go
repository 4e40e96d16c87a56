// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestRedirections: nobody who is asked for a response can send us elsewhere.
func TestRedirections(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	leaf := issue(t, "leaf", ca, nil, nil)
	var calls atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer elsewhere.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		asked := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		if _, err := FetchPeer(t.Context(), asked.Client(), address(asked), []*x509.Certificate{leaf.cert}); err == nil {
			t.Errorf("%d from a peer: no error", status)
		}
		if _, err := Fetch(t.Context(), asked.Client(), []string{asked.URL}, leaf.cert, ca.cert); err == nil {
			t.Errorf("%d from a responder: no error", status)
		}
		asked.Close()
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
