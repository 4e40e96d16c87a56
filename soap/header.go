// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"math/bits"
	"strings"

	"github.com/caddy-fairway/fairway/ident"
)

const (
	soapSpace   = "http://schemas.xmlsoap.org/soap/envelope/"
	soap12Space = "http://www.w3.org/2003/05/soap-envelope"
	xroadSpace  = "http://x-road.eu/xsd/xroad.xsd"
	identSpace  = "http://x-road.eu/xsd/identifiers"
	partySpace  = "http://x-road.eu/xsd/representation.xsd"
)

// How deep the elements of an envelope stand.
const (
	depthEnvelope = iota + 1
	depthPart     // Header, Body
	depthBlock    // header blocks, the Body's child
	depthChild    // children of header blocks
)

// The header blocks (message-and-transport 3.2).
const (
	noBlock = iota
	client
	service
	securityServer
	userID
	id
	issue
	protocolVersion
	requestHash
	representedParty
)

// The children of identifiers and of the represented party (message-and-transport 3.3).
const (
	xRoadInstance = iota
	memberClass
	memberCode
	subsystemCode
	serviceCode
	serviceVersion
	serverCode
	partyClass
	partyCode
	noChild
)

// blocks says what a header block is called and made of; a block without children is a string.
var blocks = [...]struct {
	space, name string
	types       []string // what objectType may say
	children    set
	required    set // children that must be there and not blank
	solid       set // children that must not be blank if they are there
}{
	client: {
		xroadSpace, "client", []string{"MEMBER", "SUBSYSTEM"},
		of(xRoadInstance, memberClass, memberCode, subsystemCode), of(xRoadInstance, memberClass, memberCode), of(subsystemCode),
	},
	service: {
		xroadSpace, "service", []string{"SERVICE"},
		of(xRoadInstance, memberClass, memberCode, subsystemCode, serviceCode, serviceVersion),
		of(xRoadInstance, memberClass, memberCode, serviceCode), 0,
	},
	securityServer: {
		xroadSpace, "securityServer", []string{"SERVER"},
		of(xRoadInstance, memberClass, memberCode, serverCode), of(xRoadInstance, memberClass, memberCode, serverCode), 0,
	},
	userID:           {space: xroadSpace, name: "userId"},
	id:               {space: xroadSpace, name: "id"},
	issue:            {space: xroadSpace, name: "issue"},
	protocolVersion:  {space: xroadSpace, name: "protocolVersion"},
	requestHash:      {space: xroadSpace, name: "requestHash"},
	representedParty: {space: partySpace, name: "representedParty", children: of(partyClass, partyCode)},
}

var children = [...]struct{ space, name string }{
	xRoadInstance:  {identSpace, "xRoadInstance"},
	memberClass:    {identSpace, "memberClass"},
	memberCode:     {identSpace, "memberCode"},
	subsystemCode:  {identSpace, "subsystemCode"},
	serviceCode:    {identSpace, "serviceCode"},
	serviceVersion: {identSpace, "serviceVersion"},
	serverCode:     {identSpace, "serverCode"},
	partyClass:     {partySpace, "partyClass"},
	partyCode:      {partySpace, "partyCode"},
}

// usualValues is how many octets the values of most headers have.
const usualValues = 256

// A set holds small numbers.
type set uint16

func of(members ...int) (s set) {
	for _, m := range members {
		s |= 1 << m
	}
	return s
}

func (s set) has(m int) bool { return s&(1<<m) != 0 }

// first returns the least member, rest the others.
func (s set) first() int { return bits.TrailingZeros16(uint16(s)) }
func (s set) rest() set  { return s & (s - 1) }

// A headerReader hears of the elements of an envelope and fills in its header.
type headerReader struct {
	*scanner
	*Header
	optional *optional
	body     string // local name of the Body's first child
	fault    bool
	known    bool // the header is judged; the Body's first child is there, or never will be
	splice   splice

	hasHeader, hasBody, hasChild bool // of the Body
	inHeader, inBody             bool

	blocks   set    // that were there
	foreign  string // namespace of a block that is called like one of X-Road's
	block    int    // being read
	children set    // of that block, that were there
	child    int    // being read
	values   [noChild]string
}

