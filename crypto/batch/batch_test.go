// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// gate is a key that says what it is asked to sign and waits to be let on. It is used inside a bubble, where time passes
// only when everything waits.
type gate struct {
	mu      sync.Mutex
	begun   [][]string // the messages of each operation, as the texts that they were made of
	now     int        // operations that run
	most    int        // that ran at a time
	open    chan any   // what an operation is to do: nil signs, an error is returned, a string panics
	answers func(n int) int
	changed []string // messages whose parts were others at the end of the operation than at its beginning
}

func newGate() *gate { return &gate{open: make(chan any)} }

func (g *gate) operate(messages [][]crypto.Part) error {
	g.mu.Lock()
	var names []string
	for _, m := range messages {
		names = append(names, string(m[0].Sum[:1]))
	}
	g.begun = append(g.begun, names)
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	what := <-g.open
	g.mu.Lock()
	for i, m := range messages {
		if name := string(m[0].Sum[:1]); name != names[i] || m[0].Name != crypto.Message {
			g.changed = append(g.changed, names[i])
		}
	}
	g.now--
	g.mu.Unlock()
	switch what := what.(type) {
	case error:
		return what
	case string:
		panic(what)
	}
	return nil
}

func (g *gate) Sign(_ context.Context, parts []crypto.Part, form crypto.Form) (*crypto.Signature, error) {
	return &crypto.Signature{XML: parts[0].Sum[:1]}, g.operate([][]crypto.Part{parts})
}

func (g *gate) SignBatch(_ context.Context, messages [][]crypto.Part) ([]*crypto.Signature, error) {
	err := g.operate(messages)
	var signatures []*crypto.Signature
	for _, m := range messages {
		signatures = append(signatures, &crypto.Signature{XML: []byte("shared"), HashChain: m[0].Sum[:1]})
	}
	if g.answers != nil {
		signatures = signatures[:g.answers(len(signatures))]
	}
	return signatures, err
}

// operations tells the operations that have begun, "a bcd" for one message and then three.
func (g *gate) operations() string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	for _, names := range g.begun {
		all = append(all, strings.Join(names, ""))
	}
	return strings.Join(all, " ")
}

// message makes one whose digests begin with the name.
func message(name string, d crypto.Digest, parts int) []crypto.Part {
	all := make([]crypto.Part, parts)
	for i := range all {
		all[i] = crypto.Part{Name: crypto.Message, Digest: d, Sum: d.Sum(nil)}
		if i > 0 {
			all[i].Name = crypto.Attachment(i)
		}
		copy(all[i].Sum, name)
	}
	return all
}

// waiter is somebody who waits for a signature.
type waiter struct {
	name   string
	cancel context.CancelFunc
	sig    *crypto.Signature
	err    error
	panics any
	after  time.Duration // it had its answer
	done   bool
}

// ask signs a message of one part on a goroutine of its own, and returns when that waits.
func ask(s *Signer, name string) *waiter {
	return askFor(s, name, message(name, crypto.SHA512, 1), crypto.Chain)
}

func askFor(s *Signer, name string, parts []crypto.Part, form crypto.Form) *waiter {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiter{name: name, cancel: cancel}
	begun := time.Now()
	go func() {
		defer func() { w.panics, w.after, w.done = recover(), time.Since(begun), true }()
		w.sig, w.err = s.Sign(ctx, parts, form)
	}()
	synctest.Wait()
	return w
}

// has checks what everyone got: "alone", "shared", or the beginning of an error.
func has(t *testing.T, want string, waiters ...*waiter) {
	t.Helper()
	synctest.Wait()
	for _, w := range waiters {
		got := "nothing yet"
		switch {
		case w.panics != nil:
			got = fmt.Sprint("panic ", w.panics.(*Panic).Value)
		case w.err != nil:
			got = w.err.Error()
		case w.done && string(w.sig.XML) == "shared" && string(w.sig.HashChain) == w.name:
			got = "shared"
		case w.done && string(w.sig.XML) == w.name:
			got = "alone"
		case w.done:
			got = fmt.Sprintf("another's signature %q", w.sig)
		}
		if got != want {
			t.Errorf("%s got %q, not %q", w.name, got, want)
		}
	}
}

func is(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

// in runs a test inside a bubble, at the end of which no goroutine may be left.
func in(t *testing.T, mode Mode, test func(t *testing.T, g *gate, s *Signer)) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := New(g, mode)
		test(t, g, s)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.working != 0 || len(s.waiting) != 0 {
			t.Errorf("at the end %d work and %d wait", s.working, len(s.waiting))
		}
	})
}

