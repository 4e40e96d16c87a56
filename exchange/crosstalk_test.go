// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	stdmultipart "mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/spool"
)

var crosstalkFor = flag.Duration("crosstalk", 0, "how long TestCrosstalk goes on; 0 is a few dozen exchanges")

// boundaries are the lengths of the buffers that a message meets on its way.
var boundaries = []int{0, 1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 2 << 20}

// crowd is two security servers with many exchanges at once, of which some end badly. Every message is unlike all others.
type crowd struct {
	*testing.T
	bed   *testbed.Bed
	name  string
	gated bool
	hurt  atomic.Bool // some exchanges are made to end badly

	mu    sync.Mutex
	sent  map[string][]byte // requests, by their message ids
	whole map[string]bool   // those that came to the service as a whole
	bad   map[string]bool   // those that cannot be good: the consumer has cut them
}

const crowdQuota = 256 << 20

func newCrowd(t *testing.T, name string, to bool, delivery exchange.Delivery) *crowd {
	c := &crowd{T: t, name: name, gated: delivery == exchange.Gated, sent: make(map[string][]byte), whole: make(map[string]bool), bad: make(map[string]bool)}
	limited := func(s *exchange.SecurityServer) {
		store, err := spool.OpenDisk(filepath.Join(t.TempDir(), "spool"), spool.Options{Quota: crowdQuota})
		if err != nil {
			t.Fatal(err)
		}
		s.Spool.Close()
		s.Spool = hurting{store, &c.hurt}
		s.Keep.UpTo = 300 << 10
	}
	options := testbed.Options{Middle: c.between, Receive: limited, Sender: func(s *exchange.SecurityServer) {
		limited(s)
		for client := range s.Local.Clients {
			s.Local.Clients = map[ident.Client]exchange.Caller{client: {Delivery: delivery}}
		}
	}}
	if to {
		server := httptest.NewServer(http.HandlerFunc(c.serve))
		t.Cleanup(server.Close)
		options.Service = exchange.Service{To: server.URL, Delivery: delivery}
	} else {
		options.Route = http.HandlerFunc(c.serve)
	}
	c.bed = testbed.New(t, options)
	return c
}

// hurting is a spool in which some entries fail.
type hurting struct {
	spool.Store
	hurt *atomic.Bool
}

func (s hurting) Create(ctx context.Context) (spool.Entry, error) {
	e, err := s.Store.Create(ctx)
	if err == nil && s.hurt.Load() && rand.N(12) == 0 {
		e = faultyEntry{e, faulty{at: rand.N(int64(1 << 20)), err: errors.New("the disk is broken")}}
	}
	return e, err
}

// octets are above those of ASCII, but for what looks like delimiters.
func octets(n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		x := rand.Uint64() | 0x8080808080808080
		for k := range 8 {
			b[i+k] = byte(x >> (8 * k))
		}
	}
	for i := n &^ 7; i < n; i++ {
		b[i] = byte(rand.N(128) + 128)
	}
	for range n / (16 << 10) {
		copy(b[rand.N(n):], "\r\n--"[rand.N(2):])
	}
	return b
}

func size() int { return max(0, boundaries[rand.N(len(boundaries))]+rand.N(9)-4) }

