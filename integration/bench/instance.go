// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// ocspPort is where the responder of the authority listens, in either namespace: nobody crosses the line for it.
const ocspPort = "8888"

// writeInstance makes an X-Road instance of two security servers in a folder: authority/{ca,ocsp}.pem, ss1 and ss2 with
// keys, ss1-rsa and ss2-rsa with others for the members, and one shared-params.xml for all.
func writeInstance(ctx context.Context, dir string) error {
	storage := filepath.Join(dir, "storage")
	authority, err := dev.Open(ctx, &certmagic.FileStorage{Path: storage}, "DEV", time.Now)
	if err != nil {
		return err
	}
	type member struct{ Class, Code, Server, Subsystem, Address, AuthHash string }
	members := []member{
		{Class: "GOV", Code: "1111", Server: "ss1", Subsystem: "app", Address: nearAddress},
		{Class: "GOV", Code: "0000", Server: "ss2", Subsystem: "registry", Address: farAddress},
	}
	made := filepath.Join(storage, "xroad", "dev", "DEV")
	for i, m := range members {
		server := ident.Server{Instance: "DEV", Class: m.Class, Member: m.Code, Code: m.Server}
		auth, err := authority.AuthKey(ctx, server)
		if err != nil {
			return err
		}
		if _, err := authority.SignKey(ctx, server.Owner(), server); err != nil {
			return err
		}
		hash := sha256.Sum256(auth.Certificate[0])
		members[i].AuthHash = base64.StdEncoding.EncodeToString(hash[:])
		for from, to := range map[string]string{
			filepath.Join("auth", m.Class, m.Code, m.Server+".pem"):                  "auth.pem",
			filepath.Join("sign", m.Class, m.Code, m.Server, m.Class, m.Code+".pem"): "sign.pem",
		} {
			if err := copyFile(filepath.Join(made, from), filepath.Join(dir, m.Server, to)); err != nil {
				return err
			}
		}
	}
	certificates := make(map[string]string)
	for _, name := range []string{"ca", "ocsp"} {
		file := filepath.Join(dir, "authority", name+".pem")
		if err := copyFile(filepath.Join(made, name+".pem"), file); err != nil {
			return err
		}
		key, err := softkey.Load(file)
		if err != nil {
			return err
		}
		certificates[name] = base64.StdEncoding.EncodeToString(key.Chain[0].Raw)
	}
	for _, m := range members {
		if err := writeRSA(dir, m.Server); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := parameters.Execute(&text, map[string]any{"certificates": certificates, "members": members, "port": ocspPort}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "shared-params.xml"), text.Bytes(), 0o600)
}

// writeRSA makes another folder with the keys of a server, in which that of its member is RSA-2048.
func writeRSA(dir, server string) error {
	ca, err := softkey.Load(filepath.Join(dir, "authority", "ca.pem"))
	if err != nil {
		return err
	}
	sign, err := softkey.Load(filepath.Join(dir, server, "sign.pem"))
	if err != nil {
		return err
	}
	if err := copyFile(filepath.Join(dir, server, "auth.pem"), filepath.Join(dir, server+rsaKeys, "auth.pem")); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	made := sign.Chain[0]
	template := &x509.Certificate{Subject: made.Subject, NotBefore: made.NotBefore, NotAfter: made.NotAfter, KeyUsage: made.KeyUsage}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Chain[0], key.Public(), ca.Private)
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, server+rsaKeys, "sign.pem"), der, key)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

var parameters = template.Must(template.New("").Parse(`<?xml version="1.0" encoding="UTF-8"?>
<conf:conf xmlns:conf="http://x-road.eu/xsd/xroad.xsd">
  <instanceIdentifier>DEV</instanceIdentifier>
  <approvedCA>
    <name>Bench CA</name>
    <topCA>
      <cert>{{.certificates.ca}}</cert>
      <ocsp>
        <url>http://127.0.0.1:{{.port}}/</url>
        <cert>{{.certificates.ocsp}}</cert>
      </ocsp>
    </topCA>
    <certificateProfileInfo>ee.ria.xroad.common.certificateprofile.impl.FiVRKCertificateProfileInfoProvider</certificateProfileInfo>
  </approvedCA>
{{range .members}}  <member id="member{{.Code}}">
    <memberClass>
      <code>{{.Class}}</code>
      <description>{{.Class}}</description>
    </memberClass>
    <memberCode>{{.Code}}</memberCode>
    <name>{{.Code}}</name>
    <subsystem id="subsystem{{.Code}}">
      <subsystemCode>{{.Subsystem}}</subsystemCode>
    </subsystem>
  </member>
{{end}}{{range .members}}  <securityServer>
    <owner>member{{.Code}}</owner>
    <serverCode>{{.Server}}</serverCode>
    <address>{{.Address}}</address>
    <authCertHash>{{.AuthHash}}</authCertHash>
    <client>subsystem{{.Code}}</client>
  </securityServer>
{{end}}  <globalSettings>
    <memberClass>
      <code>GOV</code>
      <description>Government</description>
    </memberClass>
    <ocspFreshnessSeconds>3600</ocspFreshnessSeconds>
  </globalSettings>
</conf:conf>
`))

// responderJob is the folder that writeInstance has made.
type responderJob struct {
	Instance string `json:"instance"`
}

// respond is the authority's OCSP responder. All certificates are good.
func respond(_ context.Context, j responderJob) error {
	ca, err := softkey.Load(filepath.Join(j.Instance, "authority", "ca.pem"))
	if err != nil {
		return err
	}
	responder, err := softkey.Load(filepath.Join(j.Instance, "authority", "ocsp.pem"))
	if err != nil {
		return err
	}
	var issued []*x509.Certificate
	for _, server := range []string{"ss1", "ss2", "ss1" + rsaKeys, "ss2" + rsaKeys} {
		keys, err := softkey.LoadDir(filepath.Join(j.Instance, server))
		if err != nil {
			return err
		}
		for _, key := range keys {
			issued = append(issued, key.Chain[0])
		}
	}
	return http.ListenAndServe("127.0.0.1:"+ocspPort, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
		if err != nil {
			return
		}
		for _, cert := range issued {
			// Serial numbers are random and long, so where one stands in a request, the request is about it.
			if !bytes.Contains(request, cert.SerialNumber.Bytes()) {
				continue
			}
			now := time.Now()
			der, err := ocsp.Respond(cert, ca.Chain[0], responder.Chain[0], responder.Private, now, now.Add(time.Hour), time.Time{})
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/ocsp-response")
			w.Write(der)
			return
		}
		http.Error(w, "not issued here", http.StatusNotFound)
	}))
}

// writePEM writes a certificate and its key into one file.
func writePEM(file string, certificate []byte, key crypto.PrivateKey) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	return nil
}
