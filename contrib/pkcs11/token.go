// SPDX-License-Identifier: Apache-2.0

package pkcs11

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/pkcs11"

	"github.com/caddy-fairway/fairway/crypto/softkey"
)

// Limits of a token.
const (
	// atOnce is how many operations run on a token at a time, each in a session of its own.
	atOnce = 16
	// patience is how long an operation may take, the waiting for its turn included. The device cannot be told to stop: an
	// operation that nobody waits for any more keeps its turn until it comes back.
	patience = time.Minute
)

// place is where a token is.
type place struct{ library, label, pinFile string }

// tokens are those that this process uses.
var tokens = struct {
	sync.Mutex
	at map[place]*token
}{at: make(map[place]*token)}

// tokenAt returns the token, which has not been looked for yet.
func tokenAt(p place) *token {
	tokens.Lock()
	defer tokens.Unlock()
	t := tokens.at[p]
	if t == nil {
		t = &token{place: p, turns: make(chan struct{}, atOnce)}
		tokens.at[p] = t
	}
	return t
}

// modules are those that this process uses, by their files. A module is initialised once for a process, and whoever
// finalises it does so for all: they stay.
var modules = struct {
	sync.Mutex
	of map[string]*pkcs11.Ctx
}{of: make(map[string]*pkcs11.Ctx)}

// load returns the module of a file, initialised.
func load(file string) (*pkcs11.Ctx, error) {
	modules.Lock()
	defer modules.Unlock()
	module := modules.of[file]
	if module == nil {
		if module = pkcs11.New(file); module == nil {
			return nil, errors.New("it is no PKCS#11 module, or it needs a library that is not there")
		}
		modules.of[file] = module
	}
	if err := module.Initialize(); err != nil && !is(err, pkcs11.CKR_CRYPTOKI_ALREADY_INITIALIZED) {
		return nil, fmt.Errorf("initialising it: %w", err)
	}
	return module, nil
}

// token is one token and the sessions with it. Sessions that break are replaced: when one does, all that are open then are
// given up, the token is looked for anew, and the operation is tried once more.
type token struct {
	place
	turns chan struct{}

	mu         sync.Mutex
	generation int // of sessions
	idle       []session

	login   sync.Mutex
	refused [sha256.Size]byte // digest of a PIN that the token did not take
}

// session is an open session, used by one operation at a time.
type session struct {
	*pkcs11.Ctx
	handle     pkcs11.SessionHandle
	generation int
}

// String names the token.
func (t *token) String() string { return fmt.Sprintf("token %q", t.label) }

// do runs an operation in a session. It returns when ctx ends, too; the operation goes on then and keeps its turn, and what
// comes of it is dropped.
func do[T any](ctx context.Context, t *token, operation func(session) (T, error)) (result T, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", t, err)
		}
	}()
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it has not answered for %v", patience))
	defer cancel()
	select {
	case t.turns <- struct{}{}:
	case <-ctx.Done():
		return result, fmt.Errorf("waiting for it: %w", context.Cause(ctx))
	}
	type answer struct {
		result T
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-t.turns }()
		result, err := try(t, operation)
		if broken(err) {
			result, err = try(t, operation)
		}
		done <- answer{result, err}
	}()
	select {
	case a := <-done:
		return a.result, a.err
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

func try[T any](t *token, operation func(session) (T, error)) (result T, err error) {
	s, err := t.session()
	if err != nil {
		return result, err
	}
	if result, err = operation(s); broken(err) {
		t.giveUp(s.generation, lost(err))
	}
	t.mu.Lock()
	kept := s.generation == t.generation
	if kept {
		t.idle = append(t.idle, s)
	}
	t.mu.Unlock()
	if !kept && !lost(err) {
		_ = s.CloseSession(s.handle)
	}
	return result, err
}

// giveUp forgets the sessions of a generation, and closes those that nobody uses unless they are lost: the module may have
// given their handles to new ones.
func (t *token) giveUp(generation int, lost bool) {
	t.mu.Lock()
	var idle []session
	if generation == t.generation {
		t.generation++
		idle, t.idle = t.idle, nil
	}
	t.mu.Unlock()
	for _, s := range idle {
		if !lost {
			_ = s.CloseSession(s.handle)
		}
	}
}

// session returns a session that is logged in.
func (t *token) session() (session, error) {
	t.mu.Lock()
	s := session{generation: t.generation}
	if n := len(t.idle); n > 0 {
		s, t.idle = t.idle[n-1], t.idle[:n-1]
		t.mu.Unlock()
		return s, nil
	}
	t.mu.Unlock()
	var err error
	if s.Ctx, err = load(t.library); err != nil {
		return s, fmt.Errorf("its module: %w", err)
	}
	slot, err := t.slot(s.Ctx)
	if err != nil {
		return s, err
	}
	if s.handle, err = s.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION); err != nil {
		return s, fmt.Errorf("opening a session: %w", err)
	}
	if err := t.logIn(s); err != nil {
		_ = s.CloseSession(s.handle)
		return s, err
	}
	return s, nil
}

