// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/crypto/xades"
)

// authority is a time-stamping authority of these tests.
type authority struct {
	mu       sync.Mutex
	imprints [][]byte
	fails    error // instead
	hangs    bool
}

const tokenPrefix = "token over "

func (a *authority) Stamp(ctx context.Context, imprint []byte) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.imprints = append(a.imprints, imprint)
	if a.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.fails != nil {
		return nil, a.fails
	}
	return append([]byte(tokenPrefix), imprint...), nil
}

// take returns what it was asked for since the last time.
func (a *authority) take() [][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.imprints
	a.imprints = nil
	return taken
}

func (a *authority) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails = err
}

// genuine is a VerifyToken that knows the tokens of authorities.
func genuine(token, imprint []byte) (time.Time, error) {
	if !bytes.Equal(token, append([]byte(tokenPrefix), imprint...)) {
		return time.Time{}, errors.New("not genuine")
	}
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), nil
}

var document = sync.OnceValue(func() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "signer"}, KeyUsage: x509.KeyUsageContentCommitment,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	signer := xades.Signer{
		Key: key, Certificate: certificate, Clock: time.Now,
		OCSP: func(context.Context) ([][]byte, error) { return [][]byte{{0x30, 0}}, nil },
	}
	s, err := signer.Sign(context.Background(), []crypto.Part{{Name: crypto.Message, Digest: crypto.SHA512, Sum: crypto.SHA512.Sum(nil)}}, crypto.Direct)
	if err != nil {
		panic(err)
	}
	return s.XML
})

// realRecord has a signature document that may have a time-stamp inside.
func realRecord(id string) *Record {
	r := small(id)
	r.Signature.XML = document()
	return r
}

// stamping opens a store with an authority, in a bubble.
func stamping(t *testing.T, dir string, o Options) (*shared, *authority) {
	t.Helper()
	a := new(authority)
	o.Timestamper = a
	s, err := openShared(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	synctest.Wait() // it has looked, and found nothing
	return s, a
}

// stamped expects a time-stamp of a record and returns it.
func stamped(t *testing.T, s Store, number uint64) *Timestamp {
	t.Helper()
	r, err := s.Get(t.Context(), number)
	if err != nil {
		t.Fatal(err)
	}
	ts := r.Timestamp
	if ts == nil {
		t.Fatalf("record %d has no time-stamp", number)
	}
	over := ts.HashChainResult
	if over == nil {
		if over, err = xades.Value(r.Signature.XML); err != nil {
			t.Fatal(err)
		}
		if _, err := xades.AddTimestamp(r.Signature.XML, ts.Token); err != nil {
			t.Errorf("record %d: %v", number, err)
		}
	} else if err := hashchain.VerifyTimestamp(over, ts.HashChain, r.Signature.XML); err != nil {
		t.Errorf("record %d: %v", number, err)
	}
	if _, err := genuine(ts.Token, crypto.SHA512.Sum(over)); err != nil {
		t.Errorf("record %d: %v", number, err)
	}
	return ts
}

func status(t *testing.T, s Store) Status {
	t.Helper()
	st, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A batch is stamped as one, with the head of the linking, once; and it is found again in each way.
func TestBatch(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, dir, Options{SegmentSize: 1200})
		unsigned := small("5")
		unsigned.Signature, unsigned.Fault = crypto.Signature{}, "no"
		for n := range 5 {
			put(t, s, small(fmt.Sprint(n)))
		}
		put(t, s, unsigned)
		if st := status(t, s); st.Unstamped != 5 || !st.Stamped.IsZero() || !st.Refusing.IsZero() {
			t.Errorf("before: %+v", st)
		}
		if r, err := s.Get(t.Context(), 1); err != nil || r.Timestamp != nil {
			t.Errorf("before: %+v, %v", r.Timestamp, err)
		}
		time.Sleep(minInterval)
		synctest.Wait()
		if asked := a.take(); len(asked) != 1 {
			t.Fatalf("%d time-stamps were asked for", len(asked))
		}
		time.Sleep(10 * minInterval)
		synctest.Wait()
		if asked := a.take(); asked != nil {
			t.Errorf("%d more time-stamps were asked for", len(asked))
		}
		if st := status(t, s); st.Unstamped != 0 || !st.Oldest.IsZero() || st.Stamped.IsZero() {
			t.Errorf("after: %+v", st)
		}
		for range 2 {
			expect(t, s, 6)
			for n := range uint64(5) {
				if ts := stamped(t, s, n+1); ts.HashChain == nil {
					t.Errorf("record %d has a time-stamp of its own", n+1)
				}
			}
			if r, err := s.Get(t.Context(), 6); err != nil || r.Timestamp != nil {
				t.Errorf("what is not signed: %+v, %v", r, err)
			}
			if _, err := s.Get(t.Context(), 7); !errors.Is(err, ErrNotFound) {
				t.Errorf("the record of the time-stamp is given: %v", err)
			}
			r, err := s.Check(t.Context(), genuine)
			if err != nil || r.Timestamps != 1 || r.Covered.Number != 6 || r.CoveredAt.IsZero() || r.Refused != nil || r.Records != 7 || r.Indexes != nil {
				t.Errorf("Check = %+v, %v", r, err)
			}
			s.Close()
			s, _ = stamping(t, dir, Options{SegmentSize: 1200})
		}
		put(t, s, small("new"))
		reader, err := OpenRead(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		stamped(t, reader, 5)
		if st := status(t, reader); st.Unstamped != 1 || st.Stamped.IsZero() {
			t.Errorf("a reader says %+v", st)
		}
	})
}

