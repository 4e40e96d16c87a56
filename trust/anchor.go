// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// Anchor says where the configuration of an instance is downloaded from, and who signs it (signature-and-evidence 13.1).
type Anchor struct {
	Generated time.Time // zero: it does not tell
	Instance  string
	Sources   []Source
}

// Source is one place that a configuration comes from.
type Source struct {
	URL          string
	Certificates [][]byte // as they stand there, DER or PEM text: only their public keys count
}

// smallLimits are those of anchors, private parameters and optional parts.
var smallLimits = c14n.Limits{Size: maxSmall, Depth: 16, Attributes: 16, Nodes: 20_000}

// maxSmall is the size of the largest of these that are read, in octets.
const maxSmall = 1 << 20

// ParseAnchor reads a configuration anchor. Cause: malformed_anchor.
func ParseAnchor(doc []byte) (Anchor, error) {
	var r reader
	var a Anchor
	err := r.document(doc, smallLimits, "configurationAnchor", func(e *c14n.Element) { a = r.anchor(e) })
	if err != nil {
		return Anchor{}, refuse("malformed_anchor", "%w", err)
	}
	return a, nil
}

func (r *reader) anchor(e *c14n.Element) Anchor {
	var a Anchor
	c := r.children(e, "")
	if generated := c.maybe("generatedAt"); generated != nil {
		a.Generated = r.time(generated)
	}
	a.Instance = r.identifier(c.one("instanceIdentifier"))
	for _, source := range c.least("source") {
		c := r.children(source, "")
		s := Source{URL: r.words(c.one("downloadURL"))}
		for _, cert := range c.least("verificationCert") {
			s.Certificates = append(s.Certificates, r.base64(cert))
		}
		c.end()
		a.Sources = append(a.Sources, s)
	}
	c.end()
	return a
}

// time reads xs:dateTime, whose time zone may be missing: then it is UTC.
func (r *reader) time(e *c14n.Element) time.Time {
	text := r.words(e)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t, err = time.Parse("2006-01-02T15:04:05", text)
	}
	if err != nil {
		r.fail(e, "%q is no time", text)
	}
	return t
}
