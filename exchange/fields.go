// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"net/http"
	"strings"

	"github.com/caddy-fairway/fairway/wire"
)

// contentType returns the Content-Type of an HTTP message, "" where it has none. It refuses one that stands twice, of
// which two readers would take two, and a body that is encoded: what is signed is what was sent.
func contentType(h http.Header) (string, error) {
	for _, encoding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(encoding, "identity") {
			return "", wire.Errorf("invalid_content_type", "the body has Content-Encoding %q; send it unencoded", encoding)
		}
	}
	if err := single(h, "Content-Type"); err != nil {
		return "", err
	}
	return h.Get("Content-Type"), nil
}

// single refuses header fields that stand more than once.
func single(h http.Header, names ...string) error {
	for _, name := range names {
		if n := len(h.Values(name)); n > 1 {
			return wire.Errorf("invalid_content_type", "the header field %s stands %d times", name, n)
		}
	}
	return nil
}
