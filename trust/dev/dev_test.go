// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	ss1   = ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}
	ss2   = ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: "ss2"}
	alice = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	app   = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	bob   = ident.Client{Instance: "DEV", Class: "GOV", Member: "0000"}
)

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

// memory is a Storage.
type memory struct {
	mu     sync.Mutex
	files  map[string][]byte
	locks  map[string]*sync.Mutex
	stored int
	broken error
}

func newMemory() *memory {
	return &memory{files: make(map[string][]byte), locks: make(map[string]*sync.Mutex)}
}

func (m *memory) lock(name string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] == nil {
		m.locks[name] = new(sync.Mutex)
	}
	return m.locks[name]
}

func (m *memory) Lock(_ context.Context, name string) error {
	if m.broken != nil {
		return m.broken
	}
	m.lock(name).Lock()
	return nil
}

func (m *memory) Unlock(_ context.Context, name string) error { m.lock(name).Unlock(); return nil }

func (m *memory) Store(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored++
	m.files[key] = bytes.Clone(value)
	return nil
}

func (m *memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value, ok := m.files[key]; ok {
		return bytes.Clone(value), nil
	}
	return nil, fs.ErrNotExist
}

func open(t *testing.T, s Storage, now time.Time) *Authority {
	t.Helper()
	a, err := Open(ctx, s, "DEV", at(now))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func signKey(t *testing.T, a *Authority, member ident.Client, server ident.Server) *softkey.Key {
	t.Helper()
	key, err := a.SignKey(ctx, member, server)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func authKey(t *testing.T, a *Authority, server ident.Server) *tls.Certificate {
	t.Helper()
	key, err := a.AuthKey(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func status(t *testing.T, s trust.Store, cert *x509.Certificate) [][]byte {
	t.Helper()
	der, err := s.Status(ctx, cert)
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{der}
}

func causes(err error) string {
	var all []string
	for ; err != nil; err = errors.Unwrap(err) {
		if c, ok := err.(interface{ Cause() string }); ok {
			all = append(all, c.Cause())
		}
	}
	return strings.Join(all, ".")
}

func TestKeys(t *testing.T) {
	storage := newMemory()
	a := open(t, storage, noon)
	sign, auth := signKey(t, a, app, ss1), authKey(t, a, ss1)
	cert := sign.Chain[0]
	if !softkey.CanSign(cert) || softkey.CanAuthenticate(cert) || !softkey.CanAuthenticate(auth.Leaf) || softkey.CanSign(auth.Leaf) {
		t.Error("keys are not each for its own use")
	}
	if got := cert.Subject.String(); got != "SERIALNUMBER=DEV/ss1/GOV,CN=1111,O=Fairway development,C=FI" {
		t.Errorf("the subject is %s", got)
	}
	if err := auth.Leaf.VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	if err := auth.Leaf.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	if !cert.NotBefore.Equal(noon.Add(-time.Hour)) || !cert.NotAfter.Equal(noon.AddDate(2, 0, 0)) {
		t.Errorf("valid from %v to %v", cert.NotBefore, cert.NotAfter)
	}
	names := slices.Sorted(maps.Keys(storage.files))
	if got := strings.Join(names, " "); got != "xroad/dev/DEV/auth/GOV/1111/ss1.pem xroad/dev/DEV/ca.pem xroad/dev/DEV/ocsp.pem xroad/dev/DEV/sign/GOV/1111/ss1/GOV/1111.pem xroad/dev/DEV/tsa.pem" {
		t.Errorf("stored are %s", got)
	}

	again := open(t, storage, noon.AddDate(1, 0, 0))
	if key := signKey(t, again, alice, ss1); !key.Chain[0].Equal(cert) || !key.Private.(*ecdsa.PrivateKey).Equal(sign.Private) {
		t.Error("reopened, and another signing key")
	}
	if !authKey(t, again, ss1).Leaf.Equal(auth.Leaf) {
		t.Error("reopened, and another authentication key")
	}
	if key := signKey(t, again, alice, ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss9"}); key.Chain[0].Equal(cert) {
		t.Error("two servers share a signing key")
	}
	if storage.stored != 6 {
		t.Errorf("%d files were written", storage.stored)
	}
}

func TestKeysAreRenewed(t *testing.T) {
	storage := newMemory()
	first := open(t, storage, noon)
	cert := signKey(t, first, alice, ss1).Chain[0]
	for _, c := range []struct {
		name     string
		now      time.Time
		key, ca  bool // still the first
		yearsFor int
	}{
		{"31 days before the end of the key", cert.NotAfter.AddDate(0, 0, -31), true, true, 0},
		{"29 days before the end of the key", cert.NotAfter.AddDate(0, 0, -29), false, true, 2},
		{"29 days before the end of the CA", first.ca.Chain[0].NotAfter.AddDate(0, 0, -29), false, false, 2},
		{"before the beginning", noon.AddDate(-10, 0, 0), false, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := newMemory()
			maps.Copy(copied.files, storage.files)
			a := open(t, copied, c.now)
			key := signKey(t, a, alice, ss1)
			if key.Chain[0].Equal(cert) != c.key || a.ca.Chain[0].Equal(first.ca.Chain[0]) != c.ca {
				t.Errorf("the key is valid until %v, the CA until %v", key.Chain[0].NotAfter, a.ca.Chain[0].NotAfter)
			}
			if err := key.Chain[0].CheckSignatureFrom(a.ca.Chain[0]); err != nil {
				t.Error(err)
			}
			if err := a.responder.Chain[0].CheckSignatureFrom(a.ca.Chain[0]); err != nil {
				t.Error(err)
			}
			if end := c.now.AddDate(c.yearsFor, 0, 0); c.yearsFor > 0 && !key.Chain[0].NotAfter.Equal(end) {
				t.Errorf("the new key is valid until %v, not %v", key.Chain[0].NotAfter, end)
			}
		})
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	storage := newMemory()
	keys := make([]*softkey.Key, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			a, err := Open(ctx, storage, "DEV", at(noon))
			if err == nil {
				keys[i], err = a.SignKey(ctx, alice, ss1)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k == nil || !k.Chain[0].Equal(keys[0].Chain[0]) {
			t.Fatal("not all have the same key")
		}
	}
	if storage.stored != 4 {
		t.Errorf("%d files were written for 4 keys", storage.stored)
	}
}

func TestTrustAttack16And17And18And19(t *testing.T) {
	storage := newMemory()
	a := open(t, storage, noon)
	servers := []Server{
		{ID: ss1, Address: "127.0.0.1:5500", OCSPAddress: "127.0.0.1:5577", Clients: []ident.Client{app}},
		{ID: ss2, Address: "ss2", Clients: []ident.Client{bob}},
	}
	store, err := a.Trust(ctx, servers)
	if err != nil {
		t.Fatal(err)
	}
	sign, auth := signKey(t, a, alice, ss1).Chain[0], authKey(t, a, ss1).Leaf
	chain := []*x509.Certificate{auth}
	response, ofAuth := status(t, store, sign), status(t, store, auth)

	elsewhere := open(t, newMemory(), noon)
	foreignStore, err := elsewhere.Trust(ctx, servers)
	if err != nil {
		t.Fatal(err)
	}
	foreign, foreignAuth := signKey(t, elsewhere, alice, ss1).Chain[0], authKey(t, elsewhere, ss1).Leaf

	for _, c := range []struct {
		name  string
		err   error
		cause string
	}{
		{"signature", store.VerifySign(sign, nil, response, app, noon), ""},
		{"signature, an hour later", store.VerifySign(sign, nil, response, app, noon.Add(time.Hour)), ""},
		{"TLS of the owner", store.VerifyAuth(chain, ofAuth, alice, noon), ""},
		{"TLS of a client", store.VerifyAuth(chain, ofAuth, app, noon), ""},
		{"attack 16: another member", store.VerifySign(sign, nil, response, bob, noon), "incorrect_certificate"},
		{"attack 16: another CA", store.VerifySign(foreign, nil, status(t, foreignStore, foreign), alice, noon), "cannot_create_cert_path"},
		{"attack 17: the wrong use", store.VerifySign(auth, nil, ofAuth, alice, noon), "malformed_signature"},
		{"attack 17: the other wrong use", store.VerifyAuth([]*x509.Certificate{sign}, response, alice, noon), "ssl_authentication_failed"},
		{"attack 18: another's response", store.VerifySign(sign, nil, ofAuth, alice, noon), "invalid_cert_path.cert_validation"},
		{"attack 18: stale", store.VerifySign(sign, nil, response, alice, noon.Add(time.Hour+time.Second)), "invalid_cert_path.incorrect_validation_info"},
		{"attack 19: ahead", store.VerifySign(sign, nil, response, alice, noon.Add(-6*time.Minute)), "invalid_cert_path.incorrect_validation_info"},
		{"TLS of a server of others", store.VerifyAuth(chain, ofAuth, bob, noon), "ssl_authentication_failed"},
		{"TLS by another CA", store.VerifyAuth([]*x509.Certificate{foreignAuth}, nil, alice, noon), "ssl_authentication_failed"},
		{"TLS, stale", store.VerifyAuth(chain, ofAuth, alice, noon.Add(2*time.Hour)), "ssl_authentication_failed.invalid_cert_path.incorrect_validation_info"},
	} {
		if got := causes(c.err); got != c.cause || c.cause == "" && c.err != nil {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, c.err, c.cause)
		}
	}

	if member, err := store.SignMember(sign); member != alice || err != nil {
		t.Errorf("the key is that of %s, %v", member, err)
	}
	if server, err := store.ServerOf(auth); server != ss1 || err != nil {
		t.Errorf("the TLS key is that of %s, %v", server, err)
	}
	endpoints, err := store.Endpoints(app, nil)
	if err != nil || len(endpoints) != 1 || endpoints[0] != (trust.Endpoint{Server: ss1, Address: "127.0.0.1:5500", OCSPAddress: "127.0.0.1:5577"}) {
		t.Errorf("the endpoints are %v, %v", endpoints, err)
	}
	members, err := store.Members("")
	if err != nil || !slices.Equal(members, []trust.Member{{ID: bob, Name: "0000"}, {ID: alice, Name: "1111"}, {ID: app, Name: "1111", Sub: "app"}}) {
		t.Errorf("the members are %v, %v", members, err)
	}
	if store.Freshness() != time.Hour || store.Instance() != "DEV" || len(store.Extra(sign)) != 0 {
		t.Error("the store does not tell what it is")
	}
	if _, err := store.Status(ctx, foreign); err == nil {
		t.Error("a response about a certificate of others")
	}

	a.Revoke(sign)
	a.Revoke(auth)
	if err := store.VerifySign(sign, nil, status(t, store, sign), alice, noon); causes(err) != "invalid_cert_path.cert_validation" {
		t.Errorf("revoked, and %v", err)
	}
	if err := store.VerifyAuth(chain, status(t, store, auth), alice, noon); causes(err) != "ssl_authentication_failed.invalid_cert_path.cert_validation" {
		t.Errorf("revoked, and %v", err)
	}
	if err := store.VerifySign(sign, nil, response, alice, noon); err != nil {
		t.Errorf("the response from before is refused: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestResponseIsByTheResponder(t *testing.T) {
	a := open(t, newMemory(), noon)
	store, err := a.Trust(ctx, []Server{{ID: ss1}})
	if err != nil {
		t.Fatal(err)
	}
	sign := signKey(t, a, alice, ss1).Chain[0]
	v, err := ocsp.Verify(status(t, store, sign)[0], sign, a.ca.Chain[0], ocsp.Policy{Freshness: time.Minute}, noon)
	if err != nil || !v.Responder.Equal(a.responder.Chain[0]) || !v.ThisUpdate.Equal(noon) || !v.NextUpdate.Equal(noon.Add(time.Hour)) {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestRefusals(t *testing.T) {
	a := open(t, newMemory(), noon)
	abroad := ident.Client{Instance: "EE", Class: "GOV", Member: "1"}
	for name, err := range map[string]error{
		"no instance":         func() error { _, err := Open(ctx, newMemory(), "", at(noon)); return err }(),
		"a member of another": func() error { _, err := a.SignKey(ctx, abroad, ss1); return err }(),
		"a server of another": func() error { _, err := a.AuthKey(ctx, ident.Server{Instance: "EE"}); return err }(),
		"a server without code": func() error {
			_, err := a.AuthKey(ctx, ident.Server{Instance: "DEV", Class: "GOV", Member: "1"})
			return err
		}(),
		"a class with a slash": func() error {
			_, err := a.SignKey(ctx, ident.Client{Instance: "DEV", Class: "G/V", Member: "1"}, ss1)
			return err
		}(),
		"a member without code":      func() error { _, err := a.SignKey(ctx, ident.Client{Instance: "DEV", Class: "GOV"}, ss1); return err }(),
		"a trust with such a server": func() error { _, err := a.Trust(ctx, []Server{{ID: ident.Server{Instance: "EE"}}}); return err }(),
		"a client of another":        func() error { _, err := a.Trust(ctx, []Server{{ID: ss1, Clients: []ident.Client{abroad}}}); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}

	broken := newMemory()
	broken.broken = errors.New("no lock")
	if _, err := Open(ctx, broken, "DEV", at(noon)); !errors.Is(err, broken.broken) {
		t.Errorf("got %v", err)
	}
	spoilt := newMemory()
	spoilt.files["xroad/dev/DEV/ca.pem"] = []byte("not a key")
	if _, err := Open(ctx, spoilt, "DEV", at(noon)); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v", err)
	}
}

func TestFileNamesAttack34(t *testing.T) {
	a := &Authority{instance: "../.."}
	if got := a.file("sign", "a/b", "..", "Ä"); got != "xroad/dev/%2E%2E%2F%2E%2E/sign/a%2Fb/%2E%2E/%C3%84.pem" {
		t.Errorf("attack 34: the file is %s", got)
	}
	if got := (&Authority{instance: "DEV"}).file(); got != "xroad/dev/DEV" {
		t.Errorf("the lock is %s", got)
	}
}

// TestParameters: others verify by the file what a member signed. It lies beside the keys.
func TestParameters(t *testing.T) {
	storage := newMemory()
	a := open(t, storage, noon)
	servers := []Server{{ID: ss1, Address: "127.0.0.1:5500", Clients: []ident.Client{app}}}
	p, err := a.Parameters(ctx, servers)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := p.XML()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shared-params.xml")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := a.SignKey(ctx, alice, ss1)
	if err != nil {
		t.Fatal(err)
	}
	store, err := a.Trust(ctx, servers)
	if err != nil {
		t.Fatal(err)
	}
	if kept := storage.files["xroad/dev/DEV/shared-params.xml"]; !bytes.Equal(kept, doc) {
		t.Errorf("beside the keys lies %q", kept)
	}
	before := storage.stored
	if _, err := a.Trust(ctx, servers); err != nil || storage.stored != before {
		t.Errorf("what lies there is stored again, %v", err)
	}
	status, err := store.Status(ctx, key.Chain[0])
	if err != nil {
		t.Fatal(err)
	}
	v, err := trust.OpenVerificationFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.VerifySign(key.Chain[0], nil, [][]byte{status}, app, noon); err != nil {
		t.Error(err)
	}
	if static, err := trust.OpenStatic(file); err != nil {
		t.Error(err)
	} else if e, err := static.Endpoints(app, nil); err != nil || len(e) != 1 || e[0].Address != "127.0.0.1:5500" {
		t.Errorf("the security servers are %v (%v)", e, err)
	}
}
