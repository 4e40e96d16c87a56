// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		key           string
		present, past string // words
	}{
		{"RSA-2048", "", ""},
		{"P-256", "", ""},
		{"P-384", "", ""},
		{"RSA-1024", "1024 bits", ""},
		{"P-224", "224 bits", "224 bits"},
	} {
		t.Run(test.key, func(t *testing.T) {
			a := newAuthority(t, test.key, nil)
			token := parsed(t, a.token(t, "data", now).Raw)
			if !token.GenTime.Equal(now) || token.Digest != crypto.SHA512 || token.Serial.Int64() != 42 || !token.Policy.Equal(policy) || token.Nonce != nil {
				t.Error(show(token))
			}
			for era, words := range []string{test.present, test.past} {
				want := ""
				if words != "" {
					want = signerFailed
				}
				c, err := token.Verify([]byte("data"), a.certs(), Era(era))
				mustBe(t, err, want, words)
				if err == nil && !c.Equal(a.cert) {
					t.Errorf("it is by %s", c.Subject)
				}
			}
		})
	}
}

func TestMethods(t *testing.T) {
	a := newAuthority(t, "RSA-2048", nil)
	for _, test := range []struct {
		name          string
		made          made
		present, past string
	}{
		{"SHA-256", made{content: sha256Method, method: sha256Method}, "", ""},
		{"SHA-384", made{content: sha384Method, method: sha384Method}, "", ""},
		{"SHA-1 for the imprint", made{content: sha1Method}, signerFailed, ""},
		{"SHA-1 for the signature", made{method: sha1Method}, signerFailed, ""},
		{"RSA by its old name", made{signer: func(s *signerInfo) { s.Algorithm.Algorithm = rsaEncryption }}, "", ""},
		{"no parameters", made{signer: func(s *signerInfo) { s.Algorithm.Parameters = asn1.RawValue{} }}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := parsed(t, a.make(t, "data", now, test.made))
			_, err := token.Verify([]byte("data"), a.certs(), Present)
			mustBe(t, err, test.present, "SHA-1")
			_, err = token.Verify([]byte("data"), a.certs(), Past)
			mustBe(t, err, test.past, "")
		})
	}
}

// TestAttack28 has time-stamps by authorities that are not approved, over other data, and dated again.
func TestAttack28(t *testing.T) {
	own := newAuthority(t, "P-256", nil)
	foreign := newAuthority(t, "P-256", func(c *x509.Certificate) { c.Subject.CommonName = "authority of another instance" })
	impostor := newAuthority(t, "P-384", nil) // says that it is the own authority
	approvedOnes := own.certs()

	verify := func(ber []byte, data string) error {
		_, err := parsed(t, ber).Verify([]byte(data), approvedOnes, Present)
		return err
	}
	mustBe(t, verify(own.token(t, "data", now).Raw, "data"), "", "")
	mustBe(t, verify(own.token(t, "data", now).Raw, "other data"), malformed, "hashes do not match")
	mustBe(t, verify(foreign.token(t, "data", now).Raw, "data"), certificateMissing, "authority of another instance")
	mustBe(t, verify(impostor.token(t, "data", now).Raw, "data"), signerFailed, "")

	enclosed, err := foreign.token(t, "data", now).with(foreign.cert)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, verify(enclosed.Raw, "data"), certificateMissing, "") // what is enclosed is not trusted

	token := own.token(t, "data", now).Raw
	dated := bytes.Replace(token, []byte("20260301120000Z"), []byte("20260301120001Z"), 1)
	mustBe(t, verify(dated, "data"), signerFailed, "something else than what was signed")

	// The digest of what it says put right, and nothing left that the signature is over.
	again := own.token(t, "data", now.Add(time.Second))
	attributes := bytes.Replace(dated, own.token(t, "data", now).messageDigest, again.messageDigest, 1)
	mustBe(t, verify(attributes, "data"), signerFailed, "")

	stamped := own.token(t, "data", now)
	moved := bytes.Replace(token, stamped.Sum, crypto.SHA512.Sum([]byte("other data")), 1)
	mustBe(t, verify(moved, "other data"), signerFailed, "something else than what was signed")
}