// One record that comes alone gets a time-stamp of its own, and the head of the linking another.
func TestSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, t.TempDir(), Options{})
		put(t, s, realRecord("0"))
		time.Sleep(minInterval)
		synctest.Wait()
		value, err := xades.Value(document())
		if err != nil {
			t.Fatal(err)
		}
		asked := a.take()
		if len(asked) != 2 || !bytes.Equal(asked[0], crypto.SHA512.Sum(value)) {
			t.Fatalf("%d time-stamps were asked for", len(asked))
		}
		if ts := stamped(t, s, 1); ts.HashChain != nil {
			t.Error("it has a hash chain")
		}
		r, err := s.Check(t.Context(), genuine)
		if err != nil || r.Timestamps != 2 || r.Covered.Number != 1 || r.Refused != nil {
			t.Errorf("Check = %+v, %v", r, err)
		}
		// A document with a time-stamp of its own can have no second one inside.
		other, err := xades.AddTimestamp(document(), []byte("of another"))
		if err != nil {
			t.Fatal(err)
		}
		again := small("1")
		again.Signature.XML = other
		put(t, s, again)
		time.Sleep(minInterval)
		synctest.Wait()
		if asked := a.take(); len(asked) != 1 {
			t.Errorf("%d time-stamps were asked for", len(asked))
		}
		if ts := stamped(t, s, again.Number); ts.HashChain == nil {
			t.Error("it has no hash chain")
		}
	})
}

// What is not signed is covered with the linking.
func TestHeadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, t.TempDir(), Options{})
		r := small("0")
		r.Signature = crypto.Signature{}
		put(t, s, r)
		time.Sleep(5 * minInterval)
		synctest.Wait()
		if asked := a.take(); len(asked) != 1 {
			t.Errorf("%d time-stamps were asked for", len(asked))
		}
		if r, err := s.Check(t.Context(), genuine); err != nil || r.Covered.Number != 1 {
			t.Errorf("Check = %+v, %v", r, err)
		}
	})
}

// TestBacklog_FR86: a backlog is stamped in full rounds, one at once after the other (FR-86).
func TestBacklog_FR86(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 2500)
	for n := range 25 {
		put(t, s, small(fmt.Sprint(n)))
	}
	s.Close()
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, dir, 2500)
		s.disk.batchLimit = 10
		a := &authority{fails: errors.New("not yet")}
		if _, err := openShared(dir, Options{SegmentSize: 2500, Timestamper: a}); err != nil {
			t.Fatal(err)
		}
		defer s.disk.shares[1].Close()
		synctest.Wait()
		a.take()
		a.fail(nil)
		time.Sleep(retryDelay)
		synctest.Wait()
		if asked := a.take(); len(asked) != 4 { // 1 to see whether it works again, 10, 10, 4
			t.Errorf("%d time-stamps were asked for", len(asked))
		}
		for n := range uint64(25) {
			stamped(t, s, n+1)
		}
		if r, err := s.Check(t.Context(), genuine); err != nil || r.Timestamps != 4 {
			t.Errorf("Check = %+v, %v", r, err)
		}
		if st := status(t, s); st.Unstamped != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestAuthorityFails_FR86: where the authority fails, one record is tried a minute; Put goes on until the limit, then says why it
