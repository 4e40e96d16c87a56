// SPDX-License-Identifier: Apache-2.0

// Package exchange is one message exchange, sending and receiving, and what one security server owns.
//
// The sender is an http.RoundTripper, the receiver is middleware in front of an http.Handler. Both wrap one message
// (hash, sign, stream) and unwrap the other (spool, hash, verify); that is all there is.
package exchange

import (
	stdcrypto "crypto"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/peer"
	"github.com/caddy-fairway/fairway/shelf"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/trust"
)

// SecurityServer is all that one security server owns. Its fields are set once, before its first exchange;
// Close is called after its last.
type SecurityServer struct {
	ID       ident.Server
	Local    Local
	Keys     Keys
	Trust    trust.Store
	Peers    *peer.Pool
	Spool    spool.Store
	Evidence evidence.Store
	Keep     Keep
	// Admission bounds the exchanges at once.
	Admission Admission
	// Services carries requests to the "to" of services over plain HTTP and HTTPS; its TLS settings are not used.
	Services *http.Transport
	Clock    func() time.Time
	// Report is told what goes wrong in the background, such as an OCSP responder that does not answer. It may be nil.
	Report func(error)

	statuses   *statuses
	signers    *signers
	signatures xades.Verifier
	backends   *backends
	shelves    map[*Service]*shelf.Store // of services that get files
	admissions admissions
	transfers  transfers
	paces      paces
	replays    *replays
}

// Keys gives a security server its private keys. It is safe for concurrent use.
type Keys interface {
	// Sign returns the signing key of a member (the subsystem is ignored), or nil.
	Sign(member ident.Client) *SignKey
	// Auth returns the TLS certificate and key for connections between security servers, leaf first, root left out.
	Auth() *tls.Certificate
}

// SignKey is the signing key of a member.
type SignKey struct {
	Key         stdcrypto.Signer
	Certificate *x509.Certificate
	// Device says that the key is in a device: it signs slowly, so batch.Auto means batch.On.
	Device bool
}

// Keep says what evidence keeps of messages besides their digests and signatures.
type Keep struct {
	Message     bool  // envelopes
	Attachments bool  // attachments
	UpTo        int64 // parts longer than this are kept as digests
}

// Local is what the security server's operator decided: its clients, its services and who may call them.
// It is plain data, not changed after the server has started, and fails closed.
type Local struct {
	Clients  map[ident.Client]Caller     // who may speak for our clients
	Services map[ident.Service]*Service  // what we provide
	Peers    map[ident.Server]PeerRule   // exceptions; the zero Server is the rule for all others
	Batch    map[ident.Client]batch.Mode // of the members' signing keys; the zero Client is the rule for all others
}

// Caller says how an information system must come to speak for a client. The zero value is loopback only.
type Caller struct {
	Delivery     Delivery            // of answers
	KeepAlive    time.Duration       // between interim answers (102) while it waits; 0 is none
	Any          bool                // over plain HTTP from anywhere (NOSSL)
	TLS          bool                // over HTTPS from anywhere (SSLNOAUTH)
	Certificates []*x509.Certificate // over HTTPS with one of these, compared octet for octet (SSLAUTH)
}

// Service is one service that the security server provides.
type Service struct {
	ID       ident.Service
	Allow    []Subject
	To       string              // URL; "" goes on to the next handler
	Trusted  []*x509.Certificate // what an https To must show, compared octet for octet
	AnyCert  bool                // an https To may show any certificate
	Delivery Delivery
	Files    Files         // of the delivery ByFile, which needs a To
	Timeout  time.Duration // without progress; 0 is DefaultTimeout
	Limit    int64         // octets of one request package; 0 is none
	Disabled *string       // the notice for callers; nil is enabled
}

// DefaultTimeout is the silence that a service may take.
const DefaultTimeout = 60 * time.Second

// Subject is who may call a service: exactly one of its fields is set.
type Subject struct {
	Client      ident.Client
	GlobalGroup string
	Members     []ident.Client // of a local group
}

// PeerRule is what is special about messages to one peer.
type PeerRule struct {
	Form        *crypto.Form // nil: as the message asks (architecture, decision 1)
	DirectLimit int64        // longest attachment of the direct form; 0 is DefaultDirectLimit
	// Timeout is how long the peer may be silent when we wait for it; 0 is no limit, for its service may take its time.
	Timeout time.Duration
	Rate    int64 // octets a second to the peer, and as many from it, over all messages together; 0 is no limit
}

// ruleFor returns what is special about messages to a peer.
func (l *Local) ruleFor(peer ident.Server) PeerRule {
	if rule, ok := l.Peers[peer]; ok {
		return rule
	}
	return l.Peers[ident.Server{}]
}

// batchFor returns when messages of a member are signed together.
func (l *Local) batchFor(member ident.Client, key *SignKey) batch.Mode {
	mode, ok := l.Batch[member]
	if !ok {
		mode = l.Batch[ident.Client{}]
	}
	if mode == batch.Auto && key.Device {
		return batch.On
	}
	return mode
}

// DefaultDirectLimit is the longest attachment that an X-Road peer logs by default (signature-and-evidence 2).
const DefaultDirectLimit = 10 << 20
