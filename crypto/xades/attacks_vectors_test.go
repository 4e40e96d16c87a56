// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// refusedVector is a signature sample that is refused, as the signature of a message and as evidence.
func refusedVector(t *testing.T, file, want string) {
	t.Helper()
	msg := string(vector(t, "signatures/message-0.xml"))
	xml := vector(t, "signatures/"+file)
	mustBe(t, attempt(xml, message(crypto.SHA512, msg)), want)
	_, err := VerifyEvidence(&crypto.Signature{XML: xml}, files{crypto.Message: msg}.resolve)
	mustBe(t, err, want)
}

// The vectors of signature-and-evidence 14.3 by number, as far as they are signature documents.

func TestAttack13Vector(t *testing.T) {
	refusedVector(t, "sign-0-invalid-signature-value.xml", invalidSignature)
}

func TestAttack14Vectors(t *testing.T) {
	refusedVector(t, "sign-0-schema-fail.xml", malformed)
	refusedVector(t, "sign-0-no-signature.xml", malformed)
}

func TestAttack18Vector(t *testing.T) {
	refusedVector(t, "sign-0-ocsp-no-responses.xml", malformed)
}

func TestAttack21Vectors(t *testing.T) {
	refusedVector(t, "extra-certs-digest-invalid.xml", malformed)
	refusedVector(t, "extra-certs-missing-id.xml", malformed)
}

func TestAttack22Vector(t *testing.T) {
	refusedVector(t, "empty.xml", invalidXML)
}

func TestAttack30Vector(t *testing.T) {
	refusedVector(t, "xades.signature.ts.xml", malformed)
}

// TestAttack03Vector builds from the containers what 14.3 asks for: attachments added, dropped and exchanged.
func TestAttack03Vector(t *testing.T) {
	sig, parts, _ := container(t, "asic/valid-signed-message.asice")
	mustBe(t, attempt(sig.XML, parts), "")
	mustBe(t, attempt(sig.XML, append(parts, attached(crypto.SHA512, 1)[1])), malformed)

	sig, parts, _ = container(t, "asic/read/valid-signed-message-with-attachments.asice")
	mustBe(t, attempt(sig.XML, parts), "")
	mustBe(t, attempt(sig.XML, parts[:2]), malformed)
	mustBe(t, attempt(sig.XML, parts[:1]), malformed)
	parts[1].Sum, parts[2].Sum = parts[2].Sum, parts[1].Sum
	mustBe(t, attempt(sig.XML, parts), invalidSignature)
}
