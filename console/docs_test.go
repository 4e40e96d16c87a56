// SPDX-License-Identifier: Apache-2.0

package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCaddyfilesOfDocs validates every Caddyfile that the documentation shows whole.
func TestCaddyfilesOfDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	caddyfiles := map[string][]string{}
	for _, page := range append(pages, "../README.md") {
		caddyfiles[filepath.Base(page)] = blocks(t, page, "caddyfile")
	}
	t.Chdir(files(t, "system.pem", newCertificate(t), "service.pem", newCertificate(t)))
	for page, texts := range caddyfiles {
		for _, text := range texts {
			t.Run(page, func(t *testing.T) { validate(t, []byte(text)) })
		}
	}
	if n := len(caddyfiles["README.md"]); n != 2 {
		t.Errorf("the README shows %d Caddyfiles: want a sender's and a receiver's", n)
	}
}

// TestReadmeShowsWhatInitWrites keeps the two in step.
func TestReadmeShowsWhatInitWrites(t *testing.T) {
	if got, want := blocks(t, "../README.md", "caddyfile"), []string{senderCaddyfile, receiverCaddyfile}; !slices.Equal(got, want) {
		t.Error("the Caddyfiles of the README are not those of console/starter, in this order: sender, receiver")
	}
}

// blocks returns the code blocks of a page that are marked with that language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, after := range strings.Split(string(text), "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(after, "```")
		found = append(found, block)
	}
	return found
}

// TestFilesOfDocs: a page that names a file of the documentation names one that is there.
func TestFilesOfDocs(t *testing.T) {
	name := regexp.MustCompile(`\bdocs/[\w.-]*\.\w+`)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../Caddyfile.example") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range name.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("%s names %s: %v", page, file, err)
			}
		}
	}
}

// newCertificate returns some certificate, PEM.
func newCertificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestLinks follows every link of a page to another file of the repository.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	for _, pattern := range []string{"../*.md", "../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s links to %s: %v", page, m[1], err)
				}
			}
		}
	}
}
