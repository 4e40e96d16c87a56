// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

func TestRequestDER(t *testing.T) {
	sum := func(d crypto.Digest) []byte { return d.Sum([]byte("data")) }
	for _, test := range []struct {
		name    string
		request Request
		want    string // up to the digest, and what follows it
	}{
		{"X-Road's", Request{crypto.SHA512, sum(crypto.SHA512), nil}, "30560201013051300d060960864801650304020305000440 "},
		{"SHA-256", Request{crypto.SHA256, sum(crypto.SHA256), nil}, "30360201013031300d060960864801650304020105000420 "},
		{"nonce", Request{crypto.SHA256, sum(crypto.SHA256), big.NewInt(5)}, "30390201013031300d060960864801650304020105000420 020105"},
		{"no digest method", Request{0, sum(crypto.SHA256), nil}, ""},
		{"an unknown digest method", Request{9, sum(crypto.SHA256), nil}, ""},
		{"a digest of another method", Request{crypto.SHA512, sum(crypto.SHA256), nil}, ""},
		{"nothing", Request{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			der, err := test.request.DER()
			want := strings.Replace(test.want, " ", hex.EncodeToString(test.request.Sum), 1)
			if got := hex.EncodeToString(der); got != want || (err == nil) != (want != "") {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestAccept(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	old := newAuthority(t, "RSA-1024", nil)
	stranger := newAuthority(t, "P-256", func(c *x509.Certificate) { c.Subject.CommonName = "stranger" })
	expired := newAuthority(t, "P-256", func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })
	asked := over("data")
	withNonce := func(n int64) Request { return Request{asked.Digest, asked.Sum, big.NewInt(n)} }
	token := asn1.RawValue{FullBytes: a.token(t, "data", now).Raw}
	response := func(status int, token asn1.RawValue, text ...string) []byte {
		r := timeStampResp{Status: statusInfo{Status: status}, Token: token}
		for _, s := range text {
			r.Status.Text = append(r.Status.Text, asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(s)})
		}
		return marshal(t, r)
	}
	room := maxToken - len(token.FullBytes) - 100 // less than the certificate takes
	long := asn1.RawValue{FullBytes: a.make(t, "data", now, made{data: func(d *signedData) { d.Certificates = tagged(0, marshal(t, make([]byte, room))) }})}
	for _, test := range []struct {
		name        string
		request     Request
		response    []byte
		authorities []*x509.Certificate
		want, words string
	}{
		{"granted", asked, a.respond(t, asked, now), a.certs(), "", ""},
		{"granted with modifications", asked, response(grantedWithMods, token), a.certs(), "", ""},
		{"in BER", asked, indefinite(t, response(granted, token)), a.certs(), "", ""},
		{"with nonce", withNonce(5), a.respond(t, withNonce(5), now), a.certs(), "", ""},
		{"with a nonce that nobody sent", asked, a.respond(t, withNonce(5), now), a.certs(), "", ""},
		{"with another nonce", withNonce(5), a.respond(t, withNonce(6), now), a.certs(), responseInvalid, "nonces"},
		{"without nonce", withNonce(5), a.respond(t, asked, now), a.certs(), responseInvalid, "nonces"},
		{"over other data", asked, a.respond(t, over("other"), now), a.certs(), responseInvalid, "hashes"},
		{"over the same data by another method", asked, a.respond(t, Request{crypto.SHA256, crypto.SHA256.Sum([]byte("data")), nil}, now), a.certs(), responseInvalid, "hashes"},
		{"by a stranger", asked, stranger.respond(t, asked, now), a.certs(), certificateMissing, "CN=stranger"},
		{"nobody approved", asked, a.respond(t, asked, now), nil, noProvider, ""},
		{"of the past", asked, old.respond(t, asked, now), old.certs(), signerFailed, "1024 bits"},
		{"by an expired authority", asked, expired.respond(t, asked, now), expired.certs(), signerFailed, "was not at"},
		{"refused", asked, response(rejection, asn1.RawValue{}, "not today", "\n"), a.certs(), notGranted, `status 2, "not today", "\n"`},
		{"refused with a token", asked, response(rejection, token), a.certs(), notGranted, "status 2"},
		{"waiting", asked, response(3, token), a.certs(), notGranted, "status 3"},
		{"negative", asked, response(-1, token), a.certs(), notGranted, "status -1"},
		{"refused with a failure", asked, must(reject(unacceptedPolicy)), a.certs(), notGranted, "status 2, failure 15"},
		{"granted without a token", asked, response(granted, asn1.RawValue{}), a.certs(), responseInvalid, ""},
		{"granted, and something else", asked, response(granted, asn1.RawValue{FullBytes: []byte{5, 0}}), a.certs(), responseInvalid, ""},
		{"granted, and nobody signed it", asked, response(granted, asn1.RawValue{FullBytes: a.make(t, "data", now, made{data: func(d *signedData) { d.Signers = nil }})}), a.certs(), responseInvalid, ""},
		{"no room for the certificate", asked, response(granted, long), a.certs(), responseInvalid, "adding the certificate"},
		{"nothing", asked, nil, a.certs(), responseInvalid, ""},
		{"text", asked, []byte("<html>"), a.certs(), responseInvalid, ""},
		{"too long", asked, make([]byte, maxResponse+1), a.certs(), responseInvalid, "at most"},
	} {
		t.Run(test.name, func(t *testing.T) {
			token, err := test.request.Accept(test.response, test.authorities)
			mustBe(t, err, test.want, test.words)
			if err != nil {
				return
			}
			var info contentInfo
			if err := exact(token.Raw, &info, ""); err != nil || !bytes.Equal(info.Data.Certificates.Bytes, a.cert.Raw) {
				t.Errorf("the certificate of the authority is not in front (%v)", err)
			}
			_, err = token.Verify([]byte("data"), a.certs(), Present)
			mustBe(t, err, "", "")
		})
	}
}

func must(octets []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return octets
}

// TestRefusalStaysShort gives a refusal that would like to fill a log.
func TestRefusalStaysShort(t *testing.T) {
	status := statusInfo{Status: rejection, Failure: asn1.BitString{Bytes: bytes.Repeat([]byte{0xff}, 10_000), BitLength: 80_000}}
	for range 1000 {
		status.Text = append(status.Text, asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: bytes.Repeat([]byte{1}, 1000)})
	}
	if text := fmt.Sprint(status); len(text) > 4000 {
		t.Errorf("%d octets", len(text))
	}
}

func TestRespondRefuses(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	query := func(change func(*timeStampReq)) []byte {
		q := timeStampReq{Version: 1, Imprint: imprint{sha256Method.identifier(), make([]byte, 32)}}
		change(&q)
		return marshal(t, q)
	}
	for _, test := range []struct {
		name    string
		request []byte
		words   string
	}{
		{"another version", query(func(q *timeStampReq) { q.Version = 2 }), "failure 5"},
		{"SHA-1", query(func(q *timeStampReq) { q.Imprint = imprint{sha1Method.identifier(), make([]byte, 20)} }), "failure 0"},
		{"an unknown method", query(func(q *timeStampReq) { q.Imprint.Digest.Algorithm = policy }), "failure 0"},
		{"a digest of another method", query(func(q *timeStampReq) { q.Imprint.Sum = make([]byte, 64) }), "failure 5"},
		{"another policy", query(func(q *timeStampReq) { q.Policy = asn1.ObjectIdentifier{1, 2, 3} }), "failure 15"},
		{"an extension", query(func(q *timeStampReq) { q.Extensions = []pkix.Extension{{Id: policy, Value: []byte{1}}} }), "failure 16"},
		{"something after it", append(query(func(*timeStampReq) {}), 5, 0), "failure 5"},
		{"nothing", nil, "failure 5"},
		{"text", []byte("text"), "failure 5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, err := Respond(test.request, a.key, a.cert, big.NewInt(1), now)
			if err != nil {
				t.Fatal(err)
			}
			_, err = readResponse(response)
			mustBe(t, err, notGranted, "status 2, "+test.words)
		})
	}
	t.Run("good, with our policy", func(t *testing.T) {
		response, err := Respond(query(func(q *timeStampReq) { q.Policy = policy }), a.key, a.cert, big.NewInt(1), now)
		if err != nil {
			t.Fatal(err)
		}
		_, err = readResponse(response)
		mustBe(t, err, "", "")
	})
}

// TestRespondFails has keys that cannot sign.
func TestRespondFails(t *testing.T) {
	a := newAuthority(t, "P-256", nil)
	query := must(over("data").DER())
	if _, err := Respond(query, brokenKey{a.key.Public()}, a.cert, big.NewInt(1), now); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if _, err := Respond(query, brokenKey{"text"}, a.cert, big.NewInt(1), now); err == nil || !strings.Contains(err.Error(), "only RSA and ECDSA") {
		t.Errorf("got %v", err)
	}
}
