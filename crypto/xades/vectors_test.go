// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// TestSection6 is the worked example, number by number.
func TestSection6(t *testing.T) {
	sig, _, files := container(t, "asic/valid-signed-hashchain.asice")
	root := parse(t, string(sig.XML))
	sum := func(octets []byte) string { return encode(crypto.SHA512.Sum(octets)) }
	hexSum := func(octets []byte) string { return hex.EncodeToString(crypto.SHA512.Sum(octets)) }
	info := canonicalForm(t, find(root, "SignedInfo"), c14n.Inclusive)
	properties := canonicalForm(t, find(root, "SignedProperties"), c14n.Inclusive)
	d, err := read(sig.XML)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := fitToSign(d.certificate)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		got, want any
	}{
		{"6.1 length of the message", len(files["message.xml"]), 1215},
		{"6.1 digest of the message", hexSum(files["message.xml"]), "9844fe1b7ed8ad100c97dda3ee0c51f795bfac070e0519564eb6de24cb7b2fb94cafed4400b9ec351a6ae1f1fab14309356480d41da4a432f43435428c84279f"},
		{"6.1 length of the result", len(sig.HashChainResult), 405},
		{"6.1 digest of the result", sum(sig.HashChainResult), "q+Yew8cBTKofLdOd7kN3nTwA122c0krgFQ/2ey5mnvBWGAIuDe9MvWzyWOK87rrKs/u/14Vf9RAYvL2oztYxzw=="},
		{"6.1 reference 0", encode(d.references[0].sum), "q+Yew8cBTKofLdOd7kN3nTwA122c0krgFQ/2ey5mnvBWGAIuDe9MvWzyWOK87rrKs/u/14Vf9RAYvL2oztYxzw=="},
		{"6.2 length of SignedInfo", len(info), 1101},
		{"6.2 digest of SignedInfo", hexSum(info), "ad568562489cf0352b38a953ba6831f077c051a7d048eee5049df31c90a648dc1278507176b71776bac0bebe2bfc8bfdc9ed15720b3c4215f04d4372ff880ece"},
		{"6.2 signature value", cause(new(Verifier).verifyValue(d, cert)), ""},
		{"6.3 length of SignedProperties", len(properties), 1855},
		{"6.3 digest of SignedProperties", sum(properties), "wHI+C5EEk2wiDrr3RDCCW5noua22x2ANndyt1cnn+cefgSvhgACBQCg6JiJoBLzoaDLWyXBmuPl2gU+dn+tvLg=="},
		{"6.3 reference 1", encode(d.references[1].sum), "wHI+C5EEk2wiDrr3RDCCW5noua22x2ANndyt1cnn+cefgSvhgACBQCg6JiJoBLzoaDLWyXBmuPl2gU+dn+tvLg=="},
		{"6.3 digest of the certificate", sum(cert.Raw), "6NdJix+ZRZCMO+8d9QrlnHziCH8DOfPuO3q4DvYhRNQU1KLz+C0bwgx32X74qh+VfAloHSk4DQMbzlYgSYYT9Q=="},
	} {
		if test.got != test.want {
			t.Errorf("%s is %v, not %v", test.name, test.got, test.want)
		}
	}
	if !bytes.HasPrefix(info, []byte(`<ds:SignedInfo`+declarations+">\n<ds:CanonicalizationMethod Algorithm=")) {
		t.Errorf("SignedInfo begins %.300s", info)
	}
	if !bytes.HasPrefix(properties, []byte(`<xades:SignedProperties`+declarations+` Id="signed-properties">`)) {
		t.Errorf("SignedProperties begins %.300s", properties)
	}
	_, _, files = container(t, "asic/valid-non-batch-rest.asice")
	if xml := files["META-INF/signatures.xml"]; len(xml) != 7547 ||
		sum(xml) != "Fv2DqfeCx+wzWiCbLcSkiMv0AtIxVPPBePh1hp5O+vlU33agHK/jZ+Ilt0KYObNkd5qD3jFO6MOV5Ss30JC5Qw==" {
		t.Errorf("6.4: signatures.xml has %d octets and digest %s", len(xml), sum(xml))
	}
}

