// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"crypto/rsa"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/softkey"
)

// TestObjects: a message is as long as it is told to be, whatever objects fit in.
func TestObjects(t *testing.T) {
	for _, n := range []int{15, 28, 128, 15 + itemSize - 1, 15 + itemSize, 15 + itemSize + 1, 15 + itemSize + 13, 15 + 2*itemSize, 2 << 10, 320_000} {
		s := objects(n)
		if len(s) != n || !strings.HasPrefix(s, contentMark) || !strings.HasSuffix(s, contentEnd) {
			t.Errorf("%d octets: got %d: %.40s", n, len(s), s)
		}
	}
	if objects(0) != "" {
		t.Error("there are no objects where none are wanted")
	}
	for _, items := range []int{1, 4, 1000} {
		if got := len(framed(items).envelope(false)); got != frameSize+items*itemSize {
			t.Errorf("%d items and a frame: %d octets", items, got)
		}
	}
}

// TestCrowd lets clients talk to the service without anybody between them, and to one that is not as it should be.
func TestCrowd(t *testing.T) {
	var connections atomic.Int64
	service := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	service.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	service.Start()
	defer service.Close()
	// What other servers may do.
	replace := func(status int, chunked bool, change func([]byte) []byte) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorder := httptest.NewRecorder()
			answer(recorder, r)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(status)
			if chunked {
				w.(http.Flusher).Flush()
			}
			w.Write(change(recorder.Body.Bytes()))
		}))
		t.Cleanup(s.Close)
		return s
	}
	same := func(b []byte) []byte { return b }
	for name, c := range map[string]struct {
		job  crowdJob
		want string // error
	}{
		"by time":                 {crowdJob{URL: service.URL, Count: 50 * time.Millisecond, Clients: 3, Warm: time.Millisecond}, ""},
		"by number":               {crowdJob{URL: service.URL, Number: 100, Clients: 3}, ""},
		"rounds":                  {crowdJob{URL: service.URL, Round: 10, Clients: 3}, ""},
		"more clients than calls": {crowdJob{URL: service.URL, Round: 1, Clients: 3, Warm: time.Millisecond}, ""},
		"no keep-alive":           {crowdJob{URL: service.URL, Number: 100, Clients: 3, Fresh: true}, ""},
		"large":                   {crowdJob{URL: service.URL, Number: 2, Clients: 1, Message: framed(1000)}, ""},
		"interim answers, chunks": {crowdJob{URL: replace(200, true, same).URL, Number: 10, Clients: 1}, ""},
		"another status":          {crowdJob{URL: replace(500, false, same).URL, Number: 10, Clients: 1}, "status 500"},
		"another answer": {crowdJob{URL: replace(200, false, func(b []byte) []byte {
			return bytes.Replace(b, []byte("rr"), []byte("rs"), 1)
		}).URL, Number: 10, Clients: 1}, "wrong answer"},
		"a fault": {crowdJob{URL: replace(200, false, func(b []byte) []byte {
			return slices.Concat([]byte("<s:Fault></s:Fault>"), b)
		}).URL, Number: 10, Clients: 1}, "wrong answer"},
		"nothing to send back": {crowdJob{URL: service.URL, Message: message{Size: 10}, Clients: 1}, "has content"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.job.Message == (message{}) {
				c.job.Message.Content = 128
			}
			before := connections.Load()
			o, err := c.job.do(t.Context())
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %+v, %v, want %q", o, err, c.want)
				}
				return
			}
			if err != nil || o.PerSecond <= 0 || o.All < max(c.job.Number, c.job.Round) {
				t.Fatalf("got %+v, %v", o, err)
			}
			if made := connections.Load() - before; c.job.Fresh != (made > int64(c.job.Clients)) {
				t.Errorf("%d connections of %d clients for %d exchanges", made, c.job.Clients, o.All)
			}
			if c.job.Round > 0 && o.Round <= 0 {
				t.Errorf("a round takes %g s", o.Round)
			}
		})
	}
}

