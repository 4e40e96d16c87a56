// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/ident"
)

// manyMembers writes an instance of so many members with two subsystems each; every tenth has a security server, on
// which the ten members after it are clients, and one client is on all of them.
func manyMembers(l *land, n int) string {
	var members, servers strings.Builder
	for i := range n {
		fmt.Fprintf(&members, "<member id=\"x%d\"><memberClass><code>COM</code><description>Commercial</description></memberClass>"+
			"<memberCode>%08d</memberCode><name>Company of many words, number %[1]d</name>"+
			"<subsystem id=\"x%[1]da\"><subsystemCode>accounts</subsystemCode></subsystem>"+
			"<subsystem id=\"x%[1]db\"><subsystemCode>registry</subsystemCode><subsystemName>The registry</subsystemName></subsystem></member>\n", i, i)
		if i%10 > 0 {
			continue
		}
		sum := sha256.Sum256(fmt.Append(nil, i))
		fmt.Fprintf(&servers, "<securityServer><owner>x%d</owner><serverCode>ss</serverCode><address>ss%[1]d.example</address><authCertHash>%s</authCertHash>", i, encoded(sum[:]))
		for j := i; j < i+10 && j < n; j++ {
			fmt.Fprintf(&servers, "<client>x%da</client><client>x%[1]db</client>", j)
		}
		servers.WriteString("<client>s1</client></securityServer>\n")
	}
	return l.shared("<securityServer>", members.String()+servers.String()+"<securityServer>")
}

// TestManyMembers bounds what a large instance costs: the work by what is allocated, the memory by what stays.
func TestManyMembers(t *testing.T) {
	const n = 5000
	l := newLand(t, "DEV")
	doc := []byte(manyMembers(l, n))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p, err := parseShared(doc, lastVersion)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newInstance(p)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated, count := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	p = Parameters{}
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d octets of XML: %d octets in %d pieces are allocated, %d octets stay", len(doc), allocated, count, kept)
	if limit := uint64(20 * len(doc)); allocated > limit {
		t.Errorf("%d octets are allocated; at most %d should be", allocated, limit)
	}
	if limit := uint64(100 * n); count > limit {
		t.Errorf("%d pieces are allocated; at most %d should be", count, limit)
	}
	if limit := uint64(4*len(doc) + 1<<20); kept > limit {
		t.Errorf("%d octets stay; at most %d should", kept, limit)
	}
	if len(s.p.Members) != 3*n+3 || len(s.serving[l.app]) != n/10+1 {
		t.Errorf("there are %d members, and %s is on %d servers", len(s.p.Members), l.app, len(s.serving[l.app]))
	}
	last := ident.Client{Instance: "DEV", Class: "COM", Member: "00004999", Subsystem: "registry"}
	if e, err := s.Endpoints(last, nil); err != nil || e[0].Address != "ss4990.example" {
		t.Errorf("%v, %v", e, err)
	}
}

// TestManyServers has one client on very many servers, and one certificate for all: no lookup may go through all of
// them for each.
func TestManyServers(t *testing.T) {
	const n = 100_000
	p := Parameters{Instance: "DEV", Freshness: 1, Servers: make([]Server, n)}
	for i := range p.Servers {
		id := ss1
		id.Code = fmt.Sprint(i)
		p.Servers[i] = Server{ID: id, Clients: []ident.Client{app, app, bob}, AuthCertHashes: make([][sha256.Size]byte, 2)}
	}
	s, err := newInstance(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.serving[app]) != n || len(s.serving[alice]) != n || len(s.byHash[[sha256.Size]byte{}]) != n {
		t.Error("servers are missing, or there twice")
	}
}

func BenchmarkParseShared(b *testing.B) {
	doc := []byte(manyMembers(newLand(b, "DEV"), 5000))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := ParseShared(doc)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := newInstance(p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPoll looks at a folder that did not change.
func BenchmarkPoll(b *testing.B) {
	f := newFederation(b)
	g := f.open(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.read(false); err != nil {
			b.Fatal(err)
		}
	}
}
