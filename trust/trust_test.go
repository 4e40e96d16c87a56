// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pair is a certificate with its key.
type pair struct {
	*x509.Certificate
	key crypto.Signer
}

var serial int64

// issue makes a certificate; without issuer it signs itself.
func issue(t testing.TB, subject pkix.Name, issuer *pair, change func(*x509.Certificate)) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issueFor(t, subject, issuer, key, change)
}

func issueFor(t testing.TB, subject pkix.Name, issuer *pair, key crypto.Signer, change func(*x509.Certificate)) *pair {
	t.Helper()
	serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      subject,
		NotBefore:    now.AddDate(-1, 0, 0),
		NotAfter:     now.AddDate(1, 0, 0),
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.Certificate, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{cert, key}
}

func named(cn string) pkix.Name { return pkix.Name{CommonName: cn} }

func certifying(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
}

func signing(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageContentCommitment }

func authentication(c *x509.Certificate) {
	c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyAgreement
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
}

// subjectOf is the FiVRK subject of a signing certificate.
func subjectOf(member ident.Client, serverCode string) pkix.Name {
	return pkix.Name{
		Country: []string{"FI"}, Organization: []string{"Test"}, CommonName: member.Member,
		SerialNumber: member.Instance + "/" + serverCode + "/" + member.Class,
	}
}

func attribute(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

func good(t testing.TB, cert, issuer, responder *pair, thisUpdate time.Time) []byte {
	t.Helper()
	der, err := ocsp.Respond(cert.Certificate, issuer.Certificate, responder.Certificate, responder.key, thisUpdate, thisUpdate.Add(time.Hour), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// causes joins the causes of a chain of errors as a fault would.
func causes(err error) string {
	var all []string
	for ; err != nil; err = errors.Unwrap(err) {
		if c, ok := err.(interface{ Cause() string }); ok {
			all = append(all, c.Cause())
		}
	}
	return strings.Join(all, ".")
}

// check compares an error with the causes and words that it should have.
func check(t *testing.T, err error, want, words string) {
	t.Helper()
	if causes(err) != want || want == "" && err != nil || err != nil && !strings.Contains(err.Error(), words) {
		t.Errorf("got %q, %v; want %q saying %q", causes(err), err, want, words)
	}
}

var (
	alice  = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111"}
	app    = ident.Client{Instance: "DEV", Class: "GOV", Member: "1111", Subsystem: "app"}
	bob    = ident.Client{Instance: "DEV", Class: "COM", Member: "2222"}
	ss1    = ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}
	ss2    = ident.Server{Instance: "DEV", Class: "COM", Member: "2222", Code: "ss2"}
	ss3    = ident.Server{Instance: "DEV", Class: "COM", Member: "2222", Code: "ss3"}
	closed = "closed today"
)

// world is an instance with two members, who have a security server each, and a third server that is not reachable.
type world struct {
	ca, responder, only *pair // only is approved for authentication only
	auth, auth2, sign   *pair
	store               *instance
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{ca: issue(t, named("CA"), nil, certifying), only: issue(t, named("TLS CA"), nil, certifying)}
	w.responder = issue(t, named("OCSP"), issue(t, named("elsewhere"), nil, certifying), nil)
	w.auth = issue(t, named("ss1"), w.ca, authentication)
	w.auth2 = issue(t, named("ss2"), w.only, authentication)
	w.sign = issue(t, subjectOf(alice, "ss1"), w.ca, signing)
	responders := []Responder{{URL: "http://127.0.0.1:1/", Certificate: w.responder.Certificate}, {Certificate: nil}}
	store, err := New(Parameters{
		Instance: "DEV",
		CAs: []CA{
			{Name: "first", Profile: FiVRK, Authorities: []Authority{{w.ca.Certificate, responders}}},
			{Name: "second", Profile: FiVRK, AuthenticationOnly: true, Authorities: []Authority{{w.only.Certificate, nil}}},
		},
		Members: []Member{{ID: alice, Name: "Alice"}, {ID: app, Name: "Alice", Sub: "App"}, {ID: bob, Name: "Bob"}},
		Servers: []Server{
			{ID: ss1, Address: "ss1.example", AuthCertHashes: [][32]byte{sha256.Sum256(w.auth.Raw)}, Clients: []ident.Client{app, alice, app}},
			{ID: ss2, Address: "127.0.0.1:6500", OCSPAddress: "127.0.0.1:6577", AuthCertHashes: [][32]byte{sha256.Sum256(w.auth2.Raw)},
				Clients: []ident.Client{app}, Maintenance: &closed},
			{ID: ss3},
		},
		Groups:    map[string][]ident.Client{"all": {app, {Instance: "EE", Class: "GOV", Member: "9"}}},
		Freshness: time.Hour,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.store = store.(*instance)
	return w
}

const vectors = "../../shared/vectors/xroad"

// vector reads a file of the vectors, or skips.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func vectorCert(t testing.TB, name string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(vector(t, name+".pem"))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