// does not, with a cause of its own, and goes on again when it is over (FR-86).
func TestAuthorityFails_FR86(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, t.TempDir(), Options{Interval: time.Hour})
		put(t, s, realRecord("0"))
		put(t, s, realRecord("1"))
		a.fail(errors.New("the authority is out"))
		time.Sleep(time.Hour)
		synctest.Wait()
		began := time.Now()
		if asked := a.take(); len(asked) != 1 {
			t.Fatalf("%d time-stamps were asked for", len(asked))
		}
		value, _ := xades.Value(document())
		for time.Since(began) < DefaultAcceptable {
			put(t, s, realRecord("more"))
			time.Sleep(retryDelay)
			synctest.Wait()
			if asked := a.take(); len(asked) != 1 || !bytes.Equal(asked[0], crypto.SHA512.Sum(value)) {
				t.Fatalf("%d time-stamps were asked for in a retry", len(asked))
			}
		}
		st := status(t, s)
		if st.Unstamped != 242 || !st.Failing.Equal(began) || !st.Refusing.Equal(began.Add(DefaultAcceptable)) || st.Reason == nil {
			t.Errorf("Status = %+v", st)
		}
		put(t, s, realRecord("the last"))
		time.Sleep(time.Second)
		_, err := s.Put(t.Context(), realRecord("late"))
		if got := causes(err); !slices.Equal(got, []string{"logging_failed", "timestamping_failed"}) {
			t.Errorf("Put = %v with causes %q", err, got)
		}
		a.fail(nil)
		time.Sleep(retryDelay)
		synctest.Wait()
		if asked := a.take(); len(asked) != 2 {
			t.Errorf("%d time-stamps were asked for when it works again", len(asked))
		}
		if st := status(t, s); st.Unstamped != 0 || !st.Failing.IsZero() || st.Reason != nil {
			t.Errorf("Status = %+v", st)
		}
		put(t, s, realRecord("new"))
	})
}

func causes(err error) (found []string) {
	for ; err != nil; err = errors.Unwrap(err) {
		if c, ok := err.(interface{ Cause() string }); ok {
			found = append(found, c.Cause())
		}
	}
	return found
}

func TestAcceptable(t *testing.T) {
	for _, c := range []struct {
		acceptable time.Duration
		after      time.Duration
		refused    bool
	}{
		{0, DefaultAcceptable, false},
		{0, DefaultAcceptable + time.Second, true},
		{10 * time.Minute, 10 * time.Minute, false},
		{10 * time.Minute, 10*time.Minute + time.Second, true},
		{NoLimit, 1000 * time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &authority{fails: errors.New("out")}
			s, err := openShared(t.TempDir(), Options{Timestamper: a, Acceptable: c.acceptable, Interval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			synctest.Wait()
			put(t, s, small("0"))
			time.Sleep(time.Hour + c.after)
			_, err = s.Put(t.Context(), small("1"))
			if refused := err != nil; refused != c.refused {
				t.Errorf("acceptable %v, after %v: %v", c.acceptable, c.after, err)
			}
		})
	}
}

// An authority that does not answer has failed.
func TestAuthorityHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := stamping(t, t.TempDir(), Options{Acceptable: time.Minute})
		a.hangs = true
		put(t, s, small("0"))
		time.Sleep(minInterval + stampTimeout)
		synctest.Wait()
		if st := status(t, s); st.Failing.IsZero() || !errors.Is(st.Reason, context.DeadlineExceeded) {
			t.Errorf("Status = %+v", st)
		}
		time.Sleep(time.Minute + time.Second)
		if _, err := s.Put(t.Context(), small("1")); err == nil {
			t.Error("Put goes on")
		}
		if err := s.Close(); err != nil { // does not wait for the authority
			t.Error(err)
		}
	})
}

// The Timestamper of the store that was opened last is in use, and no other.
func TestAuthorityOfTheLast(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first, a := stamping(t, dir, Options{})
		second, b := stamping(t, dir, Options{})
		put(t, first, small("0"))
		time.Sleep(minInterval)
		synctest.Wait()
		if len(a.take()) != 0 || len(b.take()) != 1 {
			t.Error("the first one is still in use")
		}
		none := openAt(t, dir, 0)
		put(t, first, small("1"))
		time.Sleep(2 * minInterval)
		synctest.Wait()
		if len(a.take()) != 0 || len(b.take()) != 0 {
			t.Error("one is in use, and the last has none")
		}
		if st := status(t, none); st.Unstamped != 1 {
			t.Errorf("Status = %+v", st)
		}
		none.Close()
		first.Close()
		time.Sleep(minInterval)
		synctest.Wait()
		if len(a.take()) != 0 || len(b.take()) != 1 {
			t.Error("the second one is not in use")
		}
		second.Close()
	})
}

