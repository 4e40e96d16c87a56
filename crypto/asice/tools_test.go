// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestTools: other people's programs take our containers for ZIP files that are whole.
func TestTools(t *testing.T) {
	for name, c := range samples(t) {
		t.Run(name, func(t *testing.T) {
			octets := written(t, c)
			file := filepath.Join(t.TempDir(), "container.asice")
			if err := os.WriteFile(file, octets, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Run("unzip", func(t *testing.T) {
				run(t, "unzip", "-tq", file)
				if got := strings.Fields(run(t, "unzip", "-Z1", file)); !slices.Equal(got, namesOf(t, octets)) {
					t.Errorf("unzip finds %q", got)
				}
			})
			t.Run("zipfile", func(t *testing.T) {
				run(t, "python3", "-m", "zipfile", "-t", file)
				got := run(t, "python3", "-c", `import sys, zipfile
for i in zipfile.ZipFile(sys.argv[1]).infolist(): print(i.filename, *i.date_time)`, file)
				for _, name := range namesOf(t, octets) {
					if !strings.Contains(got, name+" 2026 2 3 4 5 6\n") {
						t.Errorf("%s is not in\n%s", name, got)
					}
				}
			})
		})
	}
}

// TestXMLSec: xmlsec1 verifies the signature with what unzip takes out of a container.
func TestXMLSec(t *testing.T) {
	for _, name := range []string{"xmlsec1", "unzip"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
	for name, c := range samples(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "container.asice")
			if err := os.WriteFile(file, written(t, c), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, "unzip", "-q", file, "-d", dir)
			cert := filepath.Join(dir, "cert.pem")
			if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signer().Certificate.Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"--verify", "--id-attr:Id", "http://uri.etsi.org/01903/v1.3.2#:SignedProperties",
				"--pubkey-cert-pem", cert, "--enabled-key-data", "key-name"}
			uris := []string{crypto.Message}
			for n := range c.Attachments {
				uris = append(uris, crypto.Attachment(n))
			}
			if c.Signature.Form() == crypto.Chain {
				uris = []string{crypto.HashChainResult}
			}
			for _, uri := range uris {
				args = append(args, "--url-map:"+uri, filepath.Join(dir, uri))
			}
			args = append(args, filepath.Join(dir, signatureName))
			run(t, "xmlsec1", args...)
			if err := os.WriteFile(filepath.Join(dir, uris[0]), []byte("other"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("xmlsec1", args...).CombinedOutput(); err == nil {
				t.Errorf("xmlsec1 does not look at the data:\n%s", out)
			}
		})
	}
}
