// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

const notCreated = "cannot_create_cert_path"

func TestPathAttack16(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	root := issue(t, named("root"), nil, func(c *x509.Certificate) { certifying(c); c.NotAfter = now.AddDate(0, -1, 0) })
	middle := issue(t, named("middle"), root, certifying)
	low := issue(t, named("low"), middle, certifying)
	leaf, deep, direct := issue(t, named("leaf"), middle, nil), issue(t, named("deep"), low, nil), issue(t, named("direct"), root, nil)
	twin := issue(t, named("root"), nil, certifying)
	renewed := issueFor(t, named("middle"), root, middle.key, certifying)

	short := issue(t, named("short"), nil, func(c *x509.Certificate) { certifying(c); c.MaxPathLen, c.MaxPathLenZero = 0, true })
	belowShort := issue(t, named("below short"), short, certifying)
	one := issue(t, named("one"), nil, func(c *x509.Certificate) { certifying(c); c.MaxPathLen = 1 })
	belowOne := issue(t, named("below one"), one, certifying)
	rekeyed := issue(t, named("one"), one, certifying) // of the same name: does not count

	noCA := issue(t, named("no CA"), root, nil)
	noSigning := issue(t, named("no signing"), root, func(c *x509.Certificate) { certifying(c); c.KeyUsage = x509.KeyUsageCRLSign })
	expired := issue(t, named("expired"), root, func(c *x509.Certificate) { certifying(c); c.NotAfter = now.Add(-time.Second) })
	early := issue(t, named("early"), root, func(c *x509.Certificate) { certifying(c); c.NotBefore = now.Add(time.Second) })
	critical := func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
	}
	odd := issue(t, named("odd"), root, func(c *x509.Certificate) { certifying(c); critical(c) })
	constrained := issue(t, named("constrained"), root, func(c *x509.Certificate) {
		certifying(c)
		c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, []string{"example.org"}
	})
	k1024, _ := rsa.GenerateKey(rand.Reader, 1024)
	k224, _ := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)

	certs := func(pairs ...*pair) (all []*x509.Certificate) {
		for _, p := range pairs {
			all = append(all, p.Certificate)
		}
		return all
	}
	same := func(n int, p *pair) (all []*x509.Certificate) {
		for range n {
			c := *p.Certificate
			all = append(all, &c)
		}
		return all
	}
	for _, c := range []struct {
		name   string
		leaf   *pair
		extra  []*x509.Certificate
		anchor *pair
		length int
		cause  string
		words  string
	}{
		{"direct; the anchor has expired", direct, nil, root, 1, "", ""},
		{"through one", leaf, certs(middle), root, 2, "", ""},
		{"through two, in disorder, with others", deep, certs(twin, middle, noCA, low), root, 3, "", ""},
		{"an intermediate is an anchor", deep, nil, low, 1, "", ""},
		{"another certificate of the same key first", leaf, certs(renewed, middle), root, 2, "", ""},
		{"one that has expired and one that has not", issue(t, named("x"), expired, nil), append(certs(expired), issueFor(t, named("expired"), root, expired.key, certifying).Certificate), root, 2, "", ""},
		{"nothing between", deep, certs(low), root, 0, notCreated, "not signed by that approved CA"},
		{"attack 16: a CA of the same name", direct, nil, twin, 0, notCreated, ""},
		{"attack 16: self-signed with the subject of the CA", twin, nil, root, 0, notCreated, ""},
		{"too many", direct, same(maxExtra+1, middle), root, 0, notCreated, "at most 16"},
		{"as many alike as may be", deep, same(maxExtra, low), root, 0, notCreated, ""},

		{"leaf has expired", issue(t, named("x"), root, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), nil, root, 0, invalidPath, "has expired"},
		{"leaf expires now", issue(t, named("x"), root, func(c *x509.Certificate) { c.NotAfter = now }), nil, root, 1, "", ""},
		{"leaf begins now", issue(t, named("x"), root, func(c *x509.Certificate) { c.NotBefore = now }), nil, root, 1, "", ""},
		{"leaf is not yet valid", issue(t, named("x"), root, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }), nil, root, 0, invalidPath, "not yet"},
		{"leaf has an unknown critical extension", issue(t, named("x"), root, critical), nil, root, 0, invalidPath, "critical extension 1.2.3"},
		{"leaf has an RSA key of 1024 bits", issueFor(t, named("x"), root, k1024, nil), nil, root, 0, invalidPath, "1024 bits"},
		{"leaf has an EC key of 224 bits", issueFor(t, named("x"), root, k224, nil), nil, root, 0, invalidPath, "224 bits"},

		{"through one that is no CA", issue(t, named("x"), noCA, nil), certs(noCA), root, 0, invalidPath, "not that of a CA"},
		{"through one that may not sign", issue(t, named("x"), noSigning, nil), certs(noSigning), root, 0, invalidPath, "may not sign"},
		{"through one that has expired", issue(t, named("x"), expired, nil), certs(expired), root, 0, invalidPath, "has expired"},
		{"through one that is not yet valid", issue(t, named("x"), early, nil), certs(early), root, 0, invalidPath, "not yet"},
		{"through one with an unknown critical extension", issue(t, named("x"), odd, nil), certs(odd), root, 0, invalidPath, "critical extension"},
		{"through one with constraints on names", issue(t, named("x"), constrained, nil), certs(constrained), root, 0, invalidPath, "critical extension"},
		{"anchor is no CA", issue(t, named("x"), noCA, nil), nil, noCA, 0, invalidPath, "not that of a CA"},
		{"anchor may not sign", issue(t, named("x"), noSigning, nil), nil, noSigning, 0, invalidPath, "may not sign"},

		{"path length 0, nothing between", issue(t, named("x"), short, nil), nil, short, 1, "", ""},
		{"path length 0, one between", issue(t, named("x"), belowShort, nil), certs(belowShort), short, 0, invalidPath, "allows 0 CAs"},
		{"path length 1, one between", issue(t, named("x"), belowOne, nil), certs(belowOne), one, 2, "", ""},
		{"path length 1, one between and one of the same name", issue(t, named("x"), issue(t, named("y"), rekeyed, certifying), nil), nil, one, 0, notCreated, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &instance{proved: new(crypto.Facts)}
			for range 2 { // the second time with what was proved the first time
				path, err := s.path(c.leaf.Certificate, c.extra, c.anchor.Certificate, now, messages)
				check(t, err, c.cause, c.words)
				if err == nil && (len(path) != c.length || path[0] != c.leaf.Certificate) {
					t.Errorf("a path of %d, want %d", len(path), c.length)
				}
				if err != nil && path != nil {
					t.Error("a path and an error")
				}
			}
		})
	}

	t.Run("a CA of the same name does not count", func(t *testing.T) {
		y := issue(t, named("y"), rekeyed, certifying)
		path, err := (&instance{proved: new(crypto.Facts)}).path(issue(t, named("x"), y, nil).Certificate, certs(y, rekeyed), one.Certificate, now, messages)
		if err != nil || len(path) != 3 {
			t.Errorf("got %d, %v", len(path), err)
		}
	})
	t.Run("too long", func(t *testing.T) {
		var above []*pair
		top := root
		for range maxPath {
			top = issue(t, named("ca "+string(rune('a'+len(above)))), top, certifying)
			above = append(above, top)
		}
		_, err := (&instance{proved: new(crypto.Facts)}).path(issue(t, named("x"), top, nil).Certificate, certs(above...), root.Certificate, now, messages)
		check(t, err, invalidPath, "at most 8")
	})
}

