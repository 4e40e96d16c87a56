// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// Value returns the decoded ds:SignatureValue of a signature document, which is what a single time-stamp is over
// (section 9.1). It verifies nothing.
func Value(xml []byte) ([]byte, error) {
	d, err := read(xml)
	if err != nil {
		return nil, err
	}
	return d.value, nil
}

// AddTimestamp returns the signature document with a single time-stamp in it: the token, DER, over its Value. All other
// octets stay. A document that has one is refused.
func AddTimestamp(xml, token []byte) ([]byte, error) {
	const tag, end = "<xades:UnsignedSignatureProperties", ">"
	d, err := read(xml)
	if err != nil {
		return nil, err
	}
	if len(d.stamps) > 0 {
		return nil, errors.New("adding a time-stamp: the signature has one")
	}
	at := bytes.LastIndex(xml, []byte(tag))
	if at < 0 {
		return nil, errors.New("adding a time-stamp: the signature has no " + tag + end)
	}
	at += bytes.Index(xml[at:], []byte(end)) + len(end)
	stamp := `<xades:SignatureTimeStamp><xades:EncapsulatedTimeStamp>` + encode(token) + `</xades:EncapsulatedTimeStamp></xades:SignatureTimeStamp>`
	stamped := append(append(bytes.Clone(xml[:at]), stamp...), xml[at:]...)

	// The place was searched for in text, where a comment may have misled: what counts is what a reader finds.
	after, err := read(stamped)
	if err != nil {
		return nil, fmt.Errorf("adding a time-stamp: %w", err)
	}
	if len(after.stamps) != 1 || !bytes.Equal(after.stamps[0], token) {
		return nil, errors.New("adding a time-stamp: the signature has no place for one")
	}
	return stamped, nil
}

// timestamp reads a time-stamp token, inside its element or, in an old form, without it (section 9.1).
func (r *reader) timestamp(e *c14n.Element) []byte {
	if len(e.Children()) > 0 {
		children := r.Open(e, "Id")
		if method := children.Maybe(dsSpace, "CanonicalizationMethod"); method != nil {
			r.Open(method, "Algorithm").End() // of no meaning: the value is stamped, not its element
		}
		e = children.One(xadesSpace, "EncapsulatedTimeStamp")
		children.End()
	}
	return r.Base64(e, "Id", "Encoding")
}
