// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/freeport"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

var (
	consumer   = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	provider   = ident.Client{Instance: "DEV", Class: "GOV", Member: "0000", Subsystem: "registry"}
	sendingID  = ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}
	receivesID = ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: "ss2"}
)

// pair is two security servers in a Caddy that runs: ss1 sends to ss2.
type pair struct {
	t         *testing.T
	dir       string
	authority *dev.Authority // its keys are theirs
	places    map[string]string
	config    string
}

// newPair writes the configuration of both. What is in braces is a place to fill in: {dir}, and {send}, {peer}, {ocsp},
// {echo} are ports. Options are what else their blocks hold.
func newPair(t *testing.T, sender, receiver string) *pair {
	t.Helper()
	p := &pair{t: t, dir: t.TempDir()}
	p.places = map[string]string{"dir": p.dir}
	for _, name := range []string{"send", "peer", "ocsp", "echo"} {
		p.places[name] = freePort(t)
	}
	var err error
	p.authority, err = dev.Open(t.Context(), &certmagic.FileStorage{Path: filepath.Join(p.dir, "storage")}, "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p.config = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	auto_https disable_redirects
	storage file_system {dir}/storage
	log {
		output file {dir}/log {
			roll_disabled
		}
		format json
	}
	xroad ss1 {
		server DEV/GOV/1111/ss1
		ports {
			ocsp {ocsp}
		}
		signer dev
		spool memory
		client DEV/GOV/1111/app
		` + sender + `
	}
	xroad ss2 {
		server DEV/GOV/0000/ss2
		signer dev
		spool memory
		service DEV/GOV/0000/registry/echo/v1 {
			allow DEV/GOV/1111/app
			to http://127.0.0.1:{echo}
		}
		` + receiver + `
	}
	servers 127.0.0.1:{peer} {
		protocols h1
		strict_sni_host insecure_off
	}
}
http://:{send} {
	xroad_send ss1
}
https://:{peer} {
	tls {
		get_certificate xroad ss2
		client_auth {
			mode require
			verifier xroad ss2
		}
		alpn http/1.1
	}
	xroad_receive ss2
}
http://:{ocsp} {
	xroad_ocsp ss2
}
http://:{echo} {
	xroad_echo
}
`
	return p
}

// newDiskPair is a pair whose spools and evidence are on the disk, before a service, in processes that share what they know of
// each other.
func newDiskPair(t *testing.T, service string) *pair {
	t.Helper()
	const own = "trust static {dir}/shared.xml\nevidence disk {dir}/evidence-"
	p := newPair(t, own+"ss1", own+"ss2")
	p.config = strings.Replace(p.config, "to http://127.0.0.1:{echo}", "to "+service, 1)
	for _, name := range []string{"ss1", "ss2"} {
		p.config = strings.Replace(p.config, "spool memory", "spool disk {dir}/spool-"+name, 1)
	}
	p.write("shared.xml", responding(p))
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(ports[0])
}

// run starts both, or has them reload.
func (p *pair) run() {
	p.t.Helper()
	text := p.config
	for name, value := range p.places {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { caddy.Stop() })
}

// parameters are those in which both are registered.
func (p *pair) parameters() trust.Parameters {
	p.t.Helper()
	all, err := p.authority.Parameters(p.t.Context(), []dev.Server{
		{ID: sendingID, Address: "127.0.0.1:1", Clients: []ident.Client{consumer}},
		{ID: receivesID, Address: "127.0.0.1:" + p.places["peer"], Clients: []ident.Client{provider}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// write writes shared parameters to a file, at once as X-Road's configuration client does.
func (p *pair) write(name string, parameters trust.Parameters) {
	p.t.Helper()
	text, err := parameters.XML()
	if err != nil {
		p.t.Fatal(err)
	}
	p.file(name, text)
}

func (p *pair) file(name string, text []byte) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".new", text, 0o600))
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// keys returns the certificate for TLS of a server and that for signatures of its member.
func (p *pair) keys(id ident.Server) (auth, sign *x509.Certificate) {
	p.t.Helper()
	key, err := p.authority.AuthKey(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	signing, err := p.authority.SignKey(p.t.Context(), id.Owner(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return key.Leaf, signing.Chain[0]
}

// use claims one of both.
func (p *pair) use(name string) *usage {
	p.t.Helper()
	app, err := caddy.ActiveContext().App("xroad")
	if err != nil {
		p.t.Fatal(err)
	}
	u, err := app.(*App).Servers[name].use()
	if err != nil {
		p.t.Fatal(err)
	}
	return u
}

// logged returns the lines of the log that hold all texts.
func (p *pair) logged(texts ...string) (lines []map[string]any) {
	p.t.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if slices.ContainsFunc(texts, func(text string) bool { return !bytes.Contains(line, []byte(text)) }) {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			p.t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	return lines
}

// answer is what an information system got: a fault, or nothing of one.
type answer struct {
	code, text string
}

func (a answer) good() bool { return a.code == "" }

// send sends a message through both.
func (p *pair) send(client *http.Client) answer {
	envelope := testbed.Envelope(&soap.Header{
		Client: consumer, Service: ident.Service{Client: provider, Code: "echo", Version: "v1"}, ID: "e-1", ProtocolVersion: "4.0",
	}, "echo", "")
	response, err := client.Post("http://127.0.0.1:"+p.places["send"]+"/", "text/xml", bytes.NewReader(envelope))
	if err != nil {
		return answer{"broken", err.Error()}
	}
	defer response.Body.Close()
	octets, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{"broken", err.Error()}
	}
	if fault, err := soap.ParseFault(octets); err == nil {
		return answer{fault.Code, fault.String}
	}
	if !bytes.Contains(octets, []byte("echoResponse")) {
		return answer{"strange", string(octets)}
	}
	return answer{}
}

// senders is how many information systems send at a time.
const senders = 4

// flood is messages all the time, from several information systems, each over a connection of its own.
type flood struct {
	t    *testing.T
	stop context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex
	seen [senders][]answer
}

// flood begins one, which lasts until it is ended.
func (p *pair) flood() *flood {
	f := &flood{t: p.t}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	for n := range senders {
		f.work.Go(func() {
			transport := new(http.Transport)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: time.Minute}
			for ctx.Err() == nil {
				a := p.send(client)
				f.mu.Lock()
				f.seen[n] = append(f.seen[n], a)
				f.mu.Unlock()
				time.Sleep(2 * time.Millisecond) // some processor for the others
			}
		})
	}
	return f
}

// until waits until all of the last answers of each system, five of them that came since, are like that.
func (f *flood) until(what string, like func(answer) bool) {
	f.t.Helper()
	f.mu.Lock()
	var from [senders]int
	for n := range from {
		from[n] = len(f.seen[n])
	}
	f.mu.Unlock()
	deadline := time.Now().Add(15 * time.Second)
	for {
		f.mu.Lock()
		all := true
		var last answer
		for n, seen := range f.seen {
			since := seen[from[n]:]
			if len(since) < 5 || slices.ContainsFunc(since[len(since)-5:], func(a answer) bool { return !like(a) }) {
				all = false
				if len(since) > 0 {
					last = since[len(since)-1]
				}
			}
		}
		f.mu.Unlock()
		if all {
			return
		}
		if time.Now().After(deadline) {
			f.end()
			f.t.Fatalf("waiting until %s: the last answer, of %d, is %+v", what, len(f.seen[0]), last)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// turns expects that each system saw the kinds of answers in that order, and nothing between. It forgets them.
func (f *flood) turns(kinds ...func(answer) bool) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, seen := range f.seen {
		at := 0
		for i, a := range seen {
			for at < len(kinds) && !kinds[at](a) {
				at++
			}
			if at == len(kinds) {
				f.t.Fatalf("system %d: answer %d of %d has no place there: %+v", n, i, len(seen), a)
			}
		}
		f.seen[n] = nil
	}
}

func (f *flood) end() {
	f.stop()
	f.work.Wait()
}

// coded is the kind of faults with that code whose text has all the words.
func coded(code string, words ...string) func(answer) bool {
	return func(a answer) bool {
		return a.code == code && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(a.text, w) })
	}
}

func either(kinds ...func(answer) bool) func(answer) bool {
	return func(a answer) bool {
		return slices.ContainsFunc(kinds, func(kind func(answer) bool) bool { return kind(a) })
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come that %s", what)
		}
	}
}

// serial is how openssl and errors write the serial number of a certificate.
func serial(cert *x509.Certificate) string { return fmt.Sprintf("%x", cert.SerialNumber) }
