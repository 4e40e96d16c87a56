// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// The vectors of signature-and-evidence 14.3 that are of no message, by number.

func TestAttack07Vector(t *testing.T) {
	of := map[string][]byte{"/hashchain.xml": vector(t, "hashchain/hc-verifier1-hashchain.xml"),
		"/message.xml": vector(t, "hashchain/hc-verifier1-message.xml")}
	result := vector(t, "hashchain/hc-verifier1-hashchainresult.xml")
	for unused, want := range map[string]string{"": "", "/unused1": unusedInputs, "/attachment1": unusedInputs} {
		inputs := []crypto.Part{{Name: crypto.Message}}
		if unused != "" {
			inputs = append(inputs, crypto.Part{Name: unused})
		}
		if _, err := Follow(result, inputs, files(of)); cause(t, err) != want {
			t.Errorf("%q: got %v, want %q", unused, err, want)
		}
	}
}

func TestAttack10Vector(t *testing.T) {
	chain := string(vector(t, "hashchain/hc-verifier1-hashchain.xml"))
	of := map[string][]byte{"/hashchain.xml": []byte(replaced(t, chain, `"#STEP1"`, `"#STEP0"`)), "/message.xml": vector(t, "hashchain/hc-verifier1-message.xml")}
	_, err := Follow(vector(t, "hashchain/hc-verifier1-hashchainresult.xml"), []crypto.Part{{Name: crypto.Message}}, files(of))
	if cause(t, err) != malformed {
		t.Errorf("a step of itself: %v", err)
	}
}

func TestAttack11Vector(t *testing.T) {
	of := map[string][]byte{"/hashchain.xml": vector(t, "hashchain/hc-verifier5-hashchain-invalid-schema.xml"),
		"/message.xml": vector(t, "hashchain/hc-verifier3-message.xml")}
	_, err := Follow(vector(t, "hashchain/hc-verifier3-hashchainresult.xml"), []crypto.Part{{Name: crypto.Message}}, files(of))
	if cause(t, err) != malformed {
		t.Errorf("got %v", err)
	}
}

// TestAttack12Vector: a transform that drops comments verifies as a chain, and no message or container may have it.
func TestAttack12Vector(t *testing.T) {
	of := map[string][]byte{"/hashchain.xml": vector(t, "hashchain/hc-verifier3-hashchain.xml"),
		"/message.xml": vector(t, "hashchain/hc-verifier3-message.xml")}
	result := vector(t, "hashchain/hc-verifier3-hashchainresult.xml")
	path, err := Follow(result, []crypto.Part{{Name: crypto.Message}}, files(of))
	if err != nil {
		t.Fatal(err)
	}
	if err := path.Shape(crypto.Message); cause(t, err) != malformed {
		t.Errorf("as a message: %v", err)
	}
	for _, algorithm := range []string{"http://www.w3.org/TR/1999/REC-xslt-19991116", "http://www.w3.org/TR/1999/REC-xpath-19991116",
		"http://www.w3.org/2000/09/xmldsig#enveloped-signature", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315#WithComments"} {
		of["/hashchain.xml"] = []byte(replaced(t, string(vector(t, "hashchain/hc-verifier3-hashchain.xml")), `"http://www.w3.org/TR/2001/REC-xml-c14n-20010315"`, `"`+algorithm+`"`))
		if _, err := Follow(result, []crypto.Part{{Name: crypto.Message}}, files(of)); cause(t, err) != malformed {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
}

// replaced replaces a text that is there.
func replaced(t *testing.T, doc, old, new string) string {
	t.Helper()
	if !strings.Contains(doc, old) {
		t.Fatalf("there is no %s", old)
	}
	return strings.ReplaceAll(doc, old, new)
}
