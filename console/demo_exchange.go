// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

// Who asks whom for what in the example.
var (
	demoClient   = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	demoProvider = ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}
	demoService  = ident.Service{Client: demoProvider, Code: "echo", Version: "v1"}
	demoRouted   = ident.Service{Client: demoProvider, Code: "other", Version: "v1"} // by a route of its site
)

// returnAttachments makes the example's service answer with the attachments, not with a list of them.
const returnAttachments = "<returnAttachments>true</returnAttachments>"

// exchange is one message of the demo: what is sent, what must come back, and what did.
type exchange struct {
	form  string
	do    func(ctx context.Context, p *pair, x *exchange, progress io.Writer) error
	files []*generated // attachments
	fault string       // code of the fault that must come back; "" is a signed answer
	kept  kept         // where evidence must be

	id        string // of the X-Road header
	parts     int
	size      int64 // octets of envelope and attachments
	time      time.Duration
	signature string // form of the request's signature
	verified  string // by which security servers
	err       error  // what was not as expected

	containers []*finding // what was exported of it, and proved
}

// script is the messages of the demo.
func script(large int64) []*exchange {
	return []*exchange{
		{form: "plain SOAP", do: consume, kept: keptByBoth},
		{form: "SwA, 3 attachments", do: consume, kept: keptByBoth, files: generate(100, 10<<10, 1<<20)},
		{form: "MTOM", do: consumeMTOM, kept: keptByBoth, files: generate(256 << 10)},
		{form: "SwA, 40 attachments", do: consume, kept: keptByBoth, files: generate(slices.Repeat([]int64{10 << 10}, 40)...)},
		{form: "SwA, one large attachment", do: consume, kept: keptByBoth, files: generate(large)},
		{form: "SwA, an empty attachment", do: consume, kept: keptByBoth, files: generate(0)},
		{form: "SwA, by a route", do: consumeRouted, kept: keptByBoth, files: generate(64 << 10)},
		{form: "plain SOAP, a fault from the service", do: consumeFault, kept: keptOfRequest, fault: "Server"},
		{form: "from a peer, SwA", do: asPeer, kept: keptByReceiver, files: generate(64 << 10)},
		{form: "from a peer, one octet changed", do: asPeerTampering, kept: keptByNobody, files: generate(64 << 10),
			fault: "server.serverproxy.signature_verification.invalid_signature_value"},
	}
}

// generated is an attachment that is never in memory: octets that look random and are the same each time.
type generated struct {
	name string
	size int64
	sum  []byte                   // SHA-512, once it has been read to its end
	sums map[crypto.Digest][]byte // others, once they were asked for
}

func generate(sizes ...int64) []*generated {
	files := make([]*generated, len(sizes))
	for i, n := range sizes {
		files[i] = &generated{name: fmt.Sprintf("file%d", i+1), size: n}
	}
	return files
}

// sumOf returns a digest of what the attachment is.
func (g *generated) sumOf(digest crypto.Digest) []byte {
	if digest == crypto.SHA512 {
		return g.sum
	}
	if g.sums[digest] == nil {
		h := digest.New()
		io.Copy(h, newGenerated(g.name, g.size))
		if g.sums == nil {
			g.sums = make(map[crypto.Digest][]byte)
		}
		g.sums[digest] = h.Sum(nil)
	}
	return g.sums[digest]
}

// newGenerated returns the octets of an attachment of that name and size.
func newGenerated(name string, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha512.Sum512_256([]byte(name))), size)
}

// source is the attachment as a part of a message; reading it sets its sum.
func (g *generated) source() source {
	return source{id: g.name, contentType: "application/octet-stream", size: g.size, open: func() (io.ReadCloser, error) {
		return io.NopCloser(&summing{r: newGenerated(g.name, g.size), h: sha512.New(), sum: &g.sum}), nil
	}}
}

// summing hands over the digest of what was read, at the end.
type summing struct {
	r   io.Reader
	h   hash.Hash
	sum *[]byte
}

func (s *summing) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	s.h.Write(b[:n])
	if err == io.EOF {
		*s.sum = s.h.Sum(nil)
	}
	return n, err
}

// newMessageID returns an id for an X-Road header.
func newMessageID() string { return "demo-" + multipart.Letters(12) }