// one is one exchange from the consumer's side.
func (c *crowd) one(n int) {
	h := header()
	h.ID = fmt.Sprintf("%s-%d-%x", c.name, n, rand.Uint64())
	var attachments [][]byte
	for range rand.N(4) {
		attachments = append(attachments, octets(size()))
	}
	envelope := testbed.Envelope(h, "echo", strings.Repeat(fmt.Sprintf("<t:x>%016x</t:x>", rand.Uint64()), rand.N(3)*size()/64))
	body, kind := related(envelope, attachments...), relatedType
	if len(attachments) == 0 && rand.N(2) == 0 {
		body, kind = envelope, "text/xml"
	}
	c.mu.Lock()
	c.sent[h.ID] = body
	c.mu.Unlock()
	how := 0
	if c.hurt.Load() {
		how = rand.N(8)
	}
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(c.bed.URL, "http://"), "/"))
	if err != nil {
		c.Error(err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(100 * time.Second)) // what hangs is told by its id
	req, _ := http.NewRequest(http.MethodPost, c.bed.URL, bytes.NewReader(body))
	req.Header.Set("Content-Type", kind)
	if rand.N(2) == 0 {
		req.ContentLength, req.Body = -1, io.NopCloser(bytes.NewReader(body))
	}
	switch how {
	case 1: // cut
		at := rand.N(len(body))
		c.mu.Lock()
		c.bad[h.ID] = true
		c.mu.Unlock()
		req.Body = io.NopCloser(io.LimitReader(bytes.NewReader(body), int64(at)))
		req.Write(conn)
		return
	case 2: // does not read all of its answer
		req.Close = true
		go req.Write(conn)
		io.CopyN(io.Discard, conn, rand.N(int64(1<<20)))
		return
	case 3: // cancelled, or one of the others is
		go func() {
			time.Sleep(rand.N(30 * time.Millisecond))
			for _, s := range []*exchange.SecurityServer{c.bed.Sender, c.bed.Receiver} {
				if all := s.Transfers(); len(all) > 0 && rand.N(2) == 0 {
					s.Cancel(all[rand.N(len(all))].ID)
				}
			}
		}()
	}
	response, err := (&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}).RoundTrip(req)
	if err != nil {
		if !c.hurt.Load() {
			c.Errorf("%s: %v", h.ID, err)
		}
		return
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		if !c.hurt.Load() {
			c.Errorf("%s: %v", h.ID, err)
		}
		return
	}
	if bytes.Contains(answer, []byte("faultcode>")) {
		if !c.hurt.Load() {
			c.Errorf("%s: %s", h.ID, answer)
		}
		return
	}
	c.compare(h.ID, response.Header.Get("Content-Type"), answer, attachments)
}

// compare compares an answer that claims to be good with what was sent.
func (c *crowd) compare(id, contentType string, answer []byte, attachments [][]byte) {
	c.mu.Lock()
	whole := c.whole[id]
	c.mu.Unlock()
	if !whole {
		c.Errorf("%s: an answer to a request that the service has not got", id)
	}
	parts := [][]byte{answer}
	if kind, parameters, err := mime.ParseMediaType(contentType); err == nil && kind == "multipart/related" {
		parts = nil
		for r := stdmultipart.NewReader(bytes.NewReader(answer), parameters["boundary"]); ; {
			p, err := r.NextRawPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				c.Errorf("%s: %v", id, err)
				return
			}
			b, err := io.ReadAll(p)
			if err != nil {
				c.Errorf("%s: %v", id, err)
				return
			}
			parts = append(parts, b)
		}
	}
	if len(parts) != len(attachments)+1 {
		c.Errorf("%s: %d parts came back of %d", id, len(parts), len(attachments)+1)
		return
	}
	if idOf(parts[0]) != id {
		c.Errorf("%s: the answer is that to %s", id, idOf(parts[0]))
	}
	for n, a := range attachments {
		if !bytes.Equal(parts[n+1], a) {
			c.Errorf("%s: attachment %d of %d octets came back as others", id, n+1, len(a))
		}
	}
}

var idElement = regexp.MustCompile(`:id>([^<]*)</`)

func idOf(octets []byte) string {
	if m := idElement.FindSubmatch(octets); m != nil {
		return string(m[1])
	}
	return ""
}

// serve is the service: what it gets must be what was sent, as a whole or a beginning of it.
func (c *crowd) serve(w http.ResponseWriter, r *http.Request) {
	if c.hurt.Load() && rand.N(16) == 0 {
		io.CopyN(io.Discard, r.Body, rand.N(int64(1<<20)))
		panic(http.ErrAbortHandler)
	}
	got, err := io.ReadAll(r.Body)
	id := idOf(got)
	c.mu.Lock()
	sent, bad := c.sent[id], c.bad[id]
	c.whole[id] = err == nil
	c.mu.Unlock()
	switch {
	case err != nil && !c.hurt.Load():
		c.Errorf("%s: the service got %v", id, err)
	case err == nil && bad:
		c.Errorf("%s: the service got all of a request that was cut", id)
	case err == nil && len(got) != len(sent), !begins(sent, got, err != nil && c.gated && c.hurt.Load()):
		c.Errorf("%s: the service got %d octets which are not those of %d that were sent (%v)", id, len(got), len(sent), err)
	case err != nil && len(got) > len(sent)-64<<10 && c.gated:
		c.Errorf("%s: the service got %d octets of %d of a request that was withdrawn", id, len(got), len(sent))
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(got))
	if c.hurt.Load() && rand.N(16) == 0 {
		w = &cutting{ResponseWriter: w, left: rand.N(1 << 20)}
		defer func() { panic(http.ErrAbortHandler) }()
	}
	testbed.Echo{Attach: true}.ServeHTTP(w, r)
}

