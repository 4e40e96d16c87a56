// SPDX-License-Identifier: Apache-2.0

package pkcs11

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/pkcs11"

	"github.com/caddy-fairway/fairway/caddymodule"
	"github.com/caddy-fairway/fairway/crypto/softkey"
)

// operate runs an operation without a result.
func operate(ctx context.Context, tok *token, operation func(session) error) error {
	_, err := do(ctx, tok, func(s session) (struct{}, error) { return struct{}{}, operation(s) })
	return err
}

// found returns the keys of a token by the names in their certificates.
func found(t testing.TB, tok *token) map[string]*softkey.Key {
	t.Helper()
	all, err := tok.keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]*softkey.Key)
	for _, k := range all {
		keys[k.Chain[0].Subject.CommonName] = k
	}
	return keys
}

// check signs and verifies with another library.
func check(t testing.TB, key crypto.Signer, o crypto.SignerOpts) {
	t.Helper()
	h := o.HashFunc().New()
	h.Write([]byte("a message"))
	digest := h.Sum(nil)
	value, err := key.Sign(rand.Reader, digest, o)
	if err != nil {
		t.Error(err)
		return
	}
	good := false
	switch public := key.Public().(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(public, digest, value)
	case *rsa.PublicKey:
		if pss, ok := o.(*rsa.PSSOptions); ok {
			good = rsa.VerifyPSS(public, o.HashFunc(), digest, value, pss) == nil
		} else {
			good = rsa.VerifyPKCS1v15(public, o.HashFunc(), digest, value) == nil
		}
	}
	if !good {
		t.Errorf("the signature of %T with %v does not verify", key.Public(), o.HashFunc())
	}
}

func TestSign(t *testing.T) {
	tok := at(t)
	for i, kind := range []string{"RSA", "P-256", "P-384"} {
		key := newKey(t, kind)
		write(t, tok, privateObject(t, byte(i), key), certificateObject(byte(i), certify(t, key, kind, forSigning, i)))
	}
	alone := newKey(t, "P-256")
	write(t, tok, privateObject(t, 8, alone), certificateObject(9, certify(t, alone, "CA", forSigning, 0)))
	keys := found(t, tok)
	if len(keys) != 3 {
		t.Errorf("%d keys: a certificate without a key and a key without a certificate are none", len(keys))
	}
	for name, test := range map[string]struct {
		key string
		o   crypto.SignerOpts
	}{
		"RSA, SHA-256":                   {"RSA", crypto.SHA256},
		"RSA, SHA-384":                   {"RSA", crypto.SHA384},
		"RSA, SHA-512":                   {"RSA", crypto.SHA512},
		"RSA, PSS and SHA-256":           {"RSA", &rsa.PSSOptions{Hash: crypto.SHA256, SaltLength: rsa.PSSSaltLengthEqualsHash}},
		"RSA, PSS and SHA-384":           {"RSA", &rsa.PSSOptions{Hash: crypto.SHA384, SaltLength: rsa.PSSSaltLengthEqualsHash}},
		"RSA, PSS and SHA-512":           {"RSA", &rsa.PSSOptions{Hash: crypto.SHA512, SaltLength: rsa.PSSSaltLengthEqualsHash}},
		"P-256, SHA-256":                 {"P-256", crypto.SHA256},
		"P-256, a digest that is longer": {"P-256", crypto.SHA512},
		"P-384, SHA-384":                 {"P-384", crypto.SHA384},
		"P-384, a shorter digest":        {"P-384", crypto.SHA256},
		"P-384, a digest that is longer": {"P-384", crypto.SHA512},
	} {
		t.Run(name, func(t *testing.T) { check(t, keys[test.key].Private, test.o) })
	}
	t.Run("many at once", func(t *testing.T) {
		var all sync.WaitGroup
		for range 3 * atOnce {
			all.Go(func() { check(t, keys["P-256"].Private, crypto.SHA512) })
		}
		all.Wait()
		if n := len(tok.idle); n > atOnce {
			t.Errorf("%d sessions", n)
		}
	})
	t.Run("no digest", func(t *testing.T) {
		for _, o := range []crypto.Hash{0, crypto.SHA1, crypto.SHA256} {
			if _, err := keys["RSA"].Private.Sign(rand.Reader, []byte("short"), o); err == nil || !strings.Contains(err.Error(), "cannot be signed") {
				t.Errorf("%v: %v", o, err)
			}
		}
	})
}