// TestAttack15 exchanges the certificate of an authority for another with the same key, issuer and serial number.
func TestAttack15(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	other := newAuthority(t, "P-256", func(c *x509.Certificate) { c.NotAfter = c.NotAfter.AddDate(10, 0, 0) })
	if !bytes.Equal(a.cert.RawSubjectPublicKeyInfo, other.cert.RawSubjectPublicKeyInfo) {
		t.Fatal("the keys differ")
	}
	_, err := a.token(t, "data", now).Verify([]byte("data"), other.certs(), Present)
	mustBe(t, err, signerFailed, "about another certificate")

	// Where both are approved, it is found which one it is.
	c, err := a.token(t, "data", now).Verify([]byte("data"), []*x509.Certificate{other.cert, a.cert}, Present)
	mustBe(t, err, "", "")
	if err == nil && !c.Equal(a.cert) {
		t.Error("the other one")
	}
}

// TestCertificates has the stricter rules for the certificate of an authority.
func TestCertificates(t *testing.T) {
	purpose := func(of ...asn1.ObjectIdentifier) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.ExtraExtensions = nil
			if len(of) > 0 {
				c.ExtraExtensions = []pkix.Extension{extendedKeyUsage(t, of...)}
			}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*x509.Certificate)
		at     time.Time
		words  string
	}{
		{"good", nil, now, ""},
		{"from the first second", nil, now.Add(-time.Hour), ""},
		{"to the last", nil, now.Add(time.Hour), ""},
		{"before it was valid", nil, now.Add(-time.Hour - time.Second), "was not at 2026-03-01T10:59:59Z"},
		{"after it was valid", nil, now.Add(time.Hour + time.Second), "was not at 2026-03-01T13:00:01Z"},
		{"no purpose stated", purpose(), now, ""},
		{"for another purpose", purpose(serverAuth), now, "extended key usage"},
		{"for any purpose", purpose(anyPurpose), now, "extended key usage"},
		{"for an unknown purpose", purpose(asn1.ObjectIdentifier{2, 999, 5}), now, "extended key usage"},
		{"for this and another purpose", purpose(serverAuth, timeStamping), now, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAuthority(t, "P-256", test.change)
			want := ""
			if test.words != "" {
				want = signerFailed
			}
			_, err := a.token(t, "data", test.at).Verify([]byte("data"), a.certs(), Present)
			mustBe(t, err, want, test.words)
			_, err = a.token(t, "data", test.at).Verify([]byte("data"), a.certs(), Past)
			mustBe(t, err, want, test.words)
		})
	}
}

