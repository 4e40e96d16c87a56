// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/wire"
)

// TestSilentService has services that are silent at every stage of their call: the fault says in what, for how long, and
// which setting that is.
func TestSilentService(t *testing.T) {
	const timeout = time.Second
	full, err := net.Listen("tcp", "127.0.0.1:0") // accepts, for the kernel does, and answers no TLS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { full.Close() })
	answerBegun := func(w http.ResponseWriter) {
		io.WriteString(w, string(testbed.Envelope(header(), "echoResponse", ""))[:100])
		http.NewResponseController(w).Flush()
	}
	for _, tt := range []struct {
		name, to string
		service  func(released chan struct{}) http.HandlerFunc
		want     string
	}{
		{name: "in the handshake", to: "https://" + full.Addr().String(), want: "accepted no connection for 1s"},
		{"while it should read", "", func(released chan struct{}) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) { <-released }
		}, "took nothing of the request for 1s"},
		{"before its answer", "", func(released chan struct{}) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				<-released
			}
		}, "did not begin to answer for 1s"},
		{"in its answer", "", func(released chan struct{}) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/xml")
				answerBegun(w)
				<-released
			}
		}, "sent no more of its answer for 1s"},
	} {
		for delivery, name := range map[exchange.Delivery]string{exchange.Strict: "strict", exchange.Gated: "gated"} {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				to, released := tt.to, make(chan struct{})
				if tt.service != nil {
					server := httptest.NewServer(tt.service(released))
					t.Cleanup(server.CloseClientConnections)
					to = server.URL + "/"
				}
				bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: to, AnyCert: tt.to != "", Timeout: timeout, Delivery: delivery}})
				t.Cleanup(func() { close(released) })
				_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), make([]byte, 64<<20))))
				if got := faultCode(t, answer); got != "server.serverproxy.service_failed.io_error" {
					t.Errorf("fault %q", got)
				}
				if text := string(answer); !strings.Contains(text, tt.want+" (setting: timeout of the service)") {
					t.Errorf("the fault does not say %q: %s", tt.want, answer)
				}
				bed.CheckClean()
			})
		}
	}
}

// TestSilentPeer has other security servers that are silent at every stage, and one whose service takes its time.
func TestSilentPeer(t *testing.T) {
	const timeout = time.Second // more than a busy machine takes to carry 64 MiB
	const code = "server.clientproxy.service_failed.io_error"
	limited := func(s *exchange.SecurityServer) {
		s.Local.Peers = map[ident.Server]exchange.PeerRule{{}: {Timeout: timeout}}
	}
	for _, tt := range []struct {
		name string
		peer func(released chan struct{}) http.HandlerFunc
		want string
	}{
		{"while it should read", func(released chan struct{}) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { <-released }
		}, "took nothing of the request for 1s"},
		{"before its answer", func(released chan struct{}) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				<-released
			}
		}, "did not begin to answer for 1s"},
		{"in its answer", func(released chan struct{}) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "multipart/mixed; boundary=xtop1")
				io.WriteString(w, "--xtop1\r\n")
				http.NewResponseController(w).Flush()
				<-released
			}
		}, "sent no more of its answer for 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			released := make(chan struct{})
			bed := testbed.New(t, testbed.Options{Peer: tt.peer(released), Sender: limited})
			t.Cleanup(func() { close(released) })
			_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), make([]byte, 64<<20))))
			if got := faultCode(t, answer); got != code {
				t.Errorf("fault %q, want %q", got, code)
			}
			if want := "security server DEV/GOV/0000/ss2 " + tt.want + " (setting: timeout of the peer)"; !strings.Contains(string(answer), want) {
				t.Errorf("the fault does not say %q: %s", want, answer)
			}
			bed.CheckClean()
		})
	}
}

// TestPeerStillThere_FR59 has a service that takes longer than the peer may be silent: the peer says that it is still there.
func TestPeerStillThere_FR59(t *testing.T) {
	exchange.SetStillHere(t, 10*time.Millisecond)
	const timeout = time.Second
	var n atomic.Int64
	bed := testbed.New(t, testbed.Options{
		Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			time.Sleep(3 * timeout)
			w.Header().Set("Content-Type", "text/xml")
			w.Write(testbed.Envelope(header(), "echoResponse", ""))
		}),
		Sender: func(s *exchange.SecurityServer) {
			s.Local.Peers = map[ident.Server]exchange.PeerRule{{}: {Timeout: timeout}}
		},
		Middle: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(&interimCount{w, &n}, r) })
		},
	})
	if _, answer := post(t, bed, relatedType, bytes.NewReader(message())); faultCode(t, answer) != "" {
		t.Errorf("the answer is %s", answer)
	}
	if n.Load() == 0 {
		t.Error("no interim answer")
	}
}

