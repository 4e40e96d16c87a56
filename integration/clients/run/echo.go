// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The messages of the echo exchange, written and read without any code of the
// product, so that an error of the product cannot hide behind itself.

const (
	soapNS        = "http://schemas.xmlsoap.org/soap/envelope/"
	xroadNS       = "http://x-road.eu/xsd/xroad.xsd"
	identifiersNS = "http://x-road.eu/xsd/identifiers"
	echoNS        = "urn:fairway:echo"
	xopNS         = "http://www.w3.org/2004/08/xop/include"
)

type envelope struct {
	XMLName xml.Name `xml:"http://schemas.xmlsoap.org/soap/envelope/ Envelope"`
	Header  header   `xml:"http://schemas.xmlsoap.org/soap/envelope/ Header"`
	Body    struct {
		Question *question `xml:"urn:fairway:echo echo"`
		Answer   *answer   `xml:"urn:fairway:echo echoResponse"`
		Fault    *struct {
			Code   string `xml:"faultcode"`
			String string `xml:"faultstring"`
		} `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault"`
	} `xml:"http://schemas.xmlsoap.org/soap/envelope/ Body"`
}

type header struct {
	Client          identifier `xml:"http://x-road.eu/xsd/xroad.xsd client"`
	Service         identifier `xml:"http://x-road.eu/xsd/xroad.xsd service"`
	UserID          string     `xml:"http://x-road.eu/xsd/xroad.xsd userId"`
	ID              string     `xml:"http://x-road.eu/xsd/xroad.xsd id"`
	ProtocolVersion string     `xml:"http://x-road.eu/xsd/xroad.xsd protocolVersion"`
	RequestHash     string     `xml:"http://x-road.eu/xsd/xroad.xsd requestHash"`
}

type identifier struct {
	Type           string `xml:"http://x-road.eu/xsd/identifiers objectType,attr"`
	Instance       string `xml:"http://x-road.eu/xsd/identifiers xRoadInstance"`
	MemberClass    string `xml:"http://x-road.eu/xsd/identifiers memberClass"`
	MemberCode     string `xml:"http://x-road.eu/xsd/identifiers memberCode"`
	Subsystem      string `xml:"http://x-road.eu/xsd/identifiers subsystemCode,omitempty"`
	ServiceCode    string `xml:"http://x-road.eu/xsd/identifiers serviceCode,omitempty"`
	ServiceVersion string `xml:"http://x-road.eu/xsd/identifiers serviceVersion,omitempty"`
}

// A question asks for an answer whose reply form is plain, swa or mtom, with
// the files of make in it, each "size:seed".
type question struct {
	Text  string   `xml:"urn:fairway:echo text"`
	Reply string   `xml:"urn:fairway:echo reply"`
	Make  []string `xml:"urn:fairway:echo make"`
	Files []file   `xml:"urn:fairway:echo file"`
}

// An answer has the SHA-256 of every file that the service received.
type answer struct {
	Text  string   `xml:"urn:fairway:echo text"`
	Sums  []string `xml:"urn:fairway:echo sum"`
	Files []file   `xml:"urn:fairway:echo file"`
}

type file struct {
	Inline  string `xml:",chardata"`
	Include *struct {
		Href string `xml:"href,attr"`
	} `xml:"http://www.w3.org/2004/08/xop/include Include"`
}

// A message is an envelope with the parts around it.
type message struct {
	contentType string
	root        textproto.MIMEHeader // nil where the message is not multipart
	xml         []byte
	envelope    envelope
	parts       []part
}

type part struct {
	header textproto.MIMEHeader
	body   []byte
}

var parameter = map[string]*regexp.Regexp{
	"boundary": regexp.MustCompile(`(?i);\s*boundary=(?:"([^"]*)"|([^;]*))`),
	"type":     regexp.MustCompile(`(?i);\s*type=(?:"([^"]*)"|([^;]*))`),
}