// slot finds the token by its label.
func (t *token) slot(module *pkcs11.Ctx) (uint, error) {
	slots, err := module.GetSlotList(true)
	if err != nil {
		return 0, fmt.Errorf("looking for tokens: %w", err)
	}
	var found []uint
	var labels []string
	for _, slot := range slots {
		info, err := module.GetTokenInfo(slot)
		if err != nil || info.Flags&pkcs11.CKF_TOKEN_INITIALIZED == 0 {
			continue // it has just been taken out, or is empty
		}
		label := strings.TrimRight(info.Label, " \x00")
		labels = append(labels, fmt.Sprintf("%q", label))
		if label == t.label {
			found = append(found, slot)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, &absentError{labels}
	}
	return 0, fmt.Errorf("there are %d tokens of that label", len(found))
}

// absentError says that a token is not there. Errors of signing reach those who asked for the message, so only the operator
// is told which tokens are, and where.
type absentError struct{ others []string }

func (*absentError) Error() string { return "it is not there" }

// explained returns an error of opening for the operator.
func (t *token) explained(err error) error {
	if absent, ok := errors.AsType[*absentError](err); ok {
		err = fmt.Errorf("%w; there is %s", err, cmp.Or(strings.Join(absent.others, ", "), "no token at all"))
	}
	if err != nil {
		err = fmt.Errorf("module %s: %w", t.library, err)
	}
	return err
}

// logIn logs in where the process is not yet.
func (t *token) logIn(s session) error {
	t.login.Lock()
	defer t.login.Unlock()
	return t.give(s, pkcs11.CKU_USER)
}

// confirm gives the PIN once more, for the operation that has begun.
func (t *token) confirm(s session) error {
	t.login.Lock()
	defer t.login.Unlock()
	return t.give(s, pkcs11.CKU_CONTEXT_SPECIFIC)
}

// give gives the PIN. One that was refused is not tried again, for tokens lock themselves.
func (t *token) give(s session, user uint) error {
	pin, err := t.pin()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(pin)
	if sum == t.refused {
		return errors.New("it has refused the PIN of pin_file before, and locks when that is tried too often: write the right one")
	}
	switch err := s.Login(s.handle, user, string(pin)); {
	case err == nil, user == pkcs11.CKU_USER && is(err, pkcs11.CKR_USER_ALREADY_LOGGED_IN):
		return nil
	case is(err, pkcs11.CKR_PIN_INCORRECT, pkcs11.CKR_PIN_INVALID, pkcs11.CKR_PIN_LEN_RANGE, pkcs11.CKR_PIN_LOCKED, pkcs11.CKR_PIN_EXPIRED):
		t.refused = sum
		return fmt.Errorf("it refuses the PIN of pin_file: %w", err)
	default:
		return fmt.Errorf("logging in: %w", err)
	}
}

// pin reads the PIN, of which no error ever tells anything.
func (t *token) pin() ([]byte, error) {
	data, err := softkey.ReadSecret(t.pinFile)
	if err != nil {
		return nil, fmt.Errorf("reading the PIN: %w", err)
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	first = bytes.TrimSuffix(first, []byte("\r"))
	if len(first) == 0 {
		return nil, errors.New("the first line of pin_file is empty: the PIN belongs there")
	}
	return first, nil
}

// is reports whether the module returned one of the codes.
func is(err error, codes ...uint) bool {
	code, ok := errors.AsType[pkcs11.Error](err)
	return ok && slices.Contains(codes, uint(code))
}

// lost reports whether all sessions are gone.
func lost(err error) bool {
	return is(err, pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED, pkcs11.CKR_SLOT_ID_INVALID, pkcs11.CKR_DEVICE_REMOVED, pkcs11.CKR_TOKEN_NOT_PRESENT,
		pkcs11.CKR_TOKEN_NOT_RECOGNIZED, pkcs11.CKR_SESSION_CLOSED, pkcs11.CKR_SESSION_HANDLE_INVALID)
}

// broken reports whether a new session may help: the old one is lost, or does not know any more what it knew.
func broken(err error) bool {
	return lost(err) || is(err, pkcs11.CKR_GENERAL_ERROR, pkcs11.CKR_FUNCTION_FAILED, pkcs11.CKR_DEVICE_ERROR, pkcs11.CKR_USER_NOT_LOGGED_IN,
		pkcs11.CKR_OBJECT_HANDLE_INVALID, pkcs11.CKR_KEY_HANDLE_INVALID, pkcs11.CKR_OPERATION_ACTIVE)
}
