// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
)

func TestRoundTrip(t *testing.T) {
	for _, kind := range []string{"RSA-2048", "RSA-3072", "P-256", "P-384"} {
		for _, extra := range []int{0, 2} {
			s := signer(t, kind, extra)
			for _, test := range []struct {
				form        crypto.Form
				digest      crypto.Digest
				attachments int
				want        crypto.Form
			}{
				{crypto.Direct, crypto.SHA512, 0, crypto.Direct},
				{crypto.Direct, crypto.SHA512, 1, crypto.Direct},
				{crypto.Direct, crypto.SHA512, 2, crypto.Direct},
				{crypto.Direct, crypto.SHA512, 28, crypto.Direct},
				{crypto.Direct, crypto.SHA256, 0, crypto.Direct},
				{crypto.Direct, crypto.SHA256, 28, crypto.Direct},
				{crypto.Chain, crypto.SHA512, 0, crypto.Direct},
				{crypto.Chain, crypto.SHA512, 1, crypto.Chain},
				{crypto.Chain, crypto.SHA512, 29, crypto.Chain},
				{crypto.Chain, crypto.SHA512, 1000, crypto.Chain},
			} {
				t.Run(fmt.Sprint(kind, " ", extra, " extra ", test.form, " ", test.digest, " ", test.attachments), func(t *testing.T) {
					parts := attached(test.digest, test.attachments)
					sig := mustSign(t, s, parts, test.form)
					if sig.Form() != test.want {
						t.Errorf("form %s", sig.Form())
					}
					v, err := Verify(sig, parts)
					if err != nil {
						t.Fatal(err)
					}
					responses, _ := s.OCSP(context.Background())
					if !v.Certificate.Equal(s.Certificate) || !slices.EqualFunc(v.Extra, s.Extra, (*x509.Certificate).Equal) ||
						!slices.EqualFunc(v.OCSP, responses, bytes.Equal) || !v.SigningTime.Equal(s.Clock()) || v.Form != test.want {
						t.Errorf("verified %+v", v)
					}
					checkTemplate(t, sig.XML)
				})
			}
		}
	}
}

// checkTemplate checks what Sign knows beforehand about canonical forms, and the rules of 3.2 of layout.
func checkTemplate(t *testing.T, xml []byte) {
	t.Helper()
	root := parse(t, string(xml))
	for _, name := range []string{"SignedInfo", "SignedProperties"} {
		i := bytes.Index(xml, []byte(":"+name))
		i = bytes.LastIndexByte(xml[:i], '<')
		end := "</" + string(xml[i+1:i+bytes.IndexAny(xml[i:], " >")]) + ">"
		written := string(xml[i : i+bytes.Index(xml[i:], []byte(end))+len(end)])
		if got, want := canonical(written), canonicalForm(t, find(root, name), c14n.Inclusive); !bytes.Equal(got, want) {
			t.Errorf("canonical form of the template\n%s\nbut it is\n%s", got, want)
		}
	}
	if !bytes.Contains(xml, []byte(`XMLSchema-instance"><ds:Signature Id="signature">`)) {
		t.Error("white space before the signature")
	}
	if object := xml[bytes.Index(xml, []byte("<ds:Object>")):bytes.Index(xml, []byte("</ds:Object>"))]; bytes.ContainsAny(object, "\r\n\t") {
		t.Error("white space in ds:Object")
	}
	if bytes.HasSuffix(xml, []byte("\n")) || bytes.Contains(xml, []byte("\r")) || bytes.Contains(xml, []byte("\n\n")) {
		t.Error("stray line ends")
	}
}

func TestSignBatch(t *testing.T) {
	s := signer(t, "P-256", 1)
	var messages [][]crypto.Part
	for i := range 5 {
		messages = append(messages, message(crypto.SHA512, fmt.Sprint("<m>", i, "</m>")))
	}
	messages = append(messages, attached(crypto.SHA512, 2))
	signatures, err := s.SignBatch(context.Background(), messages)
	if err != nil || len(signatures) != len(messages) {
		t.Fatal(len(signatures), err)
	}
	for i, sig := range signatures {
		if v, err := Verify(sig, messages[i]); err != nil || v.Form != crypto.Chain {
			t.Errorf("message %d: %v", i, err)
		}
		if _, err := Verify(sig, messages[(i+1)%len(messages)]); err == nil {
			t.Errorf("signature %d is good for another message", i)
		}
		if !bytes.Equal(sig.XML, signatures[0].XML) || !bytes.Equal(sig.HashChainResult, signatures[0].HashChainResult) {
			t.Errorf("signature %d is another", i)
		}
	}
	one, err := s.SignBatch(context.Background(), messages[:1])
	if err != nil || len(one) != 1 || one[0].Form() != crypto.Direct {
		t.Errorf("a batch of one: %v, %v", one, err)
	}
	if none, err := s.SignBatch(context.Background(), nil); none != nil || err != nil {
		t.Errorf("an empty batch: %v, %v", none, err)
	}
	s.OCSP = func(context.Context) ([][]byte, error) { return nil, nil }
	for n := 1; n <= 2; n++ {
		if signatures, err := s.SignBatch(context.Background(), messages[:n]); signatures != nil || cause(err) != cannotCreate {
			t.Errorf("no OCSP response for a batch of %d: %v, %v", n, signatures, err)
		}
	}
	if _, err := s.SignBatch(context.Background(), [][]crypto.Part{messages[0], nil}); cause(err) != cannotCreate {
		t.Errorf("a message without parts: %v", err)
	}
}

