// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"crypto/x509"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
)

// TestStamp: the tokens are those of the authority that the instance's parameters name, and of no other.
func TestStamp(t *testing.T) {
	a := open(t, newMemory(), noon)
	data := []byte("what was signed")
	der, err := a.Stamp(t.Context(), crypto.SHA512.Sum(data))
	if err != nil {
		t.Fatal(err)
	}
	token, err := tsp.ParseToken(der)
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Parameters(ctx, nil)
	if err != nil || len(p.TSAs) != 1 {
		t.Fatalf("%d authorities, %v", len(p.TSAs), err)
	}
	cert := p.TSAs[0].Certificate
	if _, err := token.Verify(data, []*x509.Certificate{cert}, tsp.Present); err != nil {
		t.Error(err)
	}
	if _, err := token.Verify([]byte("other"), []*x509.Certificate{cert}, tsp.Present); err == nil {
		t.Error("it stamps other data, too")
	}
	if other := open(t, newMemory(), noon); other.stamper.Chain[0].Equal(cert) {
		t.Error("two storages have one key")
	} else if _, err := token.Verify(data, []*x509.Certificate{other.stamper.Chain[0]}, tsp.Present); err == nil {
		t.Error("another authority vouches for it")
	}
	if !token.GenTime.Equal(noon) {
		t.Error("stamped", token.GenTime)
	}
	for _, e := range cert.Extensions {
		if e.Id.String() == "2.5.29.37" && !e.Critical {
			t.Error("the purpose is not critical")
		}
	}
}
