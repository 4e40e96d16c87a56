// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddy-fairway/fairway/crypto"
)

// Header fields of the HTTP messages between security servers (message-and-transport 5.2, 5.6).
const (
	HeaderHashAlgorithm       = "X-Hash-Algorithm"
	HeaderProxyVersion        = "X-Proxy-Version"
	HeaderOriginalContentType = "X-Original-Content-Type"
	HeaderOriginalSOAPAction  = "X-Original-Soapaction"
	HeaderRequestID           = "X-Road-Request-Id"
	HeaderMessageType         = "X-Road-Message-Type"
)

// HeaderFairway tells a peer that we are of its kind, with the digest that it may use towards us on this connection. Others
// do not know it.
const (
	HeaderFairway = "X-Fairway"
	HeaderLength  = "X-Fairway-Length" // octets of the information system's message, where it said so
	FairwayDigest = crypto.SHA256      // half the work of SHA-512 on processors with instructions for it
)

// IsFairway reports whether a peer announces itself as one of our kind, and its digest as ours.
func IsFairway(h http.Header) bool { return h.Get(HeaderFairway) == FairwayDigest.String() }

// DigestOf returns the digest method of the parts of a message: SHA-512, or that of our kind from a peer that announces it
// (message-and-transport 5.2, architecture decision 2).
func DigestOf(h http.Header) (crypto.Digest, error) {
	announced := h.Get(HeaderHashAlgorithm)
	if announced == FairwayDigest.String() && IsFairway(h) {
		return FairwayDigest, nil
	}
	if announced != crypto.SHA512.String() {
		return crypto.SHA512, Errorf("internal_error", "the peer announces the digest %q; only SHA-512 is accepted", announced)
	}
	return crypto.SHA512, nil
}

// ProxyVersion is the version that we announce: the X-Road release whose behaviour we implement.
const ProxyVersion = "7.8.0"

// FaultContentType is the Content-Type of a bare fault.
const FaultContentType = "text/xml;charset=utf-8"

// LengthOf returns how many octets a message will have, as far as its HTTP message or a peer of our kind tells, or -1.
func LengthOf(h http.Header, contentLength int64) int64 {
	if contentLength >= 0 || !IsFairway(h) {
		return contentLength
	}
	if n, err := strconv.ParseInt(h.Get(HeaderLength), 10, 64); err == nil && n >= 0 {
		return n
	}
	return -1
}

// NewRequestID returns a fresh random UUID.
func NewRequestID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// CheckRequestID returns id if it may go into logs, records and headers, else "".
func CheckRequestID(id string) string {
	if len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// SOAPAction returns the SOAPAction of a request and refuses values that are none (message-and-transport 2.3).
// The name may be spelt in any way, but must not stand twice.
func SOAPAction(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) > 1 {
		return "", Errorf("invalid_soap_action", "the SOAPAction header stands %d times", len(values))
	}
	if len(values) == 0 {
		return "", nil
	}
	v := values[0]
	if v == "" || v == `""` {
		return v, nil
	}
	inside, found := strings.CutPrefix(v, `"`)
	inside, closed := strings.CutSuffix(inside, `"`)
	if !found || !closed || strings.ContainsAny(inside, "\" \t") {
		return "", Errorf("invalid_soap_action", "the SOAPAction is not a URI in double quotes")
	}
	if _, err := url.Parse(inside); err != nil {
		return "", Errorf("invalid_soap_action", "the SOAPAction is not a URI in double quotes")
	}
	return v, nil
}

// OlderThan reports whether an announced x-proxy-version is known to be before major.minor.
func OlderThan(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && (x < major || x == major && y < minor)
}
