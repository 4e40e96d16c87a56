// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestAttack25PartHeaders changes the headers of attachments between the security servers, which nobody signs: they are
// passed on as they came, and nothing is decided by them (signature-and-evidence 14.3). Both messages of the exchange are
// verified, handed over and kept as they would be without.
func TestAttack25PartHeaders(t *testing.T) {
	const kept = "X-Odd:  kept \r\n"
	secret := []byte("an attachment")
	for name, changed := range map[string]string{
		"unchanged":                          kept,
		"added":                              kept + "X-Forged: yes\r\n",
		"taken away":                         "",
		"changed":                            "x-odd:\tforged\r\n",
		"folded":                             "X-Odd: a\r\n b\r\n",
		"another name of a file":             "Content-Disposition: attachment; filename=\"../../etc/passwd\"\r\n",
		"encoding that is none":              "Content-Transfer-Encoding: base64\r\n",
		"headers that security servers read": "X-Hash-Algorithm: SHA-1\r\nX-Original-Content-Type: text/xml\r\nX-Road-Message-Type: soap\r\n",
		"length that is another":             "Content-Length: 3\r\n",
		"SOAPAction":                         "SOAPAction: \"urn:other\"\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan []byte, 1)
			replace := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(kept), []byte(changed)) }
			route := &counted{Handler: recording{testbed.Echo{Attach: true}, received}}
			bed := testbed.New(t, testbed.Options{Route: route, Middle: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if !bytes.Contains(body, []byte(kept)) {
						t.Error("the sender did not pass the headers on")
					}
					r.Body = io.NopCloser(bytes.NewReader(replace(body)))
					next.ServeHTTP(w, r)
				})
			}})
			request := related(testbed.Envelope(header(), "echo", ""), secret)
			_, answer := post(t, bed, relatedType, bytes.NewReader(request))
			if code := faultOf(t, answer); code != "" {
				t.Fatalf("refused: %s\n%s", code, answer)
			}
			if n := route.calls.Load(); n != 1 {
				t.Errorf("the service was called %d times", n)
			}
			if got := <-received; !bytes.Equal(got, replace(request)) {
				t.Errorf("the service got\n%s\nnot\n%s", got, replace(request))
			}
			if changed != "" && !strings.Contains(string(answer), changed) || !bytes.Contains(answer, secret) {
				t.Errorf("the answer has not what the service gave:\n%s", answer)
			}
			for record, err := range bed.Receiver.Evidence.Find(t.Context(), evidence.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				if n := len(record.Parts); n != 2 || !bytes.Equal(record.Parts[1].Sum, record.Parts[1].Digest.Sum(secret)) || record.Parts[1].Size != int64(len(secret)) {
					t.Errorf("evidence of %d parts: %+v", n, record.Parts)
				}
			}
			bed.CheckClean()
		})
	}
}
