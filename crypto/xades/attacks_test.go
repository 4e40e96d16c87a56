// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// The tests of this file are the attacks of signature-and-evidence 14.3, by number. Those on the inside of hash chains
// are in package hashchain.

// attempt verifies a changed document.
func attempt(xml []byte, parts []crypto.Part) error {
	_, err := Verify(&crypto.Signature{XML: xml}, parts)
	return err
}

func TestAttack01MessageChanged(t *testing.T) {
	s := signer(t, "P-256", 0)
	sig := mustSign(t, s, attached(crypto.SHA512, 2), crypto.Direct)
	for i := range 3 {
		parts := attached(crypto.SHA512, 2)
		parts[i].Sum[0] ^= 1
		mustBe(t, attempt(sig.XML, parts), invalidSignature)
	}
}

func TestAttack02SignatureOverSomethingElse(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 0)
	sig := mustSign(t, s, parts, crypto.Direct)
	for _, uri := range []string{"/foobar.xml", "", "#signature", "/attachment1", "/message.xml#", "//message.xml", "/MESSAGE.XML",
		"message.xml", "%2Fmessage.xml", "/ts-hashchainresult.xml", "/META-INF/signatures.xml", "http://example.org/message.xml", "file:///etc/passwd"} {
		t.Run(uri, func(t *testing.T) {
			xml := resign(t, s, change(t, sig.XML, `URI="/message.xml"`, `URI="`+uri+`"`))
			mustBe(t, attempt(xml, parts), malformed)
		})
	}
	t.Run("no URI", func(t *testing.T) {
		mustBe(t, attempt(resign(t, s, change(t, sig.XML, ` URI="/message.xml"`, ``)), parts), malformed)
	})
	t.Run("refused before anything is computed", func(t *testing.T) {
		xml := change(t, sig.XML, `URI="/message.xml"`, `URI="/foobar.xml"`)
		mustBe(t, attempt([]byte(xml), parts), malformed) // the value is wrong too
	})
}

func TestAttack03Attachments(t *testing.T) {
	s := signer(t, "P-256", 0)
	for signed := range 3 {
		sig := mustSign(t, s, attached(crypto.SHA512, signed), crypto.Direct)
		for received := range 4 {
			want := malformed
			if received == signed {
				want = ""
			}
			mustBe(t, attempt(sig.XML, attached(crypto.SHA512, received)), want)
		}
	}
	parts := attached(crypto.SHA512, 2)
	sig := mustSign(t, s, parts, crypto.Direct)
	parts[1].Sum, parts[2].Sum = parts[2].Sum, parts[1].Sum
	mustBe(t, attempt(sig.XML, parts), invalidSignature)
	sig, parts, _ = container(t, "asic/valid-signed-message.asice")
	mustBe(t, attempt(sig.XML, append(parts, attached(crypto.SHA512, 1)[1])), malformed)
}

var dataReference = regexp.MustCompile(`(?s)<ds:Reference Id="signature-reference-0".*?</ds:Reference>\n`)

func TestAttack04OnlyItsOwnProperties(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 0)
	sig := mustSign(t, s, parts, crypto.Direct)
	without := dataReference.ReplaceAllString(string(sig.XML), "")
	mustBe(t, attempt(resign(t, s, without), parts), malformed)
	twice := strings.Replace(without, "</ds:SignedInfo>", "", 1)
	twice = regexp.MustCompile(`(?s)(<ds:Reference Id="signature-reference-1".*?</ds:Reference>)`).ReplaceAllString(twice, "$1$1</ds:SignedInfo>")
	twice = strings.Replace(twice, "signature-reference-1", "other", 1)
	mustBe(t, attempt(resign(t, s, twice), parts), malformed)
}

