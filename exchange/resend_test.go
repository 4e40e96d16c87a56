// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// cutter is a security server that breaks off one request, at some place of it.
type cutter struct {
	http.Handler
	at     atomic.Pointer[string] // what is read before; nil: all is well
	cuts   atomic.Int32
	passed atomic.Int32
}

func (c *cutter) arm(at string) { c.at.Store(&at) }

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := c.at.Swap(nil)
	if at == nil {
		c.passed.Add(1)
		c.Handler.ServeHTTP(w, r)
		return
	}
	c.cuts.Add(1)
	var read []byte
	for piece := make([]byte, 512); *at != "" && !bytes.Contains(read, []byte(*at)); {
		n, err := r.Body.Read(piece)
		if read = append(read, piece[:n]...); err != nil {
			break
		}
	}
	breakOff(w)
}

// breakOff closes a connection at once, where a handler that panics would have the rest of the request be read.
func breakOff(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}

// losing are the connections to a peer: it tells when one is closed.
type losing struct {
	mu   sync.Mutex
	lost chan struct{} // closed when the next connection is; nil: nobody waits
}

func (l *losing) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &losingConn{c, l}, nil
}

// next returns a channel that is closed when the next connection is.
func (l *losing) next() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = make(chan struct{})
	return l.lost
}

type losingConn struct {
	net.Conn
	all *losing
}

