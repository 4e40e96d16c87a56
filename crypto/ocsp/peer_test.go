// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// address is what FetchPeer takes for a test server.
func address(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

func TestPeerRoundTrip(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	a, b := issue(t, "a", ca, nil, nil).cert, issue(t, "b", ca, nil, nil).cert
	known := map[[20]byte][]byte{
		sha1.Sum(a.Raw): good(t, a, ca.cert, ca, now, time.Time{}),
		sha1.Sum(b.Raw): good(t, b, ca.cert, ca, now, time.Time{}),
	}
	var query url.Values
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query()
		ServePeer(w, r, func(sum [20]byte) ([]byte, error) {
			if der, ok := known[sum]; ok {
				return der, nil
			}
			return nil, errors.New("a secret of the server")
		})
	}))
	defer server.Close()

	got, err := FetchPeer(context.Background(), server.Client(), address(server), []*x509.Certificate{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !bytes.Equal(got[0], known[sha1.Sum(b.Raw)]) || !bytes.Equal(got[1], known[sha1.Sum(a.Raw)]) {
		t.Error("the responses are not those asked for, in order")
	}
	if len(query["cert"]) != 2 || query["cert"][0] != fmt.Sprintf("%x", sha1.Sum(b.Raw)) ||
		len(query["cert_hash"]) != 2 || query["cert_hash"][1] != fmt.Sprintf("%x", sha256.Sum256(a.Raw)) {
		t.Errorf("the query was %v", query)
	}

	if _, err := FetchPeer(context.Background(), server.Client(), address(server), []*x509.Certificate{ca.cert}); err == nil {
		t.Error("a response about a certificate that the server does not have")
	}
	for _, certs := range [][]*x509.Certificate{nil, make([]*x509.Certificate, maxCertificates+1)} {
		if _, err := FetchPeer(context.Background(), server.Client(), address(server), certs); err == nil {
			t.Errorf("%d certificates are asked about", len(certs))
		}
	}
}

func TestServePeer(t *testing.T) {
	sum := strings.Repeat("ab", 20)
	for _, c := range []struct {
		name, method, query string
		status              int
	}{
		{"one", "GET", "cert=" + sum, 200},
		{"upper case", "GET", "cert=" + strings.ToUpper(sum), 200},
		{"most", "GET", strings.Repeat("&cert="+sum, maxCertificates)[1:], 200},
		{"heartbeat", "HEAD", "", 200},
		{"none", "GET", "", 500},
		{"only the other hash", "GET", "cert_hash=" + sum, 500},
		{"too many", "GET", strings.Repeat("&cert="+sum, maxCertificates+1)[1:], 500},
		{"not hexadecimal", "GET", "cert=zz", 500},
		{"too short", "GET", "cert=abab", 500},
		{"not known", "GET", "cert=" + strings.Repeat("00", 20), 500},
		{"unreadable", "GET", "cert=%zz", 500},
		{"POST", "POST", "cert=" + sum, 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://ss/", nil)
			r.URL.RawQuery = c.query
			w := httptest.NewRecorder()
			ServePeer(w, r, func(sum [20]byte) ([]byte, error) {
				if sum[0] == 0 {
					return nil, errors.New("a secret of the server")
				}
				return []byte("response"), nil
			})
			if w.Code != c.status {
				t.Errorf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Error("the peer is told what went wrong inside")
			}
			kind := w.Header().Get("Content-Type")
			if c.status == 200 && c.method == "GET" && !strings.HasPrefix(kind, `multipart/related; type="application/ocsp-response"; charset=UTF-8; boundary=fairway`) {
				t.Errorf("Content-Type %s", kind)
			}
		})
	}
}

// TestFetchPeerAnswers gives FetchPeer, which asks about one certificate, answers of all kinds.
func TestFetchPeerAnswers(t *testing.T) {
	cert := issue(t, "a", nil, nil, nil).cert
	const related = `multipart/related; type="application/ocsp-response"; charset=UTF-8; boundary=jetty1`
	part := func(kind, body string) string {
		return "--jetty1\r\nContent-Type: " + kind + "\r\n\r\n" + body + "\r\n"
	}
	const end = "--jetty1--\r\n"
	one := part(responseType, "DER")
	for _, c := range []struct {
		name, kind, body string
		status           int
		words            string
	}{
		{"good", related, one + end, 200, ""},
		{"error", "text/plain", "no", 500, "answered 500"},
		{"no content", related, "", 200, "0 of 1"},
		{"no part", related, end, 200, "0 of 1"},
		{"one too many", related, one + one + end, 200, "more than the 1"},
		{"cut off", related, one, 200, "unexpected EOF"},
		{"another type", related, part("text/plain", "DER") + end, 200, "not of type"},
		{"not multipart", "application/ocsp-response", "DER", 200, "not multipart/related"},
		{"no boundary", "multipart/related", one + end, 200, "not multipart/related"},
		{"a response too long", related, part(responseType, strings.Repeat("x", maxResponse+1)) + end, 200, "more than"},
		{"headers without end", related, "--jetty1\r\n" + strings.Repeat("X: y\r\n", 100000), 200, "part 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer server.Close()
			got, err := FetchPeer(context.Background(), server.Client(), address(server), []*x509.Certificate{cert})
			if c.words == "" && (err != nil || len(got) != 1 || string(got[0]) != "DER") {
				t.Errorf("got %q, %v", got, err)
			}
			if c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("got %v, want words %q", err, c.words)
			}
		})
	}
}

func TestReadPartsByOctet(t *testing.T) {
	body := "--b\r\nContent-Type: application/ocsp-response\r\n\r\none\r\n--b\r\ncontent-type: application/ocsp-response; x=y\r\n\r\ntwo\r\n--b--\r\n"
	got, err := readParts(multipart.NewReader(iotest.OneByteReader(strings.NewReader(body)), "b"), 2)
	if err != nil || len(got) != 2 || string(got[1]) != "two" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := readParts(multipart.NewReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(body))), "b"), 2); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

func FuzzReadParts(f *testing.F) {
	f.Add("--b\r\nContent-Type: application/ocsp-response\r\n\r\none\r\n--b--\r\n", 1)
	f.Fuzz(func(t *testing.T, body string, count int) {
		got, err := readParts(multipart.NewReader(strings.NewReader(body), "b"), count)
		if err == nil && len(got) != count {
			t.Errorf("%d parts for %d", len(got), count)
		}
	})
}
