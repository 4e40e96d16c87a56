// SPDX-License-Identifier: Apache-2.0

// Package evidencetest is the conformance suite of evidence.Store.
package evidencetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/ident"
)

// Run holds the stores that open returns to the contract of evidence.Store. Opened again with the same dir, a store
// must hold what was kept there.
func Run(t *testing.T, open func(t *testing.T, dir string) evidence.Store) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *place)
	}{
		{"round trip", roundTrip},
		{"numbers ascend", numbersAscend},
		{"not found", notFound},
		{"contents however read", contentsHoweverRead},
		{"contents that fail", contentsThatFail},
		{"contents are let go", contentsAreLetGo},
		{"slow contents", slowContents},
		{"find", find},
		{"find while writing", findWhileWriting},
		{"stop finding", stopFinding},
		{"cancelled", cancelled},
		{"wait again", waitAgain},
		{"128 writers", manyWriters},
		{"check", check},
		{"close", closeStore},
		{"close without waiting", closeWithoutWaiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &place{open: open, dir: t.TempDir()}
			p.reopen(t)
			defer func() { p.close(t) }()
			c.run(t, p)
		})
	}
}

// place is where a test works: a store, and how to open it again.
type place struct {
	evidence.Store
	open func(*testing.T, string) evidence.Store
	dir  string
}

func (p *place) reopen(t *testing.T) {
	t.Helper()
	if p.Store != nil {
		p.close(t)
	}
	p.Store = p.open(t, p.dir)
}

func (p *place) close(t *testing.T) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// Content returns a part of so many octets that is kept.
func Content(name string, size int) evidence.Part {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size), byte(len(name))}).Read(b)
	return evidence.Part{
		Name: name, ContentType: "application/octet-stream", Digest: crypto.SHA512, Sum: crypto.SHA512.Sum(b),
		Size: int64(size), Content: bytes.NewReader(b),
	}
}

// Message returns a record with a message of so many octets, that is kept, and a signature.
func Message(id string, size int) *evidence.Record {
	client := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	provider := ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}
	return &evidence.Record{
		Time: time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC), Role: "send", MessageID: id, RequestID: "request of " + id,
		Client: client, Service: ident.Service{Client: provider, Code: "echo", Version: "v1"}, Peer: "DEV/GOV/0000/ss2",
		Parts: []evidence.Part{Content(crypto.Message, size)}, Signature: crypto.Signature{XML: []byte("<signature/>")},
	}
}

var rich = []struct {
	name   string
	record func() *evidence.Record
}{
	{"plain", func() *evidence.Record { return Message("m", 1000) }},
	{"nothing at all", func() *evidence.Record { return &evidence.Record{} }},
	{"chain and attachments", func() *evidence.Record {
		r := Message("m", 1000)
		r.Role, r.Response = "receive", true
		r.Signature.HashChainResult, r.Signature.HashChain = []byte("<result/>"), []byte("<chain/>")
		large := Content(crypto.Attachment(1), 1<<20)
		empty := Content(crypto.Attachment(2), 0)
		digest := Content(crypto.Attachment(3), 77)
		digest.Content, digest.Digest, digest.Sum = nil, crypto.SHA256, crypto.SHA256.Sum([]byte("x"))
		r.Parts = append(r.Parts, large, empty, digest, Content(crypto.Attachment(4), 5))
		return r
	}},
	{"large digest only", func() *evidence.Record {
		r := Message("m", 1)
		r.Parts[0].Content, r.Parts[0].Size = nil, 30<<30
		return r
	}},
	{"many parts", func() *evidence.Record {
		r := Message("m", 1)
		for n := range 2000 {
			r.Parts = append(r.Parts, Content(crypto.Attachment(n+1), n))
		}
		return r
	}},
	{"fault", func() *evidence.Record {
		r := Message("m", 1)
		r.Signature, r.Fault = crypto.Signature{}, "server.serverproxy.access_denied"
		return r
	}},
	{"odd identifiers", func() *evidence.Record {
		r := Message("../../etc/passwd\x00", 1)
		r.RequestID = "<a & 'b' \"c\">\u2028 ..\\..\r\n"
		r.Client = ident.Client{Instance: "-", Class: "%/", Member: "ä/ö"}
		r.Service.Client = ident.Client{Instance: "only"}
		r.Service.Version = ""
		return r
	}},
	{"large signature", func() *evidence.Record {
		r := Message("m", 1)
		r.Signature.XML = bytes.Repeat([]byte("<x/>"), 1<<18)
		return r
	}},
}