func TestWhatWaitsIsSignedTogether(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		a := ask(s, "a")
		is(t, "an idle signer begins", g.operations(), "a")
		b, c, d := ask(s, "b"), ask(s, "c"), ask(s, "d")
		is(t, "a busy one waits", g.operations(), "a")
		g.open <- nil
		has(t, "alone", a)
		is(t, "then it takes all", g.operations(), "a bcd")
		e := ask(s, "e")
		g.open <- nil
		has(t, "shared", b, c, d)
		is(t, "one that is left is alone", g.operations(), "a bcd e")
		g.open <- nil
		has(t, "alone", e)
	})
}

func TestWhatMayShare(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		ask(s, "0")
		two, three := ask(s, "a"), askFor(s, "b", message("b", crypto.SHA512, 2), crypto.Chain)
		direct := askFor(s, "c", message("c", crypto.SHA512, 1), crypto.Direct)
		short, also := askFor(s, "d", message("d", crypto.SHA256, 1), crypto.Chain), ask(s, "e")
		more := askFor(s, "f", message("f", crypto.SHA256, 1), crypto.Chain)
		for range 5 {
			g.open <- nil
			synctest.Wait()
		}
		has(t, "shared", two, also, short, more)
		has(t, "alone", three, direct)
		is(t, "by digest, in order of coming", g.operations(), "0 ae b c df")
	})
}

func TestModes(t *testing.T) {
	many := runtime.GOMAXPROCS(0)
	for _, test := range []struct {
		mode     Mode
		together bool
		most     int
	}{{Auto, true, many}, {Off, false, many}, {On, true, 1}} {
		t.Run(test.mode.String(), func(t *testing.T) {
			in(t, test.mode, func(t *testing.T, g *gate, s *Signer) {
				var all []*waiter
				for i := range test.most + 3 {
					all = append(all, ask(s, string(rune('a'+i))))
				}
				operations := len(strings.Fields(g.operations()))
				if operations != test.most || g.most != test.most {
					t.Errorf("%d operations at a time, not %d", g.most, test.most)
				}
				g.open <- nil
				if test.together {
					synctest.Wait()
					for range test.most {
						g.open <- nil
					}
					has(t, "alone", all[:test.most]...)
					has(t, "shared", all[test.most:]...)
				} else {
					for range test.most + 2 {
						g.open <- nil
						synctest.Wait()
					}
					has(t, "alone", all...)
				}
				if g.most != test.most {
					t.Errorf("%d operations at a time, not %d", g.most, test.most)
				}
			})
			if m, ok := ModeByName(test.mode.String()); !ok || m != test.mode {
				t.Errorf("its name is that of %v, %v", m, ok)
			}
		})
	}
	if _, ok := ModeByName("sometimes"); ok {
		t.Error("there is another mode")
	}
}

// TestOneLeaves has members of a batch give up, before it has begun and after.
func TestOneLeaves(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		a := ask(s, "a")
		b, c, d, e := ask(s, "b"), ask(s, "c"), ask(s, "d"), ask(s, "e")
		c.cancel()
		has(t, context.Canceled.Error(), c)
		g.open <- nil
		is(t, "one that left is not signed", g.operations(), "a bde")
		d.cancel()
		has(t, context.Canceled.Error(), d)
		g.open <- nil
		has(t, "alone", a)
		has(t, "shared", b, e)

		f := ask(s, "f")
		f.cancel()
		has(t, context.Canceled.Error(), f)
		g.open <- nil
	})
}

// TestLeftParts has a caller use its parts again while the key still reads them.
func TestLeftParts(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		ask(s, "a")
		parts := message("b", crypto.SHA512, 1)
		b := askFor(s, "b", parts, crypto.Chain)
		c := ask(s, "c")
		g.open <- nil
		is(t, "begun", g.operations(), "a bc")
		b.cancel()
		has(t, context.Canceled.Error(), b)
		parts[0].Sum[0], parts[0].Name = 'x', "x"
		g.open <- nil
		has(t, "shared", c)
		if g.changed != nil {
			t.Errorf("the parts of %q changed", g.changed)
		}
	})
}

