// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"math/big"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// parsed reads a token and checks that its form for keeping is stable.
func parsed(t testing.TB, ber []byte) *Token {
	t.Helper()
	token, err := ParseToken(ber)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseToken(token.Raw)
	if err != nil || !bytes.Equal(again.Raw, token.Raw) {
		t.Fatalf("what was read is not read again: %v", err)
	}
	return token
}

// TestValidToken has timestamps/valid.tst with its three rows of expectations.
func TestValidToken(t *testing.T) {
	token := parsed(t, vector(t, "timestamps/valid.tst"))
	data := vector(t, "timestamps/stamped-data")
	authorities := approved(t, "globalconf/good_v2/EE/shared-params.xml")

	c, err := token.Verify(data, authorities, Past)
	mustBe(t, err, "", "")
	if err == nil && c.Subject.CommonName != "timestamp1" {
		t.Errorf("it is by %s", c.Subject)
	}
	if at := time.Date(2012, 11, 29, 13, 10, 4, 0, time.UTC); !token.GenTime.Equal(at) || token.Policy.String() != "1.2.3" ||
		token.Serial.Text(16) != "2376906f060c280" || token.Digest != crypto.SHA256 || token.Nonce.Text(16) != "14a73db55fb4b80" {
		t.Error(show(token))
	}
	if !bytes.Equal(token.Sum, crypto.SHA256.Sum(data)) {
		t.Errorf("the imprint is %x", token.Sum)
	}
	_, err = token.Verify(data, authorities, Present)
	mustBe(t, err, signerFailed, "1024 bits")

	changed := bytes.Clone(data)
	changed[42] = 1
	_, err = token.Verify(changed, authorities, Past)
	mustBe(t, err, malformed, "hashes do not match")

	responders := []*x509.Certificate{certificateOf(t, vector(t, "testca/ocsp.cert.pem")), certificateOf(t, vector(t, "testca/ca.cert.pem"))}
	_, err = token.Verify(data, responders, Past)
	mustBe(t, err, certificateMissing, "6fe44f36691f09d6")

	_, err = token.Verify(data, nil, Past)
	mustBe(t, err, noProvider, "")
}

// TestResponse has timestamps/tsp.response.
func TestResponse(t *testing.T) {
	response := vector(t, "timestamps/tsp.response")
	token, err := readResponse(response)
	if err != nil {
		t.Fatal(err)
	}
	authorities := timestamp1(t)
	if token.Digest != crypto.SHA256 || token.Nonce.Cmp(big.NewInt(0x075BCD15)) != 0 {
		t.Error(show(token))
	}
	_, err = token.VerifySum(crypto.SHA256, token.Sum, authorities, Past)
	mustBe(t, err, "", "")
	_, err = token.VerifySum(crypto.SHA512, token.Sum, authorities, Past)
	mustBe(t, err, malformed, "hashes do not match")

	r := Request{crypto.SHA256, token.Sum, token.Nonce}
	_, err = r.Accept(response, authorities)
	mustBe(t, err, signerFailed, "1024 bits") // it is of 2014, and not good enough for new evidence
	r.Nonce = big.NewInt(1)
	_, err = r.Accept(response, authorities)
	mustBe(t, err, responseInvalid, "nonces do not match")
	_, err = over("other data").Accept(response, authorities)
	mustBe(t, err, responseInvalid, "hashes do not match")
}

// TestContainers has the tokens of the containers, over SignatureValue or over the hash chain result of a batch.
func TestContainers(t *testing.T) {
	for _, name := range []string{
		"valid-signed-message", "valid-signed-hashchain", "valid-batch-ts", "valid-non-batch-rest", "wrong-message",
		"invalid-signed-hashchain", "invalid-not-signed-hashchain", "read/valid-signed-message-with-attachments",
	} {
		t.Run(name, func(t *testing.T) {
			files := container(t, "asic/"+name+".asice")
			signature := files["META-INF/signatures.xml"]
			data, ber := files["ts-hashchainresult.xml"], files["META-INF/timestamp.tst"]
			if data == nil {
				data, ber = element(t, signature, "SignatureValue"), element(t, signature, "EncapsulatedTimeStamp")
			}
			token := parsed(t, ber)
			if !bytes.Equal(token.Raw, ber) {
				t.Error("DER was not kept as it was")
			}
			c, err := token.Verify(data, approved(t, "globalconf/good2_v3/DEV/shared-params.xml"), Present)
			mustBe(t, err, "", "")
			if err == nil && c.Subject.CommonName != "Test TSA" || token.GenTime.Year() != 2024 {
				t.Error(show(token))
			}
			_, err = token.Verify(signature, approved(t, "globalconf/good2_v3/DEV/shared-params.xml"), Present)
			mustBe(t, err, malformed, "hashes do not match")
		})
	}
}

// TestContainersOfThePast has containers of 2012 and 2014.
func TestContainersOfThePast(t *testing.T) {
	single := container(t, "asic/attachments-legacy.asice")["META-INF/signatures.xml"]
	batch := container(t, "asic/invalid-incorrect-references.asice")["META-INF/timestamp.tst"]
	for name, token := range map[string]*Token{
		"attachments-legacy":           parsed(t, element(t, single, "EncapsulatedTimeStamp")),
		"invalid-incorrect-references": parsed(t, batch),
	} {
		_, err := token.VerifySum(crypto.SHA256, token.Sum, timestamp1(t), Past)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOldForm has the token of signatures/messagelog-signature.xml: BER in pieces, directly inside SignatureTimeStamp.
func TestOldForm(t *testing.T) {
	doc := vector(t, "signatures/messagelog-signature.xml")
	ber := element(t, doc, "SignatureTimeStamp")
	token := parsed(t, ber)
	if bytes.Equal(token.Raw, ber) {
		t.Error("this is BER, and was kept as it was")
	}
	_, err := token.Verify(element(t, doc, "SignatureValue"), timestamp1(t), Past)
	mustBe(t, err, "", "")
}

// TestTestCA lets the time-stamping authority of the newest vectors make a token.
func TestTestCA(t *testing.T) {
	a := &authority{cert: certificateOf(t, vector(t, "testca/tsa.cert.pem")), key: privateKey(t, vector(t, "testca/tsa.key.pem"))}
	token, err := over("data").Accept(a.respond(t, over("data"), now), a.certs())
	if err != nil {
		t.Fatal(err)
	}
	_, err = token.Verify([]byte("data"), a.certs(), Present)
	mustBe(t, err, "", "")
	_, err = token.Verify([]byte("data"), approved(t, "globalconf-download/server/V6/20251110170000548026000/shared-params.xml"), Present)
	mustBe(t, err, "", "")
}
