// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

var errBroken = errors.New("the key is broken")

// brokenKey cannot sign.
type brokenKey struct{ public stdcrypto.PublicKey }

func (k brokenKey) Public() stdcrypto.PublicKey { return k.public }
func (k brokenKey) Sign(io.Reader, []byte, stdcrypto.SignerOpts) ([]byte, error) {
	return nil, errBroken
}

// serve serves a handler for the time of the test, and returns its address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// development returns the authority as a handler.
func (a *authority) development() *Authority {
	return &Authority{Key: a.key, Certificate: a.cert, Now: func() time.Time { return now }}
}

func TestFetchAttack38(t *testing.T) {
	a, stranger := newAuthority(t, "P-256", nil), newAuthority(t, "P-384", nil)
	query := must(over("data").DER())
	works := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "application/timestamp-query" || r.ContentLength != int64(len(query)) || len(r.TransferEncoding) > 0 {
			t.Errorf("asked with %v, %d octets", r.Header, r.ContentLength)
		}
		octets, _ := io.ReadAll(r.Body)
		if !bytes.Equal(octets, query) {
			t.Errorf("asked %x", octets)
		}
		r.Body = io.NopCloser(bytes.NewReader(octets))
		a.development().ServeHTTP(w, r)
	}))
	answer := func(status int, body []byte) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			w.Write(body)
		}))
	}
	fails, refuses, junk := answer(503, nil), answer(200, must(reject(badAlgorithm))), answer(200, []byte("junk"))
	long, breaks := answer(200, make([]byte, maxResponse+1)), serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("0"))
	}))
	moved := serve(t, http.RedirectHandler(works, http.StatusTemporaryRedirect))
	strange, other := serve(t, stranger.development()), answer(200, a.respond(t, over("other data"), now))
	for _, test := range []struct {
		name        string
		urls        []string
		want, words string
	}{
		{"first", []string{works, fails}, "", ""},
		{"last of many", []string{fails, refuses, junk, long, breaks, moved, strange, other, "ftp://x/", "::", "http://127.0.0.1:1/", works}, "", ""},
		{"none", nil, noProvider, ""},
		{"error", []string{fails}, notOK, "503"},
		{"refusal", []string{refuses}, notGranted, "failure 0"},
		{"junk", []string{junk}, responseInvalid, ""},
		{"too long", []string{long}, "", "more than"},
		{"breaks off", []string{breaks}, "", "unexpected EOF"},
		{"elsewhere", []string{moved}, notOK, "307"},
		{"a stranger", []string{strange}, signerFailed, ""},
		{"the answer to another", []string{other}, responseInvalid, "hashes"},
		{"attack 38: another scheme", []string{"file:///etc/passwd"}, "", "only http"},
		{"no URL", []string{"::"}, "", "missing protocol scheme"},
		{"nobody there", []string{"http://127.0.0.1:1/"}, "", "127.0.0.1:1"},
		{"all fail", []string{refuses, fails}, notOK, "before, asking"},
	} {
		t.Run(test.name, func(t *testing.T) {
			token, err := Fetch(context.Background(), NewClient(), test.urls, over("data"), a.certs())
			if err == nil {
				_, err = token.Verify([]byte("data"), a.certs(), Present)
				mustBe(t, err, test.want, "")
				if test.words != "" {
					t.Error("it should have failed")
				}
				return
			}
			if got := cause(err); got != test.want || !strings.Contains(err.Error(), test.words) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.words)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Fetch(ctx, NewClient(), []string{works}, over("data"), a.certs()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nothing to stamp", func(t *testing.T) {
		if _, err := Fetch(context.Background(), NewClient(), []string{works}, Request{}, a.certs()); err == nil {
			t.Error("fetched")
		}
	})
	t.Run("the client is not changed", func(t *testing.T) {
		client := NewClient()
		if _, err := Fetch(context.Background(), client, []string{works}, over("data"), a.certs()); err != nil || client.CheckRedirect != nil {
			t.Error(err)
		}
	})
}

func TestReadLimited(t *testing.T) {
	for name, test := range map[string]struct {
		r     io.Reader
		limit int
		words string
	}{
		"exact":      {strings.NewReader("12345"), 5, ""},
		"by octets":  {iotest.OneByteReader(strings.NewReader("12345")), 5, ""},
		"late end":   {iotest.DataErrReader(strings.NewReader("12345")), 5, ""},
		"one more":   {strings.NewReader("123456"), 5, "more than 5"},
		"an error":   {iotest.ErrReader(errBroken), 5, "broken"},
		"a time-out": {iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("12345"))), 5, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			octets, err := readLimited(test.r, test.limit)
			if test.words == "" && (err != nil || string(octets) != "12345") || test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words)) {
				t.Errorf("got %q, %v", octets, err)
			}
		})
	}
}

func TestAuthority(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	query := must(over("data").DER())
	broken := a.development()
	broken.Key = brokenKey{a.key.Public()}
	for _, test := range []struct {
		name, method, kind string
		body               []byte
		authority          *Authority
		status             int
	}{
		{"a request", "POST", queryType, query, a.development(), 200},
		{"a bad request", "POST", queryType, []byte("text"), a.development(), 200},
		{"another method", "GET", queryType, nil, a.development(), 415},
		{"another type", "POST", "application/ocsp-request", query, a.development(), 415},
		{"too long", "POST", queryType, make([]byte, maxQuery+1), a.development(), 400},
		{"a broken key", "POST", queryType, query, broken, 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, "/", bytes.NewReader(test.body))
			r.Header.Set("Content-Type", test.kind)
			w := httptest.NewRecorder()
			test.authority.ServeHTTP(w, r)
			if w.Code != test.status || (test.status == 200) != (w.Header().Get("Content-Type") == replyType) {
				t.Errorf("got %d, %v", w.Code, w.Header())
			}
		})
	}
}