func TestWrongPartsAreNotOfABatch(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		ask(s, "a")
		b := ask(s, "b")
		c := askFor(s, "c", []crypto.Part{{Name: crypto.Message, Digest: crypto.SHA512, Sum: []byte("short")}}, crypto.Chain)
		d := ask(s, "d")
		has(t, "signing: /message.xml has a digest of 5 octets, not 64", c)
		g.open <- nil
		is(t, "the others", g.operations(), "a bd")
		g.open <- nil
		has(t, "shared", b, d)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Sign(ctx, message("e", crypto.SHA512, 1), crypto.Chain); err != context.Canceled {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

// TestKeyFails has a key return errors and too few signatures, and panic: all who share the operation are told, and the
// next are signed.
func TestKeyFails(t *testing.T) {
	for name, test := range map[string]struct {
		does    any
		answers func(int) int
		want    string
	}{
		"an error":           {does: errors.New("the token is gone"), want: "the token is gone"},
		"a panic":            {does: "driver", want: "panic driver"},
		"too few signatures": {answers: func(n int) int { return n - 1 }, want: "signing: 2 signatures for 3 messages"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, On, func(t *testing.T, g *gate, s *Signer) {
				a := ask(s, "a")
				b, c, d := ask(s, "b"), ask(s, "c"), ask(s, "d")
				g.open <- nil
				has(t, "alone", a)
				g.answers = test.answers
				e, f := ask(s, "e"), ask(s, "f")
				g.open <- test.does
				has(t, test.want, b, c, d)
				g.answers = nil
				g.open <- nil
				has(t, "shared", e, f)
			})
		})
	}
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		a := ask(s, "a")
		g.open <- "driver"
		has(t, "panic driver", a)
		if stack := string(a.panics.(*Panic).Stack); !strings.Contains(stack, "operate") {
			t.Errorf("the stack is not the key's: %s", stack)
		}
	})
}

// TestKeyHangs has every operation hang: who waits is told after a minute, who comes later at once, no more operations are
// begun, and when the key comes back it is used again.
func TestKeyHangs(t *testing.T) {
	for _, mode := range []Mode{Auto, On} {
		t.Run(mode.String(), func(t *testing.T) {
			in(t, mode, func(t *testing.T, g *gate, s *Signer) {
				workers := s.workers
				var all []*waiter
				for i := range workers + 2 {
					all = append(all, ask(s, string(rune('a'+i))))
				}
				time.Sleep(MaxWait)
				has(t, "the signing key gave no signature within 1m0s", all...)
				for _, w := range all {
					if w.after != MaxWait {
						t.Errorf("%s was told after %v", w.name, w.after)
					}
				}
				time.Sleep(time.Second)
				late := ask(s, "x")
				has(t, "the signing key has not answered for more than 1m0s", late)
				if got := late.err.(*Error).Cause(); got != "internal_error" || late.after != 0 {
					t.Errorf("cause %q after %v", got, late.after)
				}
				before := g.operations()
				time.Sleep(time.Hour)
				has(t, "the signing key has not answered for more than 1m0s", ask(s, "y"))
				is(t, "operations of a key that hangs", g.operations(), before)

				g.open <- nil // one comes back
				synctest.Wait()
				y := ask(s, "z")
				is(t, "it is used again", g.operations(), before+" z")
				for range workers {
					g.open <- nil
				}
				has(t, "alone", y)
				if g.most != workers {
					t.Errorf("%d operations at a time, not %d", g.most, workers)
				}
			})
		})
	}
}

// TestLongIdle has two come at once to a signer that was idle for long, which is not one that hangs.
func TestLongIdle(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		ask(s, "a")
		g.open <- nil
		time.Sleep(2 * MaxWait)
		s.mu.Lock() // so that both are there before the worker is
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if _, err := s.Sign(t.Context(), message("b", crypto.SHA512, 1), crypto.Chain); err != nil {
					t.Error(err)
				}
			})
		}
		s.mu.Unlock()
		g.open <- nil
		if synctest.Wait(); len(strings.Fields(g.operations())) == 3 {
			g.open <- nil
		}
		all.Wait()
	})
}

func TestLimits(t *testing.T) {
	in(t, On, func(t *testing.T, g *gate, s *Signer) {
		ask(s, "a")
		var all []*waiter
		for range MaxWaiting {
			all = append(all, ask(s, "b"))
		}
		full := ask(s, "c")
		has(t, "the signing key is too slow: 4096 messages wait for it", full)
		all[7].cancel()
		has(t, context.Canceled.Error(), all[7])
		again := ask(s, "d")
		for range 1 + MaxWaiting/MaxBatch {
			g.open <- nil
			synctest.Wait()
		}
		has(t, "shared", append(all[:7], all[8:]...)...)
		has(t, "shared", again)
		for i, names := range g.begun[1:] {
			if len(names) != MaxBatch {
				t.Errorf("batch %d has %d messages", i, len(names))
			}
		}
	})
}
