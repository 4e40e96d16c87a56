// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/ident"
)

// An outcome is what becomes of an envelope, whether Open or a Read says it.
type outcome struct {
	header Header
	body   string
	fault  bool
	octets []byte
	err    error
	cause  string
	offset int64
}

// pieces yields at most n octets a Read.
type pieces struct {
	r io.Reader
	n int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(p.n, len(b))]) }

// openIn opens and reads an envelope that comes in pieces of n octets.
func openIn(data []byte, charset string, limits Limits, n int) (o outcome) {
	fail := func(err error) {
		o.err = err
		var e *Error
		if errors.As(err, &e) {
			o.cause, o.offset = e.Cause(), e.Offset
		}
	}
	e, err := Open(pieces{bytes.NewReader(data), n}, charset, limits)
	if err != nil {
		fail(err)
		return o
	}
	o.header, o.body, o.fault = e.Header, e.Body, e.Fault
	if o.octets, err = io.ReadAll(e); err != nil {
		o = outcome{}
		fail(err)
	}
	return o
}

// openAll opens and reads an envelope in pieces of several sizes and checks that they make no difference.
func openAll(t testing.TB, data []byte, charset string) outcome {
	t.Helper()
	return openLimited(t, data, charset, Limits{})
}

func openLimited(t testing.TB, data []byte, charset string, limits Limits) outcome {
	t.Helper()
	whole := openIn(data, charset, limits, len(data)+1)
	for _, n := range []int{1, 2, 3, 7} {
		if o := openIn(data, charset, limits, n); !reflect.DeepEqual(o, whole) {
			t.Errorf("in pieces of %d: %+v\nwhole: %+v", n, o, whole)
		}
	}
	return whole
}

// halves yields data cut at an octet.
func halves(data []byte, cut int) io.Reader {
	return io.MultiReader(bytes.NewReader(data[:cut:cut]), bytes.NewReader(data[cut:]))
}

func TestCuts(t *testing.T) {
	data := edited(t, "<t:getThing/>", `<t:getThing имя="б"><t:имя>б</t:имя><b c='d' t:e="f"> g </b></t:getThing>`, "EX123", "<t/>ä&amp;\r\n]]")
	want := openAll(t, data, "")
	if want.err != nil {
		t.Fatal(want.err)
	}
	for cut := range data {
		e, err := Open(halves(data, cut), "", Limits{})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if octets, err := io.ReadAll(e); err != nil || !bytes.Equal(octets, data) || !reflect.DeepEqual(e.Header, want.header) {
			t.Fatalf("cut at %d: %v\n%s\n%+v", cut, err, octets, e.Header)
		}
	}
}

