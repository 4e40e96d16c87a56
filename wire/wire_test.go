// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/spool"
)

const envelope = `<?xml version="1.0"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:i="http://x-road.eu/xsd/identifiers"><s:Header>` +
	`<x:client i:objectType="SUBSYSTEM"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>GOV</i:memberClass><i:memberCode>1001</i:memberCode><i:subsystemCode>asker</i:subsystemCode></x:client>` +
	`<x:service i:objectType="SERVICE"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>COM</i:memberClass><i:memberCode>2002</i:memberCode><i:serviceCode>getThing</i:serviceCode></x:service>` +
	`<x:id>1</x:id><x:protocolVersion>4.0</x:protocolVersion></s:Header><s:Body><getThing/></s:Body></s:Envelope>`

const original = `multipart/related; type="text/xml"; start="<root>"; boundary="MIME_b1"`

func consumerBody(attachments ...string) string {
	var b strings.Builder
	b.WriteString("--MIME_b1\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-ID: <root>\r\n\r\n" + envelope)
	for i, a := range attachments {
		fmt.Fprintf(&b, "\r\n--MIME_b1\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\nContent-ID: <a%d>\r\n\r\n%s", i+1, a)
	}
	b.WriteString("\r\n--MIME_b1--\r\n")
	return b.String()
}

// encode sends a consumer's body on as the sending security server does.
func encode(t *testing.T, contentType string, body io.Reader, signature *crypto.Signature) (enc *Encoder, out *bytes.Buffer) {
	t.Helper()
	out = new(bytes.Buffer)
	enc = NewEncoder(out, crypto.SHA512)
	o, err := Open(contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(enc.OCSP([]byte{0x30, 3, 0x0a, 1, 0}))
	must(enc.SOAP(o.Header, o.Envelope))
	for {
		p, err := o.Next()
		if err == io.EOF {
			break
		}
		must(err)
		must(enc.Attachment(p.Header, p))
	}
	must(enc.Sign(signature))
	return enc, out
}

func decode(t *testing.T, contentType, originalType string, body io.Reader) (*Message, error) {
	t.Helper()
	d := Decoder{Place: AtReceiver, Digest: crypto.SHA512, Spool: spool.NewMemory(1 << 24)}
	return d.Decode(t.Context(), Incoming{ContentType: contentType, Original: originalType, Body: body}, func(*Message) error { return nil })
}

// TestFraming compares what is sent, octet for octet, with message-and-transport 5.4.
func TestFraming(t *testing.T) {
	enc, out := encode(t, original, strings.NewReader(consumerBody("SGVsbG8=", "")), &crypto.Signature{XML: []byte("<s/>"), HashChainResult: []byte("<r/>"), HashChain: []byte("<c/>")})
	letters := strings.TrimPrefix(enc.ContentType(), "multipart/mixed; charset=UTF-8; boundary=xtop")
	if len(letters) != 30 {
		t.Fatalf("Content-Type %q", enc.ContentType())
	}
	want := strings.NewReplacer("T", "xtop"+letters, "A", "xatt"+letters, "/", "\r\n", "_", "/", "ENVELOPE", envelope, "DER", "0\x03\x0a\x01\x00").Replace(
		`--T/content-type: application_ocsp-response//DER/` +
			`--T/Content-@ype: text_xml; charset=U@F-8/Content-ID: <root>//ENVELOPE/` +
			`--T/content-type: multipart_mixed; charset=U@F-8; boundary=A//` +
			`/--A/Content-@ype: application_octet-stream/Content-@ransfer-Encoding: base64/Content-ID: <a1>//SGVsbG8=/` +
			`--A/Content-@ype: application_octet-stream/Content-@ransfer-Encoding: base64/Content-ID: <a2>///` +
			`--A--//--T/content-type: application_hash-chain-result//<r_>/` +
			`--T/content-type: application_hash-chain//<c_>/` +
			`--T/content-type: signature_bdoc-1.0_ts//<s_>/--T--/`)
	want = strings.ReplaceAll(want, "@", "T")
	if got := out.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestRoundTrip sends bodies through an Encoder and a Decoder: the package that comes out is the body that went in.
func TestRoundTrip(t *testing.T) {
	tests := []struct {
		name, contentType, body string
		parts                   int
	}{
		{"plain", "text/xml; charset=utf-8", envelope, 1},
		{"multipart without attachments", original, consumerBody(), 1},
		{"three attachments, one empty", original, consumerBody("a", "", "SGVsbG8="), 3 + 1},
		{"transport delimiter in an attachment", original, consumerBody("\r\n--xtopAAAA\r\n"), 2},
	}
	signature := &crypto.Signature{XML: []byte("<s/>")}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			enc, out := encode(t, tt.contentType, iotest.HalfReader(strings.NewReader(tt.body)), signature)
			for name, reader := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "one octet": iotest.OneByteReader, "data with error": iotest.DataErrReader} {
				m, err := decode(t, enc.ContentType(), tt.contentType, reader(bytes.NewReader(out.Bytes())))
				if err != nil {
					t.Fatal(name, err)
				}
				var got bytes.Buffer
				if _, err := m.WritePackage(&got); err != nil {
					t.Fatal(err)
				}
				if got.String() != tt.body || m.Size() != int64(got.Len()) {
					t.Errorf("%s: got\n%q\nwant\n%q", name, &got, tt.body)
				}
				if len(m.Parts) != tt.parts || len(m.OCSP) != 1 || string(m.Signature.XML) != "<s/>" {
					t.Errorf("%s: %d parts, %d OCSP responses", name, len(m.Parts), len(m.OCSP))
				}
				for i, p := range m.Parts {
					sent := enc.Parts()[i]
					if p.Name != sent.Name || !bytes.Equal(p.Sum, sent.Sum) || p.Size != sent.Size {
						t.Errorf("%s: part %d came as %+v, went as %+v", name, i, p, sent)
					}
					if octets := got.String()[p.Offset : p.Offset+p.Size]; !bytes.Equal(crypto.SHA512.Sum([]byte(octets)), p.Sum) {
						t.Errorf("%s: part %d is not at its offset", name, i)
					}
				}
				m.Discard()
			}
		})
	}
}

