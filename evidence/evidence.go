// SPDX-License-Identifier: Apache-2.0

// Package evidence keeps what was signed, durably.
//
// A record is one signed message of an exchange: who sent it to whom, the parts that were signed with their digests,
// the signature, and as much of the parts as the operator wants to keep. Years later it proves, together with the
// trust data of its time, that the message was sent as it was.
package evidence

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
)

// ErrNotFound: no record has that number.
var ErrNotFound = errors.New("evidence: no such record")

// Record is one signed message of an exchange, as sent or as received and verified.
type Record struct {
	Number    uint64    // ours; given by Put
	Time      time.Time // when the signature was made or verified
	Role      string    // "send" or "receive": which security server of the exchange kept it
	Response  bool      // a response, else a request
	RequestID string    // x-road-request-id of the exchange
	MessageID string    // id of the X-Road header
	Client    ident.Client
	Service   ident.Service
	Peer      string // the other security server, where known
	Parts     []Part // /message.xml first
	Signature crypto.Signature
	Fault     string // fault code, where a fault was returned in place of a signed response

	// Timestamp is given by Get where the record has one. Put and Find leave it alone.
	Timestamp *Timestamp
}

// Timestamp proves that a signature was there at a time (signature-and-evidence 9.1).
type Timestamp struct {
	Token []byte // RFC 3161, DER
	// What is stamped is the ts-hashchainresult.xml, from which the ts-hashchain.xml leads to the signature document.
	// Where they are nil, it is the signature value.
	HashChainResult []byte
	HashChain       []byte
}

// Part is a part of a message: what was signed and, where it is kept, its octets.
type Part struct {
	Name        string
	ContentType string
	Digest      crypto.Digest
	Sum         []byte
	Size        int64
	// Content is the part's octets, or nil where only the digest is kept.
	// Put reads it to its end before it returns, and refuses one that has no digest, or not Size octets. Get and Find
	// return one that may be read until the Store is closed, or the record removed; each reading opens its file, so it
	// is done in large pieces or by io.Copy. Its digest is not computed again: who needs to be sure compares it.
	Content io.Reader
}

// Query selects records; zero fields select all.
type Query struct {
	MessageID string
	RequestID string
	Member    ident.Client // client or provider of the record, or a subsystem of that member
	From, To  time.Time    // from From on, and before To
}

// Store keeps records. It is safe for concurrent use, and writers do not wait for readers.
type Store interface {
	// Put gives the record its number, takes it over and returns a function that waits until it is durable.
	// The record's Content readers are not used after Put has returned. ctx bounds Put and the waiting; where the
	// waiting ends with an error, the record may or may not be kept. An error means that nothing is kept.
	Put(ctx context.Context, r *Record) (wait func() error, err error)
	// Get returns a record by our number, with its time-stamp where it has one.
	Get(ctx context.Context, number uint64) (*Record, error)
	// Find yields the records that the query selects, oldest first. An error does not end the search, unless it is
	// that of ctx: a *DamageError, say, tells where records may be missing, and others follow.
	Find(ctx context.Context, q Query) iter.Seq2[*Record, error]
	// Check reads all records and follows their links: every record names the one before it, so that one that was
	// removed, changed, added or moved is noticed. Its error is a *BreakError with the first number where they break;
	// the report tells what is whole until there. Time-stamps are judged by verify, and left unjudged where it is nil.
	Check(ctx context.Context, verify VerifyToken) (*Report, error)
	// Status tells how far time-stamping is.
	Status() (Status, error)
	// Close makes everything durable and frees the files. It may be called again.
	Close() error
}

// Status tells how far time-stamping is.
type Status struct {
	Signed    int       // signed records
	Unstamped int       // those of them without a time-stamp
	Oldest    time.Time // of the first of them; zero: there are none
	Stamped   time.Time // when the last time-stamp was put; zero: none is known
	Failing   time.Time // since when attempts have failed; zero: the last one did not
	Reason    error     // of the last failure
	Refusing  time.Time // when Put begins to refuse, unless an attempt succeeds before; zero: nothing threatens
}

// Error is what Put and its wait function return.
type Error struct {
	Doing string
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return "evidence: " + e.Doing + ": " + e.Err.Error() }

// Unwrap returns the error behind it.
func (e *Error) Unwrap() error { return e.Err }

// Cause returns "logging_failed" (message-and-transport 10.3).
func (e *Error) Cause() string { return "logging_failed" }
