// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/ident"
)

// private are the private parameters of the own instance (signature-and-evidence 13.5).
type private struct {
	instance   string
	anchors    []Anchor // of federated instances
	management management
	interval   time.Duration // how often to time-stamp evidence
}

// management is the service that registers authentication certificates and clients.
type management struct {
	address     string
	certificate []byte // DER or PEM text; nil: it has none
	provider    ident.Client
}

// parsePrivate reads private parameters of any version. Cause: malformed_global_conf.
func parsePrivate(doc []byte) (private, error) {
	var r reader
	var p private
	err := r.document(doc, smallLimits, "conf", func(e *c14n.Element) {
		c := r.children(e, "")
		p.instance = r.identifier(c.one("instanceIdentifier"))
		for _, anchor := range c.some("configurationAnchor") {
			p.anchors = append(p.anchors, r.anchor(anchor))
		}
		p.management = r.management(c.one("managementService"))
		p.interval = r.seconds(c.one("timeStampingIntervalSeconds"))
		c.end()
	})
	if err != nil {
		return private{}, refuse("malformed_global_conf", "%w", err)
	}
	return p, nil
}

func (r *reader) management(e *c14n.Element) management {
	c := r.children(e, "")
	m := management{address: r.words(c.one("authCertRegServiceAddress"))}
	if cert := c.maybe("authCertRegServiceCert"); cert != nil {
		m.certificate = r.base64(cert)
	}
	m.provider = r.client(c.one("managementRequestServiceProviderId"))
	c.end()
	return m
}
