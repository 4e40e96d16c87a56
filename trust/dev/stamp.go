// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/http"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
)

// certificateOfStamper has time-stamping as its only purpose, critical, as RFC 3161 section 2.3 wants it.
func certificateOfStamper(instance string) *x509.Certificate {
	purpose := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}
	value, err := asn1.Marshal([]asn1.ObjectIdentifier{purpose})
	if err != nil {
		panic("internal error: " + err.Error()) // a constant
	}
	return &x509.Certificate{
		Subject:         pkix.Name{Country: []string{"FI"}, Organization: []string{organisation}, CommonName: instance + " development TSA"},
		KeyUsage:        x509.KeyUsageDigitalSignature,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: value}},
	}
}

// Stamp returns a time-stamp token over data of which imprint is the SHA-512 digest, made on the spot by the
// authority's own time-stamping authority and judged as everybody will judge it (signature-and-evidence 9.3).
func (a *Authority) Stamp(_ context.Context, imprint []byte) (token []byte, err error) {
	request := tsp.Request{Digest: crypto.SHA512, Sum: imprint}
	query, err := request.DER()
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	cert := a.stamper.Chain[0]
	response, err := tsp.Respond(query, a.stamper.Private, cert, serial, a.clock())
	if err != nil {
		return nil, err
	}
	accepted, err := request.Accept(response, []*x509.Certificate{cert})
	if err != nil {
		return nil, err
	}
	return accepted.Raw, nil
}

// TimestampHandler answers requests for time-stamps over HTTP (RFC 3161 section 3.4), for those who want to ask so.
func (a *Authority) TimestampHandler() http.Handler {
	return &tsp.Authority{Key: a.stamper.Private, Certificate: a.stamper.Chain[0], Now: a.clock}
}
