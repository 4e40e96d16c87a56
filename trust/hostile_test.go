// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
)

// hostile is what a stranger shows, and how it is refused.
type hostile struct {
	name  string
	judge func() error
	want  string // "": it is handled
}

// giant makes a certificate for an RSA key of so many bits, which nobody has.
func giant(t testing.TB, bits uint, subject pkix.Name, issuer *pair) *x509.Certificate {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		t.Fatal(err)
	}
	n.SetBit(n.SetBit(n, 0, 1), int(bits-1), 1)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0)}
	certifying(template)
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.Certificate, &rsa.PublicKey{N: n, E: 1<<31 - 1}, issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// forge puts a signature of so many bits under a certificate that an RSA key has signed.
func forge(t testing.TB, cert *x509.Certificate, bits int) *x509.Certificate {
	t.Helper()
	var parts struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	if _, err := asn1.Unmarshal(cert.Raw, &parts); err != nil {
		t.Fatal(err)
	}
	parts.Signature = asn1.BitString{Bytes: make([]byte, bits/8), BitLength: bits}
	der, err := asn1.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return cert
}

// longName has very many attributes. The cost of writing it out would be their square.
func longName(n int) pkix.Name {
	name := pkix.Name{ExtraNames: make([]pkix.AttributeTypeAndValue, n)}
	for i := range name.ExtraNames {
		name.ExtraNames[i] = pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "x"}
	}
	return name
}

// hostiles are certificates, OCSP responses and configurations that try to cost much.
func hostiles(t testing.TB) []hostile {
	w := newWorld(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	stranger := issue(t, named("CA"), nil, certifying) // calls itself by the name of the approved CA
	byRSA := issue(t, subjectOf(alice, "ss1"), issueFor(t, named("CA"), nil, key, certifying), signing).Certificate
	leaf := issue(t, subjectOf(alice, "ss1"), stranger, func(c *x509.Certificate) {
		c.KeyUsage = x509.KeyUsageContentCommitment | x509.KeyUsageDigitalSignature
	})
	extension := func(size int) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			signing(c)
			c.KeyUsage |= x509.KeyUsageDigitalSignature
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Value: make([]byte, size)}}
		}
	}
	wide := issue(t, subjectOf(alice, "ss1"), w.ca, extension(1<<20)).Certificate
	long := issue(t, longName(20000), w.ca, extension(0)).Certificate
	longIssuer := issue(t, named("leaf"), issue(t, longName(20000), nil, certifying), extension(0)).Certificate
	longSerial := issue(t, named("leaf"), w.ca, func(c *x509.Certificate) {
		extension(0)(c)
		c.SerialNumber = new(big.Int).Lsh(big.NewInt(1), 1<<22)
	}).Certificate
	giants := []*x509.Certificate{giant(t, 1<<16, named("CA"), stranger)}
	var crowd, loop []*x509.Certificate
	for range maxExtra {
		crowd = append(crowd, giant(t, maxRSA, named("CA"), stranger))
		loop = append(loop, issueFor(t, named("CA"), stranger, stranger.key, certifying).Certificate)
	}
	full := good(t, w.sign, w.ca, w.ca, now)
	full = append(full, make([]byte, 64<<10-len(full))...)
	names := ocspOfLongName(t, w)
	many := func(response []byte, n int) (all [][]byte) {
		for range n {
			all = append(all, response)
		}
		return all
	}
	var hostiles []hostile
	add := func(name string, want string, judge func() error) {
		hostiles = append(hostiles, hostile{name, judge, want})
	}
	both := func(name, want string, leaf *x509.Certificate, extra []*x509.Certificate, responses ...[]byte) {
		add(name+", signing", want, func() error { return w.store.VerifySign(leaf, extra, responses, alice, now) })
		auth := "ssl_authentication_failed"
		if leaf != w.auth.Certificate && strings.HasPrefix(want, invalidPath) && len(extra) == 0 && leaf != w.sign.Certificate {
			auth += "." + want
		}
		add(name+", authentication", auth, func() error {
			return w.store.VerifyAuth(append([]*x509.Certificate{leaf}, extra...), responses, alice, now)
		})
	}
	both("certificate of a long extension", invalidPath, wide, nil)
	both("certificate of a long name", invalidPath, long, nil)
	both("certificate by a long name", invalidPath, longIssuer, nil)
	both("certificate of a long serial number", invalidPath, longSerial, nil)
	both("CA of a giant key", invalidPath, forge(t, byRSA, 1<<16), giants)
	both("crowd of CAs of large keys", notCreated, forge(t, byRSA, maxRSA), crowd)
	both("crowd of CAs of other keys", notCreated, leaf.Certificate, crowd)
	both("CAs that sign each other", notCreated, leaf.Certificate, loop)
	both("1,000 CAs", notCreated, leaf.Certificate, append(make([]*x509.Certificate, 0, 1000), repeat(crowd[0], 1000)...))
	both("CA of a long extension", invalidPath, leaf.Certificate, []*x509.Certificate{wide})
	add("which server has a long name", "ssl_authentication_failed", func() error { _, err := w.store.ServerOf(long); return err })
	// A registered server may show what it likes beside its certificate.
	both("17 responses that go on", invalidPath+".cert_validation", w.sign.Certificate, nil, many(full, 17)...)
	both("17 responses by a long name", invalidPath+".cert_validation", w.sign.Certificate, nil, many(names, 17)...)

	l := newLand(t, "DEV")
	cert := encoded(l.ca.Raw)
	parse := func(name, want, doc string) {
		octets := []byte(doc)
		add("configuration: "+name, want, func() error { _, err := ParseShared(octets); return err })
	}
	parse("5,000 members", "", manyMembers(l, 5000))
	parse("deep nesting", "malformed_global_conf", l.shared("<approvedTSA>", strings.Repeat("<a>", 100000)))
	parse("a certificate of a long extension", "malformed_global_conf", l.shared(cert, encoded(wide.Raw)))
	parse("1 MiB of base64 for a certificate", "malformed_global_conf", l.shared(cert, strings.Repeat("AAAA", 1<<18)))
	parse("a long attribute", "malformed_global_conf", l.shared("<member ", `<member x="`+strings.Repeat("&lt;", 1<<20)))
	return hostiles
}