func (c *losingConn) Close() error {
	c.all.mu.Lock()
	if c.all.lost != nil {
		close(c.all.lost)
		c.all.lost = nil
	}
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// lateKeys are keys that sign when a connection has been lost, and somewhat later, if they are told to.
type lateKeys struct {
	exchange.Keys
	until atomic.Pointer[chan struct{}]
}

func (p *lateKeys) Sign(member ident.Client) *exchange.SignKey {
	key := *p.Keys.Sign(member)
	key.Key = &lateKey{key.Key, p}
	return &key
}

type lateKey struct {
	stdcrypto.Signer
	keys *lateKeys
}

func (k *lateKey) Sign(random io.Reader, digest []byte, opts stdcrypto.SignerOpts) ([]byte, error) {
	if until := k.keys.until.Swap(nil); until != nil {
		<-*until
		time.Sleep(20 * time.Millisecond)
	}
	return k.Signer.Sign(random, digest, opts)
}

// TestKeptConnectionIsClosed has a peer close a kept connection while it gets a request: nothing is served or kept twice,
// and the information system gets its answer where the signature had not left and the message is short, and else the fault
// that says that nobody knows.
func TestKeptConnectionIsClosed(t *testing.T) {
	envelope := testbed.Envelope(header(), "echo", "")
	small, large := []byte("an attachment"), bytes.Repeat([]byte("an attachment"), 100_000)
	const xop = `multipart/related; type="application/xop+xml"; start="<root>"; start-info="text/xml"; boundary=b`
	mtom := bytes.Replace(related(envelope, small), []byte("text/xml"), []byte(`application/xop+xml; type="text/xml"`), 1)
	const lost = "server.clientproxy.network_error"
	for _, form := range []struct {
		name, kind string
		body       []byte
		long       bool
	}{
		{"plain", "text/xml", envelope, false},
		{"with an attachment", relatedType, related(envelope, small), false},
		{"MTOM", xop, mtom, false},
		{"large", relatedType, related(envelope, large), true},
	} {
		for _, place := range []struct {
			name, at string
			sealed   bool // the signature has left
		}{
			{"with the HTTP header", "", false},
			{"in the envelope", ":Header>", false},
			{"before the signature", "Envelope>", false},
			{"in the signature", "signature/bdoc-1.0/ts", true},
			{"behind the signature", "XAdESSignatures>\r\n", true},
		} {
			t.Run(form.name+", "+place.name, func(t *testing.T) {
				route, cut, keys, conns := &counted{Handler: testbed.Echo{}}, new(cutter), new(lateKeys), new(losing)
				bed := testbed.New(t, testbed.Options{Route: route,
					Middle: func(next http.Handler) http.Handler { cut.Handler = next; return cut },
					Sender: func(s *exchange.SecurityServer) {
						keys.Keys, s.Keys = s.Keys, keys
					}, Dial: conns.dial})
				send := func() string {
					_, answer := post(t, bed, form.kind, bytes.NewReader(form.body))
					return faultOf(t, answer)
				}
				served := 0
				for range 20 { // what is between the loss of a connection and its being noticed is short, and not nothing
					if code := send(); code != "" {
						t.Fatal(code)
					}
					served++
					if !place.sealed {
						until := conns.next()
						keys.until.Store(&until)
					}
					cut.arm(place.at)
					code := send()
					if code == "" {
						served++
					}
					if code != "" && code != lost {
						t.Fatal(code)
					}
					if n, kept := int(route.calls.Load()), requests(t, bed.Receiver); n != served || kept != served {
						t.Fatalf("%d answers, and the service was called %d times; %d requests are in the receiver's evidence", served, n, kept)
					}
					if again := !place.sealed && !form.long; again == (code == "") {
						bed.CheckClean()
						return
					}
				}
				t.Errorf("cut %d times", cut.cuts.Load())
			})
		}
	}
}

// TestLongMessageOfWhichLittleHasCome: what is kept of the beginning is enough while the rest has not been read.
func TestLongMessageOfWhichLittleHasCome(t *testing.T) {
	cut, conns := new(cutter), new(losing)
	bed := testbed.New(t, testbed.Options{
		Middle: func(next http.Handler) http.Handler { cut.Handler = next; return cut },
		Dial:   conns.dial,
	})
	attachment := bytes.Repeat([]byte("an attachment"), 100_000)
	body := related(testbed.Envelope(header(), "echo", ""), attachment)
	if _, answer := post(t, bed, relatedType, bytes.NewReader(body)); faultOf(t, answer) != "" {
		t.Fatalf("%s", answer)
	}
	lost := conns.next()
	cut.arm(":Header>")
	r, w := io.Pipe()
	go func() {
		w.Write(body[:40_000]) // it goes in pieces of 32 KiB
		<-lost
		w.Write(body[40_000:60_000])
		for cut.passed.Load() < 2 {
			time.Sleep(time.Millisecond)
		}
		w.Write(body[60_000:])
		w.Close()
	}()
	if _, answer := post(t, bed, relatedType, r); faultOf(t, answer) != "" {
		t.Errorf("%s", answer)
	}
	if n := requests(t, bed.Receiver); n != 2 || cut.cuts.Load() != 1 {
		t.Errorf("%d requests are in evidence, %d were cut", n, cut.cuts.Load())
	}
	bed.CheckClean()
}

// restless is a security server that closes each connection after one to five requests, before, in, or after the next.
type restless struct {
	http.Handler
	mu   sync.Mutex
	rand *rand.Rand
	left map[string]int // requests on a connection, by the peer's address
	cuts [4]int
}

func (s *restless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	left, known := s.left[r.RemoteAddr]
	if !known {
		left = 1 + s.rand.IntN(5)
	}
	s.left[r.RemoteAddr] = left - 1
	how, octets := s.rand.IntN(4), s.rand.IntN(6000)
	if left == 0 {
		s.cuts[how]++
		delete(s.left, r.RemoteAddr)
	}
	s.mu.Unlock()
	if left > 0 {
		s.Handler.ServeHTTP(w, r)
		return
	}
	switch how {
	case 0: // at once
	case 1: // somewhere
		io.CopyN(io.Discard, r.Body, int64(octets))
	case 2: // when all is there
		io.Copy(io.Discard, r.Body)
	case 3: // when it has been served
		s.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	breakOff(w)
}

// TestRestlessPeer: whatever a peer does with its connections, no message is served twice, and its sender gets the answer
// or learns that nobody knows.
func TestRestlessPeer(t *testing.T) {
	var mu sync.Mutex
	served := make(map[string]int)
	route := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document, _ := io.ReadAll(r.Body)
		mu.Lock()
		served[between(document, ":id>")]++
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(document))
		testbed.Echo{}.ServeHTTP(w, r)
	})
	peer := &restless{rand: rand.New(rand.NewPCG(1, 2)), left: make(map[string]int)}
	bed := testbed.New(t, testbed.Options{Route: route, Middle: func(next http.Handler) http.Handler { peer.Handler = next; return peer }})
	var answered, unknown atomic.Int32
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for n := range 50 {
				h := header()
				h.ID = fmt.Sprintf("message-%d-%d", worker, n)
				response, err := http.Post(bed.URL, "text/xml", bytes.NewReader(testbed.Envelope(h, "echo", "")))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := io.ReadAll(response.Body)
				response.Body.Close()
				mu.Lock()
				times := served[h.ID]
				mu.Unlock()
				switch code := faultOf(t, answer); {
				case err != nil || times > 1:
					t.Errorf("%s was served %d times; %v", h.ID, times, err)
				case code == "" && times == 1:
					answered.Add(1)
				case code == "server.clientproxy.network_error":
					unknown.Add(1)
				default:
					t.Errorf("%s: %s, and it was served %d times", h.ID, code, times)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d answered, %d not known; cut at once, somewhere, behind the signature, and when served: %v", answered.Load(), unknown.Load(), peer.cuts)
	if answered.Load() == 0 || peer.cuts == [4]int{} {
		t.Error("nothing was tried")
	}
	bed.CheckClean()
}

// between returns what stands between an element's tags.
func between(document []byte, name string) string {
	_, rest, _ := bytes.Cut(document, []byte(name))
	text, _, _ := bytes.Cut(rest, []byte("<"))
	return string(text)
}