// TestAttack05And06And07And09And10Chains: what package hashchain refuses is refused here, with the prefix.
func TestAttack05And06And07And09And10Chains(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 2)
	sig := mustSign(t, s, parts, crypto.Chain)
	other := mustSign(t, s, attached(crypto.SHA512, 3), crypto.Chain)
	exchange := strings.NewReplacer("/attachment1", "/attachment2", "/attachment2", "/attachment1")
	exchanged := []crypto.Part{parts[0], {Name: crypto.Attachment(1), Digest: crypto.SHA512, Sum: parts[2].Sum},
		{Name: crypto.Attachment(2), Digest: crypto.SHA512, Sum: parts[1].Sum}}
	for _, test := range []struct {
		name          string
		result, chain []byte
		parts         []crypto.Part
		want          string
	}{
		{"as it is", sig.HashChainResult, sig.HashChain, parts, ""},
		{"5: other message", sig.HashChainResult, sig.HashChain, message(crypto.SHA512, "x", "attachment 1", "attachment 2"), "malformed_signature.invalid_hash_chain"},
		{"6: chain of another message", sig.HashChainResult, other.HashChain, attached(crypto.SHA512, 3), "malformed_signature.invalid_hash_chain"},
		{"6: result and chain of another message", other.HashChainResult, other.HashChain, attached(crypto.SHA512, 3), "invalid_signature_value"},
		{"7: attachment added", sig.HashChainResult, sig.HashChain, attached(crypto.SHA512, 3), "malformed_signature.hashchain_unused_inputs"},
		{"7: attachment left out", sig.HashChainResult, sig.HashChain, attached(crypto.SHA512, 1), "malformed_signature.invalid_reference"},
		{"9: roles exchanged", sig.HashChainResult, []byte(exchange.Replace(string(sig.HashChain))), exchanged, "malformed_signature.malformed_hash_chain"},
		{"10: cycle", sig.HashChainResult, []byte(strings.Replace(string(sig.HashChain), "<ns2:DataRef", `<ns2:StepRef URI="#STEP0"/><ns2:DataRef`, 1)),
			parts, "malformed_signature.malformed_hash_chain"},
		{"result with white space added", append(bytes.Clone(sig.HashChainResult), '\n'), sig.HashChain, parts, "invalid_signature_value"},
		{"parts of another method", sig.HashChainResult, sig.HashChain, attached(crypto.SHA256, 2), "malformed_signature.invalid_reference"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Verify(&crypto.Signature{XML: sig.XML, HashChainResult: test.result, HashChain: test.chain}, test.parts)
			mustBe(t, err, test.want)
		})
	}
	t.Run("9: attachment as message, from the vector", func(t *testing.T) {
		msg := message(crypto.SHA512, string(vector(t, "signatures/message-1.xml")), "blaah")
		chain := `<HashChain xmlns="http://cyber.ee/hashchain" xmlns:d="` + dsSpace + `"><DefaultDigestMethod Algorithm="` + crypto.SHA512.URI() +
			`"/><HashStep id="STEP0"><HashValue><d:DigestValue>` + encode(msg[0].Sum) + `</d:DigestValue></HashValue><DataRef URI="/message.xml"><d:DigestValue>` +
			encode(msg[1].Sum) + `</d:DigestValue></DataRef></HashStep></HashChain>`
		_, err := Verify(&crypto.Signature{XML: vector(t, "signatures/batch-sig.xml"), HashChainResult: vector(t, "signatures/hash-chain-result.xml"),
			HashChain: []byte(chain)}, message(crypto.SHA512, "blaah"))
		mustBe(t, err, "") // the one reading that no shape rule can tell from a batch of two: hence the direct form
	})
}

func TestAttack08UnsignedChain(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 1)
	direct, chain := mustSign(t, s, parts, crypto.Direct), mustSign(t, s, parts, crypto.Chain)
	for _, sig := range []*crypto.Signature{
		{XML: direct.XML, HashChainResult: chain.HashChainResult, HashChain: chain.HashChain},
		{XML: direct.XML, HashChainResult: chain.HashChainResult},
		{XML: direct.XML, HashChain: chain.HashChain},
		{XML: chain.XML, HashChainResult: chain.HashChainResult},
		{XML: chain.XML, HashChain: chain.HashChain},
		{XML: chain.XML},
	} {
		_, err := Verify(sig, parts)
		mustBe(t, err, malformed)
	}
	both := change(t, chain.XML, "<ds:Reference Id=\"signature-reference-1\"",
		"<ds:Reference URI=\"/message.xml\"><ds:DigestMethod Algorithm=\""+crypto.SHA512.URI()+"\"/><ds:DigestValue>"+encode(parts[0].Sum)+
			"</ds:DigestValue></ds:Reference><ds:Reference Id=\"signature-reference-1\"")
	_, err := Verify(&crypto.Signature{XML: resign(t, s, both), HashChainResult: chain.HashChainResult, HashChain: chain.HashChain}, parts)
	mustBe(t, err, malformed)
}

