// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"time"

	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/ident"
)

// Optional parts of the configuration of the own instance (signature-and-evidence 13.3). Each is a small document in
// which nothing unknown may stand. Cause of their errors: malformed_optional_parts_conf.

func (r *reader) optional(doc []byte, read func(c *sequence)) error {
	err := r.document(doc, smallLimits, "conf", func(e *c14n.Element) {
		c := r.children(e, "")
		read(c)
		c.all()
	})
	if err != nil {
		return refuse("malformed_optional_parts_conf", "%w", err)
	}
	return nil
}

// parseNextUpdate tells whether an OCSP response is too old once the next one was due.
func parseNextUpdate(doc []byte) (verify bool, err error) {
	var r reader
	err = r.optional(doc, func(c *sequence) { verify = r.boolean(c.one("verifyNextUpdate")) })
	return verify, err
}

// parseFetchInterval tells how often OCSP responses are to be fetched.
func parseFetchInterval(doc []byte) (interval time.Duration, err error) {
	var r reader
	err = r.optional(doc, func(c *sequence) { interval = r.seconds(c.one("ocspFetchInterval")) })
	return interval, err
}

// parseMonitoring tells who may ask all security servers for their monitoring data; the zero Client is nobody.
func parseMonitoring(doc []byte) (client ident.Client, err error) {
	var r reader
	err = r.optional(doc, func(c *sequence) {
		inner := r.children(c.one("monitoringClient"), "")
		if id := inner.maybe("monitoringClientId"); id != nil {
			client = r.client(id)
		}
		inner.all()
	})
	return client, err
}