// optional is room for the values that a Header points to.
type optional struct{ userID, issue, requestHash string }

func (h *headerReader) start(depth int) error {
	switch depth {
	case depthEnvelope:
		return h.startEnvelope()
	case depthPart:
		return h.startPart()
	case depthBlock:
		if h.inHeader {
			return h.startBlock()
		}
		if h.inBody {
			return h.startContent()
		}
	case depthChild:
		return h.startChild()
	}
	return nil
}

func (h *headerReader) end(depth int) error {
	switch depth {
	case depthEnvelope:
		if !h.known {
			return h.judge()
		}
	case depthPart:
		h.inHeader, h.keepValues = false, false
		if h.inBody && !h.known {
			return h.judge()
		}
		h.inBody = false
	case depthBlock:
		return h.endBlock()
	case depthChild:
		h.endChild()
	}
	return nil
}

func (h *headerReader) startEnvelope() error {
	switch {
	case h.is(soapSpace, "Envelope"):
		return nil
	case h.is(soap12Space, "Envelope"):
		return h.refuse(invalidSOAP, "the envelope is SOAP 1.2; X-Road speaks SOAP 1.1, namespace %s", soapSpace)
	}
	space, local := h.expanded()
	return h.refuse(invalidSOAP, "the root element is %s of namespace %s, not the Envelope of %s", quote(local), quote(space), soapSpace)
}

func (h *headerReader) startPart() error {
	switch {
	case h.is(soapSpace, "Header"):
		switch {
		case h.hasHeader:
			return h.refuse(invalidSOAP, "a second Header stands in the envelope; put all blocks into one")
		case h.hasBody:
			return h.refuse(missingHeader, "the Header stands after the Body; put it before the Body")
		}
		h.hasHeader, h.inHeader, h.keepValues = true, true, true
		h.value.Grow(usualValues)
	case h.is(soapSpace, "Body"):
		if h.hasBody {
			return h.refuse(invalidBody, "a second Body stands in the envelope; send one")
		}
		h.hasBody, h.inBody = true, true
	}
	return nil
}

// startContent judges the message by the name of the Body's first child.
func (h *headerReader) startContent() error {
	_, local := h.expanded()
	if h.hasChild {
		if h.fault {
			return nil
		}
		return h.refuse(invalidBody, "a second element, %s, stands in the Body; put all of the content into one", quote(local))
	}
	h.value.Write(local)
	h.hasChild, h.body, h.fault = true, h.value.String()[h.value.Len()-len(local):], h.is(soapSpace, "Fault")
	if !h.fault {
		if err := h.judge(); err != nil {
			return err
		}
	}
	h.known, h.watch, h.value = true, depthBlock, strings.Builder{}
	return nil
}

func (h *headerReader) startBlock() error {
	h.block = noBlock
	space, local := h.expanded()
	for b := client; b < len(blocks) && h.block == noBlock; b++ {
		if blocks[b].name == string(local) && blocks[b].space == string(space) {
			h.block = b
		}
	}
	b := &blocks[h.block]
	switch {
	case h.block == noBlock:
		for b := range blocks {
			if blocks[b].name == string(local) {
				h.foreign = string(space)
			}
		}
		return nil
	case h.blocks.has(h.block):
		return h.refuse(duplicateHeaderField, "the block %s stands twice in the Header; send it once", b.name)
	}
	h.blocks |= of(h.block)
	h.children, h.child, h.values = 0, noChild, [noChild]string{}
	h.splice.start(h)
	if b.children == 0 {
		h.gather(depthBlock)
	}
	if b.types == nil {
		return nil
	}
	what, ok := h.attribute(identSpace, "objectType")
	if !ok {
		return h.refuse(invalidXML, "the block %s has no attribute objectType of namespace %s", b.name, identSpace)
	}
	for _, t := range b.types {
		if t == string(what) {
			return nil
		}
	}
	return h.refuse(invalidXML, "the objectType of the block %s is %s; it must be %s", b.name, quote(what), strings.Join(b.types, " or "))
}