func roundTrip(t *testing.T, p *place) {
	var numbers []uint64
	for _, c := range rich {
		numbers = append(numbers, put(t, p, c.record()))
	}
	for _, when := range []string{"at once", "opened again"} {
		for i, c := range rich {
			got, err := p.Get(t.Context(), numbers[i])
			if err != nil {
				t.Fatalf("%s, %s: %v", c.name, when, err)
			}
			same(t, c.name+", "+when, got, c.record(), numbers[i])
		}
		i := 0
		for got, err := range p.Find(t.Context(), evidence.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			same(t, rich[i].name+", found "+when, got, rich[i].record(), numbers[i])
			i++
		}
		if i != len(rich) {
			t.Errorf("%s: found %d records, want %d", when, i, len(rich))
		}
		p.reopen(t)
	}
}

func numbersAscend(t *testing.T, p *place) {
	last := uint64(0)
	for range 3 {
		for range 10 {
			n := put(t, p, Message("m", 10))
			if n <= last {
				t.Errorf("number %d after %d", n, last)
			}
			last = n
		}
		p.reopen(t)
	}
}

func notFound(t *testing.T, p *place) {
	n := put(t, p, Message("m", 10))
	for _, number := range []uint64{0, n + 1, 1 << 63} {
		if _, err := p.Get(t.Context(), number); !errors.Is(err, evidence.ErrNotFound) {
			t.Errorf("Get(%d) = %v", number, err)
		}
	}
}

func contentsHoweverRead(t *testing.T, p *place) {
	for _, size := range []int{0, 1, 1000, 256 << 10, 256<<10 + 1, 1 << 20} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"one octet at a time": iotest.OneByteReader,
			"half at a time":      iotest.HalfReader,
			"end with the data":   iotest.DataErrReader,
		} {
			r := Message("m", size)
			r.Parts[0].Content = wrap(r.Parts[0].Content)
			n := put(t, p, r)
			got, err := p.Get(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%d octets, %s", size, name), got, Message("m", size), n)
		}
	}
}

// A content that fails leaves nothing, and the records around it are whole.
func contentsThatFail(t *testing.T, p *place) {
	broken := errors.New("broken")
	var want []uint64
	for _, size := range []int{1, 1000, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3 << 20} {
		for name, content := range map[string]func(r io.Reader) io.Reader{
			"fails at once":    func(io.Reader) io.Reader { return iotest.ErrReader(broken) },
			"fails in between": func(r io.Reader) io.Reader { return half(r, size, iotest.ErrReader(broken)) },
			"fails at the end": func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(broken)) },
			"too short":        func(r io.Reader) io.Reader { return half(r, size) },
			"too long":         func(r io.Reader) io.Reader { return io.MultiReader(r, strings.NewReader("x")) },
		} {
			want = append(want, put(t, p, Message("good", 100)))
			r := Message("bad", size)
			r.Parts[0].Content = content(r.Parts[0].Content)
			r.Parts = append(r.Parts, Content(crypto.Attachment(1), 10))
			_, err := p.Put(t.Context(), r)
			if err == nil {
				t.Errorf("%d octets, %s: no error", size, name)
			}
			if strings.HasPrefix(name, "fails") && !errors.Is(err, broken) {
				t.Errorf("%d octets, %s: %v hides the reason", size, name, err)
			}
			var e *evidence.Error
			if !errors.As(err, &e) || e.Cause() != "logging_failed" {
				t.Errorf("%d octets, %s: %v has no cause", size, name, err)
			}
		}
	}
	bad := Message("bad", 10)
	bad.Parts[0].Size = -1
	if _, err := p.Put(t.Context(), bad); err == nil {
		t.Error("a negative size is taken")
	}
	for range 2 {
		if got := numbers(t, p, evidence.Query{}); !slices.Equal(got, want) {
			t.Errorf("found %d records, want %d", len(got), len(want))
		}
		for _, n := range want {
			if got, err := p.Get(t.Context(), n); err != nil {
				t.Error(err)
			} else {
				same(t, "a neighbour", got, Message("good", 100), n)
			}
		}
		p.reopen(t)
	}
}

func half(r io.Reader, size int, then ...io.Reader) io.Reader {
	return io.MultiReader(append([]io.Reader{io.LimitReader(r, int64(size/2))}, then...)...)
}

// untilReturn is a reader that nobody may use after Put has returned.
type untilReturn struct {
	io.Reader
	t    *testing.T
	mu   sync.Mutex
	over bool
}

func (u *untilReturn) Read(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		u.t.Error("a content is read after Put has returned")
	}
	return u.Reader.Read(b)
}

