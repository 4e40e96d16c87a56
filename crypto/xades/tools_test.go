// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestAgainstXMLSec lets xmlsec1 verify what we emit: signature value, signed properties and every reference.
func TestAgainstXMLSec(t *testing.T) {
	xmlsec, err := exec.LookPath("xmlsec1")
	if err != nil {
		t.Skip("xmlsec1 is not installed")
	}
	write := func(t *testing.T, dir, name string, octets []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, octets, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, kind := range []string{"RSA-2048", "RSA-3072", "P-256", "P-384"} {
		for _, test := range []struct {
			form        crypto.Form
			digest      crypto.Digest
			attachments int
			extra       int
		}{
			{crypto.Direct, crypto.SHA512, 0, 0},
			{crypto.Direct, crypto.SHA512, 2, 1},
			{crypto.Direct, crypto.SHA256, 2, 0},
			{crypto.Direct, crypto.SHA512, 28, 0},
			{crypto.Chain, crypto.SHA512, 2, 1},
			{crypto.Chain, crypto.SHA512, 29, 0},
		} {
			t.Run(fmt.Sprint(kind, " ", test.form, " ", test.digest, " ", test.attachments), func(t *testing.T) {
				texts := []string{"<message/>"}
				for i := range test.attachments {
					texts = append(texts, fmt.Sprint("attachment ", i+1))
				}
				parts := message(test.digest, texts...)
				s := signer(t, kind, test.extra)
				sig := mustSign(t, s, parts, test.form)
				dir := t.TempDir()
				args := []string{"--verify", "--id-attr:Id", xadesSpace + ":SignedProperties",
					"--pubkey-cert-pem", write(t, dir, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate.Raw})),
					"--enabled-key-data", "key-name"}
				files := map[string][]byte{crypto.HashChainResult: sig.HashChainResult}
				if sig.Form() == crypto.Direct {
					files = make(map[string][]byte)
					for i, p := range parts {
						files[p.Name] = []byte(texts[i])
					}
				}
				for uri, octets := range files {
					args = append(args, "--url-map:"+uri, write(t, dir, filepath.Base(uri), octets))
				}
				verify := func(xml []byte) (string, error) {
					out, err := exec.Command(xmlsec, append(args, write(t, dir, "signatures.xml", xml))...).CombinedOutput()
					return string(out), err
				}
				if out, err := verify(sig.XML); err != nil {
					t.Errorf("%v\n%s\n%s", err, out, sig.XML)
				}
				if _, err := verify([]byte(change(t, sig.XML, "2026-02-03", "2027-02-03"))); err == nil {
					t.Error("xmlsec1 does not look at the signed properties")
				}
				write(t, dir, filepath.Base(parts[0].Name), []byte("<other/>"))
				write(t, dir, filepath.Base(crypto.HashChainResult), []byte("<other/>"))
				if _, err := verify(sig.XML); err == nil {
					t.Error("xmlsec1 does not look at the data")
				}
			})
		}
	}
}
