// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"archive/zip"
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	xcrypto "github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

func TestVerifySignAttack16And17And18And19(t *testing.T) {
	w := newWorld(t)
	stranger := issue(t, named("CA"), nil, certifying)
	mallory := ident.Client{Instance: "DEV", Class: "GOV", Member: "6666"}
	make := func(p *pair, responder *pair, at time.Time) [][]byte {
		return [][]byte{good(t, p, w.ca, responder, at)}
	}
	of := func(m ident.Client, issuer *pair, change func(*x509.Certificate)) *pair {
		return issue(t, subjectOf(m, "ss1"), issuer, change)
	}
	both := of(alice, w.ca, func(c *x509.Certificate) { authentication(c); c.KeyUsage |= x509.KeyUsageContentCommitment })
	revoked, _ := ocsp.Respond(w.sign.Certificate, w.ca.Certificate, w.ca.Certificate, w.ca.key, now, time.Time{}, now.Add(-time.Hour))
	other := of(alice, w.ca, signing)
	wrapped := of(alice, issue(t, named("sub CA"), w.ca, certifying), signing)

	for _, c := range []struct {
		name   string
		cert   *pair
		ocsp   [][]byte
		client ident.Client
		at     time.Time
		cause  string
		words  string
	}{
		{"member", w.sign, make(w.sign, w.ca, now), alice, now, "", ""},
		{"subsystem", w.sign, make(w.sign, w.ca, now), app, now, "", ""},
		{"configured responder", w.sign, make(w.sign, w.responder, now), alice, now, "", ""},
		{"for both uses", both, make(both, w.ca, now), alice, now, "", ""},
		{"the response is the last of many", w.sign, append(make(other, w.ca, now), nil, []byte("x"), good(t, w.sign, w.ca, w.ca, now)), alice, now, "", ""},

		{"attack 16: another member", w.sign, make(w.sign, w.ca, now), bob, now, "incorrect_certificate", "is that of member DEV/GOV/1111"},
		{"attack 16: another class", w.sign, make(w.sign, w.ca, now), ident.Client{Instance: "DEV", Class: "COM", Member: "1111"}, now, "incorrect_certificate", ""},
		{"attack 16: another case", w.sign, make(w.sign, w.ca, now), ident.Client{Instance: "DEV", Class: "gov", Member: "1111"}, now, "incorrect_certificate", ""},
		{"attack 16: white space", w.sign, make(w.sign, w.ca, now), ident.Client{Instance: "DEV", Class: "GOV", Member: "1111 "}, now, "incorrect_certificate", ""},
		{"attack 16: a member that is not there", of(mallory, w.ca, signing), nil, alice, now, "incorrect_certificate", ""},
		{"attack 16: a foreign CA of the same name", of(alice, stranger, signing), nil, alice, now, "cannot_create_cert_path", ""},
		{"attack 16: a foreign CA", of(alice, issue(t, named("other"), nil, certifying), signing), nil, alice, now, "internal_error", "no approved CA"},
		{"attack 16: a CA below an approved one", wrapped, make(wrapped, w.ca, now), alice, now, "internal_error", "no approved CA"},
		{"attack 16: self-signed", of(alice, nil, signing), nil, alice, now, "internal_error", "no approved CA"},
		{"attack 16: a CA for authentication only", of(alice, w.only, signing), nil, alice, now, invalidPath, "authentication only"},
		{"another instance", w.sign, make(w.sign, w.ca, now), ident.Client{Instance: "EE", Class: "GOV", Member: "1111"}, now, "internal_error", "nothing is known"},

		{"attack 17: an authentication certificate", of(alice, w.ca, authentication), nil, alice, now, "malformed_signature", "not for signing"},
		{"attack 17: no key usage", of(alice, w.ca, nil), nil, alice, now, "malformed_signature", ""},

		{"attack 18: no response", w.sign, nil, alice, now, "invalid_cert_path.cert_validation", "no OCSP response"},
		{"attack 18: a response about another", w.sign, make(other, w.ca, now), alice, now, "invalid_cert_path.cert_validation", "no OCSP response"},
		{"attack 18: self-made", w.sign, make(w.sign, w.sign, now), alice, now, "invalid_cert_path.incorrect_validation_info", "may not sign OCSP"},
		{"attack 18: by a CA of the same name", w.sign, make(w.sign, stranger, now), alice, now, "invalid_cert_path.incorrect_validation_info", ""},
		{"attack 18: a minute too old", w.sign, make(w.sign, w.ca, now), alice, now.Add(time.Hour + time.Minute), "invalid_cert_path.incorrect_validation_info", "1h1m0s old"},
		{"old, but not too old", w.sign, make(w.sign, w.ca, now), alice, now.Add(time.Hour), "", ""},
		{"attack 18: revoked", w.sign, [][]byte{revoked}, alice, now, "invalid_cert_path.cert_validation", "revoked since"},
		{"attack 19: dated 6 minutes ahead", w.sign, make(w.sign, w.ca, now), alice, now.Add(-6 * time.Minute), "invalid_cert_path.incorrect_validation_info", "6m0s ahead"},
		{"dated 5 minutes ahead", w.sign, make(w.sign, w.ca, now), alice, now.Add(-5 * time.Minute), "", ""},

		{"expired", w.sign, make(w.sign, w.ca, w.sign.NotAfter), alice, w.sign.NotAfter.Add(time.Second), invalidPath, "has expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the second time with what was proved the first time
				check(t, w.store.VerifySign(c.cert.Certificate, nil, c.ocsp, c.client, c.at), c.cause, c.words)
			}
		})
	}
	if member, err := w.store.SignMember(w.sign.Certificate); member != alice || err != nil {
		t.Errorf("the member is %s, %v", member, err)
	}
	if _, err := w.store.SignMember(w.auth.Certificate); causes(err) != "incorrect_certificate" {
		t.Errorf("an authentication certificate names a member: %v", err)
	}
}

