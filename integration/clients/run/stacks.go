// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// cases are the exchanges that every client is asked for: a form, and the
// direction in which attachments travel.
var cases = []string{
	"plain",
	"swa-request", "swa-response", "swa-both",
	"mtom-request", "mtom-response", "mtom-both",
}

// Some of the cases, for options.
var (
	fileCases    = cases[1:]
	swaCases     = []string{"swa-request", "swa-both"}
	mtomCases    = []string{"plain", "mtom-request", "mtom-response", "mtom-both"}
	requestCases = []string{"swa-request", "mtom-request"}
	answerCases  = []string{"swa-response", "mtom-response"}
)

// withoutLineEnds are sizes at which the octets of no file contain CR or LF.
var withoutLineEnds = []string{"0", "100", "11"}

// invalidContentType is the fault code of what is said to be no SOAP message.
const invalidContentType = "client.invalid_content_type"

// A stack is a SOAP stack of others with an echo client, an echo service, or both.
type stack struct {
	name    string // of its folder and, as subsystem code, of its service
	title   string
	version func(dir string) (string, error)
	// client and service are command lines, run in dir (integration/clients),
	// to which the arguments are added: URL CLIENT SERVICE SIZES CASE... and
	// PORT. Empty where the stack has no such side.
	client, service []string
	send            sender // in place of client: how the reference's message gets on the wire
	gaps            []gap
	remarks         []string // what who integrates this stack should know
	options         []option
	option          *option // of options, where this is the stack with it
}

// An option is a setting of a stack that changes what it sends. With one, a stack has rows of its own, and as name that
// of the stack, a hyphen and the option's. Its client and service find the option's name in the variable OPTION.
type option struct {
	name    string
	how     string   // in the words of the stack
	cases   []string // that the option matters to
	service bool     // the stack's service has it, too
	send    sender   // in place of the stack's
	peer    string   // name of the stack whose service is asked; the reference if empty
	inline  bool     // octets of some files stand in the body
	sizes   []string // of files, where the option is not for all
	refused string   // the fault code that it gets, where what it sends is nothing for a security server
	gaps    []gap
}

// A gap is what a stack cannot do, with the reason.
type gap struct {
	role  string // "client" or "service"
	cases []string
	why   string
}

