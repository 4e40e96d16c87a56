// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// spoilingWriter replaces an octet behind the first mebibyte of an answer, or breaks it off there.
type spoilingWriter struct {
	http.ResponseWriter
	n    int
	stop bool
}

func (s *spoilingWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *spoilingWriter) Write(p []byte) (int, error) {
	if s.n += len(p); s.n <= 1<<20 {
		return s.ResponseWriter.Write(p)
	}
	if s.stop {
		return 0, io.ErrClosedPipe
	}
	return s.ResponseWriter.Write(bytes.ReplaceAll(p, []byte{lastOctet}, []byte{'x'}))
}

// TestGatedAnswer has an information system get an answer while it is still being sent, and never the end of one that is
// not good.
func TestGatedAnswer(t *testing.T) {
	attachment := append(bytes.Repeat([]byte("0123456789abcde\n"), 2<<16), lastOctet)
	answer := related(testbed.Envelope(header(), "echoResponse", ""), attachment)
	spoiling := func(stop bool) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(&spoilingWriter{ResponseWriter: w, stop: stop}, r)
			})
		}
	}
	for _, tt := range []struct {
		name   string
		middle func(http.Handler) http.Handler
		good   bool
	}{
		{"good", nil, true},
		{"its last octet changed", spoiling(false), false},
		{"cut", spoiling(true), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := make(chan struct{})
			service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", relatedType)
				w.Write(answer[:1<<20])
				http.NewResponseController(w).Flush()
				select {
				case <-begun: // the consumer has the beginning
				case <-r.Context().Done():
				}
				w.Write(answer[1<<20:])
			})
			bed := testbed.New(t, testbed.Options{Route: service, Middle: tt.middle, Sender: func(s *exchange.SecurityServer) {
				for client := range s.Local.Clients {
					s.Local.Clients = map[ident.Client]exchange.Caller{client: {Delivery: exchange.Gated}}
				}
			}})
			response, err := http.Post(bed.URL, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			first := make([]byte, 512<<10)
			if _, err := io.ReadFull(response.Body, first); err != nil {
				t.Fatal(err)
			}
			close(begun)
			rest, err := io.ReadAll(response.Body)
			got := append(first, rest...)
			if kind := response.Header.Get("Content-Type"); kind != relatedType || response.ContentLength != -1 {
				t.Errorf("%s, %d octets announced", kind, response.ContentLength)
			}
			hashed := bytes.Index(got, []byte(":requestHash")) // what the receiving server puts in
			if tt.good {
				if err != nil || hashed < 0 || !bytes.HasSuffix(got, answer[1<<10:]) {
					t.Errorf("the consumer got %d octets, and %v", len(got), err)
				}
			} else if err == nil || len(got) > len(answer)-32<<10 || bytes.HasSuffix(got, []byte("--b--\r\n")) {
				t.Errorf("the consumer got %d octets of %d, and %v", len(got), len(answer), err)
			}
			bed.CheckClean()
			withdrawn := 0
			for r, err := range bed.Sender.Evidence.Find(t.Context(), evidence.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Fault == "withdrawn" && r.Response {
					withdrawn++
				}
			}
			if (withdrawn == 1) == tt.good {
				t.Errorf("%d records of a withdrawn answer", withdrawn)
			}
			for _, o := range bed.Outcomes() {
				if o.Role == "send" && (o.Err == nil) != tt.good {
					t.Errorf("the outcome is %q, %v", o.Fault, o.Err)
				}
			}
		})
	}
}

// TestGatedAnswerIsStrict has a small answer reach the consumer as a whole, and one whose consumer hangs up leave nothing.
func TestGatedAnswerIsStrict(t *testing.T) {
	gated := func(s *exchange.SecurityServer) {
		for client := range s.Local.Clients {
			s.Local.Clients = map[ident.Client]exchange.Caller{client: {Delivery: exchange.Gated}}
		}
	}
	bed := testbed.New(t, testbed.Options{Sender: gated})
	response, err := http.Post(bed.URL, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), []byte("x"))))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.ContentLength != int64(len(text)) || !bytes.Contains(text, []byte("echoResponse")) {
		t.Errorf("%v, %d octets announced: %s", err, response.ContentLength, text)
	}
	bed.CheckClean()

	large := testbed.New(t, testbed.Options{Sender: gated, Route: testbed.Echo{Attach: true}})
	response, err = http.Post(large.URL, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), make([]byte, 8<<20))))
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(response.Body, make([]byte, 1<<10))
	response.Body.Close()
	large.CheckClean()
}