// TestDigestIsCut: SoftHSM takes digests of any length, other tokens do not.
func TestDigestIsCut(t *testing.T) {
	digest := make([]byte, 64)
	for kind, want := range map[string]int{"P-256": 32, "P-384": 48, "RSA": 19 + 64} {
		k := &key{public: newKey(t, kind).Public()}
		if _, input, err := k.mechanism(digest, crypto.SHA512); err != nil || len(input) != want {
			t.Errorf("%s gets %d octets, %v", kind, len(input), err)
		}
	}
}

// TestSessionsBreak has all sessions closed, as a device does that was away: the next operations open new ones and log in.
func TestSessionsBreak(t *testing.T) {
	tok := at(t)
	key := newKey(t, "P-256")
	write(t, tok, privateObject(t, 1, key), certificateObject(1, certify(t, key, "key", forSigning, 0)))
	private := found(t, tok)["key"].Private
	for range 3 {
		before := tok.generation
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() { check(t, private, crypto.SHA512) })
		}
		all.Wait()
		slot, err := tok.slot(modules.of[tok.library])
		if err != nil {
			t.Fatal(err)
		}
		if err := modules.of[tok.library].CloseAllSessions(slot); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			all.Go(func() { check(t, private, crypto.SHA512) })
		}
		all.Wait()
		if tok.generation == before {
			t.Error("nobody noticed")
		}
	}
	t.Run("the module was finalised", func(t *testing.T) {
		if err := modules.of[tok.library].Finalize(); err != nil {
			t.Fatal(err)
		}
		check(t, private, crypto.SHA512)
	})
	t.Run("a broken session is tried once more, no error of another kind is", func(t *testing.T) {
		for code, want := range map[uint]int{pkcs11.CKR_DEVICE_REMOVED: 2, pkcs11.CKR_DEVICE_ERROR: 2, pkcs11.CKR_MECHANISM_INVALID: 1} {
			tries := 0
			err := operate(t.Context(), tok, func(session) error { tries++; return pkcs11.Error(code) })
			if !is(err, code) || tries != want {
				t.Errorf("%d tries, %v", tries, err)
			}
		}
		check(t, private, crypto.SHA512)
	})
}

// TestKeyAsksEveryTime has a key want the PIN before every operation.
func TestKeyAsksEveryTime(t *testing.T) {
	tok := at(t)
	rsaKey := newKey(t, "RSA")
	write(t, tok, privateObject(t, 1, rsaKey, pkcs11.NewAttribute(pkcs11.CKA_ALWAYS_AUTHENTICATE, true)),
		certificateObject(1, certify(t, rsaKey, "key", forSigning, 0)))
	private := found(t, tok)["key"].Private
	for range 2 {
		check(t, private, crypto.SHA512)
	}
	if !private.(*key).object.asks {
		t.Error("it did not ask")
	}
}