var stacks = []stack{
	{
		name: "cxf", title: "Apache CXF", version: pomVersion("cxf.version"),
		client: java("cxf", "Client"), service: java("cxf", "Service"),
		options: []option{
			{name: "chunked", how: "`AllowChunking`, `ChunkingThreshold` 0", cases: cases},
			{name: "length", how: "`AllowChunking` false", cases: cases},
			{name: "threshold0", how: "`MTOMFeature(true, 0)`", cases: mtomCases},
			{name: "threshold64", how: "`MTOMFeature(true, 64)`: smaller files stay in the body", cases: mtomCases, inline: true},
			{name: "http2", how: "`HTTPClientPolicy.setVersion(\"2\")`", cases: cases},
			{name: "gzip", how: "`GZIPOutInterceptor`", cases: []string{"plain"}, refused: invalidContentType},
			{name: "soap12", how: "`SOAP12HTTP_BINDING`", cases: []string{"plain", "mtom-request"}, refused: "client."},
		},
		remarks: []string{
			"A client with MTOM switched on sends even a request without files as multipart, of one part",
			"Every request offers `Upgrade: h2c`; a client that is set to HTTP/2 also sends OPTIONS before its first message, gets a " +
				"fault for it, and goes on in HTTP/1.1",
			"A service adds SwA attachments to the map that the message context holds; a map put in its place is forgotten",
			"To a request whose Content-Type names no charset, CXF on Jetty answers `text/xml;charset=iso-8859-1` over a body in " +
				"UTF-8; security servers always name UTF-8, so it shows only without them",
		},
	},
	{
		name: "saaj", title: "SAAJ (Metro)", version: pomVersion("saaj.version"),
		client: java("saaj", "Client"), service: java("saaj", "Service"),
		options: []option{
			{name: "base64", how: "Content-Transfer-Encoding base64 on the attachments", cases: fileCases, service: true},
			{name: "quoted-printable", how: "Content-Transfer-Encoding quoted-printable on the attachments", cases: fileCases, service: true,
				sizes: withoutLineEnds},
		},
		remarks: []string{
			"MTOM is written by hand: the includes in the body, and a Content-Type set before the message is saved",
			"`AttachmentPart.getRawContentBytes` throws NegativeArraySizeException for an empty attachment; `getRawContent` reads it",
			"Quoted-printable is for text: every line end becomes CR LF, so files with line ends of other kinds arrive changed; " +
				"here they have none",
			"`SOAPMessage.getAttachment` does not decode the percent signs of a `cid:` URL, so it misses the parts that CXF includes",
		},
	},
	{
		name: "gsoap", title: "gSOAP", version: debianVersion("gsoap"),
		client: []string{"gsoap/build/echo", "client"}, service: []string{"gsoap/build/echo", "service"},
		options: []option{
			{name: "chunked", how: "`SOAP_IO_CHUNK`", cases: cases, service: true},
			{name: "streaming", how: "`SOAP_IO_CHUNK`, files by `fmimeread` without a size", cases: fileCases, service: true},
			{name: "dime", how: "`SOAP_ENC_DIME` (off in all other rows)", cases: []string{"mtom-request"}, refused: invalidContentType},
		},
	},
	{
		name: "zeep", title: "zeep", version: debianVersion("python3-zeep"),
		client: []string{"/usr/bin/python3", "zeep/client.py"},
		gaps: []gap{
			{"client", []string{"swa-request", "swa-both", "mtom-request", "mtom-both"},
				"zeep reads attachments of both forms, but has no way to send any: a request is always one XML document"},
			{"service", cases, "zeep is a client library"},
		},
		remarks: []string{
			"zeep cuts CR and LF off both ends of an attachment whose Content-Transfer-Encoding is binary",
		},
		options: []option{
			{name: "cxf", how: "multipart answers of Apache CXF", cases: answerCases, peer: "cxf"},
			{name: "saaj", how: "multipart answers of SAAJ", cases: answerCases, peer: "saaj"},
			{name: "saaj-base64", how: "multipart answers of SAAJ, base64", cases: answerCases, peer: "saaj-base64"},
			{name: "saaj-quoted-printable", how: "multipart answers of SAAJ, quoted-printable", cases: answerCases, peer: "saaj-quoted-printable",
				gaps: []gap{{"client", answerCases, "zeep decodes base64 only, and hands over quoted-printable as it came"}}},
			{name: "gsoap", how: "multipart answers of gSOAP", cases: answerCases, peer: "gsoap"},
			{name: "gsoap-streaming", how: "multipart answers of gSOAP, chunked", cases: answerCases, peer: "gsoap-streaming"},
		},
	},
	{
		name: "nodesoap", title: "node soap", version: npmVersion("soap"),
		client: []string{"node", "nodesoap/client.js"}, service: []string{"node", "nodesoap/service.js"},
		gaps: []gap{
			{"service", cases[1:],
				"the server of node soap takes the whole HTTP body for the envelope and can add no parts to an answer"},
		},
		remarks: []string{
			"Every multipart request is marked as XOP, also where the body includes none of its attachments; " +
				"the includes of MTOM are written by hand",
			"The answer of a service has the Content-Type of the request",
			"`forceGzip` leaves the Content-Length of the body before it was compressed, so whoever reads it waits for the rest",
		},
		options: []option{
			{name: "forceMTOM", how: "`forceMTOM`, also without files", cases: cases},
			{name: "gzip", how: "`forceGzip`", cases: []string{"plain"}, refused: invalidContentType},
		},
	},
	{
		name: "curl", title: "curl", version: curlVersion,
		send: curl(handMade),
		gaps: []gap{
			{"service", cases, "curl is a client"},
		},
		remarks: []string{
			"`-F` alone makes multipart/form-data, which no security server takes; with a header field that names multipart/related, " +
				"curl adds the boundary to it, and the body is a message like another",
			"`-d @FILE` drops line ends, so a message needs `--data-binary @FILE`",
		},
		options: []option{
			{name: "bare", how: "a body as written by hand: boundary without quotes, no ids, parts with a Content-Type only", cases: swaCases, send: curl(bare)},
			{name: "lf", how: "a body as written in an editor: a line before the first delimiter, lines that end in LF, none behind the last",
				cases: swaCases, send: curl(editor)},
			{name: "chunked", how: "`-H 'Transfer-Encoding: chunked'`", cases: cases, send: curl(handMade, "-H", "Transfer-Encoding: chunked")},
			{name: "expect", how: "`-H 'Expect: 100-continue'`", cases: cases, send: curl(handMade, "-H", "Expect: 100-continue")},
			{name: "form-related", how: "`-F` for each part, with `-H 'Content-Type: multipart/related; type=…'`", cases: fileCases, send: curl(related("binary"))},
			{name: "form-base64", how: "the same, with `;encoder=base64`", cases: fileCases, send: curl(related("base64"))},
			{name: "form-quoted-printable", how: "the same, with `;encoder=quoted-printable`", cases: fileCases, send: curl(related("quoted-printable"))},
			{name: "form", how: "`-F` alone: multipart/form-data", cases: requestCases, send: curl(formData), refused: invalidContentType},
			{name: "data", how: "`-d @FILE`: application/x-www-form-urlencoded", cases: []string{"plain"}, send: curl(urlEncoded), refused: invalidContentType},
		},
	},
	{
		name: "xrd4j", title: "NIIS XRd4J", version: func(string) (string, error) { return "", nil },
		gaps: []gap{
			{"client", cases, xrd4j},
			{"service", cases, xrd4j},
		},
	},
}

