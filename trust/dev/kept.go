// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto/softkey"
)

// How long certificates last, and how long before their end they are made anew. They begin a little before they are
// made, for the clocks of others.
const (
	yearsOfAuthority = 10
	yearsOfKey       = 2
	renewal          = 30 * 24 * time.Hour
	clocks           = time.Hour
)

// kept returns the key of that name for a certificate like the template. Where the storage has none that will be good
// for a while, one is made, by one process at a time.
func (a *Authority) kept(ctx context.Context, years int, template *x509.Certificate, name ...string) (*softkey.Key, error) {
	file := a.file(name...)
	key, err := a.load(ctx, file, template)
	if key != nil || err != nil {
		return key, err
	}
	lock := a.file()
	if err := a.storage.Lock(ctx, lock); err != nil {
		return nil, fmt.Errorf("locking %q: %w", lock, err)
	}
	defer a.storage.Unlock(context.WithoutCancel(ctx), lock) //nolint:errcheck // the key is made all the same
	if key, err = a.load(ctx, file, template); key != nil || err != nil {
		return key, err
	}
	text, err := a.make(template, years)
	if err != nil {
		return nil, fmt.Errorf("making %q: %w", file, err)
	}
	if err := a.storage.Store(ctx, file, text); err != nil {
		return nil, fmt.Errorf("storing %q: %w", file, err)
	}
	if key, err = a.load(ctx, file, template); key == nil && err == nil {
		err = fmt.Errorf("the storage does not give back what %q was", file)
	}
	return key, err
}

// file is the place of a key in the storage; without a name, that of the authority. What could be a path or confuse a
// file system is escaped.
func (a *Authority) file(name ...string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	var b strings.Builder
	b.WriteString("xroad/dev")
	for _, segment := range append([]string{a.instance}, name...) {
		b.WriteByte('/')
		for _, c := range []byte(segment) {
			if strings.IndexByte(plain, c) >= 0 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
	}
	if len(name) > 0 {
		b.WriteString(".pem")
	}
	return b.String()
}

// load returns a stored key that is good for the template, or nil.
func (a *Authority) load(ctx context.Context, file string, template *x509.Certificate) (*softkey.Key, error) {
	text, err := a.storage.Load(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("loading %q: %w", file, err)
	}
	key, err := softkey.ParsePEM(text)
	if err != nil {
		return nil, fmt.Errorf("loading %q (remove it, and another will be made): %w", file, err)
	}
	key.File = file
	if !a.good(key.Chain[0], template) {
		return nil, nil
	}
	return key, nil
}

// good reports whether a certificate is what the template asks for, issued by the CA, and not about to expire.
func (a *Authority) good(c, template *x509.Certificate) bool {
	issuer := c
	if a.ca != nil {
		issuer = a.ca.Chain[0]
	}
	subject, err := asn1.Marshal(template.Subject.ToRDNSequence())
	now := a.clock()
	return err == nil && bytes.Equal(c.RawSubject, subject) && c.KeyUsage == template.KeyUsage && c.IsCA == template.IsCA &&
		issuer.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil &&
		!now.Before(c.NotBefore) && now.Add(renewal).Before(c.NotAfter)
}

// make makes a key and its certificate, PEM. The first is the CA's own.
func (a *Authority) make(template *x509.Certificate, years int) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	const serialBits = 127 // positive, in 16 octets
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	c := *template
	c.SerialNumber = serial
	now := a.clock()
	c.NotBefore, c.NotAfter = now.Add(-clocks), now.AddDate(years, 0, 0)
	parent, signer := &c, crypto.Signer(key)
	if a.ca != nil {
		parent, signer = a.ca.Chain[0], a.ca.Private
		if c.NotAfter.After(parent.NotAfter) {
			c.NotAfter = parent.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}