// TestForms has what other authorities write, signed as it stands.
func TestForms(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	issuer := func(name []byte) asn1.RawValue {
		return asn1.RawValue{FullBytes: marshal(t, []asn1.RawValue{tagged(4, name)})}
	}
	certs := func(v2 bool, ids ...certID) func([]attribute) []attribute {
		return func(all []attribute) []attribute {
			id := signingCertificateOID
			if v2 {
				id = signingCertificateV2OID
			}
			return append(without(all, signingCertificateV2OID), value(t, id, signingCertificate{Certs: ids}))
		}
	}
	add := func(more ...attribute) func([]attribute) []attribute {
		return func(all []attribute) []attribute { return append(all, more...) }
	}
	drop := func(id asn1.ObjectIdentifier, more ...attribute) func([]attribute) []attribute {
		return func(all []attribute) []attribute { return append(without(all, id), more...) }
	}
	sum1, sum256, sum512 := sha1Method.sum(a.cert.Raw), sha256Method.sum(a.cert.Raw), sha512Method.sum(a.cert.Raw)
	keyID := asn1.RawValue{Class: asn1.ClassContextSpecific, Bytes: a.cert.SubjectKeyId}
	names := issuerAndSerial{issuer(a.cert.RawIssuer), a.cert.SerialNumber}
	content := func(change func(*tstInfo)) made { return made{info: change} }
	at := func(text string) made {
		return content(func(i *tstInfo) { i.GenTime = asn1.RawValue{Tag: asn1.TagGeneralizedTime, Bytes: []byte(text)} })
	}

	for _, test := range []struct {
		name  string
		made  made
		want  string
		words string
	}{
		{"plain", made{}, "", ""},
		{"key identifier", made{signer: func(s *signerInfo) { s.ID = keyID }}, "", ""},
		{"another key identifier", made{signer: func(s *signerInfo) { s.ID = keyID; s.ID.Bytes = []byte("other") }}, certificateMissing, "the key 80056f74686572"},
		{"no key identifier", made{signer: func(s *signerInfo) { s.ID = keyID; s.ID.Bytes = nil }}, certificateMissing, ""},
		{"another serial number", made{signer: func(s *signerInfo) {
			s.ID.FullBytes = marshal(t, issuerAndSerial{asn1.RawValue{FullBytes: a.cert.RawIssuer}, big.NewInt(8)})
		}}, certificateMissing, `serial number 08 issued by "CN=authority"`},

		{"version 1", made{attributes: certs(false, certID{Sum: sum1})}, "", ""},
		{"version 1 with issuer and serial", made{attributes: certs(false, certID{Sum: sum1, Names: names})}, "", ""},
		{"version 1 of another", made{attributes: certs(false, certID{Sum: sum256[:20]})}, signerFailed, "another certificate"},
		{"version 1 with a method", made{attributes: certs(false, certID{Digest: sha256Method.identifier(), Sum: sum256})}, malformed, "version 1"},
		{"version 2 with issuer and serial", made{attributes: certs(true, certID{Sum: sum256, Names: names})}, "", ""},
		{"version 2 with SHA-512", made{attributes: certs(true, certID{Digest: sha512Method.identifier(), Sum: sum512})}, "", ""},
		{"version 2 with an unknown method", made{attributes: certs(true, certID{Digest: pkix.AlgorithmIdentifier{Algorithm: policy}, Sum: sum512})}, signerFailed, "2.999.1"},
		{"version 2 and the chain", made{attributes: certs(true, certID{Sum: sum256}, certID{Sum: sum512[:32]})}, "", ""},
		{"version 2 of another first", made{attributes: certs(true, certID{Sum: sum512[:32]}, certID{Sum: sum256})}, signerFailed, "another certificate"},
		{"another issuer", made{attributes: certs(true, certID{Sum: sum256, Names: issuerAndSerial{issuer(marshal(t, pkix.RDNSequence{})), a.cert.SerialNumber}})}, signerFailed, "another issuer"},
		{"another serial", made{attributes: certs(true, certID{Sum: sum256, Names: issuerAndSerial{names.Issuer, big.NewInt(8)}})}, signerFailed, "another issuer or serial"},
		{"names no certificate", made{attributes: certs(true)}, malformed, "names none"},
		{"both versions", made{attributes: add(value(t, signingCertificateOID, signingCertificate{Certs: []certID{{Sum: sum1}}}))}, "", ""},
		{"both versions, one of another", made{attributes: add(value(t, signingCertificateOID, signingCertificate{Certs: []certID{{Sum: sum512[:20]}}}))}, signerFailed, "another certificate"},
		{"no signing certificate", made{attributes: drop(signingCertificateV2OID)}, malformed, "no signing certificate attribute"},

		{"signing time", made{attributes: add(value(t, signingTimeOID, now.Add(time.Minute)))}, "", ""},
		{"signing time after the certificate", made{attributes: add(value(t, signingTimeOID, now.AddDate(1, 0, 0)))}, signerFailed, "was not at 2027"},
		{"signing time before the certificate", made{attributes: add(value(t, signingTimeOID, now.AddDate(-1, 0, 0)))}, signerFailed, "was not at 2025"},
		{"no signing time", made{attributes: add(value(t, signingTimeOID, "noon"))}, malformed, "signing time"},
		{"two signing times", made{attributes: add(value(t, signingTimeOID, now, now.Add(time.Second)))}, malformed, "more or less than one value"},
		{"an unknown attribute", made{attributes: add(value(t, policy, "text"))}, "", ""},
		{"an attribute twice", made{attributes: add(value(t, policy, "text"), value(t, policy, "word"))}, malformed, "more or less than one value"},
		{"no content type", made{attributes: drop(contentTypeOID)}, malformed, "content type"},
		{"another content type", made{attributes: drop(contentTypeOID, value(t, contentTypeOID, signedDataOID))}, malformed, "content type"},
		{"no message digest", made{attributes: drop(messageDigestOID)}, malformed, "message digest"},
		{"another message digest", made{attributes: drop(messageDigestOID, value(t, messageDigestOID, sum512))}, signerFailed, "what was signed"},
		{"many attributes", made{attributes: func(all []attribute) []attribute {
			for i := range maxAttributes {
				all = append(all, value(t, append(slices.Clone(policy), i), "text"))
			}
			return all
		}}, malformed, "35 signed attributes"},
		{"attributes out of order", made{signer: func(s *signerInfo) {
			var all []attribute
			if err := exact(append([]byte{0x31}, s.Attributes.FullBytes[1:]...), &all, "set"); err != nil {
				t.Fatal(err)
			}
			slices.Reverse(all)
			octets := marshal(t, all)
			s.Attributes.FullBytes = append([]byte{0xa0}, octets[1:]...)
		}}, malformed, "exact DER"},

		{"a fraction of a second", at("20260301120000.25Z"), "", ""},
		{"a time with an offset", at("20260301120000+0000"), malformed, "no time"},
		{"a fraction with a zero too many", at("20260301120000.250Z"), malformed, ""},
		{"a time without seconds", at("202603011200Z"), malformed, ""},
		{"another kind of time", content(func(i *tstInfo) { i.GenTime = asn1.RawValue{Tag: asn1.TagUTCTime, Bytes: []byte("260301120000Z")} }), malformed, "no time"},
		{"all that may be there", content(func(i *tstInfo) {
			i.Accuracy.Raw = marshal(t, []int{0})
			i.Ordering = true
			i.Nonce = big.NewInt(-5)
			i.TSA = tagged(0, marshal(t, tagged(4, a.cert.RawSubject)))
			i.Extensions = []pkix.Extension{{Id: policy, Value: []byte{1}}}
		}), "", ""},
		{"a critical extension", content(func(i *tstInfo) { i.Extensions = []pkix.Extension{{Id: policy, Critical: true, Value: []byte{1}}} }), malformed, "critical extension"},
		{"another version", content(func(i *tstInfo) { i.Version = 2 }), malformed, "version 2"},
		{"an unknown digest method", content(func(i *tstInfo) { i.Imprint.Digest.Algorithm = policy }), malformed, "2.999.1"},
		{"a digest method with parameters", content(func(i *tstInfo) { i.Imprint.Digest.Parameters = asn1.RawValue{FullBytes: []byte{4, 0}} }), malformed, "not accepted"},
		{"a short imprint", content(func(i *tstInfo) { i.Imprint.Sum = i.Imprint.Sum[1:] }), malformed, "63 octets"},

		{"an enclosed certificate", made{data: func(d *signedData) { d.Certificates = tagged(0, a.cert.Raw) }}, "", ""},
		{"a revocation list", made{data: func(d *signedData) { d.Revocations = tagged(1, nil) }}, "", ""},
		{"unsigned attributes", made{signer: func(s *signerInfo) { s.Unsigned = tagged(1, marshal(t, value(t, policy, "text"))) }}, "", ""},
		{"nobody signed it", made{data: func(d *signedData) { d.Signers = nil }}, signerMissing, ""},
		{"two signed it", made{data: func(d *signedData) { d.Signers = append(d.Signers, d.Signers[0]) }}, malformed, "2 signed it"},
		{"of another content", made{data: func(d *signedData) { d.Content.Type = signedDataOID }}, malformed, "another kind"},
		{"of another type", made{outer: func(c *contentInfo) { c.Type = tstInfoOID }}, malformed, "another kind"},
		{"another signature", made{signer: func(s *signerInfo) { s.Signature[10] ^= 1 }}, signerFailed, ""},
		{"no signature", made{signer: func(s *signerInfo) { s.Signature = nil }}, signerFailed, ""},
		{"an unknown signature algorithm", made{signer: func(s *signerInfo) { s.Algorithm.Algorithm = policy }}, malformed, "2.999.1"},
		{"the signature algorithm of another key", made{signer: func(s *signerInfo) { s.Algorithm.Algorithm = sha512Method.rsaID }}, signerFailed, ""},
		{"the signature algorithm of another digest", made{signer: func(s *signerInfo) { s.Algorithm.Algorithm = sha256Method.ecdsaID }}, malformed, "with digest method"},
		{"a signature algorithm with parameters", made{signer: func(s *signerInfo) { s.Algorithm.Parameters = asn1.RawValue{FullBytes: []byte{4, 0}} }}, malformed, "not accepted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			der := a.make(t, "data", now, test.made)
			for form, ber := range map[string][]byte{"DER": der, "BER": indefinite(t, der)} {
				token, err := ParseToken(ber)
				if err == nil {
					if !bytes.Equal(token.Raw, der) {
						t.Errorf("%s is kept as %x, not %x", form, token.Raw, der)
					}
					_, err = token.Verify([]byte("data"), a.certs(), Present)
				}
				mustBe(t, err, test.want, test.words)
			}
		})
	}
}