func contentsAreLetGo(t *testing.T, p *place) {
	for _, size := range []int{10, 1 << 20} {
		r := Message("m", size)
		u := &untilReturn{Reader: r.Parts[0].Content, t: t}
		r.Parts[0].Content = u
		wait, err := p.Put(t.Context(), r)
		u.mu.Lock()
		u.over = true
		u.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// A large content that comes slowly keeps nobody from writing.
func slowContents(t *testing.T, p *place) {
	const size = 1 << 20
	r := Message("slow", size)
	octets, err := io.ReadAll(r.Parts[0].Content)
	if err != nil {
		t.Fatal(err)
	}
	content, w := io.Pipe()
	r.Parts[0].Content = content
	var slow uint64
	var group sync.WaitGroup
	group.Go(func() { slow = put(t, p, r) })
	for part := range slices.Chunk(octets, size/4) {
		if _, err := w.Write(part); err != nil {
			t.Error(err)
		}
		put(t, p, Message("quick", 1000))
	}
	w.Close()
	group.Wait()
	got, err := p.Get(t.Context(), slow)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "slow contents", got, Message("slow", size), slow)
}

// A check finds all records, and says the same when the store is opened again.
func check(t *testing.T, p *place) {
	if r, err := p.Check(t.Context(), nil); err != nil || r.Records != 0 || r.Head.Number != 0 {
		t.Errorf("Check of nothing = %+v, %v", r, err)
	}
	var last uint64
	for _, c := range rich {
		last = put(t, p, c.record())
	}
	var before evidence.Link
	for _, when := range []string{"at once", "opened again"} {
		r, err := p.Check(t.Context(), nil)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if r.Records < uint64(len(rich)) || r.First == 0 || r.Head.Number != last {
			t.Errorf("%s: Check = %+v", when, r)
		}
		if before.Digest != nil && !bytes.Equal(before.Digest, r.Head.Digest) {
			t.Errorf("%s: another digest of record %d", when, last)
		}
		before = r.Head
		p.reopen(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Check(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	p.Close()
	if _, err := p.Check(t.Context(), nil); err == nil {
		t.Error("Check after Close")
	}
}

func find(t *testing.T, p *place) {
	app := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	other := ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "other"}
	registry := ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}
	owner := registry.MemberOf()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	type row struct {
		message, request string
		client, provider ident.Client
		hour             int
	}
	rows := []row{
		{"m1", "r1", app, registry, 0},
		{"m1", "r1", app, registry, 1}, // its response
		{"m2", "r2", other, registry, 2},
		{"m1", "r3", app, owner, 3}, // a message id used again
		{"m4", "r4", registry, app, 3},
		{"m5", "r1", owner, registry, 5},
		{"", "", app, owner, 4}, // clocks may go back
	}
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	var all []uint64
	for _, w := range rows {
		r := Message(w.message, 10)
		r.RequestID, r.Client, r.Service.Client, r.Time = w.request, w.client, w.provider, at(w.hour)
		all = append(all, put(t, p, r))
	}
	for _, c := range []struct {
		name string
		q    evidence.Query
		want []int
	}{
		{"all", evidence.Query{}, []int{0, 1, 2, 3, 4, 5, 6}},
		{"message id", evidence.Query{MessageID: "m1"}, []int{0, 1, 3}},
		{"no such message id", evidence.Query{MessageID: "m"}, nil},
		{"request id", evidence.Query{RequestID: "r1"}, []int{0, 1, 5}},
		{"both ids", evidence.Query{MessageID: "m1", RequestID: "r1"}, []int{0, 1}},
		{"ids that never meet", evidence.Query{MessageID: "m2", RequestID: "r1"}, nil},
		{"client or provider", evidence.Query{Member: app}, []int{0, 1, 3, 4, 6}},
		{"member with its subsystems", evidence.Query{Member: app.MemberOf()}, []int{0, 1, 2, 3, 4, 6}},
		{"member of the provider", evidence.Query{Member: owner}, []int{0, 1, 2, 3, 4, 5, 6}},
		{"subsystem is not its member", evidence.Query{Member: other}, []int{2}},
		{"unknown member", evidence.Query{Member: ident.Client{Instance: "X"}}, nil},
		{"from", evidence.Query{From: at(3)}, []int{3, 4, 5, 6}},
		{"to", evidence.Query{To: at(3)}, []int{0, 1, 2}},
		{"from and to", evidence.Query{From: at(1), To: at(5)}, []int{1, 2, 3, 4, 6}},
		{"another time zone", evidence.Query{From: at(5).In(time.FixedZone("", 7200))}, []int{5}},
		{"empty time", evidence.Query{From: at(3), To: at(3)}, nil},
		{"everything", evidence.Query{MessageID: "m1", RequestID: "r1", Member: app, From: at(1), To: at(2)}, []int{1}},
	} {
		var want []uint64
		for _, i := range c.want {
			want = append(want, all[i])
		}
		if got := numbers(t, p, c.q); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", c.name, got, want)
		}
	}
	p.reopen(t)
	if got := numbers(t, p, evidence.Query{MessageID: "m1", Member: app}); !slices.Equal(got, []uint64{all[0], all[1], all[3]}) {
		t.Errorf("opened again: found %v", got)
	}
}

func findWhileWriting(t *testing.T, p *place) {
	put(t, p, Message("first", 10))
	n := 0
	for _, err := range p.Find(t.Context(), evidence.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 100 {
			break
		}
		put(t, p, Message("more", 10)) // the writer does not wait for the reader
	}
}

func stopFinding(t *testing.T, p *place) {
	for range 10 {
		put(t, p, Message("m", 10))
	}
	n := 0
	for range p.Find(t.Context(), evidence.Query{}) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("found %d records", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	for _, err := range p.Find(ctx, evidence.Query{}) {
		n++
		if n == 4 {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after cancelling: %v", err)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		}
		if n == 3 {
			cancel()
		}
	}
	if n != 4 {
		t.Errorf("the search went on for %d steps", n)
	}
}

func cancelled(t *testing.T, p *place) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, size := range []int{10, 1 << 20} {
		if _, err := p.Put(ctx, Message("m", size)); !errors.Is(err, context.Canceled) {
			t.Errorf("Put of %d octets: %v", size, err)
		}
	}
	if _, err := p.Get(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	if got := numbers(t, p, evidence.Query{}); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
}

func waitAgain(t *testing.T, p *place) {
	wait, err := p.Put(t.Context(), Message("m", 10))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := wait(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func manyWriters(t *testing.T, p *place) {
	const writers, each = 128, 10
	var mu sync.Mutex
	got := make(map[uint64]string)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				id := fmt.Sprint(w, "-", i)
				n := put(t, p, Message(id, 100*i))
				mu.Lock()
				if got[n] != "" {
					t.Errorf("number %d twice", n)
				}
				got[n] = id
				mu.Unlock()
				r, err := p.Get(t.Context(), n)
				if err != nil {
					t.Error(err)
				} else if r.MessageID != id {
					t.Errorf("record %d is that of %s, want %s", n, r.MessageID, id)
				}
			}
		})
	}
	group.Wait()
	p.reopen(t)
	n := 0
	for r, err := range p.Find(t.Context(), evidence.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got[r.Number] != r.MessageID {
			t.Errorf("record %d is that of %s, want %s", r.Number, r.MessageID, got[r.Number])
		}
		n++
	}
	if n != writers*each {
		t.Errorf("found %d records, want %d", n, writers*each)
	}
}

func closeStore(t *testing.T, p *place) {
	n := put(t, p, Message("m", 10))
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Put(t.Context(), Message("m", 10)); err == nil {
		t.Error("Put after Close")
	}
	if _, err := p.Get(t.Context(), n); err == nil || errors.Is(err, evidence.ErrNotFound) {
		t.Errorf("Get after Close: %v", err)
	}
	steps := 0
	for _, err := range p.Find(t.Context(), evidence.Query{}) {
		steps++
		if err == nil {
			t.Error("Find after Close")
		}
	}
	if steps != 1 {
		t.Errorf("Find after Close yields %d times", steps)
	}
}

func closeWithoutWaiting(t *testing.T, p *place) {
	var waits []func() error
	for range 20 {
		wait, err := p.Put(t.Context(), Message("m", 10))
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	p.reopen(t)
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	if got := numbers(t, p, evidence.Query{}); len(got) != 20 {
		t.Errorf("found %d records, want 20", len(got))
	}
}

// put puts a record and waits until it is durable.
func put(t *testing.T, s evidence.Store, r *evidence.Record) uint64 {
	t.Helper()
	wait, err := s.Put(t.Context(), r)
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	return r.Number
}

func numbers(t *testing.T, s evidence.Store, q evidence.Query) (found []uint64) {
	t.Helper()
	for r, err := range s.Find(t.Context(), q) {
		if err != nil {
			t.Error(err)
			continue
		}
		found = append(found, r.Number)
	}
	return found
}

// same compares a record that was kept with what it was made of.
func same(t *testing.T, what string, got, want *evidence.Record, number uint64) {
	t.Helper()
	if len(got.Parts) != len(want.Parts) {
		t.Errorf("%s: %d parts, want %d", what, len(got.Parts), len(want.Parts))
		return
	}
	for i := range got.Parts {
		g, w := &got.Parts[i], &want.Parts[i]
		if (g.Content == nil) != (w.Content == nil) {
			t.Errorf("%s: part %s is kept or not, against what was put", what, w.Name)
		} else if g.Content != nil {
			have, err := io.ReadAll(g.Content)
			should, _ := io.ReadAll(w.Content)
			if err != nil || !bytes.Equal(have, should) {
				t.Errorf("%s: part %s has other octets (%v)", what, w.Name, err)
			}
		}
		g.Content, w.Content = nil, nil
	}
	if !got.Time.Equal(want.Time) {
		t.Errorf("%s: time %v, want %v", what, got.Time, want.Time)
	}
	got.Time, want.Number = want.Time, number
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got\n%+v, want\n%+v", what, got, want)
	}
}
