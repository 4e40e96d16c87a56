// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"encoding/asn1"
	"errors"
	"reflect"
)

// maxDepth is how deep elements may stand in each other. Those of a certificate inside a token are some 14 deep.
const maxDepth = 32

// read reads what came from outside into a structure, and returns it as DER. Some authorities write BER, with indefinite
// lengths and octet strings in pieces; that much is rewritten, and whatever else is not DER is refused.
func read(ber []byte, into any) (der []byte, err error) {
	der, rest, err := definite(ber, maxDepth)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, errors.New("something comes after it")
	}
	return der, exact(der, into, "")
}

// exact reads DER, and only what asn1.Marshal would write: encoding/asn1 itself overlooks some slack.
func exact(der []byte, into any, params string) error {
	if _, err := asn1.UnmarshalWithParams(der, into, params); err != nil {
		return err
	}
	again, err := asn1.MarshalWithParams(reflect.ValueOf(into).Elem().Interface(), params)
	if err == nil && !bytes.Equal(again, der) {
		err = errors.New("it is not exact DER")
	}
	return err
}

// definite rewrites the first element of BER with definite lengths, and with octet strings in one piece.
func definite(ber []byte, depth int) (der, rest []byte, err error) {
	if depth == 0 {
		return nil, nil, errors.New("its elements stand too deep in each other")
	}
	const compound, number, indefinite = 0x20, 0x1f, 0x80
	var v asn1.RawValue
	open := len(ber) > 1 && ber[0]&compound != 0 && ber[0]&number != number && ber[1] == indefinite
	if open {
		v = asn1.RawValue{Class: int(ber[0] >> 6), Tag: int(ber[0] & number), Bytes: ber[2:]}
	} else if rest, err = asn1.Unmarshal(ber, &v); err != nil || !v.IsCompound {
		return v.FullBytes, rest, err
	}
	pieces := v.Class == asn1.ClassUniversal && v.Tag == asn1.TagOctetString
	var content []byte
	for inner := v.Bytes; open || len(inner) > 0; {
		if open && bytes.HasPrefix(inner, []byte{0, 0}) {
			rest = inner[2:]
			break
		}
		var child []byte
		if child, inner, err = definite(inner, depth-1); err == nil && pieces {
			_, err = asn1.Unmarshal(child, &child)
		}
		if err != nil {
			return nil, nil, err
		}
		content = append(content, child...)
	}
	der, err = asn1.Marshal(asn1.RawValue{Class: v.Class, Tag: v.Tag, IsCompound: !pieces, Bytes: content})
	return der, rest, err
}
