// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"runtime"
	"testing"
)

// hostile is a time-stamp token that tries to cost much, or that is of other data, and how it is refused.
type hostile struct {
	name string
	ber  []byte
	want string // "": it is handled
}

func hostiles(t testing.TB, a *authority) []hostile {
	foreign := newAuthority(t, "P-384", nil)
	good := a.token(t, "data", now).Raw
	with := func(m made) []byte { return a.make(t, "data", now, m) }
	content := func(change func(*tstInfo)) []byte { return with(made{info: change}) }
	enclosed := func(octets []byte) []byte {
		return with(made{data: func(d *signedData) { d.Certificates = tagged(0, octets) }})
	}
	nested := []byte{5, 0}
	for len(nested) < 40<<10 {
		nested = marshal(t, asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: nested})
	}
	name := make(pkix.RDNSequence, 4000)
	for i := range name {
		name[i] = pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "x"}}
	}
	attributes := func(n int) []byte {
		return with(made{attributes: func(all []attribute) []attribute {
			for i := range n {
				all = append(all, value(t, asn1.ObjectIdentifier{1, 2, i}, i))
			}
			return all
		}})
	}
	certs := func(n int) []byte {
		return with(made{attributes: func(all []attribute) []attribute {
			ids := make([]certID, n)
			for i := range ids {
				ids[i].Sum = sha256Method.sum(nil)
			}
			return append(without(all, signingCertificateV2OID), value(t, signingCertificateV2OID, signingCertificate{Certs: ids}))
		}})
	}
	return []hostile{
		{"of other data", a.token(t, "other data", now).Raw, malformed},
		{"by another authority", foreign.token(t, "data", now).Raw, signerFailed},
		{"64 MiB", append(bytes.Clone(good), make([]byte, 64<<20)...), malformed},
		{"deep nesting", nested, malformed},
		{"open elements", bytes.Repeat([]byte{0x30, 0x80}, maxToken/2), malformed},
		{"very many elements", enclosed(bytes.Repeat([]byte{5, 0}, 30000)), ""},
		{"octets in very many pieces", append(append([]byte{0x24, 0x80}, bytes.Repeat([]byte{4, 1, 0}, 20000)...), 0, 0), malformed},
		{"very many attributes", attributes(1500), malformed},
		{"very many certificates named", certs(1000), signerFailed},
		{"long serial number", content(func(i *tstInfo) { i.Serial = new(big.Int).Lsh(big.NewInt(1), 400000) }), ""},
		{"long nonce", content(func(i *tstInfo) { i.Nonce = new(big.Int).Lsh(big.NewInt(1), 400000) }), ""},
		{"very many extensions", content(func(i *tstInfo) {
			for n := range 3000 {
				i.Extensions = append(i.Extensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, n}})
			}
		}), ""},
		{"by a long name", with(made{signer: func(s *signerInfo) {
			s.ID = asn1.RawValue{FullBytes: marshal(t, issuerAndSerial{asn1.RawValue{FullBytes: marshal(t, name)}, big.NewInt(7)})}
		}}), certificateMissing},
	}
}

// maxMemory is how much memory a hostile token may take in all, be it used at once or one after the other.
const maxMemory = 32 << 20

// verify is what becomes of a token.
func (h hostile) verify(authorities *authority) error {
	token, err := ParseToken(h.ber)
	if err == nil {
		_, err = token.Verify([]byte("data"), authorities.certs(), Present)
	}
	return err
}

// TestHostile: what costs a stranger little to send costs us little to refuse.
func TestHostile(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	for _, h := range hostiles(t, a) {
		t.Run(h.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := h.verify(a)
			runtime.ReadMemStats(&after)
			mustBe(t, err, h.want, "")
			if n := after.TotalAlloc - before.TotalAlloc; n > maxMemory {
				t.Errorf("it took %d octets of memory", n)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d octets", len(err.Error()))
			}
		})
	}
}

func BenchmarkHostile(b *testing.B) {
	a := newAuthority(b, "P-256", nil)
	for _, h := range hostiles(b, a) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustBe(b, h.verify(a), h.want, "")
			}
		})
	}
}