// param reads one parameter as clients in the field write it: quoted or not.
func param(contentType, name string) string {
	m := parameter[name].FindStringSubmatch(contentType)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

func readMessage(contentType string, body io.Reader) (*message, error) {
	m := &message{contentType: contentType}
	if !strings.HasPrefix(strings.ToLower(contentType), "multipart/related") {
		if !strings.HasPrefix(strings.ToLower(contentType), "text/xml") {
			return nil, fmt.Errorf("no message is %q", contentType)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		m.xml = text
		return m, m.parse()
	}
	r := multipart.NewReader(body, param(contentType, "boundary"))
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading multipart: %w", err)
		}
		text, err := io.ReadAll(p)
		if err != nil {
			return nil, fmt.Errorf("reading part %d: %w", len(m.parts), err)
		}
		switch strings.ToLower(p.Header.Get("Content-Transfer-Encoding")) {
		case "base64":
			text, err = decodeBase64(string(text))
		case "quoted-printable":
			text, err = io.ReadAll(quotedprintable.NewReader(bytes.NewReader(text)))
		}
		if err != nil {
			return nil, fmt.Errorf("reading part %d: %w", len(m.parts), err)
		}
		m.parts = append(m.parts, part{p.Header, text})
	}
	if len(m.parts) == 0 {
		return nil, errors.New("a multipart message without parts")
	}
	m.root, m.xml, m.parts = m.parts[0].header, m.parts[0].body, m.parts[1:]
	return m, m.parse()
}

// decodeBase64 forgives line ends.
func decodeBase64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

func (m *message) parse() error {
	if err := xml.Unmarshal(m.xml, &m.envelope); err != nil {
		return fmt.Errorf("reading the envelope: %w", err)
	}
	return nil
}

// files returns the files of a message in the order of the body's file elements,
// or of the attachments if it has none. It insists on the form: in swa, count
// attachments which the body does not name; in mtom, count attachments which
// it includes, or fewer where octets may stand in the body.
func (m *message) files(form string, named []file, count int, inline bool) ([][]byte, error) {
	var out [][]byte
	parts := count
	switch {
	case form == "swa" && len(named) > 0:
		return nil, errors.New("swa with files in the body")
	case form == "swa":
		for _, p := range m.parts {
			out = append(out, p.body)
		}
	case form == "mtom" && count > 0 && (!strings.HasPrefix(param(m.contentType, "type"), "application/xop+xml") ||
		!strings.HasPrefix(m.root.Get("Content-Type"), "application/xop+xml")):
		return nil, fmt.Errorf("mtom as %q with root %q", m.contentType, m.root.Get("Content-Type"))
	case form == "mtom":
		for _, f := range named {
			if f.Include == nil && inline {
				octets, err := decodeBase64(f.Inline)
				if err != nil {
					return nil, fmt.Errorf("reading a file in the body: %w", err)
				}
				out = append(out, octets)
				parts--
				continue
			}
			if f.Include == nil {
				return nil, errors.New("mtom with a file that is not included")
			}
			i := slices.IndexFunc(m.parts, func(p part) bool { return p.header.Get("Content-ID") == contentID(f.Include.Href) })
			if i < 0 {
				return nil, fmt.Errorf("mtom without a part for %q", f.Include.Href)
			}
			out = append(out, m.parts[i].body)
		}
	}
	if len(out) != count || len(m.parts) != parts {
		return nil, fmt.Errorf("%s with %d files in %d parts, want %d in %d", form, len(out), len(m.parts), count, parts)
	}
	return out, nil
}

func contentID(href string) string {
	id, err := url.PathUnescape(strings.TrimPrefix(href, "cid:"))
	if err != nil {
		return href
	}
	return "<" + id + ">"
}

// An outgoing message has yet to be packed for the wire.
type outgoing struct {
	form     string
	envelope []byte
	files    [][]byte
}

