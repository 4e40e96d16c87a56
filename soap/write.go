// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/caddy-fairway/fairway/ident"
)

// Namespaces declares the prefixes of WriteHeader, ClientElement and ServiceElement.
const Namespaces = `xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xroad="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers" xmlns:repr="http://x-road.eu/xsd/representation.xsd"`

// WriteHeader writes the blocks of an answer to the message that has the header h, with the prefixes of Namespaces.
func WriteHeader(w io.Writer, h *Header) error {
	var b strings.Builder
	b.WriteString(ClientElement("xroad:client", h.Client))
	b.WriteString(serviceElement("xroad:service", h.Service, h.empty))
	if s := h.SecurityServer; s != nil {
		b.WriteString(`<xroad:securityServer id:objectType="SERVER">`)
		writeClient(&b, s.Owner())
		textElement(&b, "id:serverCode", s.Code)
		b.WriteString("</xroad:securityServer>")
	}
	if h.UserID != nil {
		textElement(&b, "xroad:userId", *h.UserID)
	}
	textElement(&b, "xroad:id", h.ID)
	if h.Issue != nil {
		textElement(&b, "xroad:issue", *h.Issue)
	}
	textElement(&b, "xroad:protocolVersion", h.ProtocolVersion)
	if p := h.Represented; p != nil {
		b.WriteString("<repr:representedParty>")
		if p.Class != nil {
			textElement(&b, "repr:partyClass", *p.Class)
		}
		if p.Code != "" || h.empty&emptyParty != 0 {
			textElement(&b, "repr:partyCode", p.Code)
		}
		b.WriteString("</repr:representedParty>")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ClientElement returns an element of type MEMBER or SUBSYSTEM, with the prefixes of Namespaces.
func ClientElement(name string, c ident.Client) string {
	var b strings.Builder
	kind := "SUBSYSTEM"
	if c.Subsystem == "" {
		kind = "MEMBER"
	}
	b.WriteString("<" + name + ` id:objectType="` + kind + `">`)
	writeClient(&b, c)
	b.WriteString("</" + name + ">")
	return b.String()
}

// ServiceElement returns an element of type SERVICE, with the prefixes of Namespaces.
func ServiceElement(name string, s ident.Service) string { return serviceElement(name, s, 0) }

// serviceElement has the children that are empty as they were in the request, for Consistent tells them from absent ones.
func serviceElement(name string, s ident.Service, empty uint8) string {
	var b strings.Builder
	b.WriteString("<" + name + ` id:objectType="SERVICE">`)
	writeClient(&b, s.Client)
	if empty&emptySubsystem != 0 {
		textElement(&b, "id:subsystemCode", "")
	}
	textElement(&b, "id:serviceCode", s.Code)
	if s.Version != "" || empty&emptyVersion != 0 {
		textElement(&b, "id:serviceVersion", s.Version)
	}
	b.WriteString("</" + name + ">")
	return b.String()
}

func writeClient(b *strings.Builder, c ident.Client) {
	textElement(b, "id:xRoadInstance", c.Instance)
	textElement(b, "id:memberClass", c.Class)
	textElement(b, "id:memberCode", c.Member)
	if c.Subsystem != "" {
		textElement(b, "id:subsystemCode", c.Subsystem)
	}
}

func textElement(b *strings.Builder, name, text string) {
	b.WriteString("<" + name + ">")
	xml.EscapeText(b, []byte(text)) // a strings.Builder takes everything
	b.WriteString("</" + name + ">")
}
