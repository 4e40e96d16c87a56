// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// message is a SOAP message with one attachment, or none.
type message struct {
	Content int    `json:"content,omitempty"` // octets in the Body that the service sends back; 0: none. Without attachment
	Size    int64  `json:"size"`              // of the attachment; 0: a plain envelope
	MTOM    bool   `json:"mtom,omitempty"`    // else SOAP with attachments
	Return  int64  `json:"return,omitempty"`  // the attachment that the service shall send back
	Service string `json:"service,omitempty"` // default: echo
}

const boundary = "bench-boundary"

const soapEnvelope = `<?xml version="1.0" encoding="UTF-8"?>
<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:i="http://x-road.eu/xsd/identifiers"><s:Header>` +
	`<x:client i:objectType="SUBSYSTEM"><i:xRoadInstance>DEV</i:xRoadInstance><i:memberClass>GOV</i:memberClass><i:memberCode>1111</i:memberCode><i:subsystemCode>app</i:subsystemCode></x:client>` +
	`<x:service i:objectType="SERVICE"><i:xRoadInstance>DEV</i:xRoadInstance><i:memberClass>GOV</i:memberClass><i:memberCode>0000</i:memberCode><i:subsystemCode>registry</i:subsystemCode><i:serviceCode>%[1]s</i:serviceCode><i:serviceVersion>v1</i:serviceVersion></x:service>` +
	`<x:userId>bench</x:userId><x:id>bench</x:id><x:protocolVersion>4.0</x:protocolVersion></s:Header><s:Body>%[2]s</s:Body></s:Envelope>`

// envelope returns the request's envelope, or the response's.
func (m message) envelope(response bool) string {
	service := cmp.Or(m.Service, "echo")
	name := service // the element in the Body is named for the service
	if response {
		name += "Response"
	}
	content := objects(m.Content)
	if m.MTOM && m.Size > 0 {
		content = `<data><xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:a"/></data>`
	}
	return fmt.Sprintf(soapEnvelope, service, fmt.Sprintf(`<%[1]s xmlns="urn:bench" return="%[2]d" mtom="%[3]t">%[4]s</%[1]s>`, name, m.Return, m.MTOM, content))
}

// Content that the service sends back is objects between these marks, at most so many octets of it.
const (
	contentMark, contentEnd = "<items>", "</items>"
	maxContent              = 4 << 20
)

// itemSize is the length of an object, and frameSize that of a message without its objects.
const (
	itemSize  = 772
	frameSize = 1571
)

// framed returns a message of so many objects and a frame.
func framed(items int) message {
	m := message{Content: len(contentMark + contentEnd)}
	m.Content += frameSize - len(m.envelope(false)) + items*itemSize
	return m
}

// objects returns so many octets of objects: as many as there is room for, and a last one that fills the rest.
func objects(octets int) string {
	const begin, end = "<rest>", "</rest>"
	left := octets - len(contentMark+contentEnd)
	if left < len(begin+end) && left != 0 {
		return ""
	}
	var s strings.Builder
	s.WriteString(contentMark)
	for n := 0; left == itemSize || left >= itemSize+len(begin+end); n++ {
		item := fmt.Sprintf("<item><id>%08d</id><given>Mari</given><family>Maasikas</family><born>1978-03-%02d</born><street>Pikk %d</street><town>Tallinn</town><note>", n, 1+n%28, n)
		const close = "</note></item>"
		s.WriteString(item + strings.Repeat("n", itemSize-len(item+close)) + close)
		left -= itemSize
	}
	if left > 0 {
		s.WriteString(begin + strings.Repeat("r", left-len(begin+end)) + end)
	}
	s.WriteString(contentEnd)
	return s.String()
}

// wanted reads from the beginning of a request what shall be sent back.
func wanted(head string) (m message) {
	if _, after, ok := strings.Cut(head, ` return="`); ok {
		fmt.Sscanf(after, `%d" mtom="%t"`, &m.Size, &m.MTOM)
	}
	return m
}

// body returns the message as HTTP carries it.
func (m message) body(response bool) (body io.Reader, length int64, contentType string) {
	envelope := m.envelope(response)
	if m.Size == 0 {
		return strings.NewReader(envelope), int64(len(envelope)), "text/xml; charset=utf-8"
	}
	contentType = `multipart/related; type="text/xml"; boundary=` + boundary
	root := "Content-Type: text/xml; charset=UTF-8\r\n"
	if m.MTOM {
		contentType = `multipart/related; type="application/xop+xml"; start="<root>"; start-info="text/xml"; boundary=` + boundary
		root = "Content-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <root>\r\n"
	}
	head := "--" + boundary + "\r\n" + root + "\r\n" + envelope +
		"\r\n--" + boundary + "\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <a>\r\n\r\n"
	tail := "\r\n--" + boundary + "--\r\n"
	length = int64(len(head)) + m.Size + int64(len(tail))
	return io.MultiReader(strings.NewReader(head), &noise{left: m.Size}, strings.NewReader(tail)), length, contentType
}

// noise is octets that do not repeat within any buffer.
type noise struct{ left int64 }

var pattern = func() []byte {
	b := make([]byte, 1<<20+7)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}()

// Read implements io.Reader.
func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	k := copy(p[:min(int64(len(p)), n.left)], pattern[int(n.left%1021):])
	n.left -= int64(k)
	return k, nil
}