// chainAttachment is the digest of the attachment of asic/valid-signed-hashchain.asice, which is not in the container.
func chainAttachment(t testing.TB) crypto.Part {
	sum, err := hex.DecodeString("628676e9a0422ee195d16f49ec21fa62d39786412c95e530bb51b022b43e649c3b1810274f0459176b369ffcfc87588e9332e21663bca787f6555cfe1750ea62")
	if err != nil {
		t.Fatal(err)
	}
	return crypto.Part{Name: crypto.Attachment(1), Digest: crypto.SHA512, Sum: sum}
}

// TestContainers takes containers for messages. Outcomes that hang on certificates or time-stamps are not seen here.
func TestContainers(t *testing.T) {
	for _, test := range []struct {
		name   string
		file   string
		change func(sig *crypto.Signature, parts []crypto.Part) []crypto.Part
		want   string
	}{
		{"message", "valid-signed-message", nil, ""},
		{"message, batch time-stamp", "valid-batch-ts", nil, ""},
		{"root ds:Signature, exclusive, SigningCertificateV2", "valid-non-batch-rest", nil, ""},
		{"attachments, direct", "read/valid-signed-message-with-attachments", nil, ""},
		{"attachments, chain", "valid-signed-hashchain", func(sig *crypto.Signature, parts []crypto.Part) []crypto.Part {
			return append(parts, chainAttachment(t))
		}, ""},
		{"attachment of the chain missing", "valid-signed-hashchain", nil, "malformed_signature.invalid_reference"},
		{"message changed", "wrong-message", nil, "invalid_signature_value"},
		{"attachment changed", "read/valid-signed-message-with-attachments", func(sig *crypto.Signature, parts []crypto.Part) []crypto.Part {
			parts[2].Sum = crypto.SHA512.Sum([]byte("other"))
			return parts
		}, "invalid_signature_value"},
		{"chain with another digest of the message", "invalid-signed-hashchain", func(sig *crypto.Signature, parts []crypto.Part) []crypto.Part {
			return append(parts, chainAttachment(t))
		}, "malformed_signature.invalid_hash_chain_ref"},
		{"unreferenced chain", "invalid-not-signed-hashchain", nil, "malformed_signature"},
		{"unreferenced chain left out", "invalid-not-signed-hashchain", func(sig *crypto.Signature, parts []crypto.Part) []crypto.Part {
			sig.HashChain, sig.HashChainResult = nil, nil
			return parts
		}, ""},
		{"reference to something else", "invalid-incorrect-references", nil, "malformed_signature"},
		{"reference to something else, without chain", "invalid-incorrect-references", func(sig *crypto.Signature, parts []crypto.Part) []crypto.Part {
			sig.HashChain, sig.HashChainResult = nil, nil
			return parts
		}, "malformed_signature"},
		{"old container", "attachments-legacy", nil, "malformed_signature"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sig, parts, _ := container(t, "asic/"+test.file+".asice")
			if test.change != nil {
				parts = test.change(sig, parts)
			}
			v, err := Verify(sig, parts)
			mustBe(t, err, test.want)
			if (err == nil) != (v != nil) {
				t.Errorf("%+v and %v", v, err)
			}
			if v != nil && (v.Certificate == nil || len(v.OCSP) != 1 || len(v.Extra) != 0 || v.SigningTime.IsZero() || v.Form != sig.Form()) {
				t.Errorf("verified %+v", v)
			}
		})
	}
}