// Who changes a record and makes all that follow anew cannot make the time-stamps anew.
func TestTimestampsBindTheLinks(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stamping(t, dir, Options{})
		for n := range 4 {
			put(t, s, small(fmt.Sprint(n)))
		}
		time.Sleep(minInterval)
		synctest.Wait()
		s.Close()
	})
	breaksIn := func(what string, number uint64) {
		t.Helper()
		s := openAt(t, dir, 0)
		defer s.Close()
		_, err := s.Check(t.Context(), genuine)
		if b := (*BreakError)(nil); !errors.As(err, &b) || b.Number != number {
			t.Errorf("%s: Check = %v", what, err)
		}
	}
	forge(t, dir, func(j *header, _ [][]byte, _ link) {
		if j.MessageID == "1" {
			j.MessageID = "9"
		}
	})
	breaksIn("a record changed and all linked anew", 5) // the time-stamp tells another head
	forge(t, dir, func(j *header, _ [][]byte, previous link) {
		if j.Stamp != nil {
			j.Stamp.Digest = previous
		}
	})
	breaksIn("the head in the time-stamp changed as well", 5) // its hash chain result is another one
	forge(t, dir, func(j *header, documents [][]byte, previous link) {
		if j.Stamp == nil {
			return
		}
		batch, err := (&whole{header: &header{Documents: [3]int64{0, 0, int64(len(documents[2]))}}, papers: documents[2]}).batch()
		if err != nil {
			t.Fatal(err)
		}
		if documents[1], _, err = buildTree(batch, j.Stamp.Head, previous); err != nil {
			t.Fatal(err)
		}
	})
	s := openAt(t, dir, 0)
	if r, err := s.Check(t.Context(), nil); err != nil || r.Covered.Number != 4 || !r.CoveredAt.IsZero() {
		t.Errorf("all but the token changed: Check = %+v, %v", r, err)
	}
	r, err := s.Check(t.Context(), genuine)
	if err != nil || len(r.Refused) != 1 || r.Covered.Number != 0 {
		t.Errorf("all but the token changed: Check = %+v, %v", r, err)
	}
}

// A time-stamp that a crash has cut at any octet is none, and its records get another.
func TestCrashInATimestamp(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 0)
	put(t, s, small("0"))
	put(t, s, small("1"))
	before := s.disk.last.live.End
	o := s.options
	o.Timestamper = new(authority)
	if _, err := s.disk.stampRound(t.Context(), o, batchLimit); err != nil {
		t.Fatal(err)
	}
	s.Close()
	path := filepath.Join(dir, firstSegment)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := before; size <= int64(len(whole)); size++ {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		s := openAt(t, dir, 0)
		want := 2
		if size == int64(len(whole)) {
			want = 0
		}
		if st := status(t, s); st.Unstamped != want {
			t.Fatalf("after %d octets: %+v", size-before, st)
		}
		if size%50 == 0 || want == 0 {
			if _, err := s.disk.stampRound(t.Context(), o, batchLimit); err != nil {
				t.Fatal(err)
			}
			stamped(t, s, 1)
			stamped(t, s, 2)
			if r, err := s.Check(t.Context(), genuine); err != nil || r.Timestamps != 1 || r.Covered.Number != 2 {
				t.Fatalf("after %d octets: Check = %+v, %v", size-before, r, err)
			}
		}
		s.Close()
	}
}

// Where a time-stamp cannot be written it is asked for again, and is kept once.
func TestTimestampOnAFullDisk(t *testing.T) {
	s, bad := openBad(t, t.TempDir())
	put(t, s, small("0"))
	put(t, s, small("1"))
	o, a := s.options, new(authority)
	o.Timestamper = a
	bad.room.Store(10)
	if _, err := s.disk.stampRound(t.Context(), o, batchLimit); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a round on a full disk: %v", err)
	}
	bad.room.Store(1 << 40)
	for range 2 {
		if _, err := s.disk.stampRound(t.Context(), o, batchLimit); err != nil {
			t.Error(err)
		}
	}
	stamped(t, s, 2)
	if r, err := s.Check(t.Context(), genuine); err != nil || r.Timestamps != 1 || len(a.take()) != 2 {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

// forge makes the only segment of a folder anew, with changed records.
func forge(t *testing.T, dir string, change func(j *header, documents [][]byte, previous link)) {
	t.Helper()
	path := filepath.Join(dir, firstSegment)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := bytes.NewReader(b)
	s, err := readPreamble(1, f)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Clone(b[:preambleSize])
	head := s.previous
	for at := int64(preambleSize); at < f.Size(); {
		h, err := readHead(f, at, f.Size(), s.mark)
		if err != nil {
			t.Fatal(err)
		}
		w, err := h.read(f, s.mark)
		if err != nil {
			t.Fatal(err)
		}
		documents := [][]byte{w.document(0), w.document(1), w.document(2)}
		change(w.header, documents, head)
		d, err := w.header.encode(w.head.contents, documents...)
		if err != nil {
			t.Fatal(err)
		}
		d.number, d.previous = h.number, head
		head = d.seal(s.mark)
		forged = append(append(forged, d.frame...), b[h.contentsAt():h.end()]...)
		at = h.end()
	}
	if err := os.WriteFile(path, forged, 0o600); err != nil {
		t.Fatal(err)
	}
}