func (h *headerReader) startChild() error {
	if h.block == noBlock || blocks[h.block].children == 0 {
		return nil
	}
	space, local := h.expanded()
	for all := blocks[h.block].children; all != 0; all = all.rest() {
		c := all.first()
		if children[c].name != string(local) || children[c].space != string(space) {
			continue
		}
		if h.children.has(c) {
			return h.refuse(duplicateHeaderField, "%s stands twice in the block %s; send it once", children[c].name, blocks[h.block].name)
		}
		h.children |= of(c)
		h.child = c
		h.gather(depthChild)
	}
	return nil
}

func (h *headerReader) endChild() {
	if h.block != noBlock && h.child != noChild {
		h.values[h.child] = h.gathered()
		h.child, h.collect = noChild, 0
	}
}

func (h *headerReader) endBlock() error {
	if h.block == noBlock {
		return nil
	}
	b := &blocks[h.block]
	for must := b.required | b.solid&h.children; must != 0; must = must.rest() {
		if c := must.first(); strings.TrimSpace(h.values[c]) == "" {
			return h.refuse(internalError, "in the block %s: '%s' must not be blank", b.name, children[c].name)
		}
	}
	h.splice.end(h)
	h.set(h.gathered())
	h.block, h.collect = noBlock, 0
	return nil
}

// set puts the block that was read into the header; text is its own text, if it was gathered.
func (h *headerReader) set(text string) {
	v := &h.values
	member := ident.Client{Instance: v[xRoadInstance], Class: v[memberClass], Member: v[memberCode], Subsystem: v[subsystemCode]}
	switch h.block {
	case client:
		h.Client = member
	case service:
		h.Service = ident.Service{Client: member, Code: v[serviceCode], Version: v[serviceVersion]}
		h.note(subsystemCode, emptySubsystem)
		h.note(serviceVersion, emptyVersion)
	case securityServer:
		h.SecurityServer = &ident.Server{Instance: member.Instance, Class: member.Class, Member: member.Member, Code: v[serverCode]}
	case userID:
		h.optional.userID = text
		h.UserID = &h.optional.userID
	case id:
		h.ID = text
	case issue:
		h.optional.issue = text
		h.Issue = &h.optional.issue
	case protocolVersion:
		h.ProtocolVersion = text
	case requestHash:
		h.optional.requestHash = text
		h.RequestHash = &h.optional.requestHash
	case representedParty:
		p := &Party{Code: v[partyCode]}
		if h.children.has(partyClass) {
			class := v[partyClass]
			p.Class = &class
		}
		h.Represented = p
		h.note(partyCode, emptyParty)
	}
}

// note remembers that an optional child was there without content.
func (h *headerReader) note(child int, empty uint8) {
	if h.children.has(child) && h.values[child] == "" {
		h.empty |= empty
	}
}

// judge applies rows 5 to 13 of message-and-transport 3.4, once the Body's first child is known or cannot come any more.
func (h *headerReader) judge() error {
	switch {
	case !h.hasHeader:
		return h.refuse(missingHeader, "the envelope has no Header before this; put one with the X-Road blocks before the Body")
	case !h.hasBody:
		return h.refuse(missingBody, "the envelope has no Body")
	}
	for _, b := range []int{protocolVersion, client, id, service} {
		switch {
		case h.blocks.has(b):
		case h.foreign != "":
			return h.refuse(missingHeaderField, "the Header above has no block %s of namespace %s; blocks of namespace %s are ignored", blocks[b].name, xroadSpace, quote(h.foreign))
		default:
			return h.refuse(missingHeaderField, "the Header above has no block %s of namespace %s", blocks[b].name, xroadSpace)
		}
		if b == protocolVersion && !strings.HasPrefix(h.ProtocolVersion, "4.") {
			return h.refuse(invalidProtocolVersion, "the protocolVersion is %s; it must begin with 4.", quote(h.ProtocolVersion))
		}
	}
	switch {
	case !h.hasChild:
		return h.refuse(invalidBody, "the Body has no element")
	case !strings.HasPrefix(h.body, h.Service.Code):
		return h.refuse(inconsistentHeaders, "the element in the Body is %s; its name must begin with the serviceCode, %s", quote(h.body), quote(h.Service.Code))
	}
	return nil
}