// TestAttack11And12Chains are schema and transforms, with the prefix.
func TestAttack11And12Chains(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 1)
	sig := mustSign(t, s, parts, crypto.Chain)
	for name, insert := range map[string]string{
		"11: unknown element": `<FooBar/>`,
		"12: transform":       `<Transforms><Transform Algorithm="` + c14n.Inclusive + `"/></Transforms>`,
	} {
		changed := *sig
		changed.HashChain = []byte(change(t, sig.HashChain, `<DigestValue>`, insert+`<DigestValue>`))
		_, err := Verify(&changed, parts)
		if cause(err) != "malformed_signature.malformed_hash_chain" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAttack13ValueOrKey(t *testing.T) {
	parts := attached(crypto.SHA512, 0)
	for _, kind := range []string{"RSA-2048", "P-256"} {
		s := signer(t, kind, 0)
		sig := mustSign(t, s, parts, crypto.Direct)
		value := find(parse(t, string(sig.XML)), "SignatureValue").Text()
		octets := (&reader{}).Base64(find(parse(t, string(sig.XML)), "SignatureValue"), "Id")
		for _, i := range []int{0, len(octets) / 2, len(octets) - 1} {
			altered := bytes.Clone(octets)
			altered[i] ^= 1
			mustBe(t, attempt([]byte(change(t, sig.XML, value, encode(altered))), parts), invalidSignature)
		}
		for _, altered := range [][]byte{octets[:len(octets)-2], append(bytes.Clone(octets), 0, 0), append([]byte{0, 0}, octets...), {0}, octets[1:]} {
			mustBe(t, attempt([]byte(change(t, sig.XML, value, encode(altered))), parts), invalidSignature)
		}
		other := certify(t, newECDSA(elliptic.P256()), nil)
		mustBe(t, attempt([]byte(change(t, sig.XML, encode(s.Certificate.Raw), encode(other.Raw))), parts), invalidSignature)
	}
}

// TestAttack14Wrapping: what is verified is what is read, whatever else stands in the document.
func TestAttack14Wrapping(t *testing.T) {
	s := signer(t, "P-256", 1)
	parts := attached(crypto.SHA512, 0)
	sig := mustSign(t, s, parts, crypto.Direct)
	xml := string(sig.XML)
	between := func(from, to string) string {
		i := strings.Index(xml, from)
		return xml[i : i+strings.Index(xml[i:], to)+len(to)]
	}
	signature := between("<ds:Signature Id", "</ds:Signature>")
	info := between("<ds:SignedInfo>", "</ds:SignedInfo>")
	properties := between("<xades:SignedProperties", "</xades:SignedProperties>")
	qualifying := between("<xades:QualifyingProperties", "</xades:QualifyingProperties>")
	object := between("<ds:Object>", "</ds:Object>")
	keyInfo := between("<ds:KeyInfo>", "</ds:KeyInfo>")
	value := between("<ds:SignatureValue", "</ds:SignatureValue>")
	reference := dataReference.FindString(xml)
	evil := strings.Replace(properties, "2026", "2027", 1)
	renamed := strings.NewReplacer(`"signed-properties"`, `"other"`, `"signature"`, `"signature2"`, `"signature-value"`, `"v2"`).Replace
	const stamp = `<xades:UnsignedSignatureProperties>`

	for _, test := range []struct {
		name, old, new string
		resigned       bool
		want           string
	}{
		{"as it is", "x", "x", true, ""},
		{"second signature beside", signature, signature + renamed(signature), false, malformed},
		{"second signature before", signature, renamed(signature) + signature, false, malformed},
		{"second signature in an unsigned property", stamp, stamp + "<xades:SignatureTimeStamp>" + renamed(signature) + "</xades:SignatureTimeStamp>", false, malformed},
		{"second signature in an object", object, object + "<ds:Object>" + renamed(signature) + "</ds:Object>", false, malformed},
		{"signature below another element", signature, "<x>" + signature + "</x>", false, malformed},
		{"unknown root", signature, "<asic:Other>" + signature + "</asic:Other>", false, malformed},
		{"root of another namespace", asicSpace, "urn:x", true, malformed},
		{"text beside the signature", signature, "text" + signature, false, malformed},
		{"attribute of the root", "<asic:XAdESSignatures", `<asic:XAdESSignatures Id="x"`, false, malformed},
		{"SignedInfo twice", info, info + info, false, malformed},
		{"SignedInfo in an unsigned property", stamp, stamp + "<xades:SignatureTimeStamp>" + info + "</xades:SignatureTimeStamp>", false, malformed},
		{"SignatureValue twice", value, value + `<ds:SignatureValue>AAAA</ds:SignatureValue>`, false, malformed},
		{"KeyInfo twice", keyInfo, keyInfo + keyInfo, false, malformed},
		{"KeyInfo first", signature, strings.Replace(strings.Replace(signature, keyInfo, "", 1), info, keyInfo+info, 1), false, malformed},
		{"X509Data twice", "</ds:X509Data>", "</ds:X509Data><ds:X509Data/>", false, malformed},
		{"key name beside the certificate", "<ds:X509Data>", "<ds:KeyName>x</ds:KeyName><ds:X509Data>", false, malformed},
		{"key value", keyInfo, "<ds:KeyInfo><ds:KeyValue/></ds:KeyInfo>", false, malformed},
		{"object twice", object, object + "<ds:Object/>", false, malformed},
		{"manifest", "<ds:Object>", `<ds:Object><ds:Manifest Id="ts-root-manifest"/>`, false, malformed},
		{"properties twice", qualifying, qualifying + renamed(qualifying), false, malformed},
		{"second signed properties before", properties, strings.Replace(evil, `Id="signed-properties"`, `Id="other"`, 1) + properties, false, malformed},
		{"signed properties with the same Id before", properties, evil + properties, false, malformed},
		{"signed properties with the same Id elsewhere", stamp, stamp + "<xades:SignatureTimeStamp>" + evil + "</xades:SignatureTimeStamp>", false, malformed},
		{"another element with the Id of the properties", stamp, stamp + `<xades:SignatureTimeStamp Id="signed-properties"/>`, false, malformed},
		{"an attribute id with that value", stamp, stamp + `<xades:SignatureTimeStamp id="signed-properties"/>`, false, malformed},
		{"properties moved, others in their place", qualifying, strings.Replace(qualifying, properties, evil, 1) + properties, false, malformed},
		{"properties moved into a time-stamp", object, strings.Replace(strings.Replace(object, properties, renamed(evil), 1), stamp,
			stamp+"<xades:SignatureTimeStamp>"+properties+"</xades:SignatureTimeStamp>", 1), false, malformed},
		{"properties changed", "2026", "2027", false, invalidSignature},
		{"properties of another signature", `Target="#signature"`, `Target="#other"`, false, malformed},
		{"signature without Id", `<ds:Signature Id="signature">`, `<ds:Signature>`, false, malformed},
		{"signature with empty Id", `<ds:Signature Id="signature">`, `<ds:Signature Id="">`, false, malformed},
		{"reference of the properties to the whole document", `URI="#signed-properties"`, `URI=""`, true, malformed},
		{"reference of the properties to the signature", `URI="#signed-properties"`, `URI="#signature"`, true, malformed},
		{"reference by XPointer", `URI="#signed-properties"`, `URI="#xpointer(id('signed-properties'))"`, true, malformed},
		{"reference of the properties without type", ` Type="` + propertiesType + `"`, ``, true, malformed},
		{"reference of the properties with another type", propertiesType, "http://www.w3.org/2000/09/xmldsig#Object", true, malformed},
		{"data reference with the type of properties", `URI="/message.xml"`, `Type="` + propertiesType + `" URI="/message.xml"`, true, malformed},
		{"data reference with a transform", `<ds:Reference Id="signature-reference-0" URI="/message.xml">`,
			`<ds:Reference URI="/message.xml"><ds:Transforms><ds:Transform Algorithm="` + c14n.Inclusive + `"/></ds:Transforms>`, true, malformed},
		{"properties with an enveloped transform", ` URI="#signed-properties">`,
			` URI="#signed-properties"><ds:Transforms><ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/></ds:Transforms>`, true, malformed},
		{"properties with XPath", ` URI="#signed-properties">`,
			` URI="#signed-properties"><ds:Transforms><ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"><ds:XPath>1</ds:XPath></ds:Transform></ds:Transforms>`, true, malformed},
		{"properties with XSLT", ` URI="#signed-properties">`,
			` URI="#signed-properties"><ds:Transforms><ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/></ds:Transforms>`, true, malformed},
		{"properties with two transforms", ` URI="#signed-properties">`,
			` URI="#signed-properties"><ds:Transforms><ds:Transform Algorithm="` + c14n.Inclusive + `"/><ds:Transform Algorithm="` + c14n.Inclusive + `"/></ds:Transforms>`, true, malformed},
		{"properties with one transform", ` URI="#signed-properties">`,
			` URI="#signed-properties"><ds:Transforms><ds:Transform Algorithm="` + c14n.Inclusive + `"/></ds:Transforms>`, true, ""},
		{"properties with empty transforms", ` URI="#signed-properties">`, ` URI="#signed-properties"><ds:Transforms/>`, true, malformed},
		{"canonicalisation with comments", `Algorithm="` + c14n.Inclusive, `Algorithm="` + c14n.Inclusive + "#WithComments", true, malformed},
		{"unknown element in SignedInfo", "<ds:SignedInfo>", "<ds:SignedInfo><x/>", true, malformed},
		{"unknown element in a reference", reference, strings.Replace(reference, "<ds:DigestValue>", "<x/><ds:DigestValue>", 1), true, malformed},
		{"unknown attribute of a reference", ` URI="/message.xml"`, ` URI="/message.xml" x="y"`, true, malformed},
		{"attribute with a namespace", ` URI="/message.xml"`, ` URI="/message.xml" xsi:type="y"`, true, malformed},
		{"text in SignedInfo", "<ds:SignedInfo>", "<ds:SignedInfo>x", true, malformed},
		{"element of another namespace with the same name", "<ds:SignatureMethod ", `<SignatureMethod xmlns="urn:x" `, true, malformed},
		{"ds bound to another namespace inside", "<ds:KeyInfo>", `<ds:KeyInfo xmlns:ds="urn:x">`, true, malformed},
		{"unknown unsigned property", stamp, stamp + "<xades:Other/>", true, malformed},
		{"counter-signature", stamp, stamp + "<xades:CounterSignature/>", true, malformed},
		{"comment, which changes nothing", "<ds:SignedInfo>", "<ds:SignedInfo><!-- c -->", false, ""},
		{"comment in a digest, which changes nothing", "<ds:DigestValue>", "<ds:DigestValue><!-- c -->", false, ""},
		{"time-stamp, which changes nothing", stamp, stamp + "<xades:SignatureTimeStamp>AAAA</xades:SignatureTimeStamp>", false, ""},
		{"more certificates behind the first, which are not read", "</ds:X509Certificate>", "</ds:X509Certificate><ds:X509Certificate>AAAA</ds:X509Certificate>", false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := []byte(change(t, sig.XML, test.old, test.new))
			if test.resigned {
				changed = resign(t, s, string(changed))
			}
			mustBe(t, attempt(changed, parts), test.want)
			_, err := VerifyEvidence(&crypto.Signature{XML: changed}, attachedFiles(0).resolve)
			mustBe(t, err, test.want)
		})
	}
	t.Run("root ds:Signature", func(t *testing.T) {
		alone := strings.Replace(signature, "<ds:Signature ", "<ds:Signature"+declarations+" ", 1)
		mustBe(t, attempt([]byte(alone), parts), "")
	})
}

