// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package spool_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/caddy-fairway/fairway/spool"
)

// BenchmarkWrite writes 64 MiB as they come out of TLS, in records, and forgets them. Beside it stands a plain file,
// written in records and in the pieces in which the spool writes.
func BenchmarkWrite(b *testing.B) {
	const size, record, piece = 64 << 20, 16 << 10, 256 << 10
	for _, c := range []struct {
		name    string
		reserve int64
		open    func() spool.Store
	}{
		{"disk", 0, func() spool.Store { return openDisk(b, b.TempDir(), spool.Options{Quota: 1 << 40}) }},
		{"disk, reserved", size, func() spool.Store { return openDisk(b, b.TempDir(), spool.Options{Quota: 1 << 40}) }},
		{"memory", 0, func() spool.Store { return spool.NewMemory(1 << 30) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, p := c.open(), make([]byte, record)
			b.SetBytes(size)
			b.ReportAllocs()
			defer processor(b, size)()
			for b.Loop() {
				e, _ := s.Create(b.Context())
				if err := e.Reserve(c.reserve); err != nil {
					b.Fatal(err)
				}
				for range size / record {
					if _, err := e.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				e.Remove()
			}
		})
	}
	for _, n := range []int{record, piece} {
		b.Run(fmt.Sprintf("plain file, %d KiB", n>>10), func(b *testing.B) {
			dir, p := b.TempDir(), make([]byte, n)
			b.SetBytes(size)
			defer processor(b, size)()
			for b.Loop() {
				f, err := os.CreateTemp(dir, "")
				if err != nil {
					b.Fatal(err)
				}
				for range size / n {
					if _, err := f.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				f.Close()
				os.Remove(f.Name())
			}
		})
	}
}

// processor reports, when what it returns is called, the time of the processor that a MiB took: whatever else the
// machine does, that stays the same.
func processor(b *testing.B, size int64) func() {
	used := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	before := used()
	return func() {
		b.ReportMetric(float64(used()-before)/1e3/float64(b.N)/float64(size>>20), "cpu-us/MiB")
	}
}
