// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"strings"

	"github.com/caddy-fairway/fairway/ident"
)

// How deep the elements of an envelope stand.
const (
	depthEnvelope = iota + 1
	depthPart     // Header, Body
	depthBlock    // header blocks, the Body's child
	depthChild    // children of header blocks
)

// usualValues is how many octets the values of most headers have.
const usualValues = 256

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
	block    word   // being read, or none
	children set    // of that block, that were there
	child    word   // being read, or none
	values   values // of the children
}

// values are what children of a block say, by their words.
type values [partyCode + 1]string

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
	case h.is(ofSOAP, envelope):
		return nil
	case h.is(ofSOAP12, envelope):
		return h.refuse(invalidSOAP, "the envelope is SOAP 1.2; X-Road speaks SOAP 1.1, namespace %s", soapSpace)
	}
	space, local := h.expanded()
	return h.refuse(invalidSOAP, "the root element is %s of namespace %s, not the Envelope of %s", quote(local), quote(space), soapSpace)
}

func (h *headerReader) startPart() error {
	switch {
	case h.is(ofSOAP, header):
		switch {
		case h.hasHeader:
			return h.refuse(invalidSOAP, "a second Header stands in the envelope; put all blocks into one")
		case h.hasBody:
			return h.refuse(missingHeader, "the Header stands after the Body; put it before the Body")
		}
		h.hasHeader, h.inHeader, h.keepValues = true, true, true
		h.value.Grow(usualValues)
	case h.is(ofSOAP, body):
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
	h.hasChild, h.body, h.fault = true, h.value.String()[h.value.Len()-len(local):], h.is(ofSOAP, fault)
	if !h.fault {
		if err := h.judge(); err != nil {
			return err
		}
	}
	h.known, h.watch, h.value = true, depthBlock, strings.Builder{}
	return nil
}

func (h *headerReader) startBlock() error {
	h.block = none
	w, space := h.word()
	if w < client || w > representedParty {
		return nil
	}
	b := &terms[w]
	switch {
	case b.space != space:
		uri, _ := h.expanded()
		h.foreign = string(uri)
		return nil
	case h.blocks.has(w):
		return h.refuse(duplicateHeaderField, "the block %s stands twice in the Header; send it once", b.name)
	}
	h.block = w
	h.blocks |= of(h.block)
	h.splice.start(h)
	if b.children == 0 {
		h.gather(depthBlock)
	} else {
		h.children, h.child, h.values = 0, none, values{}
	}
	if b.types == nil {
		return nil
	}
	what, ok := h.attribute(ofIdentifiers, "objectType")
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
	w, space := h.word()
	switch {
	case !terms[h.block].children.has(w) || terms[w].space != space:
		return nil
	case h.children.has(w):
		return h.refuse(duplicateHeaderField, "%s stands twice in the block %s; send it once", terms[w].name, terms[h.block].name)
	}
	h.children |= of(w)
	h.child = w
	h.gather(depthChild)
	return nil
}

func (h *headerReader) endChild() {
	if h.child != none {
		h.values[h.child] = h.gathered()
		h.child, h.collect = none, 0
	}
}

func (h *headerReader) endBlock() error {
	if h.block == none {
		return nil
	}
	b := &terms[h.block]
	for must := b.required | b.solid&h.children; must != 0; must = must.rest() {
		if c := must.first(); isBlank(h.values[c]) {
			return h.refuse(internalError, "in the block %s: '%s' must not be blank", b.name, terms[c].name)
		}
	}
	h.splice.end(h)
	h.set(h.gathered())
	h.block, h.collect = none, 0
	return nil
}

// isBlank reports whether a value has nothing but white space, that beyond ASCII included.
func isBlank(v string) bool {
	return v == "" || classes[v[0]]&isWord == 0 && strings.TrimSpace(v) == ""
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
func (h *headerReader) note(child word, empty uint8) {
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
	for _, b := range [...]word{protocolVersion, client, id, service} {
		switch {
		case h.blocks.has(b):
		case h.foreign != "":
			return h.refuse(missingHeaderField, "the Header above has no block %s of namespace %s; blocks of namespace %s are ignored", terms[b].name, xroadSpace, quote(h.foreign))
		default:
			return h.refuse(missingHeaderField, "the Header above has no block %s of namespace %s", terms[b].name, xroadSpace)
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
