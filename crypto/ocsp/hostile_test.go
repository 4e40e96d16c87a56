// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"runtime"
	"testing"
)

// hostile is an OCSP response that tries to cost much, and how it is refused.
type hostile struct {
	name string
	der  []byte
	want string // "": it is handled
}

// hostiles are responses about leaf, by ca and others.
func hostiles(t testing.TB, leaf, ca *pair) []hostile {
	honest := good(t, leaf.cert, ca.cert, ca, now, now)
	marshal := func(v any) []byte {
		der, err := asn1.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	// signed makes a response of changed data, with certificates.
	signed := func(by *pair, change func(*responseData), certificates ...[]byte) []byte {
		var outer ocspResponse
		var basic basicResponse
		if err := unmarshal(honest, &outer); err != nil {
			t.Fatal(err)
		}
		if err := unmarshal(outer.Bytes.Response, &basic); err != nil {
			t.Fatal(err)
		}
		change(&basic.Data)
		basic.Data.Raw = nil
		data := marshal(basic.Data)
		sum := basic.algorithm().hash.New()
		sum.Write(data)
		signature, err := by.key.Sign(rand.Reader, sum.Sum(nil), basic.algorithm().hash)
		if err != nil {
			t.Fatal(err)
		}
		basic.Data.Raw = data
		basic.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
		for _, c := range certificates {
			basic.Certificates = append(basic.Certificates, asn1.RawValue{FullBytes: c})
		}
		outer.Bytes.Response = marshal(basic)
		return marshal(outer)
	}
	repeat := func(c []byte, n int) (all [][]byte) {
		for range n {
			all = append(all, c)
		}
		return all
	}
	nested := []byte{5, 0}
	for len(nested) < 40<<10 {
		nested = marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: nested})
	}
	extensions := make([]pkix.Extension, 4000)
	for i := range extensions {
		extensions[i].Id = asn1.ObjectIdentifier{1, 2, i}
	}
	name := make(pkix.RDNSequence, 4000)
	for i := range name {
		name[i] = pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "x"}}
	}
	responder := func(der []byte) func(*responseData) {
		return func(d *responseData) {
			d.Responder = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, IsCompound: true, Bytes: der}
		}
	}
	delegate := issue(t, "delegate", ca, nil, ocspSigning)
	stranger := issue(t, "delegate", nil, nil, ocspSigning)
	return []hostile{
		{"64 MiB", append(bytes.Clone(honest), make([]byte, 64<<20)...), incorrect},
		{"deep nesting", nested, incorrect},
		{"about very many certificates", signed(ca, func(d *responseData) {
			for range 600 {
				d.Responses = append(d.Responses, d.Responses[0])
			}
		}), ""},
		{"very many extensions", signed(ca, func(d *responseData) { d.Extensions = extensions }), ""},
		{"by a long name", signed(ca, responder(marshal(name))), incorrect},
		{"by as long a name as goes", signed(ca, responder(marshal(name[:300]))), incorrect},
		{"with certificates that are none", signed(delegate, responder(delegate.cert.RawSubject), repeat([]byte{0x30, 0}, 30000)...), incorrect},
		{"with very many certificates", signed(stranger, responder(stranger.cert.RawSubject), repeat(stranger.cert.Raw, 150)...), incorrect},
		{"with a certificate of a long extension", signed(delegate, responder(delegate.cert.RawSubject), issue(t, "delegate", nil, nil, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, 60<<10)}}
		}).cert.Raw), incorrect},
		{"about a long serial number", signed(ca, func(d *responseData) {
			d.Responses[0].ID.Serial = new(big.Int).Lsh(big.NewInt(1), 400000)
		}), incorrect},
	}
}

func (b *basicResponse) algorithm() algorithm {
	for _, known := range algorithms {
		if known.id.Equal(b.Algorithm.Algorithm) {
			return known
		}
	}
	panic("of an unknown algorithm")
}

// maxMemory is how much memory a hostile response may take in all, be it used at once or one after the other.
const maxMemory = 32 << 20

// TestHostile: what costs a stranger little to send costs us little to refuse.
func TestHostile(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	leaf := issue(t, "leaf", ca, nil, nil)
	for _, h := range hostiles(t, leaf, ca) {
		t.Run(h.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Verify(h.der, leaf.cert, ca.cert, Policy{Freshness: 1}, now)
			runtime.ReadMemStats(&after)
			if causeOf(err) != h.want {
				t.Errorf("got %v, want %q", err, h.want)
			}
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
	ca := issue(b, "CA", nil, nil, authority)
	leaf := issue(b, "leaf", ca, nil, nil)
	for _, h := range hostiles(b, leaf, ca) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Verify(h.der, leaf.cert, ca.cert, Policy{Freshness: 1}, now); causeOf(err) != h.want {
					b.Fatal(err)
				}
			}
		})
	}
}
