// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial int64

// issue makes a certificate; without issuer it signs itself.
func issue(t testing.TB, name string, issuer *pair, key crypto.Signer, change func(*x509.Certificate)) *pair {
	t.Helper()
	if key == nil {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key = k
	}
	serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.AddDate(-1, 0, 0),
		NotAfter:     now.AddDate(1, 0, 0),
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{cert, key}
}

func authority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
}

func ocspSigning(c *x509.Certificate) {
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}
}

func good(t testing.TB, cert, issuer *x509.Certificate, responder *pair, thisUpdate, nextUpdate time.Time) []byte {
	t.Helper()
	der, err := Respond(cert, issuer, responder.cert, responder.key, thisUpdate, nextUpdate, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func unknown(t testing.TB, cert, issuer *x509.Certificate, responder *pair) []byte {
	t.Helper()
	said := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2}
	der, err := respond(idOf(cert, issuer), said, issuer, responder.cert, responder.key, now, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func revoked(t testing.TB, cert, issuer *x509.Certificate, responder *pair) []byte {
	t.Helper()
	der, err := Respond(cert, issuer, responder.cert, responder.key, now, time.Time{}, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func causeOf(err error) string {
	var caused interface{ Cause() string }
	if errors.As(err, &caused) {
		return caused.Cause()
	}
	if err != nil {
		return "?"
	}
	return ""
}

func TestVerifyAttack18And19(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	leaf := issue(t, "leaf", ca, nil, nil)
	sibling := issue(t, "sibling", ca, nil, nil)
	delegate := issue(t, "delegate", ca, nil, ocspSigning)
	plain := issue(t, "no OCSP signing", ca, nil, nil)
	expired := issue(t, "expired", ca, nil, func(c *x509.Certificate) {
		ocspSigning(c)
		c.NotAfter = now.Add(-2 * time.Minute)
	})
	other := issue(t, "CA", nil, nil, authority)
	foreign := issue(t, "delegate", other, nil, ocspSigning)
	configured := issue(t, "configured", other, nil, nil)
	renewed := issue(t, "configured", other, nil, nil)
	k384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p384 := issue(t, "P-384", ca, k384, ocspSigning)
	kRSA, _ := rsa.GenerateKey(rand.Reader, 2048)
	rsaKey := issue(t, "RSA", ca, kRSA, ocspSigning)

	policy := Policy{Freshness: time.Minute, Ahead: 5 * time.Minute}
	with := func(change func(*Policy)) Policy { p := policy; change(&p); return p }
	lists := with(func(p *Policy) { p.Responders = []*x509.Certificate{renewed.cert, configured.cert} })
	const incorrect, status = "incorrect_validation_info", "cert_validation"
	from := func(p *pair) []byte { return good(t, leaf.cert, ca.cert, p, now, now.Add(time.Hour)) }
	aged := func(d time.Duration) []byte { return good(t, leaf.cert, ca.cert, ca, now.Add(-d), time.Time{}) }

	for _, c := range []struct {
		name     string
		response []byte
		policy   Policy
		after    time.Duration // judged so long after now
		cause    string
		words    string
	}{
		{name: "by the issuer", response: from(ca), policy: policy},
		{name: "by a delegate", response: from(delegate), policy: policy},
		{name: "by a delegate with P-384", response: from(p384), policy: policy},
		{name: "by a delegate with RSA", response: from(rsaKey), policy: policy},
		{name: "by a configured responder", response: from(configured), policy: lists},
		{name: "by a configured responder of the same name", response: from(renewed), policy: lists},
		{name: "attack 18: by that responder, not configured", response: from(configured), policy: policy, cause: incorrect, words: "neither configured"},
		{name: "attack 18: by one without the usage", response: from(plain), policy: policy, cause: incorrect, words: "extended key usage"},
		{name: "attack 18: by the certificate itself", response: from(leaf), policy: policy, cause: incorrect},
		{name: "attack 18: by a delegate of a CA of the same name", response: from(foreign), policy: policy, cause: incorrect},
		{name: "attack 18: by a CA of the same name", response: from(other), policy: policy, cause: incorrect},
		{name: "by a delegate that had expired", response: from(expired), policy: policy, cause: incorrect, words: "was not valid"},
		{name: "attack 18: about another certificate", response: good(t, sibling.cert, ca.cert, ca, now, time.Time{}), policy: policy, cause: incorrect, words: "another certificate"},
		{name: "age 59.5 s", response: aged(59 * time.Second), after: 500 * time.Millisecond, policy: policy},
		{name: "age 60 s", response: aged(time.Minute), policy: policy},
		{name: "attack 18: age 60.5 s", response: aged(time.Minute), after: 500 * time.Millisecond, policy: policy, cause: incorrect, words: "1m0.5s old"},
		{name: "clock 30 s behind", response: aged(-30 * time.Second), policy: policy},
		{name: "clock 5 min behind", response: aged(-5 * time.Minute), policy: policy},
		{name: "attack 19: clock 10 min behind", response: aged(-10 * time.Minute), policy: policy, cause: incorrect, words: "10m0s ahead"},
		{name: "ahead, in a container", response: aged(-24 * time.Hour), policy: with(func(p *Policy) { p.Ahead = 0 })},
		{name: "next update now", response: good(t, leaf.cert, ca.cert, ca, now, now), policy: policy},
		{name: "next update passed", response: good(t, leaf.cert, ca.cert, ca, now.Add(-30*time.Second), now.Add(-12*time.Second)), policy: policy, cause: incorrect, words: "12s ago"},
		{name: "next update passed, check off", response: good(t, leaf.cert, ca.cert, ca, now.Add(-30*time.Second), now.Add(-12*time.Second)),
			policy: with(func(p *Policy) { p.SkipNextUpdate = true })},
		{name: "revoked", response: revoked(t, leaf.cert, ca.cert, ca), policy: policy, cause: status, words: "revoked since 2026-03-01T11:00:00Z"},
		{name: "unknown", response: unknown(t, leaf.cert, ca.cert, ca), policy: policy, cause: status, words: "unknown"},
		{name: "not DER", response: []byte("OCSP"), policy: policy, cause: incorrect},
		{name: "empty", response: nil, policy: policy, cause: incorrect},
		{name: "responder is busy", response: []byte{0x30, 3, 0x0a, 1, 3}, policy: policy, cause: incorrect, words: "tryLater"},
		{name: "too long", response: make([]byte, maxResponse+1), policy: policy, cause: incorrect, words: "at most"},
		{name: "no policy", response: aged(time.Second), policy: Policy{}, cause: incorrect},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Verify(c.response, leaf.cert, ca.cert, c.policy, now.Add(c.after))
			if causeOf(err) != c.cause || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Fatalf("got %v, want cause %q saying %q", err, c.cause, c.words)
			}
			if err != nil && !strings.Contains(err.Error(), "CN=leaf") {
				t.Errorf("the error %v does not name the certificate", err)
			}
			if err == nil && (v == nil || v.Responder == nil || v.ThisUpdate.IsZero()) {
				t.Errorf("accepted with verdict %+v", v)
			}
		})
	}
}

func TestAnyChangeIsRefused(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	leaf := issue(t, "leaf", ca, nil, nil)
	valid := good(t, leaf.cert, ca.cert, ca, now, time.Time{})
	for i := range valid {
		changed := append([]byte(nil), valid...)
		changed[i] ^= 1
		if _, err := Verify(changed, leaf.cert, ca.cert, Policy{Freshness: time.Hour}, now); err == nil {
			t.Errorf("octet %d of %d changed, and the response is accepted", i, len(valid))
		}
	}
}

func TestFor(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	a, b := issue(t, "a", ca, nil, nil), issue(t, "b", ca, nil, nil)
	ofA, ofB := good(t, a.cert, ca.cert, ca, now, time.Time{}), good(t, b.cert, ca.cert, ca, now, time.Time{})
	later := good(t, b.cert, ca.cert, ca, now.Add(time.Second), time.Time{})
	all := [][]byte{[]byte("junk"), nil, ofA, ofB, later}
	if got := For(all, b.cert, ca.cert); string(got) != string(ofB) {
		t.Error("not the first response about b")
	}
	if got := For(all, ca.cert, ca.cert); got != nil {
		t.Error("a response about a certificate that none is about")
	}
}

func TestParametersOfSHA1(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	leaf := issue(t, "leaf", ca, nil, nil)
	want := idOf(leaf.cert, ca.cert)
	for _, c := range []struct {
		name       string
		parameters []byte
		equal      bool
	}{
		{"NULL", null, true},
		{"absent", nil, true},
		{"another", []byte{asn1.TagInteger, 1, 1}, false},
	} {
		id := want
		id.Algorithm.Parameters.FullBytes = c.parameters
		if id.equal(want) != c.equal {
			t.Errorf("parameters %s: equal is %v", c.name, !c.equal)
		}
	}
	sha256 := want
	sha256.Algorithm.Algorithm = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}
	if sha256.equal(want) {
		t.Error("an ID of SHA-256 is equal")
	}
}

func FuzzVerify(f *testing.F) {
	ca := issue(f, "CA", nil, nil, authority)
	leaf := issue(f, "leaf", ca, nil, nil)
	delegate := issue(f, "delegate", ca, nil, ocspSigning)
	f.Add(good(f, leaf.cert, ca.cert, ca, now, now))
	f.Add(good(f, leaf.cert, ca.cert, delegate, now, time.Time{}))
	f.Add(revoked(f, leaf.cert, ca.cert, ca))
	f.Add(unknown(f, leaf.cert, ca.cert, delegate))
	f.Fuzz(func(t *testing.T, der []byte) {
		For([][]byte{der}, leaf.cert, ca.cert)
		v, err := Verify(der, leaf.cert, ca.cert, Policy{Freshness: time.Hour}, now)
		if err == nil && (v.Responder == nil || !v.ThisUpdate.Equal(now)) {
			t.Errorf("accepted: %x", der)
		}
	})
}

const vectors = "../../../shared/vectors/xroad"

// vector reads a file of the vectors, or skips.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectorCert(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(vector(t, name))
	if block == nil {
		t.Fatalf("%s holds no PEM", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestVectorCasesAttack18 are the cases that X-Road makes at run time: subject user_0, issuer and responder root_ca, which is
// not configured as a responder.
func TestVectorCasesAttack18(t *testing.T) {
	subject, issuer := vectorCert(t, "certs/test_chain/user_0.pem"), vectorCert(t, "certs/test_chain/root_ca.pem")
	block, _ := pem.Decode(vector(t, "certs/test_chain/root_ca.key"))
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	root := &pair{issuer, private.(crypto.Signer)}
	stranger := ca2testorg(t)
	const incorrect, status = "incorrect_validation_info", "cert_validation"
	aboutSigner := good(t, issuer, issuer, root, now, time.Time{})

	for _, c := range []struct {
		name         string
		response     []byte
		cert, issuer *x509.Certificate
		skip         bool
		cause        string
	}{
		{"good, a day ahead", good(t, subject, issuer, root, now.Add(24*time.Hour), time.Time{}), subject, issuer, false, ""},
		{"issuer replaced by subject", good(t, subject, issuer, root, now, time.Time{}), subject, subject, false, incorrect},
		{"subject replaced by issuer", good(t, subject, issuer, root, now, time.Time{}), issuer, issuer, false, incorrect},
		{"asked for issuer and signer", aboutSigner, issuer, stranger.cert, false, incorrect},
		{"signed by ca2testorg", good(t, subject, issuer, stranger, now, time.Time{}), subject, issuer, false, incorrect},
		{"next update now, update in 12 s", good(t, subject, issuer, root, now.Add(12*time.Second), now.Add(-time.Second)), subject, issuer, false, incorrect},
		{"next update 12 s ago", good(t, subject, issuer, root, now, now.Add(-12*time.Second)), subject, issuer, false, incorrect},
		{"next update 12 s ago, check off", good(t, subject, issuer, root, now, now.Add(-12*time.Second)), subject, issuer, true, ""},
		{"revoked", revoked(t, subject, issuer, root), subject, issuer, false, status},
		{"unknown", unknown(t, subject, issuer, root), subject, issuer, false, status},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Verify(c.response, c.cert, c.issuer, Policy{Freshness: time.Hour, SkipNextUpdate: c.skip}, now)
			if causeOf(err) != c.cause {
				t.Errorf("got %v, want cause %q", err, c.cause)
			}
		})
	}
}

// ca2testorg opens a PKCS#12 file in BER, which openssl has to read for us.
func ca2testorg(t *testing.T) *pair {
	t.Helper()
	vector(t, "certs/ca2testorg.p12")
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	out, err := exec.Command("openssl", "pkcs12", "-legacy", "-nodes", "-passin", "pass:test",
		"-in", filepath.Join(vectors, "certs/ca2testorg.p12")).Output()
	if err != nil {
		t.Fatal(err)
	}
	p := new(pair)
	for block, rest := pem.Decode(out); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" && p.cert == nil {
			p.cert, err = x509.ParseCertificate(block.Bytes)
		} else if block.Type == "PRIVATE KEY" {
			var key any
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
			p.key = key.(crypto.Signer)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestVectorResponse(t *testing.T) {
	r, err := parse(vector(t, "ocsp/test.ocsp"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.status.good || r.key == nil || r.single.ThisUpdate.Format(time.DateOnly) != "2013-02-07" {
		t.Errorf("got status %+v, key %x, update %v", r.status, r.key, r.single.ThisUpdate)
	}
}

func TestResponderNameTurnedAround(t *testing.T) {
	ca := issue(t, "CA", nil, nil, authority)
	name := pkix.Name{Country: []string{"EE"}, Organization: []string{"O"}, CommonName: "responder"}
	responder := issue(t, "", ca, nil, func(c *x509.Certificate) { ocspSigning(c); c.Subject = name })
	turned := name.ToRDNSequence()
	for i := range len(turned) / 2 {
		turned[i], turned[len(turned)-1-i] = turned[len(turned)-1-i], turned[i]
	}
	der, err := asn1.Marshal(turned)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name []byte
		is   bool
	}{{der, true}, {responder.cert.RawSubject, true}, {ca.cert.RawSubject, false}, {nil, false}, {[]byte{1}, false}} {
		if got := (&response{name: c.name}).by(responder.cert); got != c.is {
			t.Errorf("name %x: %v", c.name, got)
		}
	}
}
