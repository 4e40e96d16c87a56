// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// hostile is a message of a peer that tries to fill the memory, and how it is refused.
type hostile struct {
	name string
	body func() io.Reader
	want string // code behind "server.serverproxy."
}

// endless repeats a piece up to so many octets.
func endless(piece string, size int64) io.Reader {
	return io.LimitReader(&repeated{piece: strings.Repeat(piece, 32<<10/len(piece))}, size)
}

type repeated struct {
	piece string
	at    int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.piece[r.at:])
	r.at = (r.at + n) % len(r.piece)
	return n, nil
}

// hostiles are messages of up to a gibibyte.
func hostiles() []hostile {
	const gib = 1 << 30
	const failed = "service_failed."
	body := func(pieces ...any) func() io.Reader {
		return func() io.Reader {
			var all []io.Reader
			for _, piece := range pieces {
				switch piece := piece.(type) {
				case string:
					all = append(all, strings.NewReader(piece))
				case func() io.Reader:
					all = append(all, piece())
				}
			}
			return io.MultiReader(all...)
		}
	}
	long := func(piece string, size int64) func() io.Reader {
		return func() io.Reader { return endless(piece, size) }
	}
	part := func(contentType string) string { return "\r\n--T\r\nContent-Type: " + contentType + "\r\n\r\n" }
	soap := part("text/xml") + envelope
	container := soap + part("multipart/mixed; boundary=A") + "\r\n--A\r\n"
	const header = "<x:client "
	in := func(before, piece string) []any {
		return []any{part("text/xml") + envelope[:strings.Index(envelope, before)], long(piece, gib)}
	}
	return []hostile{
		{"1 GiB of base64 for the signature", body(soap, part("signature/bdoc-1.0/ts"), long("AAAA", gib)), failed + "invalid_message"},
		{"1 GiB of base64 for the hash chain", body(soap, part("application/hash-chain-result"), "<r/>", part("application/hash-chain"), long("AAAA", gib)), failed + "invalid_message"},
		{"1 GiB for the result of the hash chain", body(soap, part("application/hash-chain-result"), long("AAAA", gib)), failed + "invalid_message"},
		{"1 GiB for an OCSP response", body(part("application/ocsp-response"), long("AAAA", gib)), failed + "invalid_message"},
		{"very many OCSP responses", body(long(part("application/ocsp-response")+"0\x03\x0a\x01\x00", gib)), failed + "invalid_message"},
		{"1 GiB of header fields", body(soap, "\r\n--T\r\n", long("X: y\r\n", gib)), failed + "mime_parsing_failed"},
		{"1 GiB before the first part", body(long("x\r\n", gib)), failed + "mime_parsing_failed"},
		{"very many attachments", body(container, long("Content-Type: a/b\r\n\r\nx\r\n--A\r\n", gib)), failed + "mime_parsing_failed"},
		{"attachments of long types", body(container, long("Content-Type: a/b; x="+strings.Repeat("x", 30000)+"\r\n\r\nx\r\n--A\r\n", gib)), failed + "invalid_content_type"},
		{"nested containers", body(container, long("Content-Type: multipart/mixed; boundary=A\r\n\r\n\r\n--A\r\n", gib)), failed + "mime_parsing_failed"},
		{"1 GiB of the SOAP header", body(in(header, "<x:y/>")...), failed + "invalid_soap"},
		{"1 GiB of text in the SOAP header", body(in("1001<", "AAAA")...), failed + "invalid_soap"},
		{"deep nesting in the SOAP header", body(in(header, "<a>")...), failed + "invalid_soap"},
		{"deep nesting in the SOAP body", body(append(in("<getThing/>", "")[:1], "<getThing>", long("<a>", gib))...), failed + "invalid_soap"},
		{"attributes in the SOAP body", body(append(in("<getThing/>", "")[:1], "<getThing", long(` a=""`, gib))...), failed + "invalid_soap"},
		{"namespaces in the SOAP body", body(append(in("<getThing/>", "")[:1], "<getThing>", long(`<a xmlns:b="u:1">`, gib))...), failed + "invalid_soap"},
		{"one name in the SOAP body", body(append(in("<getThing/>", "")[:1], "<", long(`a`, gib))...), failed + "invalid_soap"},
		{"DOCTYPE", body(part("text/xml"), "<!DOCTYPE x [", long(`<!ENTITY a "&b;">`, gib)), failed + "invalid_soap"},
	}
}

// maxMemory is how much memory a hostile message may take in all, be it used at once or one after the other.
const maxMemory = 32 << 20

// decode reads the message with a spool that keeps nothing, and returns the code.
func (h hostile) decode(t testing.TB) string {
	d := Decoder{Place: AtReceiver, Digest: crypto.SHA512, Spool: discarding{}}
	in := Incoming{ContentType: "multipart/mixed; boundary=T", Original: original, Body: h.body()}
	_, err := d.Decode(t.Context(), in, func(*Message) error { return nil })
	if err != nil {
		return strings.TrimPrefix(Code(err), "server.serverproxy.")
	}
	return ""
}

// TestHostile: what a peer sends without end is refused at a limit, and does not fill the memory.
func TestHostile(t *testing.T) {
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := h.decode(t)
			runtime.ReadMemStats(&after)
			if got != h.want {
				t.Errorf("got %q, want %q", got, h.want)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > maxMemory {
				t.Errorf("it took %d octets of memory", n)
			}
		})
	}
}

func BenchmarkHostile(b *testing.B) {
	for _, h := range hostiles() {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := h.decode(b); got != h.want {
					b.Fatal(got)
				}
			}
		})
	}
}

// Remove removes what was not kept.
func (*discarded) Remove() error { return nil }
