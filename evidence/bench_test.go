// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
)

// unsynced is a file that nobody makes durable.
type unsynced struct{ output }

func (unsynced) Sync() error { return nil }

// generated is a record of 512 octets on the disk, one of so many seconds after another.
func generated(n int) *Record {
	client := ident.Client{Instance: "DEV", Class: "GOV", Member: strconv.Itoa(n % 100)}
	return &Record{
		Time: noon.Add(time.Duration(n) * time.Second), Role: "send", MessageID: fmt.Sprintf("message-%08d", n), RequestID: fmt.Sprintf("request-%08d", n/2),
		Client: client, Service: ident.Service{Client: client, Code: "c"},
		Signature: crypto.Signature{XML: make([]byte, 184-len(strconv.Itoa(n)))},
	}
}

// BenchmarkQuery asks a store of 5 million records of 512 octets each, or of as many as EVIDENCE_BENCH_RECORDS says. The
// store is made in the folder that EVIDENCE_BENCH_DIR names, where it stays for the next time, or in a temporary one.
func BenchmarkQuery(b *testing.B) {
	records := 5_000_000
	if text := os.Getenv("EVIDENCE_BENCH_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	dir := os.Getenv("EVIDENCE_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	s := openAt(b, dir, 0)
	begun := time.Now()
	made := int(s.disk.last.live.Next - 1)
	for n := made; n < records; n++ {
		if _, ok := s.disk.out.(unsynced); !ok {
			s.disk.out = unsynced{s.disk.out} // that of a new segment
		}
		if _, err := s.Put(b.Context(), generated(n)); err != nil {
			b.Fatal(err)
		}
	}
	s.disk.settleAll()
	if made < records {
		b.Logf("made %d records in %v, in %d segments", records-made, time.Since(begun), len(s.disk.segments))
	}
	size := int64(0)
	for _, segment := range s.disk.segments {
		size += segment.known().End
	}
	if octets := (size + int64(records)/2) / int64(records); octets != 512 {
		b.Errorf("records of %d octets", octets)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			openAt(b, dir, 0).Close()
		}
		s := openAt(b, dir, 0)
		defer s.Close()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "MiB-held")
	})
	s = openAt(b, dir, 0)
	defer s.Close()
	one := func(b *testing.B, q func(n int) Query, want int) {
		b.ReportAllocs()
		for b.Loop() {
			found := 0
			for _, err := range s.Find(b.Context(), q(rand.IntN(records))) {
				if err != nil {
					b.Fatal(err)
				}
				found++
			}
			if found != want {
				b.Fatalf("found %d records, want %d", found, want)
			}
		}
	}
	b.Run("message id", func(b *testing.B) {
		one(b, func(n int) Query { return Query{MessageID: fmt.Sprintf("message-%08d", n)} }, 1)
	})
	b.Run("request id", func(b *testing.B) {
		one(b, func(n int) Query { return Query{RequestID: fmt.Sprintf("request-%08d", n/2)} }, 2)
	})
	b.Run("no such id", func(b *testing.B) {
		one(b, func(n int) Query { return Query{MessageID: strconv.Itoa(n)} }, 0)
	})
	b.Run("a minute", func(b *testing.B) {
		one(b, func(n int) Query {
			from := noon.Add(time.Duration(min(n, records-60)) * time.Second)
			return Query{From: from, To: from.Add(time.Minute)}
		}, 60)
	})
	b.Run("number", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Get(b.Context(), 1+rand.Uint64N(uint64(records))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStamp is a full round of time-stamping, and then what it takes to get one of its records when another round
// was looked at before.
func BenchmarkStamp(b *testing.B) {
	s := openAt(b, b.TempDir(), 0)
	o := s.options
	o.Timestamper = new(authority)
	put := func(n int) {
		for range n {
			r := generated(int(s.disk.last.live.Next))
			r.Signature.XML = make([]byte, 8<<10)
			if _, err := s.Put(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("round", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			put(batchLimit)
			b.StartTimer()
			if full, err := s.disk.stampRound(b.Context(), o, batchLimit); err != nil || !full {
				b.Fatal(full, err)
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.disk.tree.tree = nil
			if r, err := s.Get(b.Context(), 1+rand.Uint64N(batchLimit)); err != nil || r.Timestamp == nil {
				b.Fatal(r, err)
			}
		}
	})
}
