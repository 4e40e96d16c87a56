// SPDX-License-Identifier: Apache-2.0

// Package evidence keeps what was signed, durably.
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
}

// Part is a part of a message: what was signed and, where it is kept, its octets.
type Part struct {
	Name        string
	ContentType string
	Digest      crypto.Digest
	Sum         []byte
	Size        int64
	// Content is the part's octets, or nil where only the digest is kept.
	// Put reads it to its end before it returns; Get returns one that may be read until the Store is closed.
	Content io.Reader
}

// Query selects records; zero fields select all.
type Query struct {
	MessageID string
	RequestID string
	Member    ident.Client // client or provider of the record, or a subsystem of that member
	From, To  time.Time
}

// Store keeps records. It is safe for concurrent use, and writers do not wait for readers.
type Store interface {
	// Put gives the record its number, takes it over and returns a function that waits until it is durable.
	// The record's Content readers are not used after Put has returned.
	Put(ctx context.Context, r *Record) (wait func() error, err error)
	// Get returns a record by our number.
	Get(ctx context.Context, number uint64) (*Record, error)
	// Find yields the records that the query selects, oldest first.
	Find(ctx context.Context, q Query) iter.Seq2[*Record, error]
	// Close makes everything durable and frees the files.
	Close() error
}

// None returns a Store that keeps nothing.
func None() Store { panic("stub") }

// OpenDisk returns a Store below dir. One process at a time may hold a folder for writing.
func OpenDisk(dir string) (Store, error) { panic("stub") }

// OpenRead returns a Store below dir that only reads, also while another process writes.
func OpenRead(dir string) (Store, error) { panic("stub") }
