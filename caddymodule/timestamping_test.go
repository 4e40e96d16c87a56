// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
)

// stampingAuthority answers by openssl ts, with the key of the development authority.
type stampingAuthority struct {
	*pair
	work   sync.Mutex // openssl keeps its serial number in a file
	mu     sync.Mutex
	out    bool
	hangs  chan struct{} // not nil: answers wait for it
	served int
}

// newStampingAuthority returns one and its address.
func newStampingAuthority(p *pair) (*stampingAuthority, string) {
	p.t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		p.t.Skip("openssl is not installed")
	}
	key, err := os.ReadFile(filepath.Join(p.dir, "storage/xroad/dev/DEV/tsa.pem"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.file("tsa.pem", key)
	p.file("serial", []byte("01\n"))
	p.file("ts.cnf", []byte(`[tsa]
default_tsa = it
[it]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.pem
default_policy = 2.999.1
digests = sha512
signer_digest = sha256
ess_cert_id_alg = sha256
`))
	a := &stampingAuthority{pair: p}
	server := httptest.NewServer(a)
	p.t.Cleanup(server.Close)
	return a, server.URL
}

// ServeHTTP implements http.Handler.
func (a *stampingAuthority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, err := io.ReadAll(r.Body)
	a.mu.Lock()
	out, hangs := a.out, a.hangs
	a.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
			return
		}
	}
	if out || err != nil {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	a.work.Lock()
	defer a.work.Unlock()
	a.file("query", query)
	cmd := exec.Command("openssl", "ts", "-reply", "-config", "ts.cnf", "-queryfile", "query", "-out", "reply")
	cmd.Dir = a.dir
	if said, err := cmd.CombinedOutput(); err != nil {
		a.t.Errorf("openssl ts: %v\n%s", err, said)
	}
	reply, err := os.ReadFile(filepath.Join(a.dir, "reply"))
	if err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	a.served++
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/timestamp-reply")
	w.Write(reply)
}

func (a *stampingAuthority) set(out bool, hangs chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out, a.hangs = out, hangs
}

// stampStatus returns how far time-stamping is on ss2.
func (p *pair) stampStatus() evidence.Status {
	p.t.Helper()
	u := p.use("ss2")
	defer u.release()
	st, err := u.Evidence.Status()
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// countdown returns what the admin endpoint says of ss2.
func (p *pair) countdown() stamping {
	p.t.Helper()
	const path = "/xroad/timestamps"
	routes := new(adminAPI).Routes()
	i := slices.IndexFunc(routes, func(r caddy.AdminRoute) bool { return r.Pattern == path })
	w := httptest.NewRecorder()
	if err := routes[i].Handler.ServeHTTP(w, httptest.NewRequest("GET", path+"?server=ss2", nil)); err != nil {
		p.t.Fatal(err)
	}
	var all []stamping
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) != 1 || all[0].Server != receivesID.String() {
		p.t.Fatalf("%v: %s", err, w.Body)
	}
	return all[0]
}