// TestCrowdTLS does so over HTTPS.
func TestCrowdTLS(t *testing.T) {
	service := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer service.Close()
	file := filepath.Join(t.TempDir(), "trust.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: service.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fresh := range []bool{false, true} {
		j := crowdJob{URL: service.URL, Trust: file, Clients: 2, Number: 5, Fresh: fresh, Message: message{Content: 128}}
		if o, err := j.do(t.Context()); err != nil || o.PerSecond <= 0 {
			t.Errorf("fresh %t: got %+v, %v", fresh, o, err)
		}
	}
}

// TestRSAInstance looks whether the other keys of an instance are RSA, and of the same members.
func TestRSAInstance(t *testing.T) {
	dir := t.TempDir()
	if err := writeInstance(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"ss1", "ss2"} {
		plain, err := softkey.Load(filepath.Join(dir, server, "sign.pem"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := softkey.Load(filepath.Join(dir, server+rsaKeys, "sign.pem"))
		if err != nil {
			t.Fatal(err)
		}
		key, ok := other.Private.(*rsa.PrivateKey)
		if !ok || key.N.BitLen() != 2048 || !bytes.Equal(plain.Chain[0].RawSubject, other.Chain[0].RawSubject) {
			t.Errorf("%s: got a %T of %v", server, other.Private, other.Chain[0].Subject)
		}
	}
}

// TestArchive keeps a few records in every way.
func TestArchive(t *testing.T) {
	for _, way := range []string{bareLoop, store, queries} {
		t.Run(way, func(t *testing.T) {
			j := archiveJob{Way: way, Dir: t.TempDir(), Writers: 4, Octets: 512, Count: 20 * time.Millisecond}
			if way == queries {
				j.Records = 100
			}
			o, err := j.do(t.Context())
			if err != nil || o.PerSecond <= 0 || o.Records < j.Records {
				t.Fatalf("got %+v, %v", o, err)
			}
			if way == queries && (o.Query <= 0 || o.Absent <= 0 || o.Size < 512 || o.Size > 1024) {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestTallies writes a table of small messages, by time and by rounds.
func TestTallies(t *testing.T) {
	at := func(perSecond, round float64) crowdOutcome {
		return crowdOutcome{All: 2000, PerSecond: perSecond, Median: 0.001, P99: 0.004, Round: round}
	}
	s := sample{cpu: map[string]float64{"consumer": 0.2, "sender": 1}, memory: map[string]memory{"sender": {Anon: 1 << 20, RSS: 2 << 20}}}
	of := func(e entrant, round int, outcomes ...crowdOutcome) *tally {
		one := turn{&contestant{name: e.name}, crowdJob{Clients: 8, Round: round, Message: message{Content: 2 << 10}}}
		return one.sum(outcomes, slices.Repeat([]sample{s}, len(outcomes)))
	}
	var text strings.Builder
	(&table{Title: "t", Tallies: []*tally{
		of(caddyPair, 0, at(100, 0), at(300, 0), at(200, 0)),
		of(fairwayP256, 0, at(50, 0)),
	}}).write(&text)
	(&table{Title: "rounds", Tallies: []*tally{of(fairwayP256, 4, at(0, 0.1)), of(fairwayP256, 8, at(0, 0.3))}}).write(&text)
	for _, want := range []string{
		"| stock Caddy pair | 2 KiB | 8 | 200 | 100 | 300 | 1.000 | 1.000 | 4.000 | 0.100 | 0.500 | - | - | 1.0 MiB (2.0 MiB) | - |\n",
		"| Fairway, P-256 | 2 KiB | 8 | 50 | 50 | 50 | 0.250 |",
		"| Fairway, P-256 | 2 KiB | 8 | 8 | 300.00 | 37.500 | 3.00 |",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}