// TestDeviceHangs has operations hang: whoever waits is told when their time ends, no more than atOnce run, and when they
// come back the token is used again.
func TestDeviceHangs(t *testing.T) {
	tok := at(t)
	if err := operate(t.Context(), tok, func(session) error { return nil }); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	back, begun := make(chan struct{}), make(chan struct{}, 10*atOnce)
	hang := func(session) error { begun <- struct{}{}; <-back; return nil }
	var all sync.WaitGroup
	for range 3 * atOnce {
		all.Go(func() {
			if err := operate(gone, tok, hang); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range atOnce {
		<-begun
	}
	leave()
	all.Wait()
	if len(begun) != 0 || len(tok.turns) != atOnce {
		t.Errorf("%d more operations, %d turns", len(begun), len(tok.turns))
	}
	close(back)
	for range 2 * atOnce {
		if err := operate(t.Context(), tok, func(session) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

// TestPIN: a PIN that was refused is not tried again, for tokens lock; another one is. No error tells it.
func TestPIN(t *testing.T) {
	file := pinFile(t, "0000-wrong\n")
	tok := tokenAt(place{module(t), at(t).label, file})
	nothing := func(session) error { return nil }
	refuse := func(want string) {
		t.Helper()
		err := operate(t.Context(), tok, nothing)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, not %s", err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "0000") || strings.Contains(err.Error(), pin)) {
			t.Errorf("it tells the PIN: %v", err)
		}
	}
	rewrite := func(content string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file, []byte(content), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	refuse("refuses the PIN of pin_file: pkcs11: 0xA0: CKR_PIN_INCORRECT")
	refuse("has refused the PIN of pin_file before")
	refuse("has refused the PIN of pin_file before")
	rewrite("\n"+pin, 0o600)
	refuse("is empty: the PIN belongs there")
	rewrite(pin, 0o640)
	refuse("others than its owner may use it (mode 0640)")
	rewrite(pin+"\r\nwhatever", 0o600)
	if err := operate(t.Context(), tok, nothing); err != nil {
		t.Error(err)
	}
}

func TestTokenIsNotThere(t *testing.T) {
	twins := at(t).label
	makeToken(t, twins)
	for name, test := range map[string]struct{ library, label, want string }{
		"no module":      {"/nowhere/module.so", "one", `module /nowhere/module.so: token "one": its module: it is no PKCS#11 module`},
		"no such token":  {module(t), "absent", "module " + module(t) + `: token "absent": it is not there; there is "`},
		"two of a label": {module(t), twins, "module " + module(t) + `: token "` + twins + `": there are 2 tokens of that label`},
	} {
		t.Run(name, func(t *testing.T) {
			s := Signer{Library: test.library, Token: test.label, PINFile: pinFile(t, pin)}
			_, err := s.OpenKeys(t.Context(), caddymodule.Host{})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, not %s", err, test.want)
			}
			// Whoever asked for a signature is not told where what is.
			_, err = tokenAt(place{s.Library, s.Token, s.PINFile}).keys(t.Context())
			if err == nil || strings.Contains(err.Error(), s.Library) || strings.Contains(err.Error(), "there is ") {
				t.Errorf("in signing: %v", err)
			}
		})
	}
}

func TestOddObjects(t *testing.T) {
	tok := at(t)
	key, other := newKey(t, "P-256"), newKey(t, "P-256")
	write(t, tok, privateObject(t, 1, key), certificateObject(1, certify(t, other, "another's", forSigning, 0)))
	if _, err := found(t, tok)["another's"].Private.Sign(nil, make([]byte, 64), crypto.SHA512); err == nil || err.Error() != tok.String()+": the certificate of key 01 is of another key" {
		t.Errorf("a certificate of another key: %v", err)
	}
	tok = at(t)
	write(t, tok, privateObject(t, 1, key), privateObject(t, 1, other), certificateObject(1, certify(t, other, "one's", forSigning, 0)))
	if _, err := tok.keys(t.Context()); err == nil || err.Error() != tok.String()+": it has 2 private keys of CKA_ID 01" {
		t.Errorf("two keys of one CKA_ID: %v", err)
	}
}

// TestTLS shows the keys to Go's TLS, both versions of it.
func TestTLS(t *testing.T) {
	tok := at(t)
	for i, kind := range []string{"RSA", "P-256"} {
		key := newKey(t, kind)
		write(t, tok, privateObject(t, byte(0x20+i), key), certificateObject(byte(0x20+i), certify(t, key, "TLS "+kind, forAuthentication, 0)))
	}
	keys := found(t, tok)
	for _, kind := range []string{"RSA", "P-256"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(kind+" "+tls.VersionName(version), func(t *testing.T) {
				k := keys["TLS "+kind]
				cert := tls.Certificate{Certificate: [][]byte{k.Chain[0].Raw}, PrivateKey: k.Private}
				a, b := net.Pipe()
				defer a.Close()
				defer b.Close()
				server := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: version})
				client := tls.Client(b, &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, MinVersion: version})
				done := make(chan error, 1)
				go func() { done <- server.Handshake() }()
				if err := errors.Join(client.Handshake(), <-done); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