func TestAttack15OtherCertificateOfTheSameKey(t *testing.T) {
	for _, kind := range []string{"RSA-2048", "P-256"} {
		s := signer(t, kind, 0)
		parts := attached(crypto.SHA512, 0)
		sig := mustSign(t, s, parts, crypto.Direct)
		other := certify(t, s.Key, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(1) })
		mustBe(t, attempt([]byte(change(t, sig.XML, encode(s.Certificate.Raw), encode(other.Raw))), parts), malformed)
	}
	t.Run("SigningCertificateV2", func(t *testing.T) {
		s := signer(t, "P-256", 0)
		parts := attached(crypto.SHA512, 0)
		v2 := strings.NewReplacer("xades:SigningCertificate>", "xades:SigningCertificateV2>")
		issuer := regexp.MustCompile(`<xades:IssuerSerial>.*?</xades:IssuerSerial>`)
		xml := issuer.ReplaceAllString(v2.Replace(string(mustSign(t, s, parts, crypto.Direct).XML)), "<xades:IssuerSerialV2>AAAA</xades:IssuerSerialV2>")
		mustBe(t, attempt(resign(t, s, xml), parts), "")
		wrong := encode(crypto.SHA512.Sum([]byte("x")))
		xml = strings.Replace(xml, encode(crypto.SHA512.Sum(s.Certificate.Raw)), wrong, 1)
		mustBe(t, attempt(resign(t, s, xml), parts), malformed)
	})
	t.Run("two certificates", func(t *testing.T) {
		s := signer(t, "P-256", 0)
		parts := attached(crypto.SHA512, 0)
		sig := mustSign(t, s, parts, crypto.Direct)
		cert := regexp.MustCompile(`<xades:Cert>.*?</xades:Cert>`)
		xml := cert.ReplaceAllString(string(sig.XML), "$0$0")
		mustBe(t, attempt(resign(t, s, xml), parts), malformed)
	})
	t.Run("none, which is allowed", func(t *testing.T) {
		s := signer(t, "P-256", 0)
		parts := attached(crypto.SHA512, 0)
		none := regexp.MustCompile(`<xades:SigningCertificate>.*?</xades:SigningCertificate>`)
		mustBe(t, attempt(resign(t, s, none.ReplaceAllString(string(mustSign(t, s, parts, crypto.Direct).XML), "")), parts), "")
	})
}