func TestDecoderRefuses(t *testing.T) {
	const T = "multipart/mixed; boundary=T"
	part := func(contentType, content string) string {
		return "--T\r\nContent-Type: " + contentType + "\r\n\r\n" + content + "\r\n"
	}
	soap, signature, end := part("text/xml", envelope), part("signature/bdoc-1.0/ts", "<s/>"), "--T--\r\n"
	attachments := func(inside string) string { return part("multipart/mixed; boundary=A", "\r\n"+inside+"\r\n--A--\r\n") }
	octets := "--A\r\nContent-Type: a/b\r\n\r\n"
	failed, here := "server.serverproxy.service_failed.", "server.serverproxy."
	tests := []struct{ name, contentType, original, body, want string }{
		{"not multipart", "text/xml", original, envelope, failed + "invalid_content_type"},
		{"no boundary", "multipart/mixed", original, soap + signature + end, failed + "invalid_content_type"},
		{"no part", T, original, envelope, here + "missing_soap"},
		{"no signature", T, original, soap + end, here + "missing_signature"},
		{"cut before the end", T, original, soap + signature, here + "missing_signature"},
		{"cut in the envelope", T, original, soap[:200], here + "missing_soap"},
		{"extra content", T, original, soap + signature + soap + end, failed + "invalid_message"},
		{"two envelopes", T, original, soap + soap + signature + end, failed + "invalid_message"},
		{"attachments before the envelope", T, original, attachments(octets) + soap + signature + end, failed + "invalid_content_type"},
		{"attachment without type", T, original, soap + attachments("--A\r\nX: y\r\n\r\n") + signature + end, failed + "invalid_content_type"},
		{"attachments of a plain original", T, "text/xml", soap + attachments(octets) + signature + end, failed + "invalid_content_type"},
		{"another original type", T, "text/html", soap + signature + end, failed + "invalid_content_type"},
		{"original without boundary", T, "multipart/related", soap + signature + end, failed + "invalid_content_type"},
		{"original boundary inside an attachment", T, original, soap + attachments(octets+"x\r\n--MIME_b1\r\nContent-Type: text/xml\r\n\r\n") + signature + end, failed + "invalid_content_type"},
		{"original boundary behind a lone CR", T, original, soap + attachments(octets+"x\r--MIME_b1\r\nContent-Type: text/xml\r\n\r\n") + signature + end, failed + "invalid_content_type"},
		{"original boundary as others read it", T, `multipart/related; boundary="a\b"`, soap + attachments(octets+"x\r\n--a\\b\r\nContent-Type: text/xml\r\n\r\n") + signature + end, failed + "invalid_content_type"},
		{"original boundary with a comment", T, `multipart/related; boundary=a(b)`, soap + signature + end, failed + "invalid_content_type"},
		{"original boundary inside the envelope", T, original, part("text/xml", strings.Replace(envelope, "<s:Body>", "\n--MIME_b1--\n<s:Body>", 1)) + signature + end, failed + "invalid_content_type"},
		{"original start names another part", T, `multipart/related; boundary=b; start="<other>"`, part("text/xml\r\nContent-ID: <root>", envelope) + signature + end, failed + "invalid_content_type"},
		{"original start names an attachment of a root without id", T, `multipart/related; boundary=b; start="<a>"`, soap + attachments("--A\r\nContent-Type: text/xml\r\nContent-ID: <a>\r\n\r\nx") + signature + end, failed + "invalid_content_type"},
		{"original start names the root and an attachment", T, `multipart/related; boundary=b; start="<root>"`, part("text/xml\r\nContent-ID: <root>", envelope) + attachments("--A\r\nContent-Type: text/xml\r\nContent-id: ROOT\r\n\r\nx") + signature + end, failed + "invalid_content_type"},
		{"root with two ids", T, `multipart/related; boundary=b; start="<root>"`, part("text/xml\r\nContent-ID: <root>\r\nContent-ID: <a>", envelope) + signature + end, failed + "invalid_content_type"},
		{"root in two encodings", T, original, part("text/xml\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64", envelope) + signature + end, failed + "invalid_content_type"},
		{"original type of another root", T, `multipart/related; boundary=b; type="image/png"`, soap + signature + end, failed + "invalid_content_type"},
		{"OCSP that is none", T, original, part("application/ocsp-response", "x") + soap + signature + end, failed + "io_error"},
		{"fault in place of a request", T, original, part("text/xml", faultDocument) + end, here + "missing_soap"},
		{"message in place of the signature", T, original, soap + part("text/xml", envelope) + end, failed + "invalid_message"},
		{"malformed envelope", T, original, part("text/xml", "<a>") + signature + end, failed + "invalid_soap"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := decode(t, tt.contentType, tt.original, strings.NewReader(tt.body))
			if err == nil {
				m.Discard()
				t.Fatal("accepted")
			}
			if got := Code(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

const faultDocument = `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault><faultcode>x</faultcode><faultstring>y</faultstring></s:Fault></s:Body></s:Envelope>`

// TestFaultBehindBrokenEnvelope: whoever passed the beginning of an envelope on says why it has no end. Anything else behind
// it, or more of it, is none of a security server's doing.
func TestFaultBehindBrokenEnvelope(t *testing.T) {
	part := func(contentType, content string) string {
		return "--T\r\nContent-Type: " + contentType + "\r\n\r\n" + content + "\r\n"
	}
	half := envelope[:strings.Index(envelope, "</s:Body>")]
	fault, end := part("text/xml", faultDocument), "--T--\r\n"
	const failed = "server.clientproxy.service_failed."
	for _, tt := range []struct{ name, body, fault, code string }{
		{"a fault", part("text/xml", half) + fault + end, "x", ""},
		{"a fault behind next to nothing", part("text/xml", "<") + fault + end, "x", ""},
		{"a fault behind an envelope that is bad before its end", part("text/xml", half+"<a b='' b=''>"+strings.Repeat("x", 1<<20)) + fault + end, "", failed + "invalid_soap"},
		{"a signature", part("text/xml", half) + part("signature/bdoc-1.0/ts", "<s/>") + end, "", failed + "invalid_soap"},
		{"attachments", part("text/xml", half) + part("multipart/mixed; boundary=A", "\r\n--A--\r\n") + fault + end, "", failed + "invalid_soap"},
		{"a part without a type", part("text/xml", half) + "--T\r\n\r\n" + faultDocument + "\r\n" + end, "", failed + "invalid_soap"},
		{"nothing", part("text/xml", half) + end, "", failed + "invalid_soap"},
		{"an envelope", part("text/xml", half) + part("text/xml", envelope) + end, "", failed + "invalid_message"},
		{"more behind the fault", part("text/xml", half) + fault + fault + end, "", failed + "invalid_message"},
		{"the end of the connection", part("text/xml", half), "", "server.clientproxy.missing_soap"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := spool.NewMemory(4 << 20)
			d := Decoder{Place: AtSender, Digest: crypto.SHA512, Spool: store}
			m, err := d.Decode(t.Context(), Incoming{ContentType: "multipart/mixed; boundary=T", Original: original, Body: strings.NewReader(tt.body)}, func(*Message) error { return nil })
			if err == nil {
				if m.FaultCode != tt.fault || tt.code != "" {
					t.Errorf("fault %q, want %q", m.FaultCode, tt.fault)
				}
				var got bytes.Buffer
				if _, err := m.WritePackage(&got); err != nil || got.String() != faultDocument {
					t.Errorf("got %q, %v", &got, err)
				}
				m.Discard()
			} else if got := Code(err); got != tt.code {
				t.Errorf("got %s (%v), want %s", got, err, tt.code)
			}
			if n := store.Size(); n != 0 {
				t.Errorf("%d octets are left", n)
			}
		})
	}
}

// TestLateFault ends a message with a fault at each stage: it wins over everything received before.
func TestLateFault(t *testing.T) {
	for _, parts := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(parts), func(t *testing.T) {
			var out bytes.Buffer
			enc := NewEncoder(&out, crypto.SHA512)
			for i := range parts {
				var err error
				if i == 0 {
					err = enc.SOAP(multipart.NewHeader("Content-Type", "text/xml"), strings.NewReader(envelope))
				} else {
					err = enc.Attachment(multipart.NewHeader("Content-Type", "a/b"), strings.NewReader("x"))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			broken := enc.Attachment(multipart.NewHeader("Content-Type", "a/b"), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("cut"))))
			if broken == nil {
				t.Fatal("a broken attachment is no error")
			}
			if err := enc.Fault([]byte(faultDocument)); err != nil {
				t.Fatal(err)
			}
			d := Decoder{Place: AtSender, Digest: crypto.SHA512, Spool: spool.NewMemory(1 << 20)}
			m, err := d.Decode(t.Context(), Incoming{ContentType: enc.ContentType(), Original: original, Body: &out}, func(*Message) error { return nil })
			if parts == 0 {
				if err == nil {
					t.Fatal("attachments without an envelope are accepted")
				}
				return
			}
			if err != nil || m.FaultCode != "x" || m.FaultString != "y" || len(m.Parts) != 0 {
				t.Fatalf("%+v, %v", m, err)
			}
			var got bytes.Buffer
			if _, err := m.WritePackage(&got); err != nil || got.String() != faultDocument || m.Size() != int64(got.Len()) {
				t.Errorf("got %q, %v", &got, err)
			}
			m.Discard()
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct{ name, contentType, body, want string }{
		{"no Content-Type", "", envelope, "invalid_content_type"},
		{"another type", "application/soap+xml", envelope, "invalid_content_type"},
		{"no boundary", "multipart/related", envelope, "invalid_content_type"},
		{"two boundaries", "multipart/related; boundary=a; boundary=b", envelope, "invalid_content_type"},
		{"boundary never occurs", "multipart/related; boundary=other", consumerBody(), "missing_soap"},
		{"empty", "multipart/related; boundary=b", "", "missing_soap"},
		{"start names another part", `multipart/related; boundary=MIME_b1; start="<a1>"`, consumerBody("x"), "invalid_content_type"},
		{"root of another type", "multipart/related; boundary=b", "--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--", "invalid_content_type"},
		{"root without type", "multipart/related; boundary=b", "--b\r\n\r\n" + envelope + "\r\n--b--", "invalid_content_type"},
		{"root with two ids", `multipart/related; boundary=b; start=r`, "--b\r\nContent-Type: text/xml\r\nContent-ID: r\r\nContent-ID: s\r\n\r\n" + envelope + "\r\n--b--", "invalid_content_type"},
		{"root in two encodings", "multipart/related; boundary=b", "--b\r\nContent-Type: text/xml\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64\r\n\r\n" + envelope + "\r\n--b--", "invalid_content_type"},
		{"root in base64", "multipart/related; boundary=b", "--b\r\nContent-Type: text/xml\r\nContent-Transfer-Encoding: base64\r\n\r\nx\r\n--b--", "invalid_content_type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(tt.contentType, strings.NewReader(tt.body))
			if err == nil {
				t.Fatal("accepted")
			}
			if got := Code(At(AtClient, err)); got != "client."+tt.want {
				t.Errorf("got %s (%v), want client.%s", got, err, tt.want)
			}
		})
	}
	for _, contentType := range []string{
		`multipart/related; boundary=MIME_b1; start="<root>"`, `multipart/related; boundary=MIME_b1; start=root`, `multipart/related; boundary="MIME_b1"`,
		`Multipart/Related; boundary=MIME_b1; type='application/xop+xml'; start-info=text/xml`, `multipart/related; boundary=MIME_b1; type="application/soap+xml"`,
	} {
		if _, err := Open(contentType, strings.NewReader(consumerBody("x"))); err != nil {
			t.Errorf("%s: %v", contentType, err)
		}
	}
}

// TestManyHeaders: of the headers of 400 attachments nothing is held but the Content-Types, and these have a limit.
func TestManyHeaders(t *testing.T) {
	body := func(headers string) io.Reader {
		return strings.NewReader("--b\r\nContent-Type: text/xml\r\n\r\n" + envelope + strings.Repeat("\r\n--b\r\n"+headers+"\r\n\r\nx", 400) + "\r\n--b--\r\n")
	}
	const contentType = "multipart/related; boundary=b"
	long := strings.Repeat("x", 60000)

	enc, out := encode(t, contentType, body("Content-Type: a/b\r\nX: "+long), &crypto.Signature{XML: []byte("<s/>")})
	d := Decoder{Place: AtReceiver, Digest: crypto.SHA512, Spool: discarding{}}
	m, err := d.Decode(t.Context(), Incoming{ContentType: enc.ContentType(), Original: contentType, Body: out}, func(*Message) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	parts := append(enc.Parts(), m.Parts...)
	enc, out, m = nil, nil, nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	number := len(parts)
	parts = nil
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(before.HeapAlloc) - int64(after.HeapAlloc); number != 802 || held > 4<<20 {
		t.Errorf("%d parts hold %d octets", number, held)
	}

	o, err := Open(contentType, body("Content-Type: a/b; x="+long))
	if err != nil {
		t.Fatal(err)
	}
	e := NewEncoder(io.Discard, crypto.SHA512)
	if err = e.SOAP(o.Header, o.Envelope); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		var p *multipart.Part
		if p, err = o.Next(); err == nil {
			err = e.Attachment(p.Header, p)
		}
	}
	if got := Code(At(AtClient, err)); got != "client.invalid_content_type" || len(e.Parts()) > 80 {
		t.Errorf("%d parts: %v", len(e.Parts()), err)
	}
}

// discarding is a spool that keeps nothing.
type discarding struct{ spool.Store }

func (discarding) Create(context.Context) (spool.Entry, error) { return new(discarded), nil }

type discarded struct {
	spool.Entry
	size int64
}

func (d *discarded) Write(p []byte) (int, error) { d.size += int64(len(p)); return len(p), nil }
func (d *discarded) Size() int64                 { return d.size }
func (d *discarded) Reserve(int64) error         { return nil }
func (d *discarded) Done() error                 { return nil }

// TestNoRoom: a message for which there is no room is refused when its header has been read, and nothing more is read.
func TestNoRoom(t *testing.T) {
	const limit = 1 << 20
	for name, tt := range map[string]struct {
		length int64
		full   bool
	}{
		"unknown":   {-1, false},
		"fits":      {limit, false},
		"too large": {limit + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			store, more := spool.NewMemory(limit), errors.New("the attachments are read")
			begin := "--T\r\nContent-Type: text/xml\r\n\r\n" + envelope
			d, checked := Decoder{Place: AtReceiver, Digest: crypto.SHA512, Spool: store}, false
			_, err := d.Decode(t.Context(), Incoming{
				ContentType: "multipart/mixed; boundary=T", Original: original, Length: tt.length,
				Body: io.MultiReader(strings.NewReader(begin), iotest.ErrReader(more)),
			}, func(*Message) error { checked = true; return nil })
			if !checked || errors.Is(err, spool.ErrFull) != tt.full || errors.Is(err, more) == tt.full {
				t.Errorf("checked: %v; %v", checked, err)
			}
			if tt.full && Code(err) != "server.serverproxy.io_error" {
				t.Errorf("code %s", Code(err))
			}
			if store.Size() != 0 {
				t.Error("something stays in the spool")
			}
		})
	}
}

// TestMostParts: what an information system may send is what a security server takes, with all that the other one adds.
func TestMostParts(t *testing.T) {
	var body strings.Builder
	body.WriteString("--b\r\nContent-Type: text/xml\r\n\r\n" + envelope)
	for range multipart.DefaultLimits.Parts - 1 {
		body.WriteString("\r\n--b\r\nContent-Type: a/b\r\n\r\n")
	}
	body.WriteString("\r\n--b--\r\n")
	const contentType = "multipart/related; boundary=b"
	enc, out := encode(t, contentType, strings.NewReader(body.String()), &crypto.Signature{XML: []byte("<s/>"), HashChainResult: []byte("<r/>"), HashChain: []byte("<h/>")})
	m, err := decode(t, enc.ContentType(), contentType, out)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	if len(m.Parts) != multipart.DefaultLimits.Parts {
		t.Errorf("%d parts", len(m.Parts))
	}
}

// TestNextRefuses: an attachment that a reader could take for the root, or that has no type, is none.
func TestNextRefuses(t *testing.T) {
	root := "--b\r\nContent-Type: text/xml\r\n\r\n" + envelope
	for name, tt := range map[string]struct{ start, header, want string }{
		"start names it":                 {`"<a>"`, "Content-Type: text/xml\r\nContent-ID: <a>", "invalid_content_type"},
		"start names it in other ways":   {`a`, "Content-Type: text/xml\r\nCONTENT-ID: < A >", "invalid_content_type"},
		"start names its second id":      {`"<a>"`, "Content-Type: text/xml\r\nContent-ID: <x>\r\nContent-ID: <a>", "invalid_content_type"},
		"no type":                        {`"<r>"`, "Content-ID: <a>", "invalid_content_type"},
		"start names a part not present": {`"<r>"`, "Content-Type: text/xml\r\nContent-ID: <a>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Open("multipart/related; boundary=b; start="+tt.start, strings.NewReader(root+"\r\n--b\r\n"+tt.header+"\r\n\r\nx\r\n--b--"))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, o.Envelope)
			switch _, err = o.Next(); {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || Code(At(AtClient, err)) != "client."+tt.want):
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("multipart/mixed; boundary=T", original, []byte("--T\r\nContent-Type: text/xml\r\n\r\n"+envelope+"\r\n--T\r\nContent-Type: multipart/mixed; boundary=A\r\n\r\n\r\n--A\r\nContent-Type: a/b\r\n\r\nx\r\n--A--\r\n\r\n--T\r\nContent-Type: signature/bdoc-1.0/ts\r\n\r\n<s/>\r\n--T--\r\n"))
	f.Add("text/xml", "", []byte(faultDocument))
	f.Fuzz(func(t *testing.T, contentType, originalType string, body []byte) {
		for _, place := range []Place{AtReceiver, AtSender} {
			store := spool.NewMemory(1 << 20)
			d := Decoder{Place: place, Digest: crypto.SHA512, Spool: store}
			m, err := d.Decode(t.Context(), Incoming{ContentType: contentType, Original: originalType, Body: bytes.NewReader(body)}, func(*Message) error { return nil })
			if err == nil {
				m.Discard()
			}
			if store.Size() != 0 {
				t.Fatal("something stays in the spool")
			}
		}
	})
}

// TestBareInAnotherCharset: what comes without a multipart is labelled UTF-8 on its way, and told to the service as it is.
func TestBareInAnotherCharset(t *testing.T) {
	latin := strings.NewReplacer(`version="1.0"`, `version="1.0" encoding="ISO-8859-1"`, "<x:id>1", "<x:id>\xe4").Replace(envelope)
	for _, tt := range []struct{ contentType, body, want string }{
		{"text/xml", latin, "text/xml; charset=ISO-8859-1"},
		{"text/xml; charset=iso-8859-1", latin, "text/xml; charset=ISO-8859-1"},
		{"text/xml", envelope, PlainContentType},
		{"application/xop+xml", envelope, PlainContentType},
	} {
		enc, out := encode(t, tt.contentType, strings.NewReader(tt.body), &crypto.Signature{XML: []byte("<s/>")})
		m, err := decode(t, enc.ContentType(), tt.contentType, out)
		if err != nil {
			t.Fatal(tt.contentType, err)
		}
		var got bytes.Buffer
		if _, err := m.WritePackage(&got); err != nil || got.String() != tt.body || m.ContentType() != tt.want {
			t.Errorf("%s: got %q, %v, %q", tt.contentType, m.ContentType(), err, &got)
		}
	}
	// The information system said that it is UTF-8: one reader would see another id.
	enc, out := encode(t, "text/xml", strings.NewReader(latin), &crypto.Signature{XML: []byte("<s/>")})
	if _, err := decode(t, enc.ContentType(), "text/xml; charset=utf-8", out); err == nil || Code(err) != "server.serverproxy.service_failed.invalid_soap" {
		t.Errorf("got %v", err)
	}
}
