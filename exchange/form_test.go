// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// TestFormOfOnePart: a message of one part may share a signature, but not where the peer wants the direct form, and not
// where its envelope begins like a list of digests (signature-and-evidence 14.2).
func TestFormOfOnePart(t *testing.T) {
	list := "\x30\x6d\x30\x6b\x04\x40" + strings.Repeat("d", 64) + "\x0c\x27"
	if !hashchain.LooksLikeDigestList([]byte(list)) {
		t.Fatal("that is no list of digests")
	}
	direct, chain := crypto.Direct, crypto.Chain
	for _, tt := range []struct {
		name     string
		envelope string
		rule     *crypto.Form
		version  string
		want     crypto.Form
	}{
		{"any", "<Envelope>", nil, "", chain},
		{"a peer that wants the direct form", "<Envelope>", &direct, "", direct},
		{"a peer that wants the chain form", "<Envelope>", &chain, "", chain},
		{"an old peer", "<Envelope>", &direct, "7.5.0", chain},
		{"a list of digests", list, nil, "", direct},
		{"a list of digests for a peer that wants the chain form", list, &chain, "", direct},
		{"a list of digests for an old peer", list, nil, "7.5.0", direct},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &SecurityServer{Local: Local{Peers: map[ident.Server]PeerRule{{}: {Form: tt.rule}}}}
			w := &wrapping{server: s, version: tt.version}
			var out strings.Builder
			if _, err := w.keeper.tap(crypto.Message, strings.NewReader(tt.envelope)).WriteTo(&out); err != nil || out.String() != tt.envelope {
				t.Fatalf("%q, %v", out.String(), err)
			}
			parts := []wire.Part{{Part: crypto.Part{Name: crypto.Message}, Size: int64(len(tt.envelope))}}
			if got := s.form(w, parts); got != tt.want {
				t.Errorf("got %s, not %s", got, tt.want)
			}
		})
	}
}