// TestOthersGetNoInterimAnswers: only a peer that has said that it is of our kind does.
func TestOthersGetNoInterimAnswers(t *testing.T) {
	exchange.SetStillHere(t, time.Millisecond)
	var n atomic.Int64
	bed := testbed.New(t, testbed.Options{
		Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			time.Sleep(100 * time.Millisecond)
			w.Header().Set("Content-Type", "text/xml")
			w.Write(testbed.Envelope(header(), "echoResponse", ""))
		}),
		Middle: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del(wire.HeaderFairway)
				next.ServeHTTP(&interimCount{w, &n}, r)
			})
		},
	})
	if _, answer := post(t, bed, relatedType, bytes.NewReader(message())); faultCode(t, answer) != "" {
		t.Errorf("the answer is %s", answer)
	}
	if n.Load() != 0 {
		t.Errorf("%d interim answers", n.Load())
	}
}

// interimCount counts the interim answers that are written.
type interimCount struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *interimCount) WriteHeader(status int) {
	if status == http.StatusProcessing {
		c.n.Add(1)
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *interimCount) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// interims counts the interim answers that a request gets.
func interims(r *http.Request, n *atomic.Int64) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			if code == http.StatusProcessing {
				n.Add(1)
			}
			return nil
		},
	}))
}

// TestKeepAlive_FR59 has an information system that waits for a service which takes its time: it gets interim answers where it
// has asked for them, once all of its request has been read, and none before, nor without asking.
func TestKeepAlive_FR59(t *testing.T) {
	for _, every := range []time.Duration{0, time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			var n atomic.Int64
			seen := make(chan struct{})
			route := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if every > 0 {
					<-seen
				}
				w.Header().Set("Content-Type", "text/xml")
				w.Write(testbed.Envelope(header(), "echoResponse", ""))
			})
			bed := testbed.New(t, testbed.Options{Route: route, Sender: func(s *exchange.SecurityServer) {
				for id := range s.Local.Clients {
					s.Local.Clients[id] = exchange.Caller{KeepAlive: every}
				}
			}})
			request, _ := http.NewRequest(http.MethodPost, bed.URL, bytes.NewReader(message()))
			request.Header.Set("Content-Type", relatedType)
			if every > 0 {
				go func() {
					defer close(seen)
					for n.Load() < 5 {
						time.Sleep(time.Millisecond)
					}
				}()
			}
			response, err := http.DefaultClient.Do(interims(request, &n))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answer, err := io.ReadAll(response.Body)
			if err != nil || faultCode(t, answer) != "" || !strings.Contains(string(answer), "echoResponse") {
				t.Errorf("the answer is %s, %v", answer, err)
			}
			if got := n.Load(); (got > 0) != (every > 0) {
				t.Errorf("%d interim answers, every %s", got, every)
			}
		})
	}
}

// TestKeepAliveOfOldClients: HTTP/1.0 has no interim answers.
func TestKeepAliveOfOldClients(t *testing.T) {
	bed := testbed.New(t, testbed.Options{
		Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			time.Sleep(50 * time.Millisecond)
			w.Header().Set("Content-Type", "text/xml")
			w.Write(testbed.Envelope(header(), "echoResponse", ""))
		}),
		Sender: func(s *exchange.SecurityServer) {
			for id := range s.Local.Clients {
				s.Local.Clients[id] = exchange.Caller{KeepAlive: time.Millisecond}
			}
		},
	})
	conn := dial(t, bed.URL)
	envelope := testbed.Envelope(header(), "echo", "")
	io.WriteString(conn, "POST / HTTP/1.0\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: "+strconv.Itoa(len(envelope))+"\r\n\r\n"+string(envelope))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200") {
		t.Errorf("the answer is %.200s, %v", answer, err)
	}
}

// TestInterimAnswersEnd: who is refused because there are too many gets no interim answer while his refusal is being written.
// It is the race detector that sees it.
func TestInterimAnswersEnd(t *testing.T) {
	exchange.SetStillHere(t, time.Millisecond)
	never := make(chan struct{})
	bed := testbed.New(t, testbed.Options{
		Receive: admit(exchange.Admission{All: 1, Peer: 1, Wait: 50 * time.Millisecond}),
		Route:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-never }),
	})
	go func() {
		response, err := http.Post(bed.URL, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
		if err == nil {
			response.Body.Close()
		}
	}()
	defer close(never)
	loaded(t, "no exchange has the place", func() bool { _, _, receiving := bed.Receiver.Load(); return receiving.Exchanges == 1 })
	request, err := http.NewRequest(http.MethodPost, bed.PeerURL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "multipart/mixed; boundary=b")
	request.Header.Set(wire.HeaderFairway, wire.FairwayDigest.String())
	request.Header.Set(wire.HeaderHashAlgorithm, wire.FairwayDigest.String())
	var n atomic.Int64
	response, err := (&http.Client{Transport: bed.PeerTransport()}).Do(interims(request, &n))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.Header.Get("Retry-After") == "" || n.Load() == 0 {
		t.Errorf("%d interim answers, Retry-After %q, %v: %s", n.Load(), response.Header.Get("Retry-After"), err, answer)
	}
}