// TestAttack20 forges responses that resemble one whose signature was verified before.
func TestAttack20(t *testing.T) {
	w := newWorld(t)
	valid := good(t, w.sign, w.ca, w.ca, now)
	verify := func(der []byte, cert *pair) error {
		return w.store.VerifySign(cert.Certificate, nil, [][]byte{der}, alice, now)
	}
	for range 2 {
		if err := verify(valid, w.sign); err != nil {
			t.Fatal(err)
		}
	}
	for i := range valid {
		forged := bytes.Clone(valid)
		forged[i] ^= 0x10
		if verify(forged, w.sign) == nil {
			t.Errorf("octet %d of %d changed, and the response is accepted", i, len(valid))
		}
	}
	twin := issueFor(t, w.sign.Subject, w.ca, w.sign.key, signing)
	if verify(valid, twin) == nil {
		t.Error("the response about one certificate is accepted for another")
	}
}

func TestVerifyAuthAttack17And18And19(t *testing.T) {
	w := newWorld(t)
	answer := func(p, ca *pair) [][]byte { return [][]byte{good(t, p, ca, ca, now)} }
	unregistered := issue(t, named("ss1"), w.ca, authentication)
	signOnly := issue(t, named("x"), w.ca, signing)
	foreign := issue(t, named("x"), issue(t, named("other"), nil, certifying), authentication)
	forged := issue(t, named("x"), issue(t, named("CA"), nil, certifying), authentication)
	nothing := issue(t, named("x"), w.ca, nil)
	encipher := issue(t, named("x"), w.ca, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment })
	expired := issue(t, named("x"), w.ca, func(c *x509.Certificate) { authentication(c); c.NotAfter = now.Add(-time.Second) })
	for _, p := range []*pair{signOnly, foreign, forged, nothing, encipher, expired} {
		sum := sha256.Sum256(p.Raw)
		w.store.byHash[sum] = append(w.store.byHash[sum], w.store.servers[ss1])
	}
	revoked, _ := ocsp.Respond(w.auth.Certificate, w.ca.Certificate, w.ca.Certificate, w.ca.key, now, time.Time{}, now.Add(-time.Hour))
	const failed = "ssl_authentication_failed"

	for _, c := range []struct {
		name   string
		chain  []*pair
		ocsp   [][]byte
		client ident.Client
		at     time.Time
		cause  string
		words  string
	}{
		{"owner", []*pair{w.auth}, answer(w.auth, w.ca), alice, now, "", ""},
		{"client", []*pair{w.auth}, answer(w.auth, w.ca), app, now, "", ""},
		{"client, by a CA for authentication only", []*pair{w.auth2}, answer(w.auth2, w.only), app, now, "", ""},
		{"with the CA", []*pair{w.auth, w.ca}, answer(w.auth, w.ca), app, now, "", ""},
		{"only enciphers", []*pair{encipher}, answer(encipher, w.ca), app, now, "", ""},
		{"FR-92: not registered", []*pair{unregistered}, answer(unregistered, w.ca), alice, now, failed, "not registered"},
		{"FR-92: of a server of others", []*pair{w.auth}, answer(w.auth, w.ca), bob, now, failed, "does not serve DEV/COM/2222"},
		{"member, where only the subsystem is a client", []*pair{w.auth2}, answer(w.auth2, w.only), alice, now, failed, "does not serve"},
		{"FR-92: expired", []*pair{expired}, answer(expired, w.ca), app, now, failed + ".invalid_cert_path", "has expired"},
		{"FR-92: revoked", []*pair{w.auth}, [][]byte{revoked}, app, now, failed + ".invalid_cert_path.cert_validation", "revoked since"},
		{"FR-92: self-signed with the subject of the CA", []*pair{forged}, answer(forged, w.ca), app, now, failed + ".cannot_create_cert_path", ""},
		{"a CA that is not approved", []*pair{foreign}, nil, app, now, failed + ".cannot_create_cert_path.internal_error", "no approved CA"},
		{"attack 17: a signing certificate", []*pair{signOnly}, answer(signOnly, w.ca), app, now, failed, "not for authentication"},
		{"attack 17: no usage", []*pair{nothing}, answer(nothing, w.ca), app, now, failed, "not for authentication"},
		{"attack 18: no response", []*pair{w.auth}, nil, app, now, failed + ".invalid_cert_path.cert_validation", "no OCSP response"},
		{"FR-85: too old", []*pair{w.auth}, answer(w.auth, w.ca), app, now.Add(time.Hour + 500*time.Millisecond), failed + ".invalid_cert_path.incorrect_validation_info", "1h0m0.5s old"},
		{"attack 19: dated ahead", []*pair{w.auth}, answer(w.auth, w.ca), app, now.Add(-10 * time.Minute), failed + ".invalid_cert_path.incorrect_validation_info", "10m0s ahead"},
		{"another instance", []*pair{w.auth}, answer(w.auth, w.ca), ident.Client{Instance: "EE", Class: "GOV", Member: "1111"}, now, failed + ".internal_error", ""},
		{"nothing", nil, nil, app, now, failed, "no certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var chain []*x509.Certificate
			for _, p := range c.chain {
				chain = append(chain, p.Certificate)
			}
			for range 2 {
				check(t, w.store.VerifyAuth(chain, c.ocsp, c.client, c.at), c.cause, c.words)
			}
		})
	}
}