// TestVectorPaths are the cases of CertChainTest: SHA-1, keys and dates of the past.
func TestVectorPaths(t *testing.T) {
	load := func(name string) *x509.Certificate { return vectorCert(t, "certs/test_chain/"+name) }
	root, ca1, ca2, ca3 := load("root_ca"), load("ca_1"), load("ca_2"), load("ca_3")
	past := era{sha1: true}
	for _, c := range []struct {
		name   string
		leaf   *x509.Certificate
		extra  []*x509.Certificate
		era    era
		length int
		cause  string
	}{
		{"user_0", load("user_0"), nil, past, 1, ""},
		{"user_1 through CA 1", load("user_1"), []*x509.Certificate{ca1}, past, 2, ""},
		{"user_3 through CA 1 to 3", load("user_3"), []*x509.Certificate{ca1, ca2, ca3}, past, 4, ""},
		{"user_3 without CA 2", load("user_3"), []*x509.Certificate{ca1, ca3}, past, 0, notCreated},
		{"user_0 in a message of today", load("user_0"), nil, messages, 0, invalidPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, err := (&instance{proved: new(crypto.Facts)}).path(c.leaf, c.extra, root, root.NotBefore.AddDate(0, 0, 5), c.era)
			check(t, err, c.cause, "")
			if len(path) != c.length {
				t.Errorf("a path of %d, want %d", len(path), c.length)
			}
		})
	}
}

func TestExtra(t *testing.T) {
	root := issue(t, named("root"), nil, certifying)
	middle := issue(t, named("middle"), root, certifying)
	twin := issue(t, named("middle"), root, certifying)
	low := issue(t, named("low"), middle, certifying)
	a := func(p *pair) Authority { return Authority{Certificate: p.Certificate} }
	store, err := New(Parameters{Instance: "DEV", Freshness: time.Hour, CAs: []CA{{Authorities: []Authority{a(root), a(twin), a(middle), a(low)}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	subordinate, err := New(Parameters{Instance: "DEV", Freshness: time.Hour, CAs: []CA{{Authorities: []Authority{a(middle)}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		store Store
		cert  *pair
		want  []*pair
	}{
		{"under the root", store, issue(t, named("x"), root, nil), nil},
		{"under one, beside a CA of the same name", store, issue(t, named("x"), middle, nil), []*pair{middle}},
		{"under that CA", store, issue(t, named("x"), twin, nil), []*pair{twin}},
		{"under two", store, issue(t, named("x"), low, nil), []*pair{low, middle}},
		{"the root is not approved: the last one is left out", subordinate, issue(t, named("x"), middle, nil), nil},
		{"of a CA that is not approved", subordinate, issue(t, named("x"), root, nil), nil},
		{"the root itself", store, root, nil},
	} {
		got := c.store.Extra(c.cert.Certificate)
		if len(got) != len(c.want) {
			t.Errorf("%s: got %d certificates, want %d", c.name, len(got), len(c.want))
			continue
		}
		for i := range got {
			if !got[i].Equal(c.want[i].Certificate) {
				t.Errorf("%s: certificate %d is %s (serial %d)", c.name, i, got[i].Subject, got[i].SerialNumber)
			}
		}
	}
}
