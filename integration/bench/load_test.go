// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestExchange lets a consumer talk to the service without anybody between them.
func TestExchange(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(answer))
	defer service.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, "<s:Fault><faultcode>server.access_denied</faultcode></s:Fault>")
	}))
	defer refusing.Close()
	for name, c := range map[string]struct {
		job  job
		good bool
	}{
		"plain":                     {job{URL: service.URL}, true},
		"SwA":                       {job{URL: service.URL, Message: message{Size: 3_000_000}}, true},
		"MTOM, both ways":           {job{URL: service.URL, Message: message{Size: 10, MTOM: true, Return: 3_000_000}}, true},
		"a fault":                   {job{URL: refusing.URL}, false},
		"the fault that is wanted":  {job{URL: refusing.URL, Refused: "access_denied"}, true},
		"another fault":             {job{URL: refusing.URL, Refused: "the spool of this security server is full"}, false},
		"no fault where one is due": {job{URL: service.URL, Refused: "access_denied"}, false},
		"knock":                     {job{URL: refusing.URL, Knock: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			// As a process would get it.
			text, err := json.Marshal(c.job)
			if err != nil {
				t.Fatal(err)
			}
			var j job
			if err := json.Unmarshal(text, &j); err != nil {
				t.Fatal(err)
			}
			client, err := j.client()
			if err != nil {
				t.Fatal(err)
			}
			o, err := j.exchange(t.Context(), client)
			if (err == nil) != c.good {
				t.Fatalf("got %+v, %v", o, err)
			}
			if c.good && o.Octets < j.Message.Return {
				t.Errorf("%d octets came back, want %d at least", o.Octets, j.Message.Return)
			}
		})
	}
}