// TestCAsOfOneName has two approved CAs of one name, of which X-Road would know the last alone.
func TestCAsOfOneName(t *testing.T) {
	a, b := issue(t, named("CA"), nil, certifying), issue(t, named("CA"), nil, certifying)
	store, err := New(Parameters{Instance: "DEV", Freshness: time.Hour, CAs: []CA{
		{Profile: FiVRK, Authorities: []Authority{{Certificate: a.Certificate}}},
		{Profile: classes + "EjbcaCertificateProfileInfoProvider", Authorities: []Authority{{Certificate: b.Certificate}}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ofA := issue(t, subjectOf(alice, "ss1"), a, signing)
	if err := store.VerifySign(ofA.Certificate, nil, [][]byte{good(t, ofA, a, a, now)}, alice, now); err != nil {
		t.Error(err)
	}
	subject := subjectOf(alice, "ss1")
	subject.SerialNumber, subject.Country, subject.Organization = "", []string{"DEV"}, []string{"GOV"}
	ofB := issue(t, subject, b, signing)
	if err := store.VerifySign(ofB.Certificate, nil, [][]byte{good(t, ofB, b, b, now)}, alice, now); err != nil {
		t.Error(err)
	}
	if member, err := store.SignMember(ofB.Certificate); err != nil || member != alice {
		t.Errorf("%v, %v", member, err)
	}
	if err := store.VerifySign(ofB.Certificate, nil, [][]byte{good(t, ofB, a, a, now)}, alice, now); err == nil {
		t.Error("the OCSP response of the one CA is accepted for a certificate of the other")
	}
	// The profile is that of the CA that signed: the subject for A's profile, signed by B, names nobody.
	crossed := issue(t, subjectOf(alice, "ss1"), b, signing)
	if err := store.VerifySign(crossed.Certificate, nil, [][]byte{good(t, crossed, b, b, now)}, alice, now); causes(err) != "incorrect_certificate" {
		t.Errorf("got %v", err)
	}
}

// TestVectorSignatureAttack16And19 judges the signer of sign-0.xml as SignatureVerifierTest does: at a time before its OCSP response,
// with SHA-1, and with the profile stub of X-Road's tests.
func TestVectorSignatureAttack16And19(t *testing.T) {
	const stub = classes + "TestCertificateProfileInfoProvider"
	profiles[stub] = func(s *subject, caller string) ident.Client {
		return ident.Client{Instance: caller, Class: "BUSINESS", Member: s.must(commonName)}
	}
	defer delete(profiles, stub)
	cert, _, responses := signer(t, vector(t, "signatures/sign-0.xml"))
	p, err := ParseShared(vector(t, "globalconf/good_v4/EE/shared-params.xml"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := New(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2014, 10, 30, 0, 0, 0, 0, time.UTC)
	consumer := ident.Client{Instance: "EE", Class: "BUSINESS", Member: "consumer"}
	foorbar := ident.Client{Instance: "EE", Class: "BUSINESS", Member: "FOORBAR"}
	for _, c := range []struct {
		name   string
		client ident.Client
		era    era
		cause  string
		words  string
	}{
		{"as evidence of the past", consumer, era{sha1: true}, "", ""},
		{"attack 16: another signer", foorbar, era{sha1: true}, "incorrect_certificate", "FOORBAR"},
		{"attack 19: in a message, with SHA-1", consumer, era{sha1: true, ahead: messages.ahead}, "invalid_cert_path.incorrect_validation_info", "ahead"},
		{"in a message", consumer, messages, "invalid_cert_path", "SHA-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, store.(*instance).verifySign(cert, nil, responses, c.client, at, c.era), c.cause, c.words)
		})
	}
	none, _, without := signer(t, vector(t, "signatures/sign-0-ocsp-no-responses.xml"))
	err = store.(*instance).verifySign(none, nil, without, consumer, at, era{sha1: true})
	check(t, err, "invalid_cert_path.cert_validation", "among 0")
}

// signer takes the certificates and OCSP responses out of a signature document.
func signer(t *testing.T, doc []byte) (cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte) {
	t.Helper()
	decode := func(element string) (all [][]byte) {
		for _, m := range regexp.MustCompile(`(?s)<(?:\w+:)?`+element+`[ >][^<]*`).FindAllString(string(doc), -1) {
			text := strings.Join(strings.Fields(strings.ReplaceAll(m[strings.Index(m, ">")+1:], "&#13;", "")), "")
			der, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, der)
		}
		return all
	}
	for i, der := range append(decode("X509Certificate"), decode("EncapsulatedX509Certificate")...) {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			cert = c
		} else {
			extra = append(extra, c)
		}
	}
	return cert, extra, decode("EncapsulatedOCSPValue")
}

// TestVectorContainers judges the signers of the containers, a minute after their OCSP responses, as in a message.
func TestVectorContainers(t *testing.T) {
	vector(t, "asic/valid-signed-message.asice")
	store, err := OpenStatic(filepath.Join(vectors, "globalconf/good2_v3/DEV/shared-params.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"asic/valid-signed-message.asice":                       "DEV/COM/4321",
		"asic/valid-signed-hashchain.asice":                     "DEV/COM/4321",
		"asic/valid-batch-ts.asice":                             "DEV/COM/4321",
		"asic/valid-non-batch-rest.asice":                       "DEV/COM/1234",
		"asic/read/valid-signed-message-with-attachments.asice": "DEV/COM/4321",
	} {
		t.Run(name, func(t *testing.T) {
			data := vector(t, name)
			archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			f, err := archive.Open("META-INF/signatures.xml")
			if err != nil {
				t.Fatal(err)
			}
			doc, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			cert, extra, responses := signer(t, doc)
			member, err := store.SignMember(cert)
			if err != nil || member.String() != want {
				t.Fatalf("signed by %s, %v; want %s", member, err, want)
			}
			verdict, err := ocsp.Authenticate(responses[0], cert, caOf(store, cert), store.(*instance).policy(caOf(store, cert), messages))
			if err != nil {
				t.Fatal(err)
			}
			if err := store.VerifySign(cert, extra, responses, member, verdict.ThisUpdate.Add(time.Minute)); err != nil {
				t.Error(err)
			}
			err = store.VerifySign(cert, extra, responses, member, verdict.ThisUpdate.Add(2*time.Hour))
			check(t, err, "invalid_cert_path.incorrect_validation_info", "2h0m0s old")
		})
	}
}

// TestVectorSoftToken judges the certificates of softtoken with fresh responses of testca, by the stored V6 parameters.
func TestVectorSoftToken(t *testing.T) {
	doc := vector(t, "softtoken/keyconf.xml")
	store, err := OpenStatic(filepath.Join(vectors, "globalconf-download/server/V6/20251110170000548026000/shared-params.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var certs []*x509.Certificate
	for _, m := range regexp.MustCompile(`<contents>([^<]*)<`).FindAllSubmatch(doc, -1) {
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(m[1])), ""))
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, c)
	}
	block, _ := pem.Decode(vector(t, "testca/ocsp.key.pem"))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	ca, responder := vectorCert(t, "testca/ca.cert"), vectorCert(t, "testca/ocsp.cert")
	answer := func(c *x509.Certificate) [][]byte {
		der, err := ocsp.Respond(c, ca, responder, key.(crypto.Signer), now, time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{der}
	}
	member := ident.Client{Instance: "DEV", Class: "COM", Member: "1234"}
	service := ident.Client{Instance: "DEV", Class: "COM", Member: "1234", Subsystem: "TestService"}
	other := ident.Client{Instance: "DEV", Class: "COM", Member: "4321"}
	client := ident.Client{Instance: "DEV", Class: "COM", Member: "4321", Subsystem: "TestClient"}
	auth, sign, signOther := certs[0], certs[1], certs[2]

	server, err := store.ServerOf(auth)
	if err != nil || server.String() != "DEV/COM/1234/SS0" {
		t.Errorf("the authentication certificate is that of %s, %v", server, err)
	}
	check(t, store.VerifyAuth([]*x509.Certificate{auth}, answer(auth), service, now), "", "")
	check(t, store.VerifyAuth([]*x509.Certificate{auth}, answer(auth), client, now), "", "")
	check(t, store.VerifyAuth([]*x509.Certificate{auth}, answer(auth), other, now), authFailed, "does not serve")
	check(t, store.VerifySign(sign, nil, answer(sign), service, now), "", "")
	check(t, store.VerifySign(sign, nil, answer(sign), client, now), "incorrect_certificate", "is that of member DEV/COM/1234")
	check(t, store.VerifySign(signOther, nil, answer(signOther), other, now), "", "")
	check(t, store.VerifySign(auth, nil, answer(auth), member, now), "malformed_signature", "not for signing")
	check(t, store.VerifyAuth([]*x509.Certificate{sign}, answer(sign), member, now), authFailed, "not for authentication")
	if got := store.Extra(sign); len(got) != 0 {
		t.Errorf("%d certificates stand between", len(got))
	}
}

func caOf(s Store, cert *x509.Certificate) *x509.Certificate {
	return s.(*instance).authorities[string(cert.RawIssuer)][0].Certificate
}

// BenchmarkVerifySign judges a signer whose path and OCSP response were proved before: what is left is what depends on
// time and on the message.
func BenchmarkVerifySign(b *testing.B) {
	w := newWorld(b)
	responses := [][]byte{good(b, w.sign, w.ca, w.ca, now)}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.store.VerifySign(w.sign.Certificate, nil, responses, app, now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyAuth judges a security server as BenchmarkVerifySign does a signer.
func BenchmarkVerifyAuth(b *testing.B) {
	w := newWorld(b)
	chain, responses := []*x509.Certificate{w.auth.Certificate}, [][]byte{good(b, w.auth, w.ca, w.ca, now)}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.store.VerifyAuth(chain, responses, app, now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifyAuthAnew judges a security server of which nothing has been proved.
func BenchmarkVerifyAuthAnew(b *testing.B) {
	w := newWorld(b)
	chain, responses := []*x509.Certificate{w.auth.Certificate}, [][]byte{good(b, w.auth, w.ca, w.ca, now)}
	b.ReportAllocs()
	for b.Loop() {
		w.store.proved = new(xcrypto.Facts)
		if err := w.store.VerifyAuth(chain, responses, app, now); err != nil {
			b.Fatal(err)
		}
	}
}
