// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/spool"
)

// What a message without attachments costs each security server here: 128 octets in the body, a signature document of the
// length that those with a certificate and an OCSP response have, and one OCSP response for the TLS certificate.
var (
	shortEnvelope  = strings.Replace(envelope, "<getThing/>", "<getThing>"+strings.Repeat("0123456789abcdef", 8)+"</getThing>", 1)
	shortSignature = &crypto.Signature{XML: bytes.Repeat([]byte("<signature>"), 4500/11)}
	shortOCSP      = []byte{0x30, 3, 0x0a, 1, 0}
)

// BenchmarkOpen finds out who asks whom for what.
func BenchmarkOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		o, err := Open("text/xml; charset=utf-8", strings.NewReader(shortEnvelope))
		if err == nil {
			_, err = o.Envelope.WriteTo(io.Discard)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode is Open and writing the message to a peer.
func BenchmarkEncode(b *testing.B) {
	for _, digest := range []crypto.Digest{crypto.SHA512, crypto.SHA256} {
		b.Run(digest.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encodeShort(io.Discard, digest); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func encodeShort(w io.Writer, digest crypto.Digest) (*Encoder, error) {
	enc := NewEncoder(w, digest)
	o, err := Open("text/xml; charset=utf-8", strings.NewReader(shortEnvelope))
	if err == nil {
		err = enc.OCSP(shortOCSP)
	}
	if err == nil {
		err = enc.SOAP(o.Header, o.Envelope)
	}
	if err == nil {
		err = enc.Sign(shortSignature)
	}
	return enc, err
}

// BenchmarkDecode reads such a message into a spool and writes it on to the service.
func BenchmarkDecode(b *testing.B) {
	var message bytes.Buffer
	enc, err := encodeShort(&message, crypto.SHA256)
	if err != nil {
		b.Fatal(err)
	}
	d := Decoder{Place: AtReceiver, Digest: crypto.SHA256, Spool: spool.NewMemory(1 << 24)}
	b.ReportAllocs()
	for b.Loop() {
		m, err := d.Decode(b.Context(), Incoming{ContentType: enc.ContentType(), Original: "text/xml; charset=utf-8", Body: bytes.NewReader(message.Bytes())}, func(*Message) error { return nil })
		if err == nil {
			_, err = m.WritePackage(io.Discard)
		}
		if err != nil {
			b.Fatal(err)
		}
		m.Discard()
	}
}
