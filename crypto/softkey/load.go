// SPDX-License-Identifier: Apache-2.0

package softkey

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// maxFile is the largest file that is read, in octets.
const maxFile = 1 << 20

// Load reads one PEM file (a key and its certificates) or PKCS#12 file. The password of FILE.p12 is the first line of
// FILE.pass beside it; without that file it is empty. Files that others than their owner may read are refused.
func Load(file string) (*Key, error) {
	key, err := load(file)
	if err != nil {
		return nil, fmt.Errorf("loading key file %q: %w", file, err)
	}
	key.File = file
	return key, nil
}

func load(file string) (*Key, error) {
	data, err := ReadSecret(file)
	if err != nil {
		return nil, err
	}
	ext := filepath.Ext(file)
	if ext != ".p12" && ext != ".pfx" {
		return ParsePEM(data)
	}
	passwordFile := strings.TrimSuffix(file, ext) + ".pass"
	password, err := ReadSecret(passwordFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading its password: %w", err)
	}
	first, _, _ := bytes.Cut(password, []byte("\n"))
	key, err := parsePKCS12(data, strings.TrimSuffix(string(first), "\r"))
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return nil, fmt.Errorf("%w: it belongs in the first line of %s", err, filepath.Base(passwordFile))
	}
	return key, err
}

// LoadDir reads every *.pem and *.p12 of a folder, in order of name. Files others may read are refused. A file that
// cannot be read is an error for the whole folder.
func LoadDir(dir string) ([]*Key, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("loading keys: %w", err)
	}
	var keys []*Key
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.IsDir() || ext != ".pem" && ext != ".p12" {
			continue
		}
		key, err := Load(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// ReadSecret reads a file of at most 1 MiB that nobody but its owner may read, such as one with a PIN.
func ReadSecret(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(file))
	}
	// Windows has no such bits: its answer is the same for every file.
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("others than its owner may use it (mode %04o): chmod 600 %s", mode, filepath.Base(file))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d octets", filepath.Base(file), maxFile)
	}
	return data, nil
}

// ParsePEM reads one private key in the clear (PKCS#8, PKCS#1 or SEC 1) and its certificates, in any order.
func ParsePEM(data []byte) (*Key, error) {
	var private any
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Headers["DEK-Info"] != "" || block.Type == "ENCRYPTED PRIVATE KEY" {
			return nil, errors.New("its private key is encrypted; keep it in the clear, readable by its owner only, or in a PKCS#12 file")
		}
		var key any
		var cert *x509.Certificate
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "CERTIFICATE":
			cert, err = x509.ParseCertificate(block.Bytes)
		case "EC PARAMETERS": // openssl writes these before the key, which names its curve again
		default:
			return nil, fmt.Errorf("it holds a %q; only a private key and certificates belong there", block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("reading its %q: %w", block.Type, err)
		}
		if key != nil && private != nil {
			return nil, errors.New("it holds two private keys; each belongs in a file of its own")
		}
		if key != nil {
			private = key
		}
		if cert != nil {
			certs = append(certs, cert)
		}
	}
	if private == nil || len(certs) == 0 {
		return nil, errors.New("it must hold a private key and its certificate, as PEM")
	}
	return assemble(private, certs)
}

// parsePKCS12 reads a PKCS#12 file, the RC2 and triple DES of old tools included.
func parsePKCS12(data []byte, password string) (*Key, error) {
	const indefinite = 0x80 // the length octet of BER that DER does not have
	if len(data) > 1 && data[0] == 0x30 && data[1] == indefinite {
		return nil, errors.New("it is BER, not DER; openssl rewrites it: openssl pkcs12 -in OLD -nodes | openssl pkcs12 -export -out NEW")
	}
	private, leaf, above, err := pkcs12.DecodeChain(data, password)
	if err != nil {
		return nil, err
	}
	return assemble(private, append([]*x509.Certificate{leaf}, above...))
}
