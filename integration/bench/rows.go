// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"syscall"
)

// Sizes and repetitions of the rows.
const (
	megabyte = 1_000_000
	gigabyte = 1_000_000_000
	often    = 5
	seldom   = 3 // from 10 GB on
)

// gatedLimit is how long gated delivery may take in relation to direct HTTP, on whatever line and disk.
const gatedLimit = 1.01

// table2 compares uploads over lines on which the disk does not matter.
func table2(ctx context.Context, b *bench) ([]*table, error) {
	var tables []*table
	for _, line := range []struct {
		rate   float64
		size   int64 // stands for 1 GB
		strict float64
	}{
		{175.6, 256 * megabyte, 1.03},
		{568, gigabyte, 1.08},
	} {
		if err := b.shape(ctx, line.rate); err != nil {
			return nil, err
		}
		t, err := b.upload(ctx, fmt.Sprintf("%s over %g Mb/s", sizeText(b.sized(line.size)), line.rate), line.size, everybody...)
		if err != nil {
			return nil, err
		}
		t.atMost("Fairway strict / direct", t.ratio(fairwayStrict), line.strict)
		t.atMost("Fairway gated / direct", t.ratio(fairwayGated), gatedLimit)
		tables = append(tables, t)
		if b.sized(line.size) < b.sized(gigabyte) {
			full, err := b.whole(ctx, line.rate, line.strict)
			if err != nil {
				return nil, err
			}
			tables = append(tables, full)
		}
	}
	return tables, nil
}

// whole shows once, with 1 GB, what a smaller message stood for.
func (b *bench) whole(ctx context.Context, rate, strict float64) (*table, error) {
	all, err := b.enter(ctx, direct, fairwayStrict, fairwayGated)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	size := b.sized(gigabyte)
	t, err := b.compare(ctx, race{title: fmt.Sprintf("%s over %g Mb/s, once", sizeText(size), rate), message: message{Size: size}, runs: 1}, all)
	if err != nil {
		return nil, err
	}
	t.atMost("Fairway strict / direct", t.ratio(fairwayStrict), strict)
	t.atMost("Fairway gated / direct", t.ratio(fairwayGated), gatedLimit)
	return t, nil
}

// upload compares uploads of one size.
func (b *bench) upload(ctx context.Context, title string, size int64, entrants ...entrant) (*table, error) {
	all, err := b.enter(ctx, entrants...)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	return b.compare(ctx, race{title: title, message: message{Size: b.sized(size)}, runs: b.repetitions(often)}, all)
}

// unshaped compares uploads where only the processors count.
func unshaped(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	all, err := b.enter(ctx, direct, directTLS, caddyPair, nginxPair, fairwayStrict, fairwaySHA512, fairwayGated)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	var tables []*table
	for _, size := range b.sizesOf(1<<30, 4<<30) {
		t, err := b.compare(ctx, race{title: sizeText(size) + ", no limit", message: message{Size: size}, runs: b.repetitions(often)}, all)
		if err != nil {
			return nil, err
		}
		pair := t.of(caddyPair).throughput()
		t.atLeast("throughput with SHA-512 / stock Caddy pair", t.of(fairwaySHA512).throughput()/pair, 0.55)
		t.atLeast("throughput with SHA-256 / stock Caddy pair", t.of(fairwayStrict).throughput()/pair, 0.8)
		t.atMost("core-seconds per GB of both servers with SHA-512", t.of(fairwaySHA512).servers(), 4.8)
		t.atMost("core-seconds per GB of both servers with SHA-256", t.of(fairwayStrict).servers(), 3.2)
		tables = append(tables, t)
	}
	return tables, nil
}

// sizesOf returns the sizes to use where a row would use these: each once.
func (b *bench) sizesOf(sizes ...int64) (all []int64) {
	for _, size := range sizes {
		if s := b.sized(size); len(all) == 0 || all[len(all)-1] != s {
			all = append(all, s)
		}
	}
	return all
}

// mtom compares the two forms of attachments, and the two directions.
func mtom(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	all, err := b.enter(ctx, direct, caddyPair, fairwayStrict, fairwayGated)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	size := b.sized(1 << 30)
	ways := []struct {
		name    string
		message message
	}{
		{"SwA upload", message{Size: size}},
		{"MTOM upload", message{Size: size, MTOM: true}},
		{"SwA download", message{Return: size}},
		{"MTOM download", message{Return: size, MTOM: true}},
	}
	// Turn by turn through all the ways, so that what is compared was measured in the same minutes.
	samples := make([][][]sample, len(ways))
	for run := range b.repetitions(often) {
		for i, way := range ways {
			if samples[i] == nil {
				samples[i] = make([][]sample, len(all))
			}
			for j, c := range all {
				s, err := b.once(ctx, c, way.message)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", way.name, err)
				}
				samples[i][j] = append(samples[i][j], s)
				fmt.Fprintf(os.Stderr, "%s, run %d, %s: %.2f s\n", way.name, run+1, c.name, s.seconds)
			}
		}
	}
	var tables []*table
	for i, way := range ways {
		t := &table{Title: fmt.Sprintf("%s of %s, no limit", way.name, sizeText(size))}
		for j, c := range all {
			t.Results = append(t.Results, b.result(c, way.message, samples[i][j]))
		}
		if i > 0 {
			for _, e := range []entrant{fairwayStrict, fairwayGated} {
				t.atMost(e.name+" / SwA upload", t.of(e).Seconds/tables[0].of(e).Seconds, 1.03)
			}
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// sizes compares uploads of all sizes. Times should be a straight line, and memory should not know the size.
func sizes(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	all, err := b.enter(ctx, direct, fairwayStrict)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	var tables []*table
	var x, y []float64
	var peak float64
	for _, size := range b.sizesOf(megabyte, 10*megabyte, 100*megabyte, gigabyte, 4*gigabyte, 10*gigabyte, 30*gigabyte) {
		if free, err := freeOn(b.lab.dir); err != nil {
			return nil, err
		} else if size > free*9/10 {
			fmt.Fprintf(os.Stderr, "%s left out: %s are free\n", sizeText(size), sizeText(free))
			continue
		}
		runs := often
		if size >= 10*gigabyte {
			runs = seldom
		}
		t, err := b.compare(ctx, race{title: sizeText(size) + ", no limit", message: message{Size: size}, runs: b.repetitions(runs)}, all)
		if err != nil {
			return nil, err
		}
		r := t.of(fairwayStrict)
		x, y = append(x, float64(size)/gigabyte), append(y, r.Seconds)
		for _, role := range []string{"sender", "receiver"} {
			peak = max(peak, float64(r.Memory[role].Anon)/(1<<20))
		}
		tables = append(tables, t)
	}
	last := tables[len(tables)-1]
	last.atMost("peak RssAnon of a server in MiB, all sizes", peak, 64)
	if len(x) >= 4 {
		slope, r2 := fit(x, y)
		half, _ := fit(x[:len(x)-1], y[:len(y)-1])
		last.atLeast("R² of Fairway's time by size", r2, 0.999)
		last.atMost("slope with the largest size / without it, off by", math.Abs(slope/half-1), 0.02)
	}
	return tables, nil
}

// freeOn returns the octets that are free on the disk of a folder.
func freeOn(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}
