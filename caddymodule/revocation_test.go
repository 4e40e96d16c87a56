// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// freshness is short here: what is revoked is refused within that time.
const freshness = 4 * time.Second

// revocableTrust is an instance whose development authority the test can reach.
type revocableTrust struct{}

var revocable struct {
	sync.Mutex
	parameters  trust.Parameters
	authorities []*dev.Authority
}

func init() { caddy.RegisterModule(revocableTrust{}) }

func (revocableTrust) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "xroad.trust_stores.revocable", New: func() caddy.Module { return new(revocableTrust) }}
}

func (revocableTrust) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (revocableTrust) OpenTrust(ctx context.Context, h Host) (trust.Store, error) {
	authority, err := dev.Open(ctx, h.Storage, h.ID.Instance, h.Clock)
	if err != nil {
		return nil, err
	}
	usual, err := authority.Trust(ctx, nil)
	if err != nil {
		return nil, err
	}
	revocable.Lock()
	defer revocable.Unlock()
	revocable.authorities = append(revocable.authorities, authority)
	return trust.New(revocable.parameters, func(ctx context.Context, cert, _ *x509.Certificate) ([]byte, error) {
		return usual.Status(ctx, cert)
	})
}

func revoke(cert *x509.Certificate) {
	revocable.Lock()
	defer revocable.Unlock()
	for _, authority := range revocable.authorities {
		authority.Revoke(cert)
	}
}

// The codes of what is revoked: of the certificate for TLS or for signing, of the server that sends or receives.
const (
	clientAuthRevoked = "server.serverproxy.service_failed.ssl_authentication_failed.invalid_cert_path.cert_validation"
	serverAuthRevoked = "server.clientproxy.ssl_authentication_failed.invalid_cert_path.cert_validation"
	clientSignRevoked = "server.serverproxy.signature_verification.invalid_cert_path.cert_validation"
	serverSignRevoked = "server.clientproxy.signature_verification.invalid_cert_path.cert_validation"
)

// TestRevokedInAFlood revokes certificates of the development authority while messages flow.
func TestRevokedInAFlood(t *testing.T) {
	for _, test := range []struct {
		name, code string
		server     ident.Server
		signs      bool
	}{
		{"for signatures of the sender", clientSignRevoked, sendingID, true},
		{"for signatures of the receiver", serverSignRevoked, receivesID, true},
		{"for TLS of the receiver", serverAuthRevoked, receivesID, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPair(t, "trust revocable", "trust revocable")
			revocable.Lock()
			revocable.authorities, revocable.parameters = nil, p.parameters()
			revocable.parameters.Freshness = freshness
			revocable.Unlock()
			p.run()
			cert, signs := p.keys(test.server)
			if test.signs {
				cert = signs
			}
			f := p.flood()
			defer f.end()
			f.until("messages pass", answer.good)
			revoke(cert)
			revoked := coded(test.code, serial(cert), "revoked")
			f.until("they are refused", revoked)
			f.turns(answer.good, revoked)
		})
	}
}

// responder is openssl ocsp with the keys of the development authority.
type responder struct {
	*pair
	port    string
	process *exec.Cmd
	revoked []*x509.Certificate
}

// newResponder lays down what openssl needs. It does not run yet.
func newResponder(p *pair) *responder {
	p.t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		p.t.Skip("openssl is not installed")
	}
	r := &responder{pair: p, port: freePort(p.t)}
	for _, name := range []string{"ca", "ocsp"} {
		key, err := os.ReadFile(filepath.Join(p.dir, "storage/xroad/dev/DEV", name+".pem"))
		if err != nil {
			p.t.Fatal(err)
		}
		p.file(name+".pem", key)
	}
	p.t.Cleanup(r.stop)
	return r
}

