// SPDX-License-Identifier: Apache-2.0

package soap

import "math/bits"

const (
	soapSpace   = "http://schemas.xmlsoap.org/soap/envelope/"
	soap12Space = "http://www.w3.org/2003/05/soap-envelope"
	xroadSpace  = "http://x-road.eu/xsd/xroad.xsd"
	identSpace  = "http://x-road.eu/xsd/identifiers"
	partySpace  = "http://x-road.eu/xsd/representation.xsd"
)

// A space is a namespace that means something here, or one of all others.
type space uint8

const (
	ofOthers space = iota
	ofNone         // no namespace
	ofSOAP
	ofSOAP12
	ofXRoad
	ofIdentifiers
	ofParties
)

func spaceOf(uri []byte) space {
	switch string(uri) {
	case "":
		return ofNone
	case soapSpace:
		return ofSOAP
	case soap12Space:
		return ofSOAP12
	case xroadSpace:
		return ofXRoad
	case identSpace:
		return ofIdentifiers
	case partySpace:
		return ofParties
	}
	return ofOthers
}

// A word is a local name that means something here, in its namespace.
type word uint8

const (
	none word = iota // every other local name

	// The header blocks (message-and-transport 3.2).
	client
	service
	securityServer
	userID
	id
	issue
	protocolVersion
	requestHash
	representedParty

	// The children of identifiers and of the represented party (message-and-transport 3.3).
	xRoadInstance
	memberClass
	memberCode
	subsystemCode
	serviceCode
	serviceVersion
	serverCode
	partyClass
	partyCode

	// The envelope, and what stands in a fault (message-and-transport 10.1).
	envelope
	header
	body
	fault
	faultCode
	faultString
	faultActor
	faultDetail
)

// terms says what words are called; and what header blocks are made of: one without children is a string.
var terms = [...]struct {
	space    space
	name     string
	types    []string // what objectType may say
	children set
	required set // children that must be there and not blank
	solid    set // children that must not be blank if they are there
}{
	client: {
		ofXRoad, "client", []string{"MEMBER", "SUBSYSTEM"},
		of(xRoadInstance, memberClass, memberCode, subsystemCode), of(xRoadInstance, memberClass, memberCode), of(subsystemCode),
	},
	service: {
		ofXRoad, "service", []string{"SERVICE"},
		of(xRoadInstance, memberClass, memberCode, subsystemCode, serviceCode, serviceVersion),
		of(xRoadInstance, memberClass, memberCode, serviceCode), 0,
	},
	securityServer: {
		ofXRoad, "securityServer", []string{"SERVER"},
		of(xRoadInstance, memberClass, memberCode, serverCode), of(xRoadInstance, memberClass, memberCode, serverCode), 0,
	},
	userID:           {space: ofXRoad, name: "userId"},
	id:               {space: ofXRoad, name: "id"},
	issue:            {space: ofXRoad, name: "issue"},
	protocolVersion:  {space: ofXRoad, name: "protocolVersion"},
	requestHash:      {space: ofXRoad, name: "requestHash"},
	representedParty: {space: ofParties, name: "representedParty", children: of(partyClass, partyCode)},

	xRoadInstance:  {space: ofIdentifiers, name: "xRoadInstance"},
	memberClass:    {space: ofIdentifiers, name: "memberClass"},
	memberCode:     {space: ofIdentifiers, name: "memberCode"},
	subsystemCode:  {space: ofIdentifiers, name: "subsystemCode"},
	serviceCode:    {space: ofIdentifiers, name: "serviceCode"},
	serviceVersion: {space: ofIdentifiers, name: "serviceVersion"},
	serverCode:     {space: ofIdentifiers, name: "serverCode"},
	partyClass:     {space: ofParties, name: "partyClass"},
	partyCode:      {space: ofParties, name: "partyCode"},

	envelope:    {space: ofSOAP, name: "Envelope"},
	header:      {space: ofSOAP, name: "Header"},
	body:        {space: ofSOAP, name: "Body"},
	fault:       {space: ofSOAP, name: "Fault"},
	faultCode:   {space: ofNone, name: "faultcode"},
	faultString: {space: ofNone, name: "faultstring"},
	faultActor:  {space: ofNone, name: "faultactor"},
	faultDetail: {name: "faultDetail"}, // of any namespace
}

var words = func() map[string]word {
	m := make(map[string]word, len(terms))
	for w := client; int(w) < len(terms); w++ {
		m[terms[w].name] = w
	}
	return m
}()

func wordOf(local []byte) word { return words[string(local)] }

// A set holds words.
type set uint32

func of(members ...word) (s set) {
	for _, m := range members {
		s |= 1 << m
	}
	return s
}

func (s set) has(m word) bool { return s&(1<<m) != 0 }

// first returns the least member, rest the others.
func (s set) first() word { return word(bits.TrailingZeros32(uint32(s))) }
func (s set) rest() set   { return s & (s - 1) }