// TestNotTokens has octets that are none, and tokens that are not DER in other ways than are taken.
func TestNotTokens(t *testing.T) {
	der := newAuthority(t, "P-256", nil).make(t, "data", now, made{})
	ber := indefinite(t, der)
	for _, test := range []struct {
		name  string
		token []byte
		words string
	}{
		{"nothing", nil, ""},
		{"text", []byte("no token"), ""},
		{"NULL", []byte{5, 0}, ""},
		{"cut off", der[:len(der)-1], ""},
		{"something after it", append(slices.Clone(der), 0), "something comes after it"},
		{"BER that has no end", ber[:len(ber)-2], ""},
		{"BER with something after it", append(slices.Clone(ber), 5, 0), "something comes after it"},
		{"BER with an end too many", append(slices.Clone(ber), 0, 0), "something comes after it"},
		{"length with a leading zero", append([]byte{0x30, 0x83, 0}, der[2:]...), ""},
		{"a text in pieces", []byte{0x2c, 0x80, 0x0c, 1, 'a', 0, 0}, ""},
		{"a number in pieces among octets", []byte{0x24, 0x80, 2, 1, 1, 0, 0}, ""},
		{"deep", append(bytes.Repeat([]byte{0x30, 0x80}, 40), make([]byte, 80)...), "too deep"},
		{"deep without end", bytes.Repeat([]byte{0x30, 0x80}, maxToken/2), "too deep"},
		{"long", make([]byte, maxToken+1), "at most"},
		{"large tag", []byte{0x3f, 0x80, 0, 0, 0}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseToken(test.token)
			mustBe(t, err, malformed, test.words)
		})
	}
}