// start runs it, with an index of all certificates of both servers.
func (r *responder) start() {
	r.t.Helper()
	var index bytes.Buffer
	for _, id := range []ident.Server{sendingID, receivesID} {
		auth, sign := r.keys(id)
		for _, cert := range []*x509.Certificate{auth, sign} {
			state, at := "V", ""
			if slices.ContainsFunc(r.revoked, cert.Equal) {
				state, at = "R", time.Now().UTC().Format("060102150405Z")
			}
			number := strings.ToUpper(serial(cert))
			if len(number)%2 == 1 {
				number = "0" + number
			}
			fmt.Fprintf(&index, "%s\t%s\t%s\t%s\tunknown\t/CN=%s\n", state, cert.NotAfter.UTC().Format("060102150405Z"), at, number, number)
		}
	}
	r.file("index.txt", index.Bytes())
	r.process = exec.Command("openssl", "ocsp", "-port", r.port, "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "ocsp.pem", "-rkey", "ocsp.pem", "-nmin", "60")
	r.process.Dir = r.dir
	said, err := r.process.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.process.Stderr = r.process.Stdout
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() { // a connection that asks nothing would not prove that it listens: it would hold it up
		if strings.Contains(lines.Text(), "waiting for OCSP client connections") {
			go io.Copy(io.Discard, said)
			return
		}
	}
	r.t.Fatal("openssl ocsp does not listen")
}

func (r *responder) stop() {
	if r.process != nil {
		r.process.Process.Kill()
		r.process.Wait()
		r.process = nil
	}
}

// restart has it say what is revoked now.
func (r *responder) restart(revoked ...*x509.Certificate) {
	r.t.Helper()
	r.stop()
	r.revoked = revoked
	r.start()
}

// TestRevokedByOpenSSL has openssl's responder revoke a certificate for TLS of each side while messages flow.
func TestRevokedByOpenSSL(t *testing.T) {
	p := newPair(t, "trust static {dir}/shared.xml", "trust static {dir}/shared.xml")
	r := newResponder(p)
	r.start()
	parameters := p.parameters()
	parameters.Freshness = freshness
	parameters.CAs[0].Authorities[0].Responders[0].URL = "http://127.0.0.1:" + r.port
	p.write("shared.xml", parameters)
	p.run()
	clientAuth, _ := p.keys(sendingID)
	serverAuth, _ := p.keys(receivesID)
	f := p.flood()
	defer f.end()
	f.until("messages pass", answer.good)
	for _, test := range []struct {
		cert *x509.Certificate
		code string
	}{{clientAuth, clientAuthRevoked}, {serverAuth, serverAuthRevoked}} {
		revoked := coded(test.code, serial(test.cert), "revoked")
		r.restart(test.cert)
		f.until("they are refused", revoked)
		f.turns(answer.good, revoked)
		r.restart()
		f.until("messages pass again", answer.good)
		f.turns(revoked, answer.good)
	}
	// A responder that is away stops nothing as long as the last responses are fresh. Then the fault says what is old.
	r.stop()
	stale := coded("server.clientproxy.ssl_authentication_failed", serial(clientAuth), "too old", "old, and may be at most 4s old", r.port)
	f.until("responses are too old", stale)
	late := func(a answer) bool {
		return !a.good() && strings.Contains(a.text, "may be at most 4s old") // for signatures, or of the other side
	}
	f.turns(answer.good, late)
	eventually(t, "the log tells that we are refused", func() bool {
		return len(p.logged("other security servers refuse our certificate", serial(clientAuth))) > 0 // with the next attempt
	})
	r.start()
	f.until("the responder is back", answer.good)
	f.turns(late, answer.good)
	// The restarts may have been seen, too. Messages have come by the hundred.
	for _, line := range []string{"the last one is still good", "other security servers refuse our certificate"} {
		told := p.logged(line, serial(clientAuth), `"server":"DEV/GOV/1111/ss1"`, "127.0.0.1:"+r.port, "connection refused", "check that this machine reaches the OCSP responder")
		if len(told) == 0 || len(told) > 5 {
			t.Errorf("the log has %d lines of %q", len(told), line)
		}
	}
	eventually(t, "the log tells that it is over", func() bool { return len(p.logged("come again", serial(clientAuth))) > 0 })
}

// globalConf writes a folder of global configuration with those parameters.
func (p *pair) globalConf(dir string, parameters trust.Parameters) {
	p.t.Helper()
	p.file(dir+"/instance-identifier", []byte("DEV"))
	p.file(dir+"/DEV/shared-params.xml.metadata", fmt.Appendf(nil,
		`{"contentIdentifier":"SHARED-PARAMETERS","expirationDate":%q,"configurationVersion":"6"}`, time.Now().Add(time.Hour).Format(time.RFC3339)))
	p.write(dir+"/DEV/shared-params.xml", parameters)
}

// without returns parameters in which the certificate of a server is not registered any more.
func without(p trust.Parameters, id ident.Server) trust.Parameters {
	p.Servers = slices.Clone(p.Servers)
	for i := range p.Servers {
		if p.Servers[i].ID == id {
			p.Servers[i].AuthCertHashes = [][32]byte{{1}}
		}
	}
	return p
}

// responding are parameters with a responder of the development authority behind them.
func responding(p *pair) trust.Parameters {
	p.t.Helper()
	r := newResponder(p)
	r.start()
	parameters := p.parameters()
	parameters.CAs[0].Authorities[0].Responders[0].URL = "http://127.0.0.1:" + r.port
	return parameters
}

// TestUnregisteredInAFlood takes a certificate out of the configuration that one side follows while messages flow: over
// connections that were kept, the other side judges it again.
func TestUnregisteredInAFlood(t *testing.T) {
	for _, test := range []struct {
		name, follows string
		server        ident.Server
		want          func(answer) bool
	}{
		{"the sender, in the eyes of the receiver", "ss2", sendingID, coded("server.serverproxy.service_failed.ssl_authentication_failed", "not registered")},
		{"the receiver, in the eyes of the sender", "ss1", receivesID, coded("server.clientproxy.ssl_authentication_failed", "not registered")},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPair(t, "trust globalconf {dir}/ss1", "trust globalconf {dir}/ss2")
			parameters := responding(p)
			p.globalConf("ss1", parameters)
			p.globalConf("ss2", parameters)
			p.run()
			f := p.flood()
			defer f.end()
			f.until("messages pass", answer.good)
			p.globalConf(test.follows, without(parameters, test.server))
			// Where a connection is made anew, the handshake is refused.
			refused := either(test.want, coded("server.clientproxy.ssl_authentication_failed"))
			f.until("they are refused", refused)
			f.mu.Lock()
			kept := slices.ContainsFunc(f.seen[:], func(seen []answer) bool {
				return test.want(seen[slices.IndexFunc(seen, func(a answer) bool { return !a.good() })])
			})
			f.mu.Unlock()
			if !kept {
				t.Error("nobody is refused over a kept connection")
			}
			f.turns(answer.good, refused)
			p.globalConf(test.follows, parameters)
			f.until("messages pass again", answer.good)
			f.turns(refused, answer.good)
		})
	}
}