// TestSignatures are the signature samples with the outcomes that X-Road's tests assert, as far as they are of this
// package.
func TestSignatures(t *testing.T) {
	msg0 := func() []crypto.Part { return message(crypto.SHA512, string(vector(t, "signatures/message-0.xml"))) }
	msg1 := func(attachments ...string) []crypto.Part {
		return message(crypto.SHA512, append([]string{string(vector(t, "signatures/message-1.xml"))}, attachments...)...)
	}
	for _, test := range []struct {
		name, xml, result, chain string
		parts                    func() []crypto.Part
		want                     string
	}{
		{"sign-0", "sign-0", "", "", msg0, ""},
		{"sign-0, other message", "sign-0", "", "", func() []crypto.Part { return message(crypto.SHA512, "foo") }, "invalid_signature_value"},
		{"sign-0, attachment added", "sign-0", "", "", func() []crypto.Part { return append(msg0(), attached(crypto.SHA512, 1)[1]) }, "malformed_signature"},
		{"batch-sig", "batch-sig", "hash-chain-result", "hash-chain-1", func() []crypto.Part { return msg1("blaah") }, ""},
		{"batch-sig, chain of another batch", "batch-sig", "hash-chain-result", "hash-chain-2",
			func() []crypto.Part { return msg1("blaah") }, "malformed_signature.invalid_hash_chain"},
		{"batch-sig, one more part", "batch-sig", "hash-chain-result", "hash-chain-1",
			func() []crypto.Part { return msg1("blaah", "more") }, "malformed_signature.hashchain_unused_inputs"},
		{"batch-sig, attachment left out", "batch-sig", "hash-chain-result", "hash-chain-1",
			func() []crypto.Part { return msg1() }, "malformed_signature.invalid_reference"},
		{"batch-sig, another attachment", "batch-sig", "hash-chain-result", "hash-chain-1",
			func() []crypto.Part { return msg1("other") }, "malformed_signature.invalid_hash_chain"},
		{"batch-sig, no chain", "batch-sig", "", "", func() []crypto.Part { return msg1("blaah") }, "malformed_signature"},
		{"batch-sig, result alone", "batch-sig", "hash-chain-result", "", func() []crypto.Part { return msg1("blaah") }, "malformed_signature"},
		{"batch-sig, chain alone", "batch-sig", "", "hash-chain-1", func() []crypto.Part { return msg1("blaah") }, "malformed_signature"},
		{"signature value altered", "sign-0-invalid-signature-value", "", "", msg0, "invalid_signature_value"},
		{"no CanonicalizationMethod", "sign-0-schema-fail", "", "", msg0, "malformed_signature"},
		{"no ds:Signature", "sign-0-no-signature", "", "", msg0, "malformed_signature"},
		{"no OCSP responses", "sign-0-ocsp-no-responses", "", "", msg0, "malformed_signature"},
		{"empty document", "empty", "", "", msg0, "invalid_xml"},
		{"extra certificate with a wrong digest", "extra-certs-digest-invalid", "", "", msg0, "malformed_signature"},
		{"extra certificate without reference", "extra-certs-missing-id", "", "", msg0, "malformed_signature"},
		{"manifest of 2012", "xades.signature.ts", "", "", msg0, "malformed_signature"},
		{"message log of 2014", "messagelog-signature", "", "", func() []crypto.Part {
			d, err := read(vector(t, "signatures/messagelog-signature.xml"))
			if err != nil {
				t.Fatal(err)
			}
			return []crypto.Part{{Name: crypto.Message, Digest: crypto.SHA512, Sum: d.references[0].sum}}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := func(name string) []byte {
				if name == "" {
					return nil
				}
				return vector(t, "signatures/"+name+".xml")
			}
			_, err := Verify(&crypto.Signature{XML: file(test.xml), HashChainResult: file(test.result), HashChain: file(test.chain)}, test.parts())
			mustBe(t, err, test.want)
		})
	}
}

// TestTemplate compares what we write with what X-Road wrote, with everything blanked that must differ.
func TestTemplate(t *testing.T) {
	b76 := regexp.MustCompile("&#13;\n")
	stamp := regexp.MustCompile(`<xades:SignatureTimeStamp>.*</xades:SignatureTimeStamp>`)
	values := regexp.MustCompile(`(<(?:ds:DigestValue|xades:SigningTime|ds:X509IssuerName|ds:X509SerialNumber|xades:EncapsulatedOCSPValue Id="[^"]*")>)[^<]*`)
	lines := regexp.MustCompile(`\n[A-Za-z0-9+/=]+\n`)
	blank := func(xml []byte) string {
		s := stamp.ReplaceAllString(b76.ReplaceAllString(string(xml), ""), "")
		return lines.ReplaceAllString(values.ReplaceAllString(s, "$1"), "\n\n")
	}
	for _, test := range []struct {
		name, file string
		form       crypto.Form
		chained    bool
	}{
		{"message", "valid-signed-message", crypto.Direct, false},
		{"message, chain asked for", "valid-signed-message", crypto.Chain, false},
		{"attachments, direct", "read/valid-signed-message-with-attachments", crypto.Direct, false},
		{"attachment, chain", "valid-signed-hashchain", crypto.Chain, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			theirs, parts, _ := container(t, "asic/"+test.file+".asice")
			if test.chained {
				parts = append(parts, chainAttachment(t))
			}
			ours := mustSign(t, signer(t, "RSA-2048", 0), parts, test.form)
			if got, want := blank(ours.XML), blank(theirs.XML); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if !bytes.Equal(ours.HashChain, theirs.HashChain) || !bytes.Equal(ours.HashChainResult, theirs.HashChainResult) {
				t.Errorf("hash chain\n%s\n%s", ours.HashChainResult, ours.HashChain)
			}
		})
	}
}