// faulty is a key that answers with something else.
type faulty struct {
	stdcrypto.Signer
	sign func(sum []byte) ([]byte, error)
}

func (f faulty) Sign(_ io.Reader, sum []byte, _ stdcrypto.SignerOpts) ([]byte, error) {
	return f.sign(sum)
}

func TestSignRefuses(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	broken := errors.New("broken")
	der := func(r, s *big.Int) []byte {
		b, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	answer := func(octets []byte, err error) func(s *Signer) {
		return func(s *Signer) { s.Key = faulty{s.Key, func([]byte) ([]byte, error) { return octets, err }} }
	}
	key := func(kind string) func(s *Signer) {
		return func(s *Signer) { s.Key = keys[kind](); s.Certificate = certify(t, s.Key, nil) }
	}
	huge := new(big.Int).Lsh(big.NewInt(1), 256)
	for _, test := range []struct {
		name   string
		change func(s *Signer)
		is     error
	}{
		{"RSA-1024", key("RSA-1024"), nil},
		{"P-521", key("P-521"), nil},
		{"Ed25519", func(s *Signer) {
			_, s.Key, _ = ed25519.GenerateKey(rand.Reader)
			s.Certificate = certify(t, s.Key, nil)
		}, nil},
		{"certificate of another key", func(s *Signer) { s.Key = keys["P-384"]() }, nil},
		{"certificate of another kind of key", func(s *Signer) { s.Key = keys["RSA-2048"]() }, nil},
		{"certificate not for signing", func(s *Signer) {
			s.Certificate = certify(t, s.Key, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature })
		}, errNonRepudiation},
		{"certificate without key usage", func(s *Signer) {
			s.Certificate = certify(t, s.Key, func(c *x509.Certificate) { c.KeyUsage = 0 })
		}, errNoKeyUsage},
		{"nothing", func(s *Signer) { *s = Signer{} }, nil},
		{"no clock", func(s *Signer) { s.Clock = nil }, nil},
		{"OCSP fails", func(s *Signer) { s.OCSP = func(context.Context) ([][]byte, error) { return nil, broken } }, broken},
		{"OCSP response missing", func(s *Signer) { s.OCSP = func(context.Context) ([][]byte, error) { return nil, nil } }, nil},
		{"OCSP response of an extra certificate missing", func(s *Signer) { s.Extra = []*x509.Certificate{s.Certificate} }, nil},
		{"OCSP response too many", func(s *Signer) {
			s.OCSP = func(context.Context) ([][]byte, error) { return [][]byte{{1}, {2}}, nil }
		}, nil},
		{"OCSP response empty", func(s *Signer) { s.OCSP = func(context.Context) ([][]byte, error) { return [][]byte{{}}, nil } }, nil},
		{"key fails", answer(nil, broken), broken},
		{"key answers nonsense", answer([]byte("nonsense"), nil), nil},
		{"key answers nothing", answer(nil, nil), nil},
		{"key answers with octets behind", answer(append(der(big.NewInt(1), big.NewInt(1)), 0), nil), nil},
		{"key answers zero", answer(der(new(big.Int), big.NewInt(1)), nil), nil},
		{"key answers a negative number", answer(der(big.NewInt(1), big.NewInt(-1)), nil), nil},
		{"key answers too large a number", answer(der(big.NewInt(1), huge), nil), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := signer(t, "P-256", 0)
			test.change(s)
			for _, form := range []crypto.Form{crypto.Direct, crypto.Chain} {
				sig, err := s.Sign(context.Background(), attached(crypto.SHA512, 1), form)
				if sig != nil || cause(err) != cannotCreate || test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("%s: %v, %v", form, sig, err)
				}
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := signer(t, "P-256", 0).Sign(ctx, attached(crypto.SHA512, 0), crypto.Direct)
		if !errors.Is(err, context.Canceled) || cause(err) != cannotCreate {
			t.Error(err)
		}
	})
	for name, test := range map[string]struct {
		parts []crypto.Part
		form  crypto.Form
	}{
		"no parts":                             {nil, crypto.Direct},
		"attachment alone":                     {attached(crypto.SHA512, 1)[1:], crypto.Direct},
		"more attachments than X-Road accepts": {attached(crypto.SHA512, DirectAttachments+1), crypto.Direct},
		"two digest methods in a chain":        {append(attached(crypto.SHA256, 0), attached(crypto.SHA512, 1)[1]), crypto.Chain},
		"more parts than a chain may have":     {attached(crypto.SHA512, hashchain.MaxParts), crypto.Chain},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := signer(t, "P-256", 0).Sign(context.Background(), test.parts, test.form)
			mustBe(t, err, cannotCreate)
		})
	}
}

