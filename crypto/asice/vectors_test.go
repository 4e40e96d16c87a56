// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"archive/zip"
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto/tsp"
)

// TestVectors are X-Road's containers with the outcomes that its tests assert. Certificates, OCSP responses and tokens are
// for others to judge: here, valid is what is right but for these.
func TestVectors(t *testing.T) {
	for _, test := range []struct {
		file, want string
		proved     []string
		missing    []string
		check      func(t *testing.T, c *Container, p *Proof)
	}{
		{file: "valid-signed-message", proved: []string{"/message.xml"}, check: stampedInside},
		{file: "valid-signed-hashchain", proved: []string{"/message.xml"}, missing: []string{"/attachment1"}, check: stampedInside},
		{file: "valid-batch-ts", proved: []string{"/message.xml"}, check: stampedInBatch},
		{file: "valid-non-batch-rest", proved: []string{"/message.xml", "/attachment1"}, check: stampedInBatch},
		{file: "wrong-message", want: "invalid_signature_value"},
		{file: "invalid-signed-hashchain", want: "malformed_signature.invalid_hash_chain_ref"},
		{file: "invalid-not-signed-hashchain", proved: []string{"/message.xml"}, check: func(t *testing.T, c *Container, p *Proof) {
			if !p.Unreferenced {
				t.Error("nobody is warned of the hash chain")
			}
		}},
		{file: "invalid-incorrect-references", want: "malformed_signature"},
		// Computed: its message has another name. Its signature, which covers a manifest, is not looked at.
		{file: "attachments-legacy", want: "asic_message_not_found"},
		// X-Road's tests only read it. It verifies: signature value and all digests are right.
		{file: "read/valid-signed-message-with-attachments", proved: []string{"/message.xml", "/attachment1", "/attachment2"}, check: stampedInside},
		{file: "read/no-mimetype", want: "asic_mime_type_not_found"},
		{file: "read/no-message", want: "asic_message_not_found"},
		{file: "read/not-asic", want: "asic_mime_type_not_found"},
	} {
		t.Run(test.file, func(t *testing.T) {
			c, err := opened(vector(t, "asic/"+test.file+".asice"))
			var p *Proof
			if err == nil {
				p, err = c.Verify()
			}
			mustBe(t, err, test.want)
			if err != nil {
				return
			}
			var missing []string
			for _, part := range p.Missing {
				missing = append(missing, part.Name)
			}
			if !slices.Equal(p.Proved, test.proved) || !slices.Equal(missing, test.missing) || p.Batch {
				t.Errorf("proved %q, missing %q, batch %v", p.Proved, missing, p.Batch)
			}
			if p.Certificate == nil || len(p.OCSP) != 1 || p.Form != c.Signature.Form() && !p.Unreferenced {
				t.Errorf("verified %+v", p.Verified)
			}
			if test.check != nil {
				test.check(t, c, p)
			}
		})
	}
}

// stampedInside: the token is in the signature document and over the signature value.
func stampedInside(t *testing.T, _ *Container, p *Proof) {
	stamped, token, err := p.Stamp()
	if err != nil || !bytes.Equal(stamped, p.Value) || len(p.Value) != 256 || len(token) < 1000 || token[0] != 0x30 {
		t.Errorf("stamped %x by %x (%v)", stamped, token, err)
	}
}

// stampedInBatch: the token is beside the signature document and over the hash chain result.
func stampedInBatch(t *testing.T, c *Container, p *Proof) {
	stamped, token, err := p.Stamp()
	if err != nil || !bytes.Equal(stamped, c.Stamp.HashChainResult) || len(token) != 2310 {
		t.Errorf("stamped %s by %x (%v)", stamped, token, err)
	}
}

// TestTokens: the tokens of X-Road's containers are over the octets that Stamp says, and by the authority that their
// configuration approves.
func TestTokens(t *testing.T) {
	for _, file := range []string{"valid-signed-message", "valid-signed-hashchain", "valid-batch-ts", "valid-non-batch-rest",
		"invalid-not-signed-hashchain", "read/valid-signed-message-with-attachments"} {
		t.Run(file, func(t *testing.T) {
			p, err := prove(vector(t, "asic/"+file+".asice"))
			if err != nil {
				t.Fatal(err)
			}
			stamped, der, err := p.Stamp()
			if err != nil {
				t.Fatal(err)
			}
			token, err := tsp.ParseToken(der)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := token.Verify(stamped, authorities(t), tsp.Present); err != nil || token.GenTime.Year() != 2024 {
				t.Errorf("%s: %v", token.GenTime, err)
			}
			_, err = token.Verify(append(stamped, '\n'), authorities(t), tsp.Present)
			mustBe(t, err, malformed)
		})
	}
}

// authorities are the time-stamping authorities of the containers' instance.
func authorities(t *testing.T) []*x509.Certificate {
	t.Helper()
	_, after, _ := strings.Cut(string(vector(t, "globalconf/good2_v3/DEV/shared-params.xml")), "<approvedTSA>")
	_, after, _ = strings.Cut(after, "<cert>")
	text, _, _ := strings.Cut(after, "</cert>")
	octets, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(octets)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return []*x509.Certificate{cert}
}

// TestManifests: what X-Road writes into its manifests we write, octet for octet, and the entries are in its order.
func TestManifests(t *testing.T) {
	for _, file := range []string{"valid-batch-ts", "valid-non-batch-rest", "read/valid-signed-message-with-attachments", "valid-signed-message"} {
		t.Run(file, func(t *testing.T) {
			theirs := vector(t, "asic/"+file+".asice")
			ours := written(t, mustOpen(t, theirs))
			got, want := entriesOf(t, ours), entriesOf(t, theirs)
			for _, name := range []string{manifestName, asicManifestName} {
				if got[name] != want[name] {
					t.Errorf("%s is\n%s\nnot\n%s", name, got[name], want[name])
				}
			}
			if file != "valid-signed-message" { // which somebody packed anew
				if got, want := namesOf(t, ours), namesOf(t, theirs); !slices.Equal(got, want) {
					t.Errorf("entries %q, not %q", got, want)
				}
			}
		})
	}
}

// entriesOf reads a ZIP file with the standard library.
func entriesOf(t testing.TB, octets []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name] = string(b)
	}
	return all
}

func namesOf(t testing.TB, octets []byte) []string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	return names
}