// TestMessagesStayShort gives tokens that would like to fill a log.
func TestMessagesStayShort(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	huge := new(big.Int).Lsh(big.NewInt(1), 100_000)
	name := marshal(t, pkix.Name{CommonName: strings.Repeat("x", 10_000)}.ToRDNSequence())
	token := parsed(t, a.make(t, "data", now, made{
		info: func(i *tstInfo) { i.Serial, i.Nonce = huge, huge },
		signer: func(s *signerInfo) {
			s.ID.FullBytes = marshal(t, issuerAndSerial{asn1.RawValue{FullBytes: name}, huge})
		},
	}))
	_, err := token.Verify([]byte("data"), a.certs(), Present)
	mustBe(t, err, certificateMissing, "a signer identifier of 2")
	if len(err.Error()) > 1000 {
		t.Errorf("%d octets", len(err.Error()))
	}
}

// TestWith puts the certificate of an authority in front of those of a token.
func TestWith(t *testing.T) {
	a, other := newAuthority(t, "P-256", nil), newAuthority(t, "P-384", nil)
	for _, test := range []struct {
		name      string
		has, want []byte
	}{
		{"none", nil, a.cert.Raw},
		{"its own", a.cert.Raw, a.cert.Raw},
		{"another", other.cert.Raw, slices.Concat(a.cert.Raw, other.cert.Raw)},
		{"another and its own", slices.Concat(other.cert.Raw, a.cert.Raw), slices.Concat(a.cert.Raw, other.cert.Raw)},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := parsed(t, a.make(t, "data", now, made{data: func(d *signedData) {
				if test.has != nil {
					d.Certificates = tagged(0, test.has)
				}
			}}))
			token, err := before.with(a.cert)
			if err != nil {
				t.Fatal(err)
			}
			var info contentInfo
			if err := exact(token.Raw, &info, ""); err != nil || !bytes.Equal(info.Data.Certificates.Bytes, test.want) {
				t.Errorf("it has %x, %v", info.Data.Certificates.Bytes, err)
			}
			_, err = token.Verify([]byte("data"), a.certs(), Present)
			mustBe(t, err, "", "")
		})
	}
}
