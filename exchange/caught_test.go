// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	stdcrypto "crypto"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// panickingKeys has keys that panic when they sign, as a driver of a device may.
type panickingKeys struct {
	exchange.Keys
	value any
}

func (p panickingKeys) Sign(member ident.Client) *exchange.SignKey {
	key := *p.Keys.Sign(member)
	key.Key = panickingKey{key.Key, p.value}
	return &key
}

type panickingKey struct {
	stdcrypto.Signer
	value any
}

func (k panickingKey) Sign(io.Reader, []byte, stdcrypto.SignerOpts) ([]byte, error) { panic(k.value) }

// TestPanics has a panic that nobody else would catch become a fault, and the log say where it was, without its value.
func TestPanics(t *testing.T) {
	var mu sync.Mutex
	var told []string
	broken := func(s *exchange.SecurityServer) {
		s.Keys = panickingKeys{s.Keys, "content of the message"}
		s.Report = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err.Error())
		}
	}
	for name, tt := range map[string]struct {
		options testbed.Options
		want    string
	}{
		"sender":   {testbed.Options{Sender: broken}, "server.clientproxy.internal_error"},
		"receiver": {testbed.Options{Receive: broken}, "server.serverproxy.internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			told = nil
			bed := testbed.New(t, tt.options)
			_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), []byte("x"))))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(told) != 1 || !strings.Contains(told[0], "panickingKey") || strings.Contains(told[0]+string(answer), "content of") {
				t.Errorf("told %q", told)
			}
			bed.CheckClean()
		})
	}
}
