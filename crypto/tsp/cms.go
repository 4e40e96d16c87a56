// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
)

// Structures of a token. (RFC 5652, RFC 3161 section 2.4.2, RFC 2634 section 5.4, RFC 5035 section 4)
type (
	contentInfo struct {
		Type asn1.ObjectIdentifier
		Data signedData `asn1:"explicit,tag:0"`
	}
	signedData struct {
		Version      int
		Digests      []pkix.AlgorithmIdentifier `asn1:"set"`
		Content      encapsulated
		Certificates asn1.RawValue `asn1:"optional,tag:0"`
		Revocations  asn1.RawValue `asn1:"optional,tag:1"`
		Signers      []signerInfo  `asn1:"set"`
	}
	encapsulated struct {
		Type   asn1.ObjectIdentifier
		Octets []byte `asn1:"explicit,tag:0"`
	}
	signerInfo struct {
		Version    int
		ID         asn1.RawValue // issuerAndSerial, or the identifier of a key as [0]
		Digest     pkix.AlgorithmIdentifier
		Attributes asn1.RawValue `asn1:"tag:0"`
		Algorithm  pkix.AlgorithmIdentifier
		Signature  []byte
		Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
	}
	issuerAndSerial struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	attribute struct {
		Type   asn1.ObjectIdentifier
		Values []asn1.RawValue `asn1:"set"`
	}
	tstInfo struct {
		Version    int
		Policy     asn1.ObjectIdentifier
		Imprint    imprint
		Serial     *big.Int
		GenTime    asn1.RawValue    // GeneralizedTime, perhaps with a fraction, which asn1.Marshal does not write
		Accuracy   accuracy         `asn1:"optional"`
		Ordering   bool             `asn1:"optional"`
		Nonce      *big.Int         `asn1:"optional"`
		TSA        asn1.RawValue    `asn1:"optional,explicit,tag:0"`
		Extensions []pkix.Extension `asn1:"optional,tag:1"`
	}
	imprint struct {
		Digest pkix.AlgorithmIdentifier
		Sum    []byte
	}
	accuracy           struct{ Raw asn1.RawContent }
	signingCertificate struct {
		Certs    []certID
		Policies asn1.RawValue `asn1:"optional"`
	}
	certID struct {
		Digest pkix.AlgorithmIdentifier `asn1:"optional"` // version 2 only; SHA-256 where it is left out
		Sum    []byte
		Names  issuerAndSerial `asn1:"optional"` // the issuer as GeneralNames
	}
)

var (
	signedDataOID           = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	tstInfoOID              = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 1, 4}
	contentTypeOID          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	messageDigestOID        = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
	signingTimeOID          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 5}
	signingCertificateOID   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 12}
	signingCertificateV2OID = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 47}
)

// tagged returns a constructed element with a tag of its context.
func tagged(tag int, content []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, IsCompound: true, Bytes: content}
}