// TestConcurrent uses one signer from many goroutines.
func TestConcurrent(t *testing.T) {
	s := signer(t, "P-256", 1)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			parts := message(crypto.SHA512, fmt.Sprint(i), "a")
			sig, err := s.Sign(context.Background(), parts, crypto.Form(i%2))
			if err == nil {
				_, err = Verify(sig, parts)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// signWith makes a document with another signature method and canonical form. FR-46, and section 1.2.
func signWith(t *testing.T, s *Signer, parts []crypto.Part, uri, form, prefixes string) []byte {
	m := methods[uri]
	element := `Algorithm="` + form + `"/>`
	list := strings.Fields(prefixes)
	if prefixes != "" {
		element = `Algorithm="` + form + `"><p:InclusiveNamespaces xmlns:p="` + c14n.Exclusive + `" PrefixList="` + prefixes + `"/></`
	}
	in := func(tag string) string {
		if prefixes != "" {
			return "<ds:" + tag + " " + element + "ds:" + tag + ">"
		}
		return "<ds:" + tag + " " + element
	}
	xml := string(mustSign(t, s, parts, crypto.Direct).XML)
	for old, new := range map[string]string{
		`<ds:CanonicalizationMethod Algorithm="` + c14n.Inclusive + `"/>`: in("CanonicalizationMethod"),
		signatureMethod(s.Certificate.PublicKey):                          uri,
		` URI="#signed-properties">`:                                      ` URI="#signed-properties"><ds:Transforms>` + in("Transform") + `</ds:Transforms>`,
	} {
		xml = change(t, []byte(xml), old, new)
	}
	digest := func(name string, d crypto.Digest) []byte {
		h := d.New()
		if err := find(parse(t, xml), name).Canonicalize(h, form, list...); err != nil {
			t.Fatal(err)
		}
		return h.Sum(nil)
	}
	xml = propertiesDigest.ReplaceAllString(xml, "${1}"+encode(digest("SignedProperties", crypto.SHA512)))
	sum := digest("SignedInfo", m.digest)
	var value []byte
	var err error
	switch m.scheme {
	case rsaPSS:
		value, err = rsa.SignPSS(rand.Reader, s.Key.(*rsa.PrivateKey), m.digest.Hash(), sum, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case rsaPKCS1:
		value, err = rsa.SignPKCS1v15(rand.Reader, s.Key.(*rsa.PrivateKey), m.digest.Hash(), sum)
	default:
		value, err = sign(s.Key, sum)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []byte(signatureValue.ReplaceAllString(xml, "${1}"+encode(value)))
}

func TestAcceptedAlgorithms(t *testing.T) {
	parts := attached(crypto.SHA512, 1)
	for uri, m := range methods {
		for _, kind := range []string{"RSA-2048", "P-256", "P-384"} {
			if (kind == "RSA-2048") != (m.scheme != ecdsaRS) {
				continue
			}
			for _, form := range []struct{ name, algorithm, prefixes string }{
				{"inclusive", c14n.Inclusive, ""},
				{"exclusive", c14n.Exclusive, ""},
				{"exclusive with prefixes", c14n.Exclusive, "xsi #default asic"},
			} {
				t.Run(kind+" "+uri[strings.IndexByte(uri, '#'):]+" "+form.name, func(t *testing.T) {
					mustBe(t, attempt(signWith(t, signer(t, kind, 0), parts, uri, form.algorithm, form.prefixes), parts), "")
				})
			}
		}
	}
	t.Run("PSS with another salt", func(t *testing.T) {
		s := signer(t, "RSA-2048", 0)
		const uri = "http://www.w3.org/2007/05/xmldsig-more#sha512-rsa-MGF1"
		xml := signWith(t, s, parts, uri, c14n.Inclusive, "")
		sum := crypto.SHA512.Sum(canonicalForm(t, find(parse(t, string(xml)), "SignedInfo"), c14n.Inclusive))
		value, err := rsa.SignPSS(rand.Reader, s.Key.(*rsa.PrivateKey), crypto.SHA512.Hash(), sum, &rsa.PSSOptions{SaltLength: 20})
		if err != nil {
			t.Fatal(err)
		}
		mustBe(t, attempt([]byte(signatureValue.ReplaceAllString(string(xml), "${1}"+encode(value))), parts), invalidSignature)
	})
}

// TestHalves: we emit halves of full size, X-Road now and then equal shorter ones. FR-46.
func TestHalves(t *testing.T) {
	m := method{ecdsaRS, crypto.SHA512}
	sum := crypto.SHA512.Sum([]byte("x"))
	t.Run("leading zeros are kept", func(t *testing.T) {
		for _, kind := range []string{"P-256", "P-384"} {
			key := keys[kind]()
			size := 2 * (key.Public().(*ecdsa.PublicKey).Params().BitSize / 8)
			for high, low := false, false; !high || !low; {
				value, err := sign(key, sum)
				if err != nil || len(value) != size {
					t.Fatal(len(value), err)
				}
				high, low = high || value[0] == 0, low || value[size/2] == 0
				if value[0] == 0 || value[size/2] == 0 {
					if err := m.verify(key.Public(), sum, value); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
	t.Run("equal shorter halves", func(t *testing.T) {
		// A nonce k whose r is short, s = 5, and the private key for which that is a signature: d = (s·k − e)/r.
		n := elliptic.P256().Params().N
		var k, r *big.Int
		for k = big.NewInt(2); ; k.Add(k, big.NewInt(1)) {
			point, err := ecdh.P256().NewPrivateKey(k.FillBytes(make([]byte, 32)))
			if err != nil {
				t.Fatal(err)
			}
			if r = new(big.Int).SetBytes(point.PublicKey().Bytes()[1:33]); r.BitLen() <= 31*8 {
				break
			}
		}
		s := big.NewInt(5)
		d := new(big.Int).Mul(s, k)
		d.Sub(d, new(big.Int).SetBytes(sum[:32])).Mul(d, new(big.Int).ModInverse(r, n)).Mod(d, n)
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d.FillBytes(make([]byte, 32)))
		if err != nil {
			t.Fatal(err)
		}
		for half := 30; half <= 33; half++ {
			if r.BitLen() > 8*half {
				continue
			}
			value := append(r.FillBytes(make([]byte, half)), s.FillBytes(make([]byte, half))...)
			if err := m.verify(&key.PublicKey, sum, value); (err == nil) != (half <= 32) {
				t.Errorf("halves of %d octets: %v", half, err)
			}
		}
	})
}

func TestSigningTimeIsInformative(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 0)
	sig := mustSign(t, s, parts, crypto.Direct)
	for text, want := range map[string]time.Time{
		"2012-10-08T17:08:44.967+03:00": time.Date(2012, 10, 8, 14, 8, 44, 967e6, time.UTC),
		"2024-07-11T12:50:37Z":          time.Date(2024, 7, 11, 12, 50, 37, 0, time.UTC),
		"2024-07-11T12:50:37":           {},
		"never":                         {},
	} {
		xml := resign(t, s, change(t, sig.XML, "2026-02-03T04:05:06.078Z", text))
		v, err := Verify(&crypto.Signature{XML: xml}, parts)
		if err != nil || !v.SigningTime.Equal(want) {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

// TestOddInput is FR-43: whatever is missing, doubled or permuted, only white space and order may vary.
func TestOddInput(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 1)
	sig := mustSign(t, s, parts, crypto.Direct)
	xml := string(sig.XML)
	element := func(from, to string) string {
		i := strings.Index(xml, from)
		return xml[i : i+strings.Index(xml[i:], to)+len(to)]
	}
	ref := func(n int) string {
		return element(fmt.Sprintf(`<ds:Reference Id="signature-reference-%d"`, n), "</ds:Reference>\n")
	}
	wrong := func(r string) string {
		return strings.Replace(strings.Replace(r, encode(parts[1].Sum), encode(crypto.SHA512.Sum(nil)), 1), "reference-", "r-", 1)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"same URI twice, good then bad", ref(2), ref(2) + wrong(ref(2)), malformed},
		{"same URI twice, bad then good", ref(2), wrong(ref(2)) + ref(2), malformed},
		{"same reference twice", ref(2), ref(2) + strings.Replace(ref(2), "reference-", "r-", 1), malformed},
		{"one reference bad", ref(2), wrong(ref(2)), invalidSignature},
		{"references permuted", ref(0) + ref(1) + ref(2), ref(2) + ref(0) + ref(1), ""},
		{"references reversed", ref(0) + ref(1) + ref(2), ref(2) + ref(1) + ref(0), ""},
		{"no references", ref(0) + ref(1) + ref(2), "", malformed},
		{"no SignatureValue", element("<ds:SignatureValue", "</ds:SignatureValue>"), "", malformed},
		{"empty SignatureValue", element("<ds:SignatureValue", "</ds:SignatureValue>"), "<ds:SignatureValue/>", malformed},
		{"no DigestValue", element("<ds:DigestValue", "</ds:DigestValue>"), "", malformed},
		{"empty DigestValue", encode(parts[1].Sum), " ", malformed},
		{"no DigestMethod", element("<ds:DigestMethod", "/>"), "", malformed},
		{"no KeyInfo", element("<ds:KeyInfo", "</ds:KeyInfo>"), "", malformed},
		{"no certificate", element("<ds:X509Certificate>", "</ds:X509Certificate>"), "", malformed},
		{"empty certificate", element("<ds:X509Certificate>", "</ds:X509Certificate>"), "<ds:X509Certificate/>", malformed},
		{"certificate that is none", encode(s.Certificate.Raw), encode([]byte("none")), malformed},
		{"certificate with octets behind", encode(s.Certificate.Raw), encode(append(bytes.Clone(s.Certificate.Raw), 0)), malformed},
		{"no SignedInfo", element("<ds:SignedInfo", "</ds:SignedInfo>"), "", malformed},
		{"no SignatureMethod", element("<ds:SignatureMethod", "/>"), "", malformed},
		{"no object", element("<ds:Object", "</ds:Object>"), "", malformed},
		{"no signed properties", element("<xades:SignedProperties", "</xades:SignedProperties>"), "", malformed},
		{"DigestValue with line ends", encode(parts[1].Sum), "&#13;\n " + encode(parts[1].Sum)[:40] + "\r\n\t" + encode(parts[1].Sum)[40:] + " ", ""},
		{"DigestValue with another character", encode(parts[1].Sum), "-" + encode(parts[1].Sum), malformed},
		{"DigestValue without padding", encode(parts[1].Sum), strings.TrimRight(encode(parts[1].Sum), "="), malformed},
		{"DigestValue cut", encode(parts[1].Sum), encode(parts[1].Sum[:63]), invalidSignature},
		{"DigestValue longer", encode(parts[1].Sum), encode(append(bytes.Clone(parts[1].Sum), 0)), invalidSignature},
		{"policy left out", policy, "", ""},
		{"formats left out", element("<xades:SignedDataObjectProperties", "</xades:SignedDataObjectProperties>"), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := []byte(change(t, sig.XML, test.old, test.new))
			if !strings.Contains(test.name, "SignedInfo") && !strings.Contains(test.name, "SignatureValue") {
				changed = resign(t, s, string(changed))
			}
			mustBe(t, attempt(changed, parts), test.want)
		})
	}
	for _, odd := range [][]crypto.Part{nil, parts[1:], {parts[0], parts[0]}, {{Name: crypto.Message, Digest: crypto.SHA512}}} {
		_, err := Verify(sig, odd)
		mustBe(t, err, internalError)
	}
	_, err := Verify(&crypto.Signature{}, parts)
	mustBe(t, err, invalidXML)
}

func FuzzVerify(f *testing.F) {
	s := signer(f, "P-256", 1)
	parts := attached(crypto.SHA512, 1)
	for _, form := range []crypto.Form{crypto.Direct, crypto.Chain} {
		sig := mustSign(f, s, parts, form)
		f.Add(sig.XML, sig.HashChainResult, sig.HashChain)
	}
	f.Fuzz(func(t *testing.T, xml, result, chain []byte) {
		v, err := Verify(&crypto.Signature{XML: xml, HashChainResult: result, HashChain: chain}, parts)
		if (err == nil) != (v != nil) || err != nil && cause(err) == "" {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func TestErrorText(t *testing.T) {
	_, err := new(Signer).Sign(context.Background(), attached(crypto.SHA512, 0), crypto.Direct)
	if got, want := err.Error(), "signing: incomplete signer"; got != want {
		t.Error(got)
	}
	_, err = Verify(&crypto.Signature{XML: []byte("<x/>")}, attached(crypto.SHA512, 0))
	if got, want := err.Error(), `verifying the signature: "x" is not a signature`; got != want {
		t.Error(got)
	}
}
