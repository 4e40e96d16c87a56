// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"encoding/hex"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestSection6Vectors reads the numbers of signature-and-evidence 6.1 and 6.4 out of the containers that they are of.
func TestSection6Vectors(t *testing.T) {
	sum512 := func(octets []byte) []byte { return crypto.SHA512.Sum(octets) }
	equal := func(name string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	read := func(files map[string][]byte, result, chain string) (*chainResult, *document) {
		r, err := readResult(files[result])
		if err != nil {
			t.Fatal(err)
		}
		d, err := readDocument(chain, files[chain])
		if err != nil {
			t.Fatal(err)
		}
		return r, d
	}
	// der is what a step hashes to, with the digest of the next step where it refers to that.
	der := func(s *hashStep, next []byte) []byte {
		var l digestList
		for _, it := range s.items {
			if it.kind == stepRef {
				it.sum = next
			}
			l.add(it.digest, it.sum)
		}
		return l.octets()
	}

	of := container(t, "asic/valid-signed-hashchain.asice")
	r, d := read(of, crypto.HashChainResult, crypto.HashChain)
	const message, attachment = "9844fe1b7ed8ad100c97dda3ee0c51f795bfac070e0519564eb6de24cb7b2fb94cafed4400b9ec351a6ae1f1fab14309356480d41da4a432f43435428c84279f",
		"628676e9a0422ee195d16f49ec21fa62d39786412c95e530bb51b022b43e649c3b1810274f0459176b369ffcfc87588e9332e21663bca787f6555cfe1750ea62"
	const item, method = "306d0440", "0c27687474703a2f2f7777772e77332e6f72672f323030312f30342f786d6c656e63237368613531323000"
	equal("6.1: steps", len(d.steps), 1)
	equal("6.1: length of message.xml", len(of[crypto.Message]), 1215)
	equal("6.1: SHA-512 of the message", hex.EncodeToString(sum512(of[crypto.Message])), message)
	equal("6.1: that in the chain", b64(d.steps[0].items[0].sum), "mET+G37YrRAMl92j7gxR95W/rAcOBRlWTrbeJMt7L7lMr+1EALnsNRpq4fH6sUMJNWSA1B2kpDL0NDVCjIQnnw==")
	equal("6.1: SHA-512 of attachment1, from the chain", hex.EncodeToString(d.steps[0].items[1].sum), attachment)
	step0 := der(d.steps[0], nil)
	equal("6.1: length of STEP0", len(step0), 225)
	equal("6.1: STEP0", hex.EncodeToString(step0), "3081de"+item+message+method+item+attachment+method)
	equal("6.1: SHA-512 of STEP0", hex.EncodeToString(sum512(step0)), "44cace2618799ae9cd1e0bffdb037458ebb19fcc5e43a7790833a452389f225402a0ae7634a27219af067fa1691d9954e5528ce15cce60c4c52c92b178454dc6")
	equal("6.1: DigestValue of the result", b64(r.sum), "RMrOJhh5munNHgv/2wN0WOuxn8xeQ6d5CDOkUjifIlQCoK52NKJyGa8Gf6FpHZlU5VKM4VzOYMTFLJKxeEVNxg==")
	equal("6.1: that of STEP0", b64(sum512(step0)), b64(r.sum))
	equal("6.1: length of sig-hashchainresult.xml", len(of[crypto.HashChainResult]), 405)
	equal("6.1: SHA-512 of it", b64(sum512(of[crypto.HashChainResult])), "q+Yew8cBTKofLdOd7kN3nTwA122c0krgFQ/2ey5mnvBWGAIuDe9MvWzyWOK87rrKs/u/14Vf9RAYvL2oztYxzw==")

	of = container(t, "asic/valid-non-batch-rest.asice")
	r, d = read(of, TimestampResult, TimestampChain)
	equal("6.4: steps", len(d.steps), 3)
	equal("6.4: length of signatures.xml", len(of[SignatureDocument]), 7547)
	equal("6.4: SHA-512 of it", b64(sum512(of[SignatureDocument])), "Fv2DqfeCx+wzWiCbLcSkiMv0AtIxVPPBePh1hp5O+vlU33agHK/jZ+Ilt0KYObNkd5qD3jFO6MOV5Ss30JC5Qw==")
	equal("6.4: that in the chain", b64(d.steps[2].items[1].sum), b64(sum512(of[SignatureDocument])))
	var value []byte
	for i, want := range []string{
		"3umhqFSzlP3czHGRWlqscp8AzXZsGso2G8qdOOkghxxCc4VTz5ze8yfmBnPEHI0AiWp14OKNi8PgKi02T0Y3fA==",
		"BbnghKdtm/IgEfj2HtgCxqTnCbRvp20oEDse9XUDUxnpvCxqq8DE6B1MkIzj6+7iPviYJWjl3YaSiFd0KvvRcg==",
		"OJeX8QiwfAFqAYFZWh/c0IlOuvo6xj0CpDZk4aXr8Qn3a7yJp7oAI90tslvqhPITPPOmrNhv+N8zEeKBHBX2jg==",
	} {
		octets := der(d.steps[2-i], value)
		value = sum512(octets)
		name := []string{"6.4: STEP2", "6.4: STEP1", "6.4: STEP0"}[i]
		equal(name+", length", len(octets), 225)
		equal(name, b64(value), want)
		kinds := []kind{d.steps[2-i].items[0].kind, d.steps[2-i].items[1].kind}
		equal(name+", first item", kinds[0], hashValue)
		equal(name+", second item", kinds[1], map[bool]kind{true: dataRef, false: stepRef}[i == 0])
	}
	equal("6.4: the result", b64(r.sum), b64(value))
	equal("6.4: where it begins", r.top, TimestampChain+"#STEP0")
}
