// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestTry tells who is to come again from who has failed.
func TestTry(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		after  time.Duration
		good   bool
	}{
		"answered": {answer, 0, true},
		"too many here": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3")
			io.WriteString(w, "<s:Fault>too many: try again after 3s</s:Fault>")
		}, 3 * time.Second, false},
		"too many at the other server": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<s:Fault>too many: try again after 2s</s:Fault>")
		}, time.Second, false},
		"another fault": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<s:Fault>access_denied</s:Fault>") }, 0, false},
		"broken off":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, false},
		"no service":    {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			for _, m := range []message{{}, {Size: 3 * megabyte}} {
				after, err := try(t.Context(), server.Client(), server.URL, m)
				if after != c.after && name != "broken off" || (err == nil) != c.good {
					t.Errorf("with %d octets: got %v, %v", m.Size, after, err)
				}
			}
		})
	}
}
