// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"

	"github.com/caddy-fairway/fairway/crypto"
)

// Request asks for a time-stamp.
type Request struct {
	// Digest and Sum are what is stamped: a digest of the data. X-Road has SHA-512.
	Digest crypto.Digest
	Sum    []byte
	// Nonce tells the answer from those to earlier requests of the same. X-Road sends none: nil.
	Nonce *big.Int
}

// Structures of RFC 3161 sections 2.4.1 and 2.4.2.
type (
	timeStampReq struct {
		Version      int
		Imprint      imprint
		Policy       asn1.ObjectIdentifier `asn1:"optional"`
		Nonce        *big.Int              `asn1:"optional"`
		Certificates bool                  `asn1:"optional"`
		Extensions   []pkix.Extension      `asn1:"optional,tag:0"`
	}
	timeStampResp struct {
		Status statusInfo
		Token  asn1.RawValue `asn1:"optional"`
	}
	statusInfo struct {
		Status  int
		Text    []asn1.RawValue `asn1:"optional"`
		Failure asn1.BitString  `asn1:"optional"`
	}
)

// Values of PKIStatus.
const (
	granted         = 0
	grantedWithMods = 1
	rejection       = 2
)

// DER returns the request as it is sent (section 9.2).
func (r Request) DER() ([]byte, error) {
	for _, m := range methods {
		if r.Digest.Known() && r.Digest == m.Digest && len(r.Sum) == r.Digest.Size() {
			return asn1.Marshal(timeStampReq{Version: 1, Imprint: imprint{m.identifier(), r.Sum}, Nonce: r.Nonce})
		}
	}
	return nil, fmt.Errorf("asking for a time-stamp over a digest of method %d with %d octets: there is none such", r.Digest, len(r.Sum))
}

// Accept judges the response of an authority, and returns its token as it is kept: with the certificate of the authority
// in front of those that came with it (sections 9.2 and 9.3). The token is judged as new evidence. Causes: the mlog.… of
// these sections.
func (r Request) Accept(response []byte, authorities []*x509.Certificate) (*Token, error) {
	t, err := readResponse(response)
	if err != nil {
		return nil, err
	}
	if !t.stamps(r.Digest, r.Sum) {
		return nil, failf(responseInvalid, "%s answers another request (hashes do not match)", t)
	}
	if r.Nonce != nil && (t.Nonce == nil || t.Nonce.Cmp(r.Nonce) != 0) {
		return nil, failf(responseInvalid, "%s answers another request (nonces do not match)", t)
	}
	authority, err := t.authority(authorities, Present)
	if err != nil {
		return nil, err
	}
	if t, err = t.with(authority); err != nil {
		return nil, failf(responseInvalid, "adding the certificate of the authority: %v", err)
	}
	return t, nil
}

// readResponse returns the token of a response that grants one.
func readResponse(ber []byte) (*Token, error) {
	if len(ber) > maxResponse {
		return nil, failf(responseInvalid, "reading the response: it has %d octets; at most %d are read", len(ber), maxResponse)
	}
	var response timeStampResp
	if _, err := read(ber, &response); err != nil {
		return nil, failf(responseInvalid, "reading the response: %w", err)
	}
	if s := response.Status; s.Status != granted && s.Status != grantedWithMods {
		return nil, failf(notGranted, "the authority does not grant a time-stamp: %s", s)
	}
	t, err := ParseToken(response.Token.FullBytes)
	if err != nil {
		return nil, failf(responseInvalid, "%v", err) // not %w: the cause of a token in evidence does not fit here
	}
	return t, nil
}

// String tells what the authority says, with the numbers of RFC 3161 section 2.4.2.
func (s statusInfo) String() string {
	text := fmt.Sprintf("status %d", s.Status)
	for i := range min(s.Failure.BitLength, 32) {
		if s.Failure.At(i) != 0 {
			text += fmt.Sprintf(", failure %d", i)
		}
	}
	for _, t := range s.Text[:min(len(s.Text), 4)] {
		text += fmt.Sprintf(", %.200q", t.Bytes)
	}
	return text
}
