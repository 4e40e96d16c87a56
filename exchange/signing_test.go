// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// hung is a key that hangs until it is let go.
type hung struct{ back chan struct{} }

func (h hung) Sign(context.Context, []crypto.Part, crypto.Form) (*crypto.Signature, error) {
	<-h.back
	return nil, nil
}

func (h hung) SignBatch(context.Context, [][]crypto.Part) ([]*crypto.Signature, error) {
	<-h.back
	return nil, nil
}

// TestFaultOfHungKey: the fault says that no signature came, in X-Road's code, after a minute.
func TestFaultOfHungKey(t *testing.T) {
	member := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	parts := []wire.Part{{Part: crypto.Part{Name: crypto.Message, Digest: crypto.SHA512, Sum: make([]byte, 64)}}}
	synctest.Test(t, func(t *testing.T) {
		key := hung{make(chan struct{})}
		defer close(key.back)
		s := &SecurityServer{signers: &signers{made: map[ident.Client]crypto.Signer{member: batch.New(key, batch.On)}}}
		_, err := s.sign(t.Context(), member, parts, crypto.Chain)
		f := wire.Fault(wire.At(wire.AtSender, err), "")
		if f.Code != "server.clientproxy.cannot_create_signature.internal_error" ||
			f.String != "signing for DEV/GOV/1111: the signing key gave no signature within 1m0s" {
			t.Errorf("%s: %s", f.Code, f.String)
		}
	})
}

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
