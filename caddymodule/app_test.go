// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(childOf); file != "" {
		if err := child(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Nothing of a test may stand in the folders of whoever runs it.
	data, err := os.MkdirTemp("", "fairway")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_DATA_HOME", data)
	os.Setenv("XDG_CONFIG_HOME", data)
	caddy.RegisterModule(fakeGuest{})
	caddy.RegisterModule(fakeTrust{})
	code := m.Run()
	os.RemoveAll(data)
	os.Exit(code)
}

// fakes are what the fake guests of a test share: they count what is opened and closed.
type fakes struct {
	sync.Mutex
	keys           *KeyRing
	version        string
	opened, closed int
	fail           error
}

var fake fakes

// reset begins a test.
func (f *fakes) reset(t *testing.T) {
	t.Helper()
	cert := writeKey(t, filepath.Join(t.TempDir(), "auth.pem"), "auth", forAuthentication, -1, 1)
	f.Lock()
	defer f.Unlock()
	f.opened, f.closed, f.fail, f.version = 0, 0, nil, ""
	f.keys = &KeyRing{auth: []*tls.Certificate{{Certificate: [][]byte{cert.Raw}, Leaf: cert}}, clock: time.Now}
}

func (f *fakes) want(t *testing.T, when string, opened, closed int) {
	t.Helper()
	f.Lock()
	defer f.Unlock()
	if f.opened != opened || f.closed != closed {
		t.Fatalf("%s: %d servers were opened and %d closed, want %d and %d", when, f.opened, f.closed, opened, closed)
	}
}

// fakeGuest is a signer.
type fakeGuest struct{}

func (fakeGuest) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "xroad.signers.fake", New: func() caddy.Module { return new(fakeGuest) }}
}

func (fakeGuest) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (fakeGuest) Version() (string, error) {
	fake.Lock()
	defer fake.Unlock()
	return fake.version, nil
}

func (fakeGuest) OpenKeys(context.Context, Host) (exchange.Keys, error) {
	fake.Lock()
	defer fake.Unlock()
	return fake.keys, fake.fail
}

// fakeTrust is a trust store in which every certificate is that of the server that asks.
type fakeTrust struct{ trust.Store }

func (fakeTrust) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "xroad.trust_stores.fake", New: func() caddy.Module { return new(fakeTrust) }}
}

func (fakeTrust) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (fakeTrust) OpenTrust(_ context.Context, h Host) (trust.Store, error) {
	fake.Lock()
	defer fake.Unlock()
	fake.opened++
	return &fakeStore{id: h.ID}, nil
}

type fakeStore struct {
	trust.Store
	id ident.Server
}

func (*fakeStore) StampInterval() time.Duration { return 0 }

func (s *fakeStore) Instance() string { return s.id.Instance }

func (s *fakeStore) ServerOf(cert *x509.Certificate) (ident.Server, error) {
	if cert.Subject.CommonName == "stranger" {
		return ident.Server{}, errors.New("not registered")
	}
	return s.id, nil
}

func (s *fakeStore) Extra(*x509.Certificate) []*x509.Certificate { return nil }

func (s *fakeStore) Freshness() time.Duration { return time.Hour }

func (s *fakeStore) Status(context.Context, *x509.Certificate) ([]byte, error) {
	return nil, errors.New("there is no responder")
}

func (s *fakeStore) Close() error {
	fake.Lock()
	defer fake.Unlock()
	fake.closed++
	return nil
}

// provision loads a Caddyfile as Caddy does before it starts it.
func provision(t *testing.T, text string) caddy.Context {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&config)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// provisionApp loads an app with one security server.
func provisionApp(t *testing.T, options string) *App {
	t.Helper()
	app, err := provision(t, fmt.Sprintf(`{
		xroad ss1 {
			server DEV/GOV/0000/ss1
			signer fake
			trust fake
			spool memory
			%s
		}
	}`, options)).App("xroad")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*App)
}

func start(t *testing.T, app *App) {
	t.Helper()
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, app *App) {
	t.Helper()
	if err := app.Stop(); err != nil {
		t.Fatal(err)
	}
}