func mustOpen(t testing.TB, data []byte, charset string) *Envelope {
	t.Helper()
	e, err := Open(bytes.NewReader(data), charset, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// base is a message that everything is right with.
const base = `<?xml version="1.0" encoding="UTF-8"?>
<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:i="http://x-road.eu/xsd/identifiers">
  <s:Header>
    <x:client i:objectType="SUBSYSTEM"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>GOV</i:memberClass><i:memberCode>1001</i:memberCode><i:subsystemCode>asker</i:subsystemCode></x:client>
    <x:service i:objectType="SERVICE"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>COM</i:memberClass><i:memberCode>2002</i:memberCode><i:subsystemCode>answerer</i:subsystemCode><i:serviceCode>getThing</i:serviceCode><i:serviceVersion>v1</i:serviceVersion></x:service>
    <x:userId>EX123</x:userId>
    <x:id>msg-0001</x:id>
    <x:protocolVersion>4.0</x:protocolVersion>
  </s:Header>
  <s:Body xmlns:t="http://example.org/t"><t:getThing/></s:Body>
</s:Envelope>
`

// edited is base with every pair of strings replaced, the first by the second, once.
func edited(t testing.TB, pairs ...string) []byte {
	t.Helper()
	text := base
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the message has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return []byte(text)
}

func ref[T any](v T) *T { return &v }

func TestHeader(t *testing.T) {
	asker := ident.Client{Instance: "EX", Class: "GOV", Member: "1001", Subsystem: "asker"}
	answerer := ident.Client{Instance: "EX", Class: "COM", Member: "2002", Subsystem: "answerer"}
	whole := func(edit func(*Header)) Header {
		h := Header{
			Client: asker, Service: ident.Service{Client: answerer, Code: "getThing", Version: "v1"},
			UserID: ref("EX123"), ID: "msg-0001", ProtocolVersion: "4.0",
		}
		edit(&h)
		return h
	}
	const serverBlock = `<x:securityServer i:objectType="SERVER"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>COM</i:memberClass>` +
		`<i:memberCode>2002</i:memberCode><i:serverCode>ss2</i:serverCode></x:securityServer>`
	const party = `<r:representedParty xmlns:r="http://x-road.eu/xsd/representation.xsd">`
	for _, c := range []struct {
		name  string
		edits []string
		want  func(*Header)
	}{
		{"as it is", nil, func(*Header) {}},
		{"CRLF everywhere", []string{"<x:id>msg-0001", "<x:id>a\r\nb\rc\n\r\nd"}, func(h *Header) { h.ID = "a\nb\nc\n\nd" }},
		{"carriage return by reference", []string{"msg-0001", "a&#13;\n\r&#10;b"}, func(h *Header) { h.ID = "a\r\n\n\nb" }},
		{"line end around a comment", []string{"msg-0001", "a\r<!-- -->\nb\r<![CDATA[\nc\r]]>\n"}, func(h *Header) { h.ID = "a\n\nb\n\nc\n\n" }},
		{"id not trimmed", []string{"msg-0001", " msg\t0001 "}, func(h *Header) { h.ID = " msg\t0001 " }},
		{"id empty", []string{"<x:id>msg-0001</x:id>", "<x:id/>"}, func(h *Header) { h.ID = "" }},
		{"id in pieces", []string{"msg-0001", "m<!-- c -->s<?p i?>g<![CDATA[-<]>]]]>&#48;&#x30;&amp;&lt;01"}, func(h *Header) { h.ID = "msg-<]>]00&<01" }},
		{"id with a child", []string{"msg-0001", "m<x:id>no<b/>no</x:id>sg<i:memberCode>9</i:memberCode>"}, func(h *Header) { h.ID = "msg" }},
		{"id beyond ASCII", []string{"msg-0001", "мсг-ä-中-😀"}, func(h *Header) { h.ID = "мсг-ä-中-😀" }},
		{"userId absent", []string{"<x:userId>EX123</x:userId>", ""}, func(h *Header) { h.UserID = nil }},
		{"userId empty", []string{"EX123", ""}, func(h *Header) { h.UserID = ref("") }},
		{"userId escaped", []string{"EX123", "&lt;&quot;&amp;&apos;&gt;"}, func(h *Header) { h.UserID = ref("<\"&'>") }},
		{"issue of several lines", []string{"<x:id>", "<x:issue>one\ntwo\nthree</x:issue><x:id>"}, func(h *Header) { h.Issue = ref("one\ntwo\nthree") }},
		{"issue empty", []string{"<x:id>", "<x:issue/><x:id>"}, func(h *Header) { h.Issue = ref("") }},
		{"requestHash", []string{"<x:id>", `<x:requestHash algorithmId="a">YWJj</x:requestHash><x:id>`}, func(h *Header) { h.RequestHash = ref("YWJj") }},
		{"security server", []string{"<x:id>", serverBlock + "<x:id>"}, func(h *Header) {
			h.SecurityServer = &ident.Server{Instance: "EX", Class: "COM", Member: "2002", Code: "ss2"}
		}},
		{"represented party", []string{"<x:id>", party + "<r:partyCode>7</r:partyCode><r:partyClass>COM</r:partyClass></r:representedParty><x:id>"}, func(h *Header) {
			h.Represented = &Party{Class: ref("COM"), Code: "7"}
		}},
		{"represented party without class", []string{"<x:id>", party + "<r:partyCode>7</r:partyCode></r:representedParty><x:id>"}, func(h *Header) {
			h.Represented = &Party{Code: "7"}
		}},
		{"client is a member", []string{`"SUBSYSTEM"`, `"MEMBER"`, "<i:subsystemCode>asker</i:subsystemCode>", ""}, func(h *Header) { h.Client.Subsystem = "" }},
		{"MEMBER with subsystemCode", []string{`"SUBSYSTEM"`, `"MEMBER"`}, func(*Header) {}},
		{"SUBSYSTEM without subsystemCode", []string{"<i:subsystemCode>asker</i:subsystemCode>", ""}, func(h *Header) { h.Client.Subsystem = "" }},
		{"children in another order", []string{"<i:memberCode>1001</i:memberCode><i:subsystemCode>asker</i:subsystemCode>", "<i:subsystemCode>asker</i:subsystemCode>\n<i:memberCode>1001</i:memberCode>"}, func(*Header) {}},
		{"children that are unknown", []string{"<i:memberCode>1001", "<i:serverCode>a</i:serverCode><i:serviceCode/><x:memberCode>b</x:memberCode><i:other><i:memberCode>c</i:memberCode></i:other><i:memberCode>1001"}, func(*Header) {}},
		{"values with white space", []string{">1001<", "> 1001 <"}, func(h *Header) { h.Client.Member = " 1001 " }},
		{"service without subsystem and version", []string{"<i:subsystemCode>answerer</i:subsystemCode>", "", "<i:serviceVersion>v1</i:serviceVersion>", ""}, func(h *Header) {
			h.Service.Subsystem, h.Service.Version = "", ""
		}},
		{"service with empty subsystem and version", []string{">answerer<", "><", ">v1<", "><"}, func(h *Header) {
			h.Service.Subsystem, h.Service.Version = "", ""
			h.empty = emptySubsystem | emptyVersion
		}},
		{"protocol version 4.99beta", []string{"4.0", "4.99beta"}, func(h *Header) { h.ProtocolVersion = "4.99beta" }},
		{"body's name longer than the service code", []string{"t:getThing", "t:getThingResponse"}, func(*Header) {}},
		{"body's name in no namespace", []string{"<t:getThing/>", "<getThing/>"}, func(*Header) {}},
		{"blocks unknown", []string{"<x:id>", `<x:centralService/><x:centralService/><y:id xmlns:y="urn:y" s:mustUnderstand="1">no</y:id><id>no</id><x:id>`}, func(*Header) {}},
		{"blocks deeper", []string{"<x:id>", `<y><x:id>no</x:id><x:client/></y><x:id>`}, func(*Header) {}},
		{"blocks in the Body", []string{"<t:getThing/>", `<t:getThing><x:id>no</x:id><x:client/></t:getThing>`}, func(*Header) {}},
		{"element before the Header", []string{"<s:Header>", "<y><x:id>no</x:id></y><s:Header>"}, func(*Header) {}},
		{"element after the Body", []string{"</s:Body>", "</s:Body><y><z/></y>"}, func(*Header) {}},
		{"Header of another namespace", []string{"<s:Header>", "<Header><x:id>no</x:id></Header><s:Header>"}, func(*Header) {}},
		{"text between", []string{"<s:Header>", "text<s:Header>text", "<t:getThing", "text<t:getThing"}, func(*Header) {}},
		{"other prefixes", []string{"xmlns:s=", "xmlns:e=", "<s:Envelope", "<e:Envelope", "<s:Header", "<Header xmlns='http://schemas.xmlsoap.org/soap/envelope/'", "</s:Header", "</Header",
			"<s:Body", "<e:Body", "</s:Body", "</e:Body", "</s:Envelope", "</e:Envelope",
			"<x:id", "<id xmlns='http://x-road.eu/xsd/xroad.xsd'", "</x:id", "</id",
			"<i:memberCode>1001</i:memberCode", "<x:memberCode xmlns:x='http://x-road.eu/xsd/identifiers'>1001</x:memberCode"}, func(*Header) {}},
		{"namespace written by references", []string{`"http://x-road.eu/xsd/xroad.xsd"`, `'h&#116;tp://x-road.eu/xsd/&#x78;road.xsd'`}, func(*Header) {}},
		{"rpc style", []string{"<s:Envelope", `<s:Envelope s:encodingStyle="http://schemas.xmlsoap.org/soap/encoding/"`}, func(*Header) {}},
		{"types in the body", []string{"<t:getThing/>", `<t:getThing xmlns:q="urn:q" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="q:T">` + strings.Repeat("<q:a>", 200) + strings.Repeat("</q:a>", 200) + `<xop:Include xmlns:xop="http://www.w3.org/2004/08/xop/include" href="cid:a"/></t:getThing>`}, func(*Header) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := edited(t, c.edits...)
			got := openAll(t, data, "utf-8")
			if got.err != nil {
				t.Fatal(got.err)
			}
			if want := whole(c.want); !reflect.DeepEqual(got.header, want) {
				t.Errorf("%+v\nwant %+v", got.header, want)
			}
			if !bytes.Equal(got.octets, data) || got.fault || !strings.HasPrefix(got.body, "getThing") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestRules has the rows of message-and-transport 3.4 by their numbers, and what stands around them.
func TestRules(t *testing.T) {
	const body = `<s:Body xmlns:t="http://example.org/t"><t:getThing/></s:Body>`
	header := base[strings.Index(base, "<s:Header>") : strings.Index(base, "</s:Header>")+len("</s:Header>")]
	for _, c := range []struct {
		name   string
		edits  []string
		cause  string
		reason string
	}{
		{"1 nothing", []string{base, ""}, "invalid_soap", "line 1: the envelope is empty"},
		{"1 not well-formed in the header", []string{"</x:id>", "</x:Id>"}, "invalid_soap", `line 7: this is not the end tag of "x:id"`},
		{"1 not well-formed in the body", []string{"<t:getThing/>", "<t:getThing><a></t:getThing>"}, "invalid_soap", ""},
		{"1 document type", []string{"<s:Envelope", "<!DOCTYPE x SYSTEM 'file:///etc/passwd'><s:Envelope"}, "invalid_soap", "DOCTYPE"},
		{"1 entity", []string{"EX123", "&xxe;"}, "invalid_soap", `the entity "xxe" is not defined`},
		{"1 prefix", []string{"<x:userId>", "<y:userId>", "</x:userId>", "</y:userId>"}, "invalid_soap", `the prefix "y" of an element is not declared`},
		{"1 octets after the root", []string{"</s:Envelope>", "</s:Envelope>x"}, "invalid_soap", "line 11: something follows"},
		{"1 second root", []string{"</s:Envelope>", "</s:Envelope><s:Envelope/>"}, "invalid_soap", "second root"},
		{"1 white space before the declaration", []string{"<?xml", " <?xml"}, "invalid_soap", "XML declaration"},
		{"1 not UTF-8", []string{"<t:getThing/>", "<t:getThing>\xE4</t:getThing>"}, "invalid_soap", "0xe4"},
		{"1 XML 1.1", []string{`"1.0"`, `"1.1"`}, "invalid_soap", "version"},
		{"1 attribute twice", []string{`i:objectType="SERVICE"`, `i:objectType="SERVICE" i:objectType="SERVICE"`}, "invalid_soap", "twice"},
		{"2 SOAP 1.2", []string{"http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"}, "invalid_soap", "SOAP 1.2"},
		{"2 another root", []string{base, "<html/>"}, "invalid_soap", `the root element is "html"`},
		{"2 Envelope of no namespace", []string{base, "<Envelope/>"}, "invalid_soap", "the root element"},
		{"3 block twice", []string{"<x:id>", "<x:id/><x:id>"}, "duplicate_header_field", "line 7: the block id stands twice"},
		{"3 client twice", []string{"<x:id>", `<x:client i:objectType="MEMBER"/><x:id>`}, "duplicate_header_field", "client"},
		{"3 requestHash twice", []string{"<x:id>", "<x:requestHash/><x:requestHash/><x:id>"}, "duplicate_header_field", "requestHash"},
		{"3 represented party twice", []string{"<x:id>", `<r:representedParty xmlns:r="http://x-road.eu/xsd/representation.xsd"/><r:representedParty xmlns:r="http://x-road.eu/xsd/representation.xsd"/><x:id>`}, "duplicate_header_field", "representedParty"},
		{"3 identifier child twice", []string{"<i:memberCode>1001", "<i:memberCode/><i:memberCode>1001"}, "duplicate_header_field", "memberCode stands twice in the block client"},
		{"3 before 4", []string{"<i:memberCode>1001</i:memberCode>", "<i:memberCode/><i:memberCode/>"}, "duplicate_header_field", ""},
		{"3 before 7", []string{"<x:protocolVersion>4.0</x:protocolVersion>", "<x:id/>"}, "duplicate_header_field", ""},
		{"4 no objectType", []string{` i:objectType="SUBSYSTEM"`, ""}, "invalid_xml", "client has no attribute objectType"},
		{"4 objectType without namespace", []string{`i:objectType="SUBSYSTEM"`, `objectType="SUBSYSTEM"`}, "invalid_xml", ""},
		{"4 objectType in another namespace", []string{`i:objectType="SUBSYSTEM"`, `x:objectType="SUBSYSTEM"`}, "invalid_xml", ""},
		{"4 objectType unknown", []string{`"SUBSYSTEM"`, `"SYSTEM"`}, "invalid_xml", `"SYSTEM"; it must be MEMBER or SUBSYSTEM`},
		{"4 objectType in other case", []string{`"SUBSYSTEM"`, `"Subsystem"`}, "invalid_xml", ""},
		{"4 objectType with white space", []string{`"SUBSYSTEM"`, `" SUBSYSTEM"`}, "invalid_xml", ""},
		{"4 objectType of another block", []string{`"SUBSYSTEM"`, `"SERVICE"`}, "invalid_xml", ""},
		{"4 objectType of the service", []string{`"SERVICE"`, `"CENTRALSERVICE"`}, "invalid_xml", "it must be SERVICE"},
		{"4 objectType of the server", []string{"<x:id>", `<x:securityServer i:objectType="SUBSYSTEM"/><x:id>`}, "invalid_xml", "it must be SERVER"},
		{"4 instance missing", []string{"<i:xRoadInstance>EX</i:xRoadInstance>", ""}, "internal_error", "'xRoadInstance' must not be blank"},
		{"4 class blank", []string{">GOV<", "> \n<"}, "internal_error", "'memberClass' must not be blank"},
		{"4 member missing", []string{"<i:memberCode>1001</i:memberCode>", ""}, "internal_error", "in the block client: 'memberCode' must not be blank"},
		{"4 member in another namespace", []string{"i:memberCode>1001</i:", "x:memberCode>1001</x:"}, "internal_error", "'memberCode' must not be blank"},
		{"4 subsystem of the client empty", []string{">asker<", "><"}, "internal_error", "'subsystemCode' must not be blank"},
		{"4 service code missing", []string{"<i:serviceCode>getThing</i:serviceCode>", ""}, "internal_error", "in the block service: 'serviceCode' must not be blank"},
		{"4 server code missing", []string{"<x:id>", `<x:securityServer i:objectType="SERVER"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>COM</i:memberClass><i:memberCode>2002</i:memberCode></x:securityServer><x:id>`}, "internal_error", "'serverCode' must not be blank"},
		{"5 no Header", []string{header, ""}, "missing_header", ""},
		{"5 before 6", []string{header, "", body, ""}, "missing_header", ""},
		{"5 Header after the Body", []string{header, "", body, body + header}, "missing_header", ""},
		{"5 Header after an empty Body", []string{header, "", body, "<s:Body/>" + header}, "missing_header", ""},
		{"6 no Body", []string{body, ""}, "missing_body", ""},
		{"6 before 7", []string{body, "", header, "<s:Header/>"}, "missing_body", ""},
		{"6 Body of another namespace", []string{"<s:Body", "<Body", "</s:Body", "</Body"}, "missing_body", ""},
		{"7 no protocolVersion", []string{"<x:protocolVersion>4.0</x:protocolVersion>", ""}, "missing_header_field", "no block protocolVersion of namespace http://x-road.eu/xsd/xroad.xsd"},
		{"7 before 9", []string{header, "<s:Header/>"}, "missing_header_field", "protocolVersion"},
		{"7 blocks of an older namespace", []string{`xmlns:x="http://x-road.eu/xsd/xroad.xsd"`, `xmlns:x="http://x-road.ee/xsd/x-road.xsd"`}, "missing_header_field", `blocks of namespace "http://x-road.ee/xsd/x-road.xsd" are ignored`},
		{"8 3.5", []string{">4.0<", ">3.5<"}, "invalid_protocol_version", `the protocolVersion is "3.5"; it must begin with 4.`},
		{"8 4", []string{">4.0<", ">4<"}, "invalid_protocol_version", ""},
		{"8 white space", []string{">4.0<", "> 4.0<"}, "invalid_protocol_version", ""},
		{"8 empty", []string{">4.0<", "><"}, "invalid_protocol_version", ""},
		{"8 before 9", []string{">4.0<", "><", "<x:id>msg-0001</x:id>", ""}, "invalid_protocol_version", ""},
		{"9 no client", []string{"x:client", "x:clients", "/x:client", "/x:clients"}, "missing_header_field", "no block client"},
		{"9 before 10", []string{"x:client", "x:clients", "/x:client", "/x:clients", "<x:id>msg-0001</x:id>", ""}, "missing_header_field", "no block client"},
		{"10 no id", []string{"<x:id>msg-0001</x:id>", ""}, "missing_header_field", "no block id"},
		{"11 no service", []string{"x:service", "x:services", "/x:service", "/x:services"}, "missing_header_field", "no block service"},
		{"12 no element in the Body", []string{"<t:getThing/>", "text"}, "invalid_body", "no element"},
		{"12 empty Body", []string{body, "<s:Body/>"}, "invalid_body", "no element"},
		{"12 after 11", []string{body, "<s:Body/>", "<x:id>msg-0001</x:id>", ""}, "missing_header_field", "no block id"},
		{"12 two elements", []string{"<t:getThing/>", "<t:getThing/><t:getThing/>"}, "invalid_body", "a second element"},
		{"12 a Fault as the second element", []string{"<t:getThing/>", "<t:getThing/><s:Fault/>"}, "invalid_body", "a second element"},
		{"13 shorter", []string{"t:getThing", "t:getThin"}, "inconsistent_headers", `the element in the Body is "getThin"; its name must begin with the serviceCode, "getThing"`},
		{"13 in other case", []string{"t:getThing", "t:GetThing"}, "inconsistent_headers", ""},
		{"13 Fault of another namespace", []string{"t:getThing", "t:Fault"}, "inconsistent_headers", ""},
		{"two Headers", []string{header, header + "<s:Header/>"}, "invalid_soap", "a second Header"},
		{"two Headers, the second after the Body", []string{body, body + "<s:Header/>"}, "invalid_soap", "a second Header"},
		{"two Bodies", []string{body, body + body}, "invalid_body", "a second Body"},
		{"two Bodies, the first empty", []string{body, "<s:Body/>" + body}, "invalid_body", "no element"},
		{"two Bodies of faults", []string{body, "<s:Body><s:Fault/></s:Body>" + body}, "invalid_body", "a second Body"},
		{"cut in the header", []string{base[500:], ""}, "invalid_soap", "the envelope ends inside"},
		{"cut in the body", []string{base[strings.Index(base, "</s:Body>"):], ""}, "invalid_soap", `the envelope ends inside the element "s:Body"`},
		{"cut in a fault", []string{"<t:getThing/>", "<s:Fault>", base[strings.Index(base, "</s:Body>"):], ""}, "invalid_soap", `inside the element "s:Fault"`},
		{"fault with a block twice", []string{"<t:getThing/>", "<s:Fault/>", "<x:id>", "<x:id/><x:id>"}, "duplicate_header_field", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := openAll(t, edited(t, c.edits...), "")
			if got.cause != c.cause {
				t.Fatalf("cause %q (%v), want %q", got.cause, got.err, c.cause)
			}
			if !strings.Contains(got.err.Error(), c.reason) {
				t.Errorf("reason %q, want %q", got.err, c.reason)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	header := base[strings.Index(base, "<s:Header>") : strings.Index(base, "</s:Header>")+len("</s:Header>")]
	for _, c := range []struct {
		name  string
		edits []string
	}{
		{"with a header", []string{"<t:getThing/>", "<s:Fault/>"}},
		{"without Header", []string{header, "", "<t:getThing/>", "<s:Fault/>"}},
		{"with an empty Header", []string{header, "<s:Header/>", "<t:getThing/>", "<s:Fault/>"}},
		{"with an old protocol version", []string{">4.0<", ">1<", "<t:getThing/>", "<s:Fault/>"}},
		{"with more in the Body", []string{"<t:getThing/>", "<s:Fault/><t:getThing/><s:Fault/>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := openAll(t, edited(t, c.edits...), "")
			if got.err != nil || !got.fault || got.body != "Fault" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestEarly checks that Open does not wait for what it need not know.
func TestEarly(t *testing.T) {
	child := strings.Index(base, "<t:getThing/>")
	for _, c := range []struct {
		name  string
		text  string
		cause string
	}{
		{"name of the child", base[:child] + "<t:getThing a=''>", ""},
		{"inconsistent", base[:child] + "<t:getThin>", "inconsistent_headers"},
		{"field missing", strings.Replace(base[:child], "<x:id>msg-0001</x:id>", "", 1) + "<t:getThing>", "missing_header_field"},
		{"block twice", strings.Replace(base[:strings.Index(base, "</x:id>")], "<x:id>", "<x:id/><x:id>", 1), "duplicate_header_field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := errors.New("read on")
			e, err := Open(io.MultiReader(strings.NewReader(c.text), iotest.ErrReader(stop)), "", Limits{})
			var bad *Error
			switch {
			case c.cause != "" && (!errors.As(err, &bad) || bad.Cause() != c.cause):
				t.Error(err)
			case c.cause == "" && err != nil:
				t.Error(err)
			case c.cause == "":
				if got, err := io.ReadAll(e); string(got) != c.text || err != stop {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
}

// TestReader checks the Envelope as a reader, against sources of many manners.
func TestReader(t *testing.T) {
	data := bodyOf(strings.Repeat("<t:a>text ä</t:a>\n", 5000))
	for name, source := range map[string]func(io.Reader) io.Reader{
		"whole":            func(r io.Reader) io.Reader { return r },
		"octet by octet":   iotest.OneByteReader,
		"half":             iotest.HalfReader,
		"end with data":    iotest.DataErrReader,
		"without WriterTo": func(r io.Reader) io.Reader { return struct{ io.Reader }{r} },
	} {
		t.Run(name, func(t *testing.T) {
			open := func() *Envelope {
				e, err := Open(source(bytes.NewReader(data)), "", Limits{})
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			if err := iotest.TestReader(open(), data); err != nil {
				t.Error(err)
			}
			var b bytes.Buffer
			if n, err := open().WriteTo(&b); err != nil || n != int64(len(data)) || !bytes.Equal(b.Bytes(), data) {
				t.Errorf("WriteTo: %d, %v", n, err)
			}
			e := open()
			if _, err := io.ReadFull(e, make([]byte, 10)); err != nil {
				t.Error(err)
			}
			b.Reset()
			if n, err := e.WriteTo(&b); err != nil || !bytes.Equal(b.Bytes(), data[10:]) {
				t.Errorf("WriteTo after Read: %d, %v", n, err)
			}
			if n, err := e.WriteTo(&b); n != 0 || err != nil {
				t.Errorf("WriteTo at the end: %d, %v", n, err)
			}
			if n, err := e.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("Read at the end: %d, %v", n, err)
			}
		})
	}
}

// TestReaderErrors checks that a late violation comes in place of the end, and stays.
func TestReaderErrors(t *testing.T) {
	late := bodyOf(strings.Repeat("<t:a>text</t:a>\n", 5000) + "&no;")
	cut := late[:len(late)/2]
	for name, data := range map[string][]byte{"violation": late, "cut": cut} {
		for _, buffered := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " buffered ", buffered), func(t *testing.T) {
				open := func() *Envelope {
					var r io.Reader = bytes.NewReader(data)
					if buffered {
						r = struct{ io.Reader }{r}
					}
					e, err := Open(r, "", Limits{})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				e := open()
				_, err := io.ReadAll(e)
				var bad *Error
				if !errors.As(err, &bad) || bad.Cause() != "invalid_soap" {
					t.Error(err)
				}
				if _, again := e.Read(make([]byte, 1)); again != err {
					t.Error("then", again)
				}
				e = open()
				if _, err := e.WriteTo(io.Discard); !errors.As(err, &bad) || bad.Cause() != "invalid_soap" {
					t.Error(err)
				}
				if n, again := e.WriteTo(io.Discard); n != 0 || !errors.As(again, &bad) {
					t.Error("then", n, again)
				}
			})
		}
	}
	t.Run("of the source", func(t *testing.T) {
		if _, err := Open(iotest.TimeoutReader(pieces{strings.NewReader(base), 10}), "", Limits{}); err != iotest.ErrTimeout {
			t.Error(err)
		}
		if _, err := Open(pieces{strings.NewReader(base), 0}, "", Limits{}); err != io.ErrNoProgress {
			t.Error(err)
		}
	})
	t.Run("of the writer", func(t *testing.T) {
		full := errors.New("full")
		if _, err := mustOpen(t, bodyOf(strings.Repeat(" ", 10000)), "").WriteTo(failing{full}); err != full {
			t.Error(err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestHeaderLimit(t *testing.T) {
	end := strings.Index(base, "<t:getThing/>") + len("<t:getThing/>")
	for _, c := range []struct {
		limit int
		cause string
	}{{end, ""}, {end - 1, "invalid_soap"}, {10, "invalid_soap"}, {1, "invalid_soap"}} {
		got := openLimited(t, []byte(base), "", Limits{Header: c.limit})
		if got.cause != c.cause {
			t.Errorf("limit %d: %v", c.limit, got.err)
		}
		if c.cause != "" && (got.offset != int64(c.limit) || !strings.Contains(got.err.Error(), "do not end within")) {
			t.Errorf("limit %d: %v at %d", c.limit, got.err, got.offset)
		}
	}
}

func TestOffset(t *testing.T) {
	for _, c := range []struct {
		name, text string
		offset     int64
	}{
		{"UTF-8", "<a>ä\x01", 5},
		{"with a byte order mark", "\xEF\xBB\xBF<a>ä\x01", 8},
		{"ISO-8859-1", "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE4\x01", 47},
		{"UTF-16", "\xFE\xFF\x00<\x00a\x00>\xD8\x3D\xDE\x00\x00\x01", 12},
		{"a character of several octets", "<a>\xE4\xB8\x01", 3},
		{"the end", "<a>ä", 5},
	} {
		var bad *Error
		if err := scanAll(t, []byte(c.text), Limits{}); !errors.As(err, &bad) || bad.Offset != c.offset {
			t.Errorf("%s: %v at %d, want %d", c.name, bad, bad.Offset, c.offset)
		}
	}
}

// A long source yields an envelope with a body of n times fill.
type long struct {
	head, tail io.Reader
	fill       string
	n, at      int // at is how much of fill was yielded
}

func (l *long) Read(p []byte) (n int, err error) {
	if n, err := l.head.Read(p); err != io.EOF {
		return n, err
	}
	if l.n == 0 {
		return l.tail.Read(p)
	}
	for n < len(p) && l.n > 0 {
		k := copy(p[n:], l.fill[l.at:])
		n += k
		if l.at += k; l.at == len(l.fill) {
			l.n, l.at = l.n-1, 0
		}
	}
	return n, nil
}

// TestMemory reads 256 MiB without allocating a thing.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a gigabyte")
	}
	const block, size = 1 << 20, 256 << 20
	for name, c := range map[string]struct{ before, fill, after string }{
		"text":       {"<t:getThing>", "abcdefgh\n1234567", "</t:getThing>"},
		"value":      {"<t:getThing a='", "abcdefgh\n1234567", "'></t:getThing>"},
		"elements":   {"<t:getThing>", "<a b='c'> ä </a>", "</t:getThing>"},
		"CDATA":      {"<t:getThing><![CDATA[", "<a b='c'>]]ä </a>", "]]></t:getThing>"},
		"namespaces": {"<t:getThing>", "<a xmlns:b='1'/>", "</t:getThing>"},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, _ := strings.Cut(base, "<t:getThing/>")
			if name == "value" { // the tag must end for Open to return
				before += "<t:getThing>"
				c.before, c.after = "<b a='", "'/></t:getThing>"
			}
			e, err := Open(&long{strings.NewReader(before + c.before), strings.NewReader(c.after + after), c.fill, size / len(c.fill), 0}, "", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 32<<10)
			var total int
			read := func(most int) (err error) {
				for total < most && err == nil {
					var n int
					n, err = e.Read(buf)
					total += n
				}
				return err
			}
			if err := read(block); err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(10, func() { err = read(total + block) }); n > 0 || err != nil {
				t.Errorf("%v allocations in a MiB; %v", n, err)
			}
			if err := read(1 << 30); err != io.EOF || total < size {
				t.Errorf("%d octets, %v", total, err)
			}
		})
	}
}
