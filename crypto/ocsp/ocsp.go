// SPDX-License-Identifier: Apache-2.0

// Package ocsp makes, fetches and judges OCSP responses the way X-Road does. (signature-and-evidence section 8)
package ocsp

import (
	"context"
	"crypto"
	"crypto/x509"
	"net/http"
	"time"
)

// Respond makes a response of status good, or revoked since that time if it is not zero, signed by the responder.
func Respond(cert, issuer, responder *x509.Certificate, key crypto.Signer, thisUpdate, nextUpdate, revoked time.Time) ([]byte, error) {
	panic("stub")
}

// Fetch asks the responders in order and returns the first successful response, DER (section 8.6).
func Fetch(ctx context.Context, client *http.Client, urls []string, cert, issuer *x509.Certificate) ([]byte, error) {
	panic("stub")
}

// Policy says which responses are acceptable (section 8.3).
type Policy struct {
	Responders     []*x509.Certificate // configured for the issuer
	Freshness      time.Duration
	SkipNextUpdate bool
	Ahead          time.Duration // how far thisUpdate may be after the time of judgement; 0: no check (containers)
}

// Verdict is what an accepted response says.
type Verdict struct {
	Responder  *x509.Certificate
	ThisUpdate time.Time
	NextUpdate time.Time // zero: none
}

// For returns the first response that is about cert (section 8.2), or nil.
func For(responses [][]byte, cert, issuer *x509.Certificate) []byte { panic("stub") }

// Verify judges one response for cert at that time. Causes: incorrect_validation_info, cert_validation.
func Verify(response []byte, cert, issuer *x509.Certificate, p Policy, at time.Time) (*Verdict, error) {
	panic("stub")
}

// FetchPeer asks a security server for the responses to its own certificates (GET ?cert=…, section 8.6).
func FetchPeer(ctx context.Context, client *http.Client, address string, certs []*x509.Certificate) ([][]byte, error) {
	panic("stub")
}

// ServePeer answers FetchPeer, and HEAD as a heartbeat. find returns the response to the certificate with that SHA-1.
func ServePeer(w http.ResponseWriter, r *http.Request, find func(sha1 [20]byte) ([]byte, error)) {
	panic("stub")
}