// TestUnregisteredByReload changes a file of shared parameters and reloads.
func TestUnregisteredByReload(t *testing.T) {
	for _, id := range []ident.Server{sendingID, receivesID} {
		t.Run(id.Code, func(t *testing.T) {
			p := newPair(t, "trust static {dir}/ss1.xml", "trust static {dir}/ss2.xml")
			parameters := responding(p)
			p.write("ss1.xml", parameters)
			p.write("ss2.xml", parameters)
			p.run()
			if a := p.send(http.DefaultClient); !a.good() {
				t.Fatalf("%+v", a)
			}
			p.write(map[ident.Server]string{sendingID: "ss2.xml", receivesID: "ss1.xml"}[id], without(parameters, id))
			p.run()
			// What falls into the moment of the reload may break; nothing may pass any more.
			eventually(t, "messages are refused", func() bool {
				a := p.send(http.DefaultClient)
				if a.good() {
					t.Fatal("a message passed after the reload")
				}
				return strings.HasSuffix(a.code, ".ssl_authentication_failed")
			})
		})
	}
}

// TestUnregisteredSession: whose certificate is not registered any more does not come in by a TLS session of before. (Caddy
// resumes none on a site that wants certificates; if it did, the verifier would be asked.)
func TestUnregisteredSession(t *testing.T) {
	p := newPair(t, "trust static {dir}/ss1.xml", "trust globalconf {dir}/ss2")
	parameters := responding(p)
	p.write("ss1.xml", parameters)
	p.globalConf("ss2", parameters)
	p.run()
	key, err := p.authority.AuthKey(t.Context(), sendingID)
	if err != nil {
		t.Fatal(err)
	}
	knocks := make(map[string]func() error)
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		config := &tls.Config{
			MaxVersion: version, Certificates: []tls.Certificate{*key}, ServerName: "ss2", ClientSessionCache: tls.NewLRUClientSessionCache(1),
			InsecureSkipVerify: true, // the test knows whom it calls
		}
		knocks[name] = func() error { // makes a connection and asks something over it
			conn, err := tls.Dial("tcp", "127.0.0.1:"+p.places["peer"], config)
			if err != nil {
				return err
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: ss2\r\nConnection: close\r\n\r\n"); err != nil {
				return err
			}
			_, err = http.ReadResponse(bufio.NewReader(conn), nil)
			return err
		}
		for range 2 {
			if err := knocks[name](); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	p.globalConf("ss2", without(parameters, sendingID))
	for name, knock := range knocks {
		eventually(t, name+" is refused", func() bool {
			err := knock()
			var op *net.OpError
			if err != nil && (!errors.As(err, &op) || op.Op != "remote error") {
				t.Fatalf("%s is refused otherwise: %v", name, err)
			}
			return err != nil
		})
	}
}
