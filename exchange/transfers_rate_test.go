// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// TestRate has octets pass by a made-up clock.
func TestRate(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	type look struct {
		at     float64
		octets int64
	}
	for _, tt := range []struct {
		name  string
		looks []look
		now   look
		want  float64
	}{
		{"at the beginning", nil, look{0, 0}, 0},
		{"a clock that stands still", nil, look{0, 100}, 0},
		{"before the first look", nil, look{0.5, 100}, 200},
		{"steady", []look{{1, 100}, {2, 200}}, look{3, 300}, 100},
		{"the last seconds count", []look{{1, 1000}, {2, 2000}, {3, 2000}, {4, 2000}, {5, 2000}, {6, 2000}}, look{7, 2000}, 0},
		{"it begins again", []look{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}}, look{6.5, 900}, 200},
		{"a position that went back", []look{{1, 500}}, look{2, -1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s samples
			s.restart(start, 0)
			for _, l := range tt.looks {
				s.add(at(l.at), l.octets)
			}
			if got := s.rate(at(tt.now.at), tt.now.octets); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLeft(t *testing.T) {
	for _, tt := range []struct {
		name string
		t    Transfer
		want time.Duration
		ok   bool
	}{
		{"on its way", Transfer{Octets: 100, Total: 400, Rate: 100}, 3 * time.Second, true},
		{"nobody told the total", Transfer{Octets: 100, Total: -1, Rate: 100}, 0, false},
		{"it stands", Transfer{Octets: 100, Total: 400}, 0, false},
		{"nearly stands", Transfer{Octets: 100, Total: 1 << 62, Rate: 1e-9}, 0, false},
		{"all there", Transfer{Octets: 400, Total: 400, Rate: 100}, 0, true},
		{"more than was told", Transfer{Octets: 500, Total: 400, Rate: 100}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := tt.t.Left(); got != tt.want || ok != tt.ok {
				t.Errorf("got %v, %v, want %v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestThousandTransfers lists as many as there are, in order, and keeps nothing of those that have ended.
func TestThousandTransfers(t *testing.T) {
	const many = 1000
	s := &SecurityServer{ID: ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}}
	var all []*transfer
	for n := range many {
		body := &tracked{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", n)))}
		_, x := s.begin(t.Context(), []string{"send", "receive"}[n%2], fmt.Sprintf("id-%d", n/2), body, many)
		io.Copy(io.Discard, body)
		all = append(all, x)
	}
	s.transfers.tick()
	seen := s.Transfers()
	if len(seen) != many || !slices.IsSortedFunc(seen, func(a, b Transfer) int { return a.Begun.Compare(b.Begun) }) {
		t.Fatalf("%d transfers, or not in order", len(seen))
	}
	ids := make(map[string]int64)
	for _, x := range seen {
		ids[x.ID] = x.Octets
	}
	for n := range many {
		if got := ids[fmt.Sprintf("id-%d-%s", n/2, []string{"send", "receive"}[n%2])]; got != int64(n) {
			t.Errorf("number %d has %d octets", n, got)
		}
	}
	for n, x := range all {
		if n != 500 {
			x.end()
			x.end()
		}
	}
	if left := s.Transfers(); len(left) != 1 || left[0].Octets != 500 {
		t.Errorf("left are %+v", left)
	}
	all[500].end()
	s.transfers.tick()
	s.transfers.mu.Lock()
	defer s.transfers.mu.Unlock()
	if len(s.transfers.all) != 0 || s.transfers.ticking {
		t.Errorf("%d are kept, and looked at: %v", len(s.transfers.all), s.transfers.ticking)
	}
}

// TestPhasesGoOn: what ends late does not put an exchange back.
func TestPhasesGoOn(t *testing.T) {
	s := new(SecurityServer)
	_, x := s.begin(t.Context(), "send", "id", new(tracked), -1)
	defer x.end()
	five := func() int64 { return 5 }
	x.enter(uploading)
	x.moves(receivingAnswer, 10, five)
	x.enter(waitingForAnswer)
	x.moves(uploading, 20, func() int64 { return 0 })
	if got := x.look(time.Now()); got.Phase != "receiving answer" || got.Octets != 5 || got.Total != 10 {
		t.Errorf("%+v", got)
	}
}

func TestLengthOf(t *testing.T) {
	for value, want := range map[string]int64{"": -1, "0": 0, "17": 17, "-1": -1, "x": -1, "99999999999999999999": -1} {
		if got := lengthOf(http.Header{"Content-Length": {value}}); got != want {
			t.Errorf("%q: got %d, want %d", value, got, want)
		}
	}
}

// BenchmarkCounting is what an exchange in progress costs at each read.
func BenchmarkCounting(b *testing.B) {
	s := new(SecurityServer)
	body := &tracked{ReadCloser: io.NopCloser(zeros{})}
	_, x := s.begin(b.Context(), "send", "id", body, -1)
	defer x.end()
	p := make([]byte, 32<<10)
	for b.Loop() {
		body.Read(p)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