// envelope is a request of the example's client.
func envelope(service ident.Service, id, content string) []byte {
	client := identifier("client", "SUBSYSTEM",
		"xRoadInstance", demoClient.Instance, "memberClass", demoClient.Class, "memberCode", demoClient.Member,
		"subsystemCode", demoClient.Subsystem)
	provider := identifier("service", "SERVICE",
		"xRoadInstance", service.Instance, "memberClass", service.Class, "memberCode", service.Member,
		"subsystemCode", service.Subsystem, "serviceCode", service.Code, "serviceVersion", service.Version)
	return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xroad="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers">
  <soap:Header>
%s%s    <xroad:userId>EE1234567890</xroad:userId>
    <xroad:id>%s</xroad:id>
    <xroad:protocolVersion>4.0</xroad:protocolVersion>
  </soap:Header>
  <soap:Body>
    <demo:%s xmlns:demo="urn:fairway:demo">%s</demo:%[4]s>
  </soap:Body>
</soap:Envelope>
`, client, provider, id, service.Code, content)
}

// identifier is a block of the X-Road header, of names and values.
func identifier(block, objectType string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    <xroad:%s id:objectType=%q>\n", block, objectType)
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "      <id:%s>%s</id:%[1]s>\n", fields[i], fields[i+1])
	}
	fmt.Fprintf(&b, "    </xroad:%s>\n", block)
	return b.String()
}

// consume posts the message to the sending security server, as an information system does.
func consume(ctx context.Context, p *pair, x *exchange, progress io.Writer) error {
	return x.consume(ctx, p, progress, demoService, returnAttachments, false)
}

// consumeRouted calls the service that a route of the receiving site leads to.
func consumeRouted(ctx context.Context, p *pair, x *exchange, progress io.Writer) error {
	return x.consume(ctx, p, progress, demoRouted, returnAttachments, false)
}

// consumeFault asks for a fault.
func consumeFault(ctx context.Context, p *pair, x *exchange, progress io.Writer) error {
	return x.consume(ctx, p, progress, demoService, "<fault>There is no such text</fault>", false)
}

// consumeMTOM does it with an envelope that refers to its attachments.
func consumeMTOM(ctx context.Context, p *pair, x *exchange, progress io.Writer) error {
	var content strings.Builder
	content.WriteString(returnAttachments)
	for _, f := range x.files {
		fmt.Fprintf(&content, `<file><xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:%s"/></file>`, f.name)
	}
	return x.consume(ctx, p, progress, demoService, content.String(), true)
}

func (x *exchange) consume(ctx context.Context, p *pair, progress io.Writer, service ident.Service, content string, mtom bool) error {
	x.id = newMessageID()
	request := envelope(service, x.id, content)
	m := newMessage(octets(request), mtom, sources(x.files)...)
	x.parts, x.size = 1+len(x.files), m.size()
	resp, err := post(ctx, progress, p.consumers, m, quoted(""))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a, err := readAnswer(resp)
	if err != nil {
		return err
	}
	return x.check(a, request)
}

func sources(files []*generated) []source {
	out := make([]source, len(files))
	for i, f := range files {
		out[i] = f.source()
	}
	return out
}

// check compares the answer with what must come back.
func (x *exchange) check(a *answer, request []byte) error {
	text, err := io.ReadAll(io.LimitReader(a.envelope, maxFault))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	env, err := soap.Open(bytes.NewReader(text), "", soap.DefaultLimits)
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if env.Fault {
		return x.checkFault(text)
	}
	if x.fault != "" {
		return fmt.Errorf("the answer is no fault; want %s", x.fault)
	}
	if env.Header.ID != x.id {
		return fmt.Errorf("the answer has the id %q, not %q", env.Header.ID, x.id)
	}
	sum := sha512.Sum512(request)
	if want := base64.StdEncoding.EncodeToString(sum[:]); env.Header.RequestHash == nil || *env.Header.RequestHash != want {
		return errors.New("the answer does not carry the hash of the request")
	}
	for n, f := range x.files {
		part, err := a.next()
		if err != nil {
			return fmt.Errorf("reading attachment %d of the answer: %w", n+1, err)
		}
		h := sha512.New()
		size, err := io.Copy(h, part)
		if err != nil {
			return fmt.Errorf("reading attachment %d of the answer: %w", n+1, err)
		}
		if size != f.size || !bytes.Equal(h.Sum(nil), f.sum) {
			return fmt.Errorf("attachment %d came back changed", n+1)
		}
	}
	switch _, err := a.next(); {
	case err == nil:
		return fmt.Errorf("the answer has more than %d attachments", len(x.files))
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("reading the end of the answer: %w", err)
	}
	return nil
}

func (x *exchange) checkFault(text []byte) error {
	fault, err := soap.ParseFault(text)
	if err != nil {
		return err
	}
	if fault.Code != x.fault {
		return fmt.Errorf("fault %s: %s; want %q", fault.Code, fault.String, x.fault)
	}
	return nil
}
