// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"crypto/rsa"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// TestSection6_2 takes the signature value of the worked example apart: padding, prefix and hash. And openssl accepts it.
func TestSection6_2(t *testing.T) {
	sig, _, _ := container(t, "asic/valid-signed-hashchain.asice")
	d, err := read(sig.XML)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := fitToSign(d.certificate)
	if err != nil {
		t.Fatal(err)
	}
	info := canonicalForm(t, find(parse(t, string(sig.XML)), "SignedInfo"), c14n.Inclusive)
	const hash = "ad568562489cf0352b38a953ba6831f077c051a7d048eee5049df31c90a648dc1278507176b71776bac0bebe2bfc8bfdc9ed15720b3c4215f04d4372ff880ece"
	if len(info) != 1101 || hex.EncodeToString(crypto.SHA512.Sum(info)) != hash {
		t.Errorf("SignedInfo has %d octets and digest %x", len(info), crypto.SHA512.Sum(info))
	}
	line := "\n<ds:DigestValue>q+Yew8cBTKofLdOd7kN3nTwA122c0krgFQ/2ey5mnvBWGAIuDe9MvWzyWOK87rrKs/u/14Vf9RAY&#xD;\nvL2oztYxzw==</ds:DigestValue>\n"
	if !bytes.Contains(info, []byte(line)) {
		t.Errorf("SignedInfo has not the digest with its carriage return:\n%s", info)
	}
	if len(d.value) != 256 {
		t.Errorf("the signature value has %d octets", len(d.value))
	}
	public := cert.PublicKey.(*rsa.PublicKey)
	opened := new(big.Int).Exp(new(big.Int).SetBytes(d.value), big.NewInt(int64(public.E)), public.N).FillBytes(make([]byte, 256))
	prefix := "3051300d060960864801650304020305000440"
	want := "0001" + hex.EncodeToString(bytes.Repeat([]byte{0xff}, 256-3-len(prefix)/2-64)) + "00" + prefix + hash
	if got := hex.EncodeToString(opened); got != want {
		t.Errorf("the public key gives %s, not %s", got, want)
	}

	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := t.TempDir()
	for name, octets := range map[string][]byte{"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), "info": info, "value": d.value} {
		if err := os.WriteFile(filepath.Join(dir, name), octets, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := exec.Command("openssl", "x509", "-in", filepath.Join(dir, "cert"), "-pubkey", "-noout").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("openssl", "dgst", "-sha512", "-verify", filepath.Join(dir, "key"), "-signature", filepath.Join(dir, "value"), filepath.Join(dir, "info")).CombinedOutput()
	if err != nil {
		t.Errorf("openssl: %v\n%s", err, out)
	}
}