func TestAttack17CertificateNotForSigning(t *testing.T) {
	parts := attached(crypto.SHA512, 0)
	for _, test := range []struct {
		name   string
		change func(*x509.Certificate)
		want   string
	}{
		{"authentication", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment }, malformed},
		{"no key usage", func(c *x509.Certificate) { c.KeyUsage = 0 }, internalError},
		{"both, which is allowed", func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := signer(t, "P-256", 0)
			sig := mustSign(t, s, parts, crypto.Direct)
			other := certify(t, s.Key, test.change)
			xml := strings.Replace(string(sig.XML), encode(s.Certificate.Raw), encode(other.Raw), 1)
			xml = strings.Replace(xml, encode(crypto.SHA512.Sum(s.Certificate.Raw)), encode(crypto.SHA512.Sum(other.Raw)), 1)
			mustBe(t, attempt(resign(t, s, xml), parts), test.want)
		})
	}
}

func TestAttack21ExtraCertificates(t *testing.T) {
	s := signer(t, "P-256", 2)
	parts := attached(crypto.SHA512, 0)
	sig := mustSign(t, s, parts, crypto.Direct)
	xml := string(sig.XML)
	refs := regexp.MustCompile(`<xades:CompleteCertificateRefs.*</xades:CompleteCertificateRefs>`).FindString(xml)
	values := regexp.MustCompile(`<xades:CertificateValues>.*</xades:CertificateValues>`).FindString(xml)
	first := regexp.MustCompile(`<xades:EncapsulatedX509Certificate Id="encapsulated-cert-1">[^<]*</xades:EncapsulatedX509Certificate>`).FindString(xml)
	firstRef := regexp.MustCompile(`<xades:Cert URI="#encapsulated-cert-1">.*?</xades:Cert>`).FindString(xml)
	stranger := certify(t, keys["P-256"](), nil)
	many := strings.Builder{}
	manyRefs := strings.Builder{}
	for i := range maxExtra {
		many.WriteString(strings.Replace(first, "cert-1", fmt.Sprint("cert-x", i), 1))
		manyRefs.WriteString(strings.Replace(firstRef, "cert-1", fmt.Sprint("cert-x", i), 1))
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"as it is", "x", "x", ""},
		{"certificate exchanged", encode(s.Extra[0].Raw), encode(stranger.Raw), malformed},
		{"digest changed", encode(crypto.SHA512.Sum(s.Extra[1].Raw)), encode(crypto.SHA512.Sum([]byte("x"))), malformed},
		{"digest by SHA-1", `#encapsulated-cert-1"><xades:CertDigest><ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"`,
			`#encapsulated-cert-1"><xades:CertDigest><ds:DigestMethod Algorithm="http://www.w3.org/2000/09/xmldsig#sha1"`, malformed},
		{"certificate without reference", first, first + strings.Replace(first, "cert-1", "cert-3", 1), malformed},
		{"reference without certificate", firstRef, firstRef + strings.Replace(firstRef, "cert-1", "cert-3", 1), malformed},
		{"two references to one", firstRef, firstRef + firstRef, malformed},
		{"references exchanged", firstRef, strings.Replace(firstRef, "cert-1", "cert-2", 1), malformed},
		{"reference without URI", ` URI="#encapsulated-cert-1"`, ``, malformed},
		{"reference with an empty URI", ` URI="#encapsulated-cert-1"`, ` URI=""`, malformed},
		{"certificate without Id", ` Id="encapsulated-cert-1"`, ``, malformed},
		{"no references", refs, ``, malformed},
		{"no certificates", values, ``, malformed},
		{"empty references", refs, `<xades:CompleteCertificateRefs><xades:CertRefs/></xades:CompleteCertificateRefs>`, malformed},
		{"empty certificates", values, `<xades:CertificateValues/>`, malformed},
		{"certificates twice", values, values + strings.ReplaceAll(values, `Id="`, `Id="x`), malformed},
		{"no certificate at all", encode(s.Extra[0].Raw), encode([]byte("x")), malformed},
		{"references and certificates left out, which the signature does not cover", refs + values, ``, ""},
		{"too many", firstRef, firstRef + manyRefs.String(), malformed},
		{"no OCSP response", regexp.MustCompile(`<xades:OCSPValues>.*</xades:OCSPValues>`).FindString(xml), `<xades:OCSPValues/>`, malformed},
		{"empty OCSP response", encode([]byte("response 0")), ``, malformed},
		{"revocation values twice", "<xades:RevocationValues>", "<xades:RevocationValues/><xades:RevocationValues>", malformed},
		{"no revocation values", regexp.MustCompile(`<xades:RevocationValues>.*</xades:RevocationValues>`).FindString(xml), ``, malformed},
		{"CRLs", "<xades:OCSPValues>", "<xades:CRLValues/><xades:OCSPValues>", malformed},
		{"no unsigned properties", regexp.MustCompile(`<xades:UnsignedProperties>.*</xades:UnsignedProperties>`).FindString(xml), ``, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := change(t, sig.XML, test.old, test.new)
			if test.name == "too many" {
				changed = strings.Replace(changed, first, first+many.String(), 1)
			}
			mustBe(t, attempt([]byte(changed), parts), test.want)
		})
	}
	t.Run("certificate that is none, with its digest", func(t *testing.T) {
		xml := change(t, sig.XML, encode(s.Extra[0].Raw), encode([]byte("x")))
		xml = strings.Replace(xml, encode(crypto.SHA512.Sum(s.Extra[0].Raw)), encode(crypto.SHA512.Sum([]byte("x"))), 1)
		mustBe(t, attempt([]byte(xml), parts), malformed)
	})
	t.Run("too many OCSP responses", func(t *testing.T) {
		more := strings.Repeat("<xades:EncapsulatedOCSPValue>AAAA</xades:EncapsulatedOCSPValue>", maxExtra)
		mustBe(t, attempt([]byte(change(t, sig.XML, "<xades:OCSPValues>", "<xades:OCSPValues>"+more)), parts), malformed)
	})
}

