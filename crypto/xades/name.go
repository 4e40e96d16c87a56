// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// keywords are the attribute types that RFC 2253 names (section 2.3 there); the others are written as numbers.
var keywords = map[string]string{
	"2.5.4.3":                    "CN",
	"2.5.4.6":                    "C",
	"2.5.4.7":                    "L",
	"2.5.4.8":                    "ST",
	"2.5.4.9":                    "STREET",
	"2.5.4.10":                   "O",
	"2.5.4.11":                   "OU",
	"0.9.2342.19200300.100.1.1":  "UID",
	"0.9.2342.19200300.100.1.25": "DC",
}

type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// relativeSET is a relative distinguished name; encoding/asn1 takes it for a SET by its name.
type relativeSET []attribute

// distinguishedName writes a DER name as RFC 2253 does: the last part first.
func distinguishedName(der []byte) (string, error) {
	var sequence []relativeSET
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return "", errors.New("malformed name in a certificate")
	}
	slices.Reverse(sequence)
	var b strings.Builder
	for i, relative := range sequence {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, a := range relative {
			if j > 0 {
				b.WriteByte('+')
			}
			b.WriteString(a.String())
		}
	}
	return b.String(), nil
}

func (a attribute) String() string {
	oid := a.Type.String()
	keyword, ok := keywords[oid]
	if !ok || !a.isText() {
		return oid + "=#" + hex.EncodeToString(a.Value.FullBytes)
	}
	return keyword + "=" + escape(string(a.Value.Bytes))
}

// isText reports whether the value is a string that can stand in the document as it is.
func (a attribute) isText() bool {
	switch a.Value.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagNumericString:
	default:
		return false
	}
	return a.Value.Class == asn1.ClassUniversal && utf8.Valid(a.Value.Bytes) &&
		!strings.ContainsFunc(string(a.Value.Bytes), func(r rune) bool { return r < 0x20 || r == 0xFFFE || r == 0xFFFF })
}

// escape does what RFC 2253 section 2.4 asks for.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		first, last := i == 0, i == len(s)-1
		if strings.IndexByte(`,+"\<>;`, s[i]) >= 0 || s[i] == ' ' && (first || last) || s[i] == '#' && first {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