// writeMessage returns a message in the given form, header blocks first.
func writeMessage(form string, h header, body func(w *bytes.Buffer), name string, files [][]byte) outgoing {
	var root bytes.Buffer
	fmt.Fprintf(&root, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<s:Envelope xmlns:s=%q xmlns:x=%q xmlns:i=%q xmlns:xop=%q>`, soapNS, xroadNS, identifiersNS, xopNS)
	root.WriteString("<s:Header>")
	writeIdentifier(&root, "client", h.Client)
	writeIdentifier(&root, "service", h.Service)
	for _, e := range [][2]string{{"x:userId", h.UserID}, {"x:id", h.ID}, {"x:protocolVersion", h.ProtocolVersion}} {
		writeElement(&root, e[0], e[1])
	}
	fmt.Fprintf(&root, `</s:Header><s:Body><e:%s xmlns:e=%q>`, name, echoNS)
	body(&root)
	if form == "mtom" {
		for i := range files {
			fmt.Fprintf(&root, `<e:file><xop:Include href="cid:%s"/></e:file>`, fileID(i))
		}
	}
	fmt.Fprintf(&root, `</e:%s></s:Body></s:Envelope>`, name)
	return outgoing{form, root.Bytes(), files}
}

const rootID = "root@fairway.example"

func fileID(i int) string { return fmt.Sprintf("file%d@fairway.example", i) }

// types returns the type parameter of a multipart message and the Content-Type of its root.
func (o outgoing) types() (outer, inner string) {
	if o.form == "mtom" {
		return "application/xop+xml", `application/xop+xml; charset=UTF-8; type="text/xml"`
	}
	return "text/xml", plainType
}

const plainType = "text/xml; charset=UTF-8"

// pack returns the body of the message and its Content-Type: multipart only if there are files.
func (o outgoing) pack() (contentType string, body []byte) {
	if len(o.files) == 0 {
		return plainType, o.envelope
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	outer, inner := o.types()
	writePart(w, inner, rootID, o.envelope)
	for i, f := range o.files {
		writePart(w, "application/octet-stream", fileID(i), f)
	}
	w.Close() // into a buffer, which does not fail
	return fmt.Sprintf(`multipart/related; type=%q; start="<%s>"; start-info="text/xml"; boundary=%q`,
		outer, rootID, w.Boundary()), out.Bytes()
}

func writePart(w *multipart.Writer, contentType, id string, body []byte) {
	p, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Type": {contentType}, "Content-Transfer-Encoding": {"binary"}, "Content-Id": {"<" + id + ">"},
	})
	if err == nil {
		_, err = p.Write(body)
	}
	if err != nil {
		panic(err) // a buffer does not fail
	}
}

func writeIdentifier(w *bytes.Buffer, name string, id identifier) {
	fmt.Fprintf(w, `<x:%s i:objectType=%q>`, name, id.Type)
	for _, e := range [][2]string{
		{"i:xRoadInstance", id.Instance}, {"i:memberClass", id.MemberClass}, {"i:memberCode", id.MemberCode},
		{"i:subsystemCode", id.Subsystem}, {"i:serviceCode", id.ServiceCode}, {"i:serviceVersion", id.ServiceVersion},
	} {
		if e[1] != "" {
			writeElement(w, e[0], e[1])
		}
	}
	fmt.Fprintf(w, `</x:%s>`, name)
}

func writeElement(w *bytes.Buffer, name, text string) {
	fmt.Fprintf(w, "<%s>", name)
	xml.EscapeText(w, []byte(text)) // into a buffer, which does not fail
	fmt.Fprintf(w, "</%s>", name)
}

// specs returns the files "size:seed" that the client sends and that it asks for in a case.
func specs(sizes []string, name string) (out, in []string) {
	_, direction, _ := strings.Cut(name, "-")
	for i, size := range sizes {
		if direction == "request" || direction == "both" {
			out = append(out, fmt.Sprintf("%s:%d", size, i+1))
		}
		if direction == "response" || direction == "both" {
			in = append(in, fmt.Sprintf("%s:%d", size, i+101))
		}
	}
	return out, in
}

// makeFiles returns the files of a list of "size:seed": xorshift32, the low octet of every step.
func makeFiles(specs []string) ([][]byte, error) {
	var out [][]byte
	for _, spec := range specs {
		size, seed, _ := strings.Cut(spec, ":")
		n, err1 := strconv.Atoi(size)
		s, err2 := strconv.ParseUint(seed, 10, 32)
		if err := errors.Join(err1, err2); err != nil || n < 0 || n > 64<<20 {
			return nil, fmt.Errorf("no file is %q", spec)
		}
		b, x := make([]byte, n), uint32(s)
		for i := range b {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			b[i] = byte(x)
		}
		out = append(out, b)
	}
	return out, nil
}

func sums(files [][]byte) []string {
	var out []string
	for _, f := range files {
		out = append(out, fmt.Sprintf("%x", sha256.Sum256(f)))
	}
	return out
}