func use(t *testing.T, app *App) *usage {
	t.Helper()
	u, err := app.Servers["ss1"].use()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestNothingOpensBeforeStart(t *testing.T) {
	fake.reset(t)
	app := provisionApp(t, "evidence none")
	fake.want(t, "provisioned", 0, 0)
	start(t, app)
	fake.want(t, "started", 1, 0)
	stop(t, app)
	fake.want(t, "stopped", 1, 1)
}

func TestExchangeOutlivesItsConfiguration(t *testing.T) {
	fake.reset(t)
	app := provisionApp(t, "evidence none")
	start(t, app)
	u := use(t, app)
	stop(t, app)
	fake.want(t, "stopped with an exchange under way", 1, 0)
	u.release()
	fake.want(t, "after the exchange", 1, 1)
}

func TestUnchangedReloadKeepsTheServer(t *testing.T) {
	fake.reset(t)
	before, after := provisionApp(t, "evidence none"), provisionApp(t, "evidence none")
	start(t, before)
	u := use(t, before)
	start(t, after)
	if use := use(t, after); use.SecurityServer != u.SecurityServer {
		t.Error("the same configuration has two servers")
	} else {
		use.release()
	}
	stop(t, before)
	u.release()
	fake.want(t, "reloaded", 1, 0)
	stop(t, after)
	fake.want(t, "stopped", 1, 1)
}

func TestChangedReloadReplacesTheServer(t *testing.T) {
	fake.reset(t)
	a, b, a2 := provisionApp(t, "evidence none"), provisionApp(t, "evidence none\nclient DEV/GOV/0000/app"), provisionApp(t, "evidence none")
	start(t, a)
	u := use(t, a)
	start(t, b)
	stop(t, a)
	fake.want(t, "reloaded", 2, 0)
	start(t, a2) // back again, while the exchange of before goes on
	stop(t, b)
	fake.want(t, "reloaded back", 2, 1)
	u.release()
	stop(t, a2)
	fake.want(t, "stopped", 2, 2)
}

func TestReloadSharesTheEvidence(t *testing.T) {
	fake.reset(t)
	evidence := "evidence disk " + t.TempDir() + "\n"
	a, b := provisionApp(t, evidence), provisionApp(t, evidence+"client DEV/GOV/0000/app")
	start(t, a)
	u := use(t, a)
	start(t, b)
	stop(t, a)
	u.release()
	fake.want(t, "reloaded", 2, 1)
	stop(t, b)
	fake.want(t, "stopped", 2, 2)
}

func TestReloadWithChangedFiles(t *testing.T) {
	key := func(app *App) string {
		t.Helper()
		k, err := app.Servers["ss1"].key()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	t.Run("of a guest", func(t *testing.T) {
		fake.reset(t)
		before := key(provisionApp(t, ""))
		if before != key(provisionApp(t, "")) {
			t.Error("the key changes by itself")
		}
		fake.version = "new"
		if before == key(provisionApp(t, "")) {
			t.Error("the server of the old files stays")
		}
	})
	t.Run("certificate of a caller", func(t *testing.T) {
		fake.reset(t)
		file := filepath.Join(t.TempDir(), "caller.pem")
		options := "client DEV/GOV/0000/app {\ncaller certificate " + file + "\n}"
		certificate := func() {
			cert := writeKey(t, file, "caller", forAuthentication, -1, 1)
			if err := os.WriteFile(file, pemOf(cert), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		certificate()
		before := key(provisionApp(t, options))
		certificate()
		if before == key(provisionApp(t, options)) {
			t.Error("the server with the old certificate stays")
		}
	})
}

func TestExchangeBeforeStartAndAfterStop(t *testing.T) {
	fake.reset(t)
	app := provisionApp(t, "evidence none")
	early := use(t, app)
	start(t, app)
	fake.want(t, "started after an exchange had begun", 1, 0)
	early.release()
	stop(t, app)
	fake.want(t, "stopped", 1, 1)
	late := use(t, app)
	late.release()
	fake.want(t, "a late exchange", 2, 2)
}

func TestFailedStartHoldsNothing(t *testing.T) {
	fake.reset(t)
	fake.fail = errors.New("the token is locked")
	app := provisionApp(t, "evidence none")
	err := app.Start()
	if err == nil || !strings.Contains(err.Error(), "opening xroad ss1: signer: the token is locked") {
		t.Fatalf("got error %v", err)
	}
	fake.want(t, "failed", 1, 1)
	fake.fail = nil
	start(t, app)
	fake.want(t, "repaired", 2, 1)
	stop(t, app)
	fake.want(t, "stopped", 2, 2)
}

func TestUsagesOfManyExchanges(t *testing.T) {
	fake.reset(t)
	app := provisionApp(t, "evidence none")
	start(t, app)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				u, err := app.Servers["ss1"].use()
				if err != nil {
					t.Error(err)
					return
				}
				u.release()
			}
		})
	}
	wg.Wait()
	fake.want(t, "running", 1, 0)
	stop(t, app)
	fake.want(t, "stopped", 1, 1)
}