const xrd4j = "XRd4J is published in the artifact repository of NIIS only, not in Maven Central, so it cannot be built from " +
	"the common registries. Its client sends and reads with SAAJ's SOAPConnection, as the SAAJ rows do; it has no MTOM of its own"

// with returns the stack with an option.
func (s stack) with(o option) stack {
	s.name += "-" + o.name
	s.gaps = append(slices.Clone(s.gaps), o.gaps...)
	if o.send != nil {
		s.send = o.send
	}
	if !o.service {
		s.service = nil
	}
	s.option, s.options, s.remarks = &o, nil, nil
	return s
}

// expand puts behind each stack the same with each of its options.
func expand(chosen []stack) (out []stack) {
	for _, s := range chosen {
		out = append(out, s)
		for _, o := range s.options {
			out = append(out, s.with(o))
		}
	}
	return out
}

// slow reports whether the stack takes long to start.
func (s stack) slow() bool { return len(s.client) > 0 && s.client[0] == "java" }

// asks reports whether the stack has a client.
func (s stack) asks() bool { return s.client != nil || s.send != nil }

// can reports whether the stack can do a case in a role, and why not if it cannot.
func (s stack) can(role, name string) (bool, string) {
	if s.option != nil && !slices.Contains(s.option.cases, name) {
		return false, ""
	}
	for _, g := range s.gaps {
		if g.role == role && slices.Contains(g.cases, name) {
			return false, g.why
		}
	}
	return true, ""
}

// able returns the cases that the stack can do in all the roles given.
func (s stack) able(roles ...string) []string {
	return slices.DeleteFunc(slices.Clone(cases), func(name string) bool {
		return slices.ContainsFunc(roles, func(role string) bool {
			ok, _ := s.can(role, name)
			return !ok
		})
	})
}

func java(module, class string) []string {
	return []string{"java", "-cp", module + "/target/classes:" + module + "/target/lib/*", "fairway." + class}
}

func pomVersion(property string) func(string) (string, error) {
	return func(dir string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, "pom.xml"))
		if err != nil {
			return "", err
		}
		var pom struct {
			Properties struct {
				All []struct {
					XMLName xml.Name
					Value   string `xml:",chardata"`
				} `xml:",any"`
			} `xml:"properties"`
		}
		if err := xml.Unmarshal(text, &pom); err != nil {
			return "", err
		}
		for _, p := range pom.Properties.All {
			if p.XMLName.Local == property {
				return p.Value, nil
			}
		}
		return "", fmt.Errorf("pom.xml has no property %s", property)
	}
}

func debianVersion(name string) func(string) (string, error) {
	return func(string) (string, error) {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
		if err != nil {
			return "", fmt.Errorf("asking for the version of %s: %w", name, err)
		}
		upstream, _, _ := strings.Cut(string(out), "-")
		return upstream, nil
	}
}

func npmVersion(name string) func(string) (string, error) {
	return func(dir string) (string, error) {
		cmd := exec.Command("node", "-p", "require('soap/package.json').version")
		cmd.Dir = filepath.Join(dir, "nodesoap")
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
}

func curlVersion(string) (string, error) {
	out, err := exec.Command("curl", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of curl: %w", err)
	}
	return strings.Fields(string(out))[1], nil // curl 7.88.1 (…
}

// choose returns the stacks of a comma-separated list of names, all if it is empty.
func choose(list string) ([]stack, error) {
	if list == "" {
		return stacks, nil
	}
	var out []stack
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(stacks, func(s stack) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown stack %q", name)
		}
		out = append(out, stacks[i])
	}
	slices.SortStableFunc(out, func(a, b stack) int { return cmp.Compare(order(a), order(b)) })
	return out, nil
}

func order(s stack) int {
	return slices.IndexFunc(stacks, func(other stack) bool { return other.name == s.name })
}
