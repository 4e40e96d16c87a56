// SPDX-License-Identifier: Apache-2.0

// Package batch signs what waits together with one operation of the key. (signature-and-evidence 4 and 5)
//
// A key that is idle signs at once. What arrives while it is busy waits, and is signed together next: the messages become
// the leaves of one hash chain, the chain's top is signed, and each message gets the one signature and a chain of its own.
// Nobody waits for a batch to fill. The verifier gains too, for one signature value is verified once.
package batch

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// Limits of a Signer.
const (
	// MaxBatch is how many messages share a signature; their hash chains have 8 steps then.
	MaxBatch = 256
	// MaxWaiting is how many messages wait for a key.
	MaxWaiting = 4096
	// MaxWait is how long a message waits for its signature, the time of signing included, as with X-Road (section 4 step 4).
	MaxWait = time.Minute
)

// Mode says when messages are signed together.
type Mode uint8

const (
	// Auto signs together what waits when an operation begins. There is one operation at a time for each processor.
	Auto Mode = iota
	// Off signs every message by itself.
	Off
	// On is Auto with one operation at a time: the fewest operations, for keys in devices.
	On
)

// ModeByName returns the mode of a name that String gives.
func ModeByName(name string) (Mode, bool) {
	for m := Auto; m <= On; m++ {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// String returns "auto", "off" or "on".
func (m Mode) String() string { return [...]string{"auto", "off", "on"}[m] }

// Key signs with one operation of a key, as xades.Signer does. It is safe for concurrent use.
type Key interface {
	crypto.Signer
	// SignBatch makes one signature for many messages, which differ only in their hash chains.
	SignBatch(ctx context.Context, messages [][]crypto.Part) ([]*crypto.Signature, error)
}

// Error says why a message was not signed where that lies not with the key's answer, but with its absence.
type Error struct{ text string }

// Error implements error.
func (e *Error) Error() string { return e.text }

// Cause returns X-Road's cause (section 4 step 4).
func (e *Error) Cause() string { return "internal_error" }

var (
	errFull = &Error{fmt.Sprintf("the signing key is too slow: %d messages wait for it", MaxWaiting)}
	errLate = &Error{fmt.Sprintf("the signing key gave no signature within %v", MaxWait)}
	errHung = &Error{fmt.Sprintf("the signing key has not answered for more than %v", MaxWait)}
)

// Panic is what Sign panics with where the key did: the key runs on a goroutine of its own.
type Panic struct {
	Value any
	Stack []byte // of the key's goroutine
}

// Signer is a crypto.Signer over a key. It has goroutines only while there is something to sign, and never more than
// operations may run at a time, however long the key takes: one that hangs is used again when it comes back. It is safe for
// concurrent use.
type Signer struct {
	key     Key
	mode    Mode
	workers int

	mu       sync.Mutex
	waiting  []*request // in order of coming
	working  int
	progress time.Time // when a worker last began or ended an operation
}

// request is one message that somebody waits for.
type request struct {
	parts []crypto.Part
	form  crypto.Form
	done  chan result // has room for one
}

type result struct {
	signature *crypto.Signature
	err       error
	panicked  *Panic
}

// New returns a signer over the key.
func New(key Key, mode Mode) *Signer {
	s := &Signer{key: key, mode: mode, workers: runtime.GOMAXPROCS(0)}
	if mode == On {
		s.workers = 1
	}
	return s
}

// Sign implements crypto.Signer. A message of one part in the chain form may share its signature with others; every other
// message has one of its own. Such a part must not begin like a list of digests, for a hash chain cannot tell it from one:
// see hashchain.LooksLikeDigestList (section 14.2).
//
// Where ctx ends first, the message is not signed, or its signature is dropped where that had begun; those in the same batch
// are not concerned. An error of the key goes to all of a batch. Without an answer within MaxWait, or with MaxWaiting before
// it, the error is an *Error.
func (s *Signer) Sign(ctx context.Context, parts []crypto.Part, form crypto.Form) (*crypto.Signature, error) {
	if err := crypto.CheckParts(parts); err != nil {
		return nil, fmt.Errorf("signing: %w", err) // not of those who would share the batch
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, MaxWait, errLate)
	defer cancel()
	r := &request{parts: copied(parts), form: form, done: make(chan result, 1)}
	if err := s.enqueue(r); err != nil {
		return nil, err
	}
	select {
	case got := <-r.done:
		if got.panicked != nil {
			panic(got.panicked)
		}
		return got.signature, got.err
	case <-ctx.Done():
		s.leave(r)
		return nil, context.Cause(ctx)
	}
}

// copied returns parts that stay as they are when the caller has left.
func copied(parts []crypto.Part) []crypto.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Sum = slices.Clone(parts[i].Sum)
	}
	return parts
}

// enqueue has the request wait for a worker, and starts one where there may be one more.
func (s *Signer) enqueue(r *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.working == s.workers && time.Since(s.progress) > MaxWait {
		return errHung
	}
	if len(s.waiting) >= MaxWaiting {
		return errFull
	}
	s.waiting = append(s.waiting, r)
	if s.working < s.workers {
		s.working++
		s.progress = time.Now()
		go s.work()
	}
	return nil
}

// leave takes a request away that has not begun.
func (s *Signer) leave(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, r); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// work signs until nothing waits.
func (s *Signer) work() {
	for batch := s.next(); batch != nil; batch = s.next() {
		s.sign(batch)
	}
}

// next takes what one operation signs: the message that has waited longest and, where that may share its signature, all
// that may share it with that one. Where nothing waits, the worker is counted out.
func (s *Signer) next() []*request {
	runtime.Gosched() // who is about to come may come first: on a busy machine that is the batch
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = time.Now()
	if len(s.waiting) == 0 {
		s.working--
		return nil
	}
	first := s.waiting[0]
	batch := []*request{first}
	rest := s.waiting[:0]
	for _, r := range s.waiting[1:] {
		if len(batch) < MaxBatch && s.share(first, r) {
			batch = append(batch, r)
		} else {
			rest = append(rest, r)
		}
	}
	clear(s.waiting[len(rest):])
	s.waiting = rest
	return batch
}

// share reports whether two messages may have one signature: a hash chain has one digest method.
func (s *Signer) share(a, b *request) bool {
	return s.mode != Off && a.alone() && b.alone() && a.parts[0].Digest == b.parts[0].Digest
}

// alone reports whether the message is one part in the chain form.
func (r *request) alone() bool { return len(r.parts) == 1 && r.form == crypto.Chain }

// sign makes the signature of a batch. Its time is its own, for it does not end with any of those who wait.
func (s *Signer) sign(batch []*request) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), MaxWait, errLate)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			fail(batch, result{panicked: &Panic{value, debug.Stack()}})
		}
	}()
	if len(batch) == 1 {
		signature, err := s.key.Sign(ctx, batch[0].parts, batch[0].form)
		batch[0].done <- result{signature: signature, err: err}
		return
	}
	messages := make([][]crypto.Part, len(batch))
	for i, r := range batch {
		messages[i] = r.parts
	}
	signatures, err := s.key.SignBatch(ctx, messages)
	if err == nil && len(signatures) != len(batch) {
		err = fmt.Errorf("signing: %d signatures for %d messages", len(signatures), len(batch))
	}
	if err != nil {
		fail(batch, result{err: err})
		return
	}
	for i, r := range batch {
		r.done <- result{signature: signatures[i]}
	}
}

func fail(batch []*request, why result) {
	for _, r := range batch {
		r.done <- why
	}
}

var _ crypto.Signer = (*Signer)(nil)
