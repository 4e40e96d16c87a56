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
	var content string
	if m.MTOM && m.Size > 0 {
		content = `<data><xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:a"/></data>`
	}
	return fmt.Sprintf(soapEnvelope, service, fmt.Sprintf(`<%[1]s xmlns="urn:bench" return="%[2]d" mtom="%[3]t">%[4]s</%[1]s>`, name, m.Return, m.MTOM, content))
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
