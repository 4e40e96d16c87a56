// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/trust"
)

// asked is a trust.Store with one certificate, its own issuer, whose responder does as a test says.
type asked struct {
	trust.Store
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	mu    sync.Mutex    // guards what follows
	age   time.Duration // of a response when it is given
	next  time.Duration // from then to its next update; 0: it has none
	fails error
	hangs bool
	times []time.Time // when it was asked
}

func newAsked(t *testing.T) *asked {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xabc), Subject: pkix.Name{CommonName: "ours"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &asked{cert: cert, key: key}
}

func (a *asked) Extra(*x509.Certificate) []*x509.Certificate { return nil }

func (a *asked) Freshness() time.Duration { return time.Hour }

func (a *asked) Status(ctx context.Context, _ *x509.Certificate) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
	if a.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.fails != nil {
		return nil, a.fails
	}
	this := time.Now().Add(-a.age)
	var next time.Time
	if a.next > 0 {
		next = time.Now().Add(a.next)
	}
	return ocsp.Respond(a.cert, a.cert, a.cert, a.key, this, next, time.Time{})
}

// does changes what the responder does.
func (a *asked) does(fails error, hangs bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails, a.hangs = fails, hangs
}

// keeping keeps the responses of a in a bubble.
func keeping(t *testing.T, a *asked, report func(*StatusError)) *statuses {
	t.Helper()
	s := newStatuses(a, time.Now, func(err error) {
		var e *StatusError
		if !errors.As(err, &e) {
			t.Errorf("the report %v is no StatusError", err)
		} else if report != nil {
			report(e)
		}
	})
	t.Cleanup(s.close)
	s.keep(a.cert)
	synctest.Wait()
	return s
}

// TestStatusIsRenewed: a response is fetched anew when half of what is left of its life is over.
func TestStatusIsRenewed(t *testing.T) {
	for _, test := range []struct {
		name      string
		age, next time.Duration
		want      time.Duration // to the next fetch
	}{
		{"made just now", 0, 0, 30 * time.Minute},
		{"made half an hour ago", 30 * time.Minute, 0, 15 * time.Minute},
		{"the next is due in ten minutes", 0, 10 * time.Minute, 5 * time.Minute},
		{"the next is due in a day", 0, 24 * time.Hour, 30 * time.Minute},
		{"dated ahead", -2 * time.Minute, 0, 30 * time.Minute},
		{"made long ago", 2 * time.Hour, 0, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsked(t)
				a.age, a.next = test.age, test.next
				keeping(t, a, nil)
				time.Sleep(test.want)
				synctest.Wait()
				if len(a.times) != 2 || a.times[1].Sub(a.times[0]) != test.want {
					t.Errorf("asked at %v", a.times)
				}
			})
		})
	}
}

// TestStatusInAnOutage: what is kept is used as long as it is fresh, then messages hear at once what is old, and what
// is reported are the changes.
func TestStatusInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t)
		var told []*StatusError
		s := keeping(t, a, func(e *StatusError) {
			a.mu.Lock()
			defer a.mu.Unlock()
			told = append(told, e)
		})
		reports := func() []*StatusError {
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			return slices.Clone(told)
		}
		began := time.Now()
		a.does(errors.New("asking http://responder: it is out"), false)
		for time.Since(began) < time.Hour {
			if _, err := s.response(t.Context(), a.cert); err != nil {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		_, err := s.response(t.Context(), a.cert)
		for _, word := range []string{"CN=ours", "serial 0abc", "too old", "1h0m0s old", "at most 1h0m0s old", "http://responder"} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%v does not say %q", err, word)
			}
		}
		time.Sleep(2 * time.Minute)
		if told := reports(); len(told) != 2 || told[0].Stale() || !told[1].Stale() {
			t.Fatalf("told %v", told)
		}
		for range 3 {
			time.Sleep(remindStatus + retryStatus)
			synctest.Wait()
		}
		if n := len(reports()); n != 5 {
			t.Errorf("%d reports after three more hours", n)
		}
		a.does(nil, false)
		s.response(t.Context(), a.cert) // hears of the last failure, and has it asked again
		synctest.Wait()
		if _, err := s.response(t.Context(), a.cert); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Hour)
		if told := reports(); len(told) != 6 || !told[5].Over {
			t.Errorf("%d reports when it is over: %v", len(told), told[len(told)-1])
		}
	})
}

// TestStatusOfASilentResponder: the first message waits as long as it likes, and none waits for the responder once there
// is a response.
func TestStatusOfASilentResponder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t)
		a.does(nil, true)
		s := keeping(t, a, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.response(ctx, a.cert); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if len(a.times) != 1 {
			t.Errorf("asked %d times at once", len(a.times))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(t)
		s := keeping(t, a, nil)
		a.does(nil, true)
		time.Sleep(59 * time.Minute)
		before := time.Now()
		if _, err := s.response(t.Context(), a.cert); err != nil || time.Since(before) > 0 {
			t.Errorf("after %v: %v", time.Since(before), err)
		}
	})
}

// TestStatusErrorNamesTheCertificateOnce, whatever the last fetch has said.
func TestStatusErrorNamesTheCertificateOnce(t *testing.T) {
	now := time.Now()
	cert := newAsked(t).cert
	name := ocsp.Name(cert)
	for _, of := range []time.Time{{}, now, now.Add(-2 * time.Hour)} {
		for _, err := range []error{errors.New("connection refused"), fmt.Errorf("certificate %s has no OCSP responder", name)} {
			e := &StatusError{Certificate: cert, ThisUpdate: of, GoodUntil: of.Add(time.Hour), Limit: time.Hour, At: now, Err: err}
			if text := e.Error(); strings.Count(text, name) != 1 || !strings.Contains(text, "our certificate") {
				t.Errorf("it says %q", text)
			}
		}
	}
}