func TestAttack22XML(t *testing.T) {
	s := signer(t, "P-256", 0)
	parts := attached(crypto.SHA512, 0)
	sig := mustSign(t, s, parts, crypto.Direct)
	declaration := `<?xml version="1.0" encoding="UTF-8" standalone="no"?>`
	utf16 := []byte{0xFE, 0xFF}
	for _, c := range string(sig.XML) {
		utf16 = append(utf16, 0, byte(c))
	}
	for name, xml := range map[string][]byte{
		"nothing":             nil,
		"DOCTYPE":             []byte(change(t, sig.XML, declaration, declaration+`<!DOCTYPE x>`)),
		"entity expansion":    []byte(change(t, sig.XML, declaration, declaration+`<!DOCTYPE x [<!ENTITY a "`+strings.Repeat("&b;", 100)+`">]>`)),
		"external entity":     []byte(change(t, sig.XML, declaration, declaration+`<!DOCTYPE x SYSTEM "file:///etc/passwd">`)),
		"Latin-1":             []byte(change(t, sig.XML, "UTF-8", "ISO-8859-1")),
		"UTF-16":              utf16,
		"deep":                []byte(change(t, sig.XML, "<ds:Object>", "<ds:Object>"+strings.Repeat("<a>", 100)+strings.Repeat("</a>", 100))),
		"ten megabytes":       append(bytes.Clone(sig.XML), bytes.Repeat([]byte(" "), 10<<20)...),
		"huge attribute":      []byte(change(t, sig.XML, `Target="`, `Target="`+strings.Repeat("x", 3<<20))),
		"many elements":       []byte(change(t, sig.XML, "<ds:Object>", "<ds:Object>"+strings.Repeat("<a/>", 60000))),
		"attribute twice":     []byte(change(t, sig.XML, `Id="signature"`, `Id="signature" Id="x"`)),
		"second root":         append(bytes.Clone(sig.XML), "<x/>"...),
		"cut":                 sig.XML[:len(sig.XML)-1],
		"undeclared prefix":   []byte(change(t, sig.XML, "<ds:Object>", "<ds:Object><p:a/>")),
		"unknown instruction": append(bytes.Clone(sig.XML), "<?x?>"...),
	} {
		t.Run(name, func(t *testing.T) { mustBe(t, attempt(xml, parts), invalidXML) })
	}
}

