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

// A stack is a SOAP stack of others with an echo client, an echo service, or both.
type stack struct {
	name    string // of its folder and, as subsystem code, of its service
	title   string
	version func(dir string) (string, error)
	// client and service are command lines, run in dir (integration/clients),
	// to which the arguments are added: URL CLIENT SERVICE SIZES CASE... and
	// PORT. Empty where the stack has no such side.
	client, service []string
	gaps            []gap
	remarks         []string // what who integrates this stack should know
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
		remarks: []string{
			"A client with MTOM switched on sends even a request without files as multipart, of one part",
			"A service adds SwA attachments to the map that the message context holds; a map put in its place is forgotten",
			"To a request whose Content-Type names no charset, CXF on Jetty answers `text/xml;charset=iso-8859-1` over a body in " +
				"UTF-8; security servers always name UTF-8, so it shows only without them",
		},
	},
	{
		name: "saaj", title: "SAAJ (Metro)", version: pomVersion("saaj.version"),
		client: java("saaj", "Client"), service: java("saaj", "Service"),
		remarks: []string{
			"MTOM is written by hand: the includes in the body, and a Content-Type set before the message is saved",
			"`AttachmentPart.getRawContentBytes` throws NegativeArraySizeException for an empty attachment; `getRawContent` reads it",
			"`SOAPMessage.getAttachment` does not decode the percent signs of a `cid:` URL, so it misses the parts that CXF includes",
		},
	},
	{
		name: "gsoap", title: "gSOAP", version: debianVersion("gsoap"),
		client: []string{"gsoap/build/echo", "client"}, service: []string{"gsoap/build/echo", "service"},
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

// can reports whether the stack can do a case in a role, and why not if it cannot.
func (s stack) can(role, name string) (bool, string) {
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