// TestStamping_FR86: how much time is left is told as long as something threatens (FR-86).
func TestStamping_FR86(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seconds := func(s float64) *float64 { return &s }
	for _, tt := range []struct {
		name   string
		status evidence.Status
		left   *float64
	}{
		{"all is well", evidence.Status{Signed: 5, Stamped: now}, nil},
		{"no limit", evidence.Status{Failing: now.Add(-time.Hour)}, nil},
		{"an hour and a half left", evidence.Status{Failing: now.Add(-time.Hour), Refusing: now.Add(90 * time.Minute)}, seconds(5400)},
		{"none left", evidence.Status{Failing: now.Add(-time.Hour), Refusing: now.Add(-time.Minute)}, seconds(0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newStamping(&openServer{SecurityServer: &exchange.SecurityServer{ID: receivesID}}, tt.status, now).SecondsLeft
			if (got == nil) != (tt.left == nil) || got != nil && *got != *tt.left {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestTimestampingOutage_FR86 has an authority, the second of two of which the first is dead, hang, fail and come back while
// messages flow (FR-86).
func TestTimestampingOutage_FR86(t *testing.T) {
	p := newPair(t, "trust static {dir}/shared.xml\nevidence disk {dir}/ss1", `trust static {dir}/shared.xml
		evidence disk {dir}/ss2
		timestamper tsp {
			url http://127.0.0.1:{dead} {authority}
			limit 2s
		}`)
	parameters := p.parameters()
	a, address := newStampingAuthority(p)
	r := newResponder(p)
	r.start()
	parameters.CAs[0].Authorities[0].Responders[0].URL = "http://127.0.0.1:" + r.port
	p.places["dead"], p.places["authority"] = freePort(t), address
	p.write("shared.xml", parameters)
	p.run()
	dir := filepath.Join(p.dir, "ss2")
	stampNow := func() error { return evidence.Stamp(t.Context(), dir) } // instead of waiting for a minute

	if a := p.send(http.DefaultClient); !a.good() {
		t.Fatalf("%+v", a)
	}
	if st := p.stampStatus(); st.Unstamped != 2 || st.Oldest.IsZero() {
		t.Errorf("after one exchange: %+v", st)
	}
	if err := stampNow(); err != nil {
		t.Fatal(err)
	}
	if st := p.stampStatus(); st.Unstamped != 0 || st.Stamped.IsZero() || a.served != 1 {
		t.Errorf("after one batch: %+v, by %d answers", st, a.served)
	}

	f := p.flood()
	defer f.end()
	f.until("messages pass", answer.good)
	hangs := make(chan struct{})
	a.set(true, hangs)
	failed := make(chan error, 1)
	go func() { failed <- stampNow() }()
	f.until("messages pass while the authority hangs", answer.good)
	close(hangs)
	if err := <-failed; err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), p.places["dead"]) {
		t.Errorf("Stamp = %v", err)
	}
	if st := p.stampStatus(); st.Failing.IsZero() || !st.Refusing.Equal(st.Failing.Add(2e9)) || st.Unstamped == 0 {
		t.Errorf("in the outage: %+v", st)
	}
	if j := p.countdown(); j.Unstamped == 0 || j.FailingSince == nil || j.SecondsLeft == nil || *j.SecondsLeft > 2 || !strings.Contains(j.Reason, "503") {
		t.Errorf("in the outage the admin endpoint says %+v", j)
	}
	refused := func(a answer) bool {
		return strings.HasPrefix(a.code, "server.serverproxy.") && strings.HasSuffix(a.code, "logging_failed.timestamping_failed") &&
			strings.Contains(a.text, "longer than 2s") && strings.Contains(a.text, address)
	}
	f.until("messages are refused after the limit", refused)
	f.turns(answer.good, refused)
	for range 3 {
		if stampNow() == nil {
			t.Error("an authority that is out stamps")
		}
	}

	a.set(false, nil)
	if err := stampNow(); err != nil { // a single one, and the others at once
		t.Fatal(err)
	}
	f.until("messages pass again", answer.good)
	f.turns(refused, answer.good)
	f.end()
	if err := stampNow(); err != nil {
		t.Fatal(err)
	}
	if st := p.stampStatus(); st.Unstamped != 0 || !st.Failing.IsZero() {
		t.Errorf("after the outage: %+v", st)
	}
	if j := p.countdown(); j.Unstamped != 0 || j.Signed == 0 || j.Stamped == nil || j.FailingSince != nil || j.SecondsLeft != nil {
		t.Errorf("after the outage the admin endpoint says %+v", j)
	}
	for _, line := range []struct {
		text string
		want int
	}{
		{"messages pass until the limit", 1}, {"messages are refused", 1}, {"evidence is time-stamped again", 1},
	} {
		texts := []string{line.text, `"server":"DEV/GOV/0000/ss2"`, `"unstamped"`}
		if line.text != "evidence is time-stamped again" {
			texts = append(texts, address, "503", "check that this machine reaches the time-stamping authority")
		}
		if told := p.logged(texts...); len(told) != line.want {
			t.Errorf("the log has %d lines of %q", len(told), line.text)
		}
	}
	single, batch := proveStamps(t, p, parameters.TSAs[0].Certificate)
	if single != 1 || batch < 50 {
		t.Errorf("%d records have a time-stamp of their own, %d share one", single, batch)
	}
}

// proveStamps judges the time-stamps of all signed records of ss2, and counts them.
func proveStamps(t *testing.T, p *pair, authority *x509.Certificate) (single, batch int) {
	t.Helper()
	u := p.use("ss2")
	defer u.release()
	for found, err := range u.Evidence.Find(t.Context(), evidence.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if found.Signature.XML == nil {
			continue
		}
		record, err := u.Evidence.Get(t.Context(), found.Number)
		if err != nil {
			t.Fatal(err)
		}
		if record.Timestamp == nil {
			t.Fatalf("record %d has no time-stamp", record.Number)
		}
		over := record.Timestamp.HashChainResult
		batch++
		if over == nil {
			batch--
			single++
			if over, err = xades.Value(record.Signature.XML); err != nil {
				t.Fatal(err)
			}
		}
		token, err := tsp.ParseToken(record.Timestamp.Token)
		if err == nil {
			_, err = token.VerifySum(crypto.SHA512, crypto.SHA512.Sum(over), []*x509.Certificate{authority}, tsp.Present)
		}
		if err != nil {
			t.Fatalf("the time-stamp of record %d: %v", record.Number, err)
		}
	}
	return single, batch
}