func TestAttack23Algorithms(t *testing.T) {
	parts := attached(crypto.SHA512, 0)
	const more = "http://www.w3.org/2001/04/xmldsig-more#"
	for kind, own := range map[string]string{"RSA-2048": more + "rsa-sha512", "P-256": more + "ecdsa-sha512"} {
		s := signer(t, kind, 0)
		sig := mustSign(t, s, parts, crypto.Direct)
		for _, uri := range []string{
			"http://www.w3.org/2000/09/xmldsig#rsa-sha1", "http://www.w3.org/2000/09/xmldsig#dsa-sha1", more + "rsa-md5", more + "ecdsa-sha1",
			more + "ecdsa-sha224", more + "hmac-sha512", "http://www.w3.org/2000/09/xmldsig#hmac-sha1", "http://www.w3.org/2007/05/xmldsig-more#sha1-rsa-MGF1",
			"http://www.w3.org/2007/05/xmldsig-more#rsa-pss", "http://www.w3.org/2021/04/xmldsig-more#eddsa-ed25519", "urn:x", "", strings.ToUpper(own),
		} {
			mustBe(t, attempt(resign(t, s, change(t, sig.XML, own, uri)), parts), malformed)
		}
		for _, uri := range []string{more + "rsa-sha512", more + "ecdsa-sha512", "http://www.w3.org/2007/05/xmldsig-more#sha512-rsa-MGF1", more + "rsa-sha256"} {
			if uri != own {
				mustBe(t, attempt(resign(t, s, change(t, sig.XML, own, uri)), parts), invalidSignature)
			}
		}
		for name, params := range map[string]string{
			"output length":  "<ds:HMACOutputLength>8</ds:HMACOutputLength>",
			"PSS parameters": `<p:RSAPSSParams xmlns:p="http://www.w3.org/2007/05/xmldsig-more#"><p:SaltLength>0</p:SaltLength></p:RSAPSSParams>`,
		} {
			t.Run(name, func(t *testing.T) {
				xml := change(t, sig.XML, `Algorithm="`+own+`"/>`, `Algorithm="`+own+`">`+params+`</ds:SignatureMethod>`)
				mustBe(t, attempt(resign(t, s, xml), parts), malformed)
			})
		}
		for _, uri := range []string{"http://www.w3.org/2000/09/xmldsig#sha1", more + "sha224", more + "md5", "urn:x", ""} {
			for n := 1; n <= 3; n++ { // data, properties, certificate
				xml := string(sig.XML)
				i := 0
				for range n {
					i += strings.Index(xml[i:], crypto.SHA512.URI()) + 1
				}
				i--
				xml = xml[:i] + uri + xml[i+len(crypto.SHA512.URI()):]
				mustBe(t, attempt(resign(t, s, xml), parts), malformed)
			}
		}
	}
	t.Run("HMAC with the public key", func(t *testing.T) {
		s := signer(t, "RSA-2048", 0)
		xml := change(t, mustSign(t, s, parts, crypto.Direct).XML, more+"rsa-sha512", more+"hmac-sha512")
		mac := hmac.New(sha512.New, x509.MarshalPKCS1PublicKey(s.Certificate.PublicKey.(*rsa.PublicKey)))
		mac.Write(canonicalForm(t, find(parse(t, xml), "SignedInfo"), c14n.Inclusive))
		mustBe(t, attempt([]byte(signatureValue.ReplaceAllString(xml, "${1}"+encode(mac.Sum(nil)))), parts), malformed)
	})
	t.Run("ECDSA values", func(t *testing.T) {
		s := signer(t, "P-256", 0)
		sig := mustSign(t, s, parts, crypto.Direct)
		sum := crypto.SHA512.Sum(canonicalForm(t, find(parse(t, string(sig.XML)), "SignedInfo"), c14n.Inclusive))
		der, err := s.Key.Sign(rand.Reader, sum, crypto.SHA512.Hash())
		if err != nil {
			t.Fatal(err)
		}
		order := elliptic.P256().Params().N.Bytes()
		one := append(make([]byte, 31), 1)
		for name, value := range map[string][]byte{
			"DER":           der,
			"odd length":    make([]byte, 63),
			"zero halves":   make([]byte, 64),
			"r zero":        append(make([]byte, 32), one...),
			"s zero":        append(bytes.Clone(one), make([]byte, 32)...),
			"order":         append(bytes.Clone(order), order...),
			"one and one":   append(bytes.Clone(one), one...),
			"longer halves": make([]byte, 66),
			"one octet":     {1},
			"two octets":    {1, 1},
		} {
			t.Run(name, func(t *testing.T) {
				mustBe(t, attempt([]byte(signatureValue.ReplaceAllString(string(sig.XML), "${1}"+encode(value))), parts), invalidSignature)
			})
		}
	})
	t.Run("keys", func(t *testing.T) {
		for _, kind := range []string{"RSA-1024", "P-521"} {
			s := signer(t, "P-256", 0)
			xml := string(mustSign(t, s, parts, crypto.Direct).XML)
			weak := signer(t, "P-256", 0)
			weak.Key = keys[kind]()
			t.Setenv("GODEBUG", "rsa1024min=0")
			weak.Certificate = certify(t, weak.Key, nil)
			xml = strings.Replace(xml, encode(s.Certificate.Raw), encode(weak.Certificate.Raw), 1)
			xml = strings.Replace(xml, encode(crypto.SHA512.Sum(s.Certificate.Raw)), encode(crypto.SHA512.Sum(weak.Certificate.Raw)), 1)
			if kind == "RSA-1024" {
				xml = strings.Replace(xml, "ecdsa-sha512", "rsa-sha512", 1)
			}
			mustBe(t, attempt(resign(t, weak, xml), parts), malformed)
		}
	})
}

func TestAttack24DigestMethodDiffers(t *testing.T) {
	s := signer(t, "P-256", 0)
	for _, form := range []crypto.Digest{crypto.SHA512, crypto.SHA256} {
		for n := range 2 {
			sig := mustSign(t, s, attached(form, n), crypto.Direct)
			for _, announced := range []crypto.Digest{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
				want := malformed
				if announced == form {
					want = ""
				}
				mustBe(t, attempt(sig.XML, attached(announced, n)), want)
			}
		}
	}
	t.Run("reference names another method, the value is right", func(t *testing.T) {
		parts := attached(crypto.SHA512, 1)
		xml := change(t, mustSign(t, s, parts, crypto.Direct).XML, `URI="/attachment1">`+"\n"+`<ds:DigestMethod Algorithm="`+crypto.SHA512.URI(),
			`URI="/attachment1">`+"\n"+`<ds:DigestMethod Algorithm="`+crypto.SHA256.URI())
		mustBe(t, attempt(resign(t, s, xml), parts), malformed)
	})
}
