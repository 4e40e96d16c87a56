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
	"strings"
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

// losing are the connections to a peer: it tells when one is closed, and can end them.
type losing struct {
	peer string // its address
	mu   sync.Mutex
	open map[*losingConn]bool
	lost chan struct{} // closed when the next connection is; nil: nobody waits
}

func (l *losing) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || address != l.peer {
		return c, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[*losingConn]bool)
	}
	conn := &losingConn{c, l}
	l.open[conn] = true
	return conn, nil
}

// next returns a channel that is closed when the next connection is.
func (l *losing) next() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = make(chan struct{})
	return l.lost
}

// end ends all connections as their peer would.
func (l *losing) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Conn.(*net.TCPConn).CloseRead()
	}
}

type losingConn struct {
	net.Conn
	all *losing
}

func (c *losingConn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	if c.all.lost != nil {
		close(c.all.lost)
		c.all.lost = nil
	}
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// lateKeys sign when something has happened, if they are told to wait for it once.
type lateKeys struct {
	exchange.Keys
	wait atomic.Pointer[func()]
}

func (k *lateKeys) Sign(member ident.Client) *exchange.SignKey {
	key := *k.Keys.Sign(member)
	key.Key = &lateKey{key.Key, k}
	return &key
}

type lateKey struct {
	stdcrypto.Signer
	keys *lateKeys
}

func (k *lateKey) Sign(random io.Reader, digest []byte, opts stdcrypto.SignerOpts) ([]byte, error) {
	if wait := k.keys.wait.Swap(nil); wait != nil {
		(*wait)()
	}
	return k.Signer.Sign(random, digest, opts)
}

// TestKeptConnectionIsClosed has a peer close a kept connection while it gets a request: nothing is served or kept twice,
// and the information system gets its answer where the signature had not left and the message is short, and else the fault
// that says that nobody knows.
func TestKeptConnectionIsClosed(t *testing.T) {
	const (
		inPieces = 1 << iota // it is longer than what leaves at once when it is complete
		short                // it can be sent again
	)
	envelope := testbed.Envelope(header(), "echo", "")
	const xop = `multipart/related; type="application/xop+xml"; start="<root>"; start-info="text/xml"; boundary=b`
	mtom := bytes.Replace(related(envelope, []byte("an attachment")), []byte("text/xml"), []byte(`application/xop+xml; type="text/xml"`), 1)
	const lost = "server.clientproxy.network_error"
	for _, form := range []struct {
		name, kind string
		body       []byte
		is         int
	}{
		{"plain", "text/xml", envelope, short},
		{"with an attachment", relatedType, related(envelope, []byte("an attachment")), short},
		{"MTOM", xop, mtom, short},
		{"in two pieces", relatedType, related(envelope, make([]byte, 45_000)), short | inPieces},
		{"large", relatedType, related(envelope, make([]byte, 1_300_000)), inPieces},
	} {
		for _, place := range []struct {
			name, at string
			early    bool // the signature need not have left
			signing  bool // it is while we sign
		}{
			{"with the HTTP header", "", true, false},
			{"in the envelope", ":Header>", true, false},
			{"behind the envelope", "Envelope>", true, false},
			{"while it is signed", "", false, true},
			{"in the signature", "signature/bdoc-1.0/ts", false, false},
			{"behind the signature", "XAdESSignatures>\r\n", false, false},
		} {
			t.Run(form.name+", "+place.name, func(t *testing.T) {
				route, cut, keys, conns := &counted{Handler: testbed.Echo{}}, new(cutter), new(lateKeys), new(losing)
				bed := testbed.New(t, testbed.Options{Route: route,
					Middle: func(next http.Handler) http.Handler { cut.Handler = next; return cut },
					Sender: func(s *exchange.SecurityServer) {
						keys.Keys, s.Keys = s.Keys, keys
					}, Dial: conns.dial})
				conns.peer = strings.Trim(bed.PeerURL, "htps:/")
				send := func() string {
					_, answer := post(t, bed, form.kind, bytes.NewReader(form.body))
					return faultOf(t, answer)
				}
				if code := send(); code != "" {
					t.Fatal(code)
				}
				want, served, kept := lost, 1, 2
				if again := form.is == short|inPieces && place.early || form.is&short != 0 && place.signing; again {
					want, served = "", 2
				}
				if place.early && form.is&inPieces != 0 || place.signing {
					closed := conns.next()
					keys.wait.Store(new(func() {
						if place.signing {
							conns.end()
						}
						<-closed
					}))
					if want != "" {
						kept = 1 // it never came to its signature
					}
				}
				if !place.signing {
					cut.arm(place.at)
				}
				code := send()
				if place.at == "" && place.early && want != "" && code == "" {
					want, served, kept = "", 2, 2 // the header may go ahead of the rest
				}
				if code != want {
					t.Errorf("got %q, want %q", code, want)
				}
				n, theirs, ours := int(route.calls.Load()), requests(t, bed.Receiver), requests(t, bed.Sender)
				if n != served || theirs != served || ours != kept {
					t.Errorf("%d served; %d requests are in the receiver's evidence, %d in ours; want %d, %d, %d", n, theirs, ours, served, served, kept)
				}
				bed.CheckClean()
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
	conns.peer = strings.Trim(bed.PeerURL, "htps:/")
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