// begins says whether sent begins with got; one octet of what was withdrawn later may be another.
func begins(sent, got []byte, withdrawn bool) bool {
	if len(got) > len(sent) {
		return false
	}
	for i := range got {
		if got[i] != sent[i] {
			return withdrawn && got[i]^1 == sent[i] && bytes.Equal(got[i+1:], sent[i+1:len(got)])
		}
	}
	return true
}

// between is what may happen to messages between the security servers.
func (c *crowd) between(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.hurt.Load() {
			at := rand.N(int64(1 << 21))
			switch rand.N(16) {
			case 0:
				r.Body = io.NopCloser(&flipping{r.Body, at})
			case 1:
				r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, at), iotest.ErrReader(io.ErrUnexpectedEOF)))
			case 2:
				defer panicIfCut(next.ServeHTTP, &cutting{ResponseWriter: w, left: int(at)}, r)
				return
			case 3:
				w = &flippingWriter{w, at}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// flipping changes the first octet of an attachment behind so many octets.
type flipping struct {
	io.Reader
	left int64
}

func (f *flipping) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.left = flip(p[:n], f.left)
	return n, err
}

type flippingWriter struct {
	http.ResponseWriter
	left int64
}

func (f *flippingWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *flippingWriter) Write(p []byte) (int, error) {
	p = bytes.Clone(p)
	f.left = flip(p, f.left)
	return f.ResponseWriter.Write(p)
}

func flip(p []byte, left int64) int64 {
	for i := range p {
		if left--; left < 0 && left > -1<<40 && p[i] >= 0x80 {
			p[i] ^= 1
			return -1 << 50
		}
	}
	return left
}

// check sees that nothing is left, and that evidence has what its digests say.
func (c *crowd) check() {
	c.bed.CheckClean()
	for _, s := range []*exchange.SecurityServer{c.bed.Sender, c.bed.Receiver} {
		if err := s.Spool.Room(crowdQuota - crowdQuota/16); err != nil {
			c.Errorf("%s: room was not given back: %v", s.ID, err)
		}
		for r, err := range s.Evidence.Find(c.Context(), evidence.Query{}) {
			if err != nil {
				c.Fatal(err)
			}
			for _, p := range r.Parts {
				if p.Content == nil {
					continue
				}
				content, err := io.ReadAll(p.Content)
				if err != nil || !bytes.Equal(p.Digest.Sum(content), p.Sum) {
					c.Errorf("evidence of %s (response %v), part %s: not what was signed: %v", r.MessageID, r.Response, p.Name, err)
				}
				if p.Name == "/message.xml" && idOf(content) != r.MessageID {
					c.Errorf("evidence of %s (response %v) has message %s", r.MessageID, r.Response, idOf(content))
				}
			}
		}
	}
}

// TestCrosstalk has many exchanges at once, of messages around the lengths of all buffers, over three pairs of security
// servers. Some are cut, cancelled, changed, or meet a broken disk, at any place. Every octet that arrives is compared: nothing of
// one message is ever seen in another, a message that was not good to its end never becomes complete at the service, and nothing
// is left behind.
func TestCrosstalk(t *testing.T) {
	crowds := []*crowd{
		newCrowd(t, "strict", true, exchange.Strict),
		newCrowd(t, "gated", true, exchange.Gated),
		newCrowd(t, "route", false, exchange.Strict),
	}
	for _, hurt := range []bool{true, false, true} {
		for _, c := range crowds {
			c.hurt.Store(hurt)
		}
		var all sync.WaitGroup
		var number atomic.Int64
		end := time.Now().Add(*crosstalkFor / 3)
		for i := range 9 {
			c := crowds[i%len(crowds)]
			all.Go(func() {
				for n := 0; n < 2 || time.Now().Before(end); n++ {
					c.one(int(number.Add(1)))
				}
			})
		}
		all.Wait()
		for _, c := range crowds { // the ends of those that hurt must not be seen as failures of the others
			c.bed.CheckClean()
		}
		t.Logf("%d exchanges, hurt %v", number.Load(), hurt)
	}
	for _, c := range crowds {
		c.check()
	}
}
