// SPDX-License-Identifier: Apache-2.0

package evidencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
)

// RunTimestamps holds the stores that open returns to the contract of time-stamping (signature-and-evidence 9.1, 9.4).
// They use the Timestamper every 60 s and refuse after evidence.DefaultAcceptable, as they do where nothing is said.
// leads tells whether a hash chain leads from a result to a signature document: hashchain.VerifyTimestamp.
// Each test runs in a bubble of testing/synctest.
func RunTimestamps(t *testing.T, leads func(result, chain, signature []byte) error, open func(t *testing.T, dir string, stamper evidence.Timestamper) evidence.Store) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *place, *Authority)
	}{
		{"each once", eachOnce},
		{"an outage", outage},
		{"refusal", refusal},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				a := &Authority{leads: leads}
				p := &place{dir: dir, open: func(t *testing.T, dir string) evidence.Store {
					s := open(t, dir, a)
					synctest.Wait() // it may have looked what there is to stamp
					return s
				}}
				p.reopen(t)
				defer func() { p.close(t) }()
				c.run(t, p, a)
			})
		})
	}
}

// Authority is a time-stamping authority of tests, whose tokens name the imprint. The zero value works. It is safe for
// concurrent use.
type Authority struct {
	mu    sync.Mutex
	asked int
	err   error
	leads func(result, chain, signature []byte) error
}

// Stamp implements evidence.Timestamper.
func (a *Authority) Stamp(_ context.Context, imprint []byte) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.err != nil {
		return nil, a.err
	}
	return append([]byte("over "), imprint...), nil
}

// Verify is an evidence.VerifyToken for its tokens.
func (a *Authority) Verify(token, imprint []byte) (time.Time, error) {
	if string(token) != "over "+string(imprint) {
		return time.Time{}, errors.New("not genuine")
	}
	return time.Now(), nil
}

// Fail lets it fail from now on, or not any more where err is nil.
func (a *Authority) Fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// Asked returns how often it was asked.
func (a *Authority) Asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// pass lets time pass, and what is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stamped expects that the records have a time-stamp each.
func stamped(t *testing.T, p *place, a *Authority, numbers ...uint64) {
	t.Helper()
	for _, n := range numbers {
		r, err := p.Get(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if r.Timestamp == nil {
			t.Errorf("record %d has no time-stamp", n)
			continue
		}
		result := r.Timestamp.HashChainResult
		if result == nil {
			continue // of its own: the documents of these tests have no signature value to compare
		}
		if err := a.leads(result, r.Timestamp.HashChain, r.Signature.XML); err != nil {
			t.Errorf("record %d: %v", n, err)
		}
		if _, err := a.Verify(r.Timestamp.Token, crypto.SHA512.Sum(result)); err != nil {
			t.Errorf("record %d: %v", n, err)
		}
	}
}

func unstamped(t *testing.T, p *place, want int) {
	t.Helper()
	if st, err := p.Status(); err != nil || st.Unstamped != want || st.Oldest.IsZero() != (want == 0) {
		t.Errorf("Status = %+v, %v, want %d unstamped", st, err, want)
	}
}

func eachOnce(t *testing.T, p *place, a *Authority) {
	pass(10 * time.Minute)
	if n := a.Asked(); n != 0 {
		t.Errorf("asked %d times for nothing", n)
	}
	var all []uint64
	for round := range 3 {
		for n := range 20 {
			r := Message(fmt.Sprint(round, n), 10)
			r.Signature.XML = fmt.Appendf(nil, "<signature>%d</signature>", n)
			all = append(all, put(t, p, r))
		}
		fault := Message("fault", 10)
		fault.Signature, fault.Fault = crypto.Signature{}, "server.serverproxy"
		unsigned := put(t, p, fault)
		unstamped(t, p, 20)
		pass(time.Minute)
		unstamped(t, p, 0)
		stamped(t, p, a, all...)
		if r, err := p.Get(t.Context(), unsigned); err != nil || r.Timestamp != nil {
			t.Errorf("what is not signed: %v, %v", r, err)
		}
		if r, err := p.Check(t.Context(), a.Verify); err != nil || r.Covered.Number != unsigned || r.Refused != nil {
			t.Errorf("Check = %+v, %v", r, err)
		}
		if got := numbers(t, p, evidence.Query{}); len(got) != len(all)+round+1 {
			t.Errorf("found %d records, want %d", len(got), len(all)+round+1)
		}
		p.reopen(t)
		stamped(t, p, a, all...)
	}
	pass(10 * time.Minute)
	if n := a.Asked(); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

func outage(t *testing.T, p *place, a *Authority) {
	a.Fail(errors.New("out"))
	var all []uint64
	for range 30 {
		all = append(all, put(t, p, Message("m", 10)))
		pass(time.Minute)
	}
	if n := a.Asked(); n < 25 || n > 31 {
		t.Errorf("asked %d times in 30 minutes", n)
	}
	unstamped(t, p, 30)
	if st, err := p.Status(); err != nil || st.Failing.IsZero() || st.Reason == nil || st.Refusing.Sub(st.Failing) != evidence.DefaultAcceptable {
		t.Errorf("Status = %+v, %v", st, err)
	}
	before := a.Asked()
	a.Fail(nil)
	pass(time.Minute)
	if n := a.Asked() - before; n != 2 {
		t.Errorf("asked %d times when it works again: want one to see, and one for the rest", n)
	}
	unstamped(t, p, 0)
	stamped(t, p, a, all...)
	if r, err := p.Check(t.Context(), a.Verify); err != nil || r.Refused != nil {
		t.Errorf("Check = %+v, %v", r, err)
	}
	if st, err := p.Status(); err != nil || !st.Failing.IsZero() || !st.Refusing.IsZero() {
		t.Errorf("Status = %+v, %v", st, err)
	}
}

func refusal(t *testing.T, p *place, a *Authority) {
	put(t, p, Message("m", 10))
	a.Fail(errors.New("out"))
	pass(time.Minute) // the first failure
	pass(evidence.DefaultAcceptable)
	put(t, p, Message("m", 10))
	pass(time.Second)
	_, err := p.Put(t.Context(), Message("m", 10))
	var causes []string
	for e := err; e != nil; e = errors.Unwrap(e) {
		if c, ok := e.(interface{ Cause() string }); ok {
			causes = append(causes, c.Cause())
		}
	}
	if got := fmt.Sprint(causes); got != "[logging_failed timestamping_failed]" {
		t.Errorf("Put = %v with causes %s", err, got)
	}
	a.Fail(nil)
	pass(time.Minute)
	put(t, p, Message("m", 10))
}
