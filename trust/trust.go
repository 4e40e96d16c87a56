// SPDX-License-Identifier: Apache-2.0

// Package trust knows who is who: members, security servers, their certificates, and whether these are valid.
package trust

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// Store answers questions about an X-Road instance, and about those that are federated with it, each of which speaks for
// its own members only. It is safe for concurrent use: answers come from an immutable snapshot, and readers never lock.
// Times are given by the caller, who has the one clock. Errors carry X-Road's cause (a method Cause()
// string; signature-and-evidence 7.1).
type Store interface {
	// Instance returns the own instance.
	Instance() string
	// Valid returns nil if the configuration may be used at that time, else an error that names what is outdated.
	Valid(at time.Time) error
	// Endpoints returns the security servers on which the provider is registered, or the one that server names.
	// Causes: unknown_member, invalid_security_server.
	Endpoints(provider ident.Client, server *ident.Server) ([]Endpoint, error)
	// ServerOf returns the registered security server that uses the authentication certificate.
	// Cause: ssl_authentication_failed.
	ServerOf(cert *x509.Certificate) (ident.Server, error)
	// VerifyAuth judges the TLS chain of a peer, leaf first, with its OCSP responses: an authentication certificate, a
	// path to an approved CA, good responses for every certificate but the anchor, and a server that serves client
	// (signature-and-evidence 8.5). Cause: ssl_authentication_failed, with the reason's own cause behind it.
	VerifyAuth(chain []*x509.Certificate, ocsp [][]byte, client ident.Client, at time.Time) error
	// VerifySign judges the certificate of a signature: its subject names the member of client, it may sign, and path
	// and OCSP responses are good at that time (signature-and-evidence 7.2 steps 4, 5 and 8).
	VerifySign(cert *x509.Certificate, extra []*x509.Certificate, ocsp [][]byte, client ident.Client, at time.Time) error
	// SignMember returns the member that a signing certificate of the own instance names (signature-and-evidence 12).
	SignMember(cert *x509.Certificate) (ident.Client, error)
	// Extra returns the certificates of the own instance between cert and its root, nearest first, the root left out
	// (section 4 step 2).
	Extra(cert *x509.Certificate) []*x509.Certificate
	// Status fetches a fresh OCSP response for cert, of the own instance, from its responder (section 8.6). It may take
	// seconds.
	Status(ctx context.Context, cert *x509.Certificate) ([]byte, error)
	// Freshness returns how old an OCSP response may be, whatever the instance.
	Freshness() time.Duration
	// Members lists the members and subsystems of an instance; "" is the own one.
	Members(instance string) ([]Member, error)
	// Authorities returns the approved time-stamping authorities of an instance; "" is the own one. Tokens of others do
	// not count (signature-and-evidence 8.3 and 9.3).
	Authorities(instance string) []TSA
	// StampInterval returns how often the own instance wants evidence to be time-stamped (section 9.4).
	StampInterval() time.Duration
	// InGroup reports whether client is in the global group of the own instance.
	InGroup(code string, client ident.Client) bool
	// Close frees what the store holds.
	Close() error
}

// Endpoint is a security server as a sender sees it.
type Endpoint struct {
	Server      ident.Server
	Address     string  // host, or host:port where the port is not the sender's own setting
	OCSPAddress string  // host:port of its OCSP responses where it is not Address's host with the sender's own setting
	Maintenance *string // nil: in service; else the administrator's message, perhaps empty
}

// Member is a member or a subsystem with its name.
type Member struct {
	ID   ident.Client
	Name string // of the member
	Sub  string // name of the subsystem, perhaps empty
}