func TestSigningTime(t *testing.T) {
	zone := time.FixedZone("", 7200)
	for want, at := range map[string]time.Time{
		"2024-12-05T12:37:37.117Z": time.Date(2024, 12, 5, 14, 37, 37, 117e6, zone),
		"2024-12-05T12:37:37.100Z": time.Date(2024, 12, 5, 12, 37, 37, 100e6, time.UTC),
		"2024-12-05T12:37:37.001Z": time.Date(2024, 12, 5, 12, 37, 37, 1999999, time.UTC),
		"2024-12-05T12:37:37Z":     time.Date(2024, 12, 5, 12, 37, 37, 999999, time.UTC),
	} {
		if got := signingTime(at); got != want {
			t.Errorf("%v is %s, want %s", at, got, want)
		}
	}
}

// TestIssuerNames compares names with those that X-Road wrote into signatures.
func TestIssuerNames(t *testing.T) {
	for _, file := range []string{"sign-0.xml", "batch-sig.xml", "messagelog-signature.xml"} {
		xml := vector(t, "signatures/"+file)
		d, err := read(xml)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := fitToSign(d.certificate)
		if err != nil {
			t.Fatal(err)
		}
		got, err := distinguishedName(cert.RawIssuer)
		if want := find(parse(t, string(xml)), "X509IssuerName").Text(); got != want || err != nil {
			t.Errorf("%s: %s (%v), want %s", file, got, err, want)
		}
		if want := find(parse(t, string(xml)), "X509SerialNumber").Text(); cert.SerialNumber.String() != want {
			t.Errorf("%s: serial number %s, want %s", file, cert.SerialNumber, want)
		}
	}
}

func TestDistinguishedName(t *testing.T) {
	// SEQUENCE of SET of attributes, as short DER.
	attr := func(oid, tag byte, value string) string {
		v := string([]byte{0x06, 3, 0x55, 4, oid, tag, byte(len(value))}) + value
		return string([]byte{0x30, byte(len(v))}) + v
	}
	set := func(attrs ...string) string {
		all := strings.Join(attrs, "")
		return string([]byte{0x31, byte(len(all))}) + all
	}
	name := func(sets ...string) []byte {
		all := strings.Join(sets, "")
		return []byte(string([]byte{0x30, byte(len(all))}) + all)
	}
	for _, test := range []struct {
		name string
		der  []byte
		want string
	}{
		{"reversed", name(set(attr(10, 12, "Test")), set(attr(3, 19, "Test CA"))), "CN=Test CA,O=Test"},
		{"more than one value", name(set(attr(10, 12, "a"), attr(11, 12, "b"))), "O=a+OU=b"},
		{"escapes", name(set(attr(3, 12, ` #a,b+"c"\d<e>f;g=h `))), `CN=\ #a\,b\+\"c\"\\d\<e\>f\;g=h\ `},
		{"number sign first", name(set(attr(3, 12, `#1#`))), `CN=\#1#`},
		{"one space", name(set(attr(3, 12, ` `))), `CN=\ `},
		{"empty value", name(set(attr(3, 12, ``))), `CN=`},
		{"unnamed type", name(set(attr(5, 19, "DEV"))), "2.5.4.5=#1303444556"},
		{"string of another kind", name(set(attr(3, 20, "x"))), "2.5.4.3=#140178"},
		{"control character", name(set(attr(3, 12, "\x01"))), "2.5.4.3=#0c0101"},
		{"not UTF-8", name(set(attr(3, 12, "\xe4"))), "2.5.4.3=#0c01e4"},
		{"UTF-8", name(set(attr(3, 12, "\u00e4"))), "CN=\u00e4"},
		{"empty name", name(), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := distinguishedName(test.der); got != test.want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	for _, der := range []string{"", "\x30", "\x31\x00", "\x30\x00x", "\x30\x02\x31\x05"} {
		if got, err := distinguishedName([]byte(der)); err == nil {
			t.Errorf("%x is %s", der, got)
		}
	}
}