func repeat(c *x509.Certificate, n int) (all []*x509.Certificate) {
	for range n {
		again := *c
		all = append(all, &again)
	}
	return all
}

// ocspOfLongName is a response whose responder has as many attributes as fit.
func ocspOfLongName(t testing.TB, w *world) []byte {
	t.Helper()
	responder := issue(t, longName(2200), w.ca, nil)
	der, err := ocsp.Respond(w.sign.Certificate, w.ca.Certificate, responder.Certificate, responder.key, now, now, now)
	if err != nil || len(der) > 64<<10 {
		t.Fatalf("%d octets, %v", len(der), err)
	}
	return der
}

// maxMemory is how much memory a hostile input may take in all, be it used at once or one after the other.
const maxMemory = 32 << 20

// TestHostile: what costs a stranger little to send costs us little to refuse.
func TestHostile(t *testing.T) {
	for _, h := range hostiles(t) {
		t.Run(h.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := h.judge()
			runtime.ReadMemStats(&after)
			check(t, err, h.want, "")
			if n := after.TotalAlloc - before.TotalAlloc; n > maxMemory {
				t.Errorf("it took %d octets of memory", n)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d octets", len(err.Error()))
			}
		})
	}
}

// TestHostileFiles: a file that is too long is not read to see that it is.
func TestHostileFiles(t *testing.T) {
	f := newFederation(t)
	for _, name := range []string{"DEV/shared-params.xml", "DEV/private-params.xml", "DEV/shared-params.xml.metadata", "instance-identifier"} {
		if err := os.Truncate(filepath.Join(f.dir, name), 1<<30); err != nil { // with zeros, which take no room
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := OpenGlobalConf(f.dir, f.clock, nil)
		runtime.ReadMemStats(&after)
		check(t, err, "malformed_global_conf", "longer than")
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s took %d octets of memory", name, n)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := OpenVerificationFile(filepath.Join(f.dir, "DEV/shared-params.xml"))
	runtime.ReadMemStats(&after)
	check(t, err, "malformed_global_conf", "longer than")
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("it took %d octets of memory", n)
	}
}

func BenchmarkHostile(b *testing.B) {
	for _, h := range hostiles(b) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := h.judge(); causes(err) != h.want {
					b.Fatal(err)
				}
			}
		})
	}
}
