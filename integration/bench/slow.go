// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
)

// bounded is the memory, with page cache, of a receiver that has none for the message: the process itself takes half.
const bounded = 32 << 20

// table1 compares uploads over a slow line, with disks that are slow too. Who has no spool runs once for all disks.
func table1(ctx context.Context, b *bench) ([]*table, error) {
	const (
		rate = 52
		size = 128 * megabyte // stands for 1 GB
	)
	if b.quick && b.size == 0 {
		return nil, errors.New("a quick run has no slow disks")
	}
	if err := b.shape(ctx, rate); err != nil {
		return nil, err
	}
	var disks []*disk
	for _, speed := range []float64{16, 72} {
		dir, err := b.openDisk(ctx, speed)
		if err != nil {
			return nil, err
		}
		disks = append(disks,
			&disk{name: fmt.Sprintf("%g MB/s, with cache", speed), dir: dir},
			&disk{name: fmt.Sprintf("%g MB/s, without", speed), dir: dir, bound: bounded})
	}
	entrants := []entrant{direct, directTLS, caddyPair, nginxPair}
	for _, d := range disks {
		entrants = append(entrants, fairwayStrict.on(d), fairwayGated.on(d))
	}
	entrants = append(entrants, xroadModel.on(disks[0])) // once: a row takes half an hour
	t, err := b.upload(ctx, fmt.Sprintf("%s over %d Mb/s, slow disks", sizeText(b.sized(size)), rate), size, entrants...)
	if err != nil {
		return nil, err
	}
	t.checkDisks(disks)

	// The full size, once.
	all, err := b.enter(ctx, direct, fairwayStrict.on(disks[0]))
	if err != nil {
		return nil, err
	}
	defer leave(all)
	full := b.sized(gigabyte)
	whole, err := b.compare(ctx, race{title: fmt.Sprintf("%s over %d Mb/s, slow disk, once", sizeText(full), rate), message: message{Size: full}, runs: 1}, all)
	if err != nil {
		return nil, err
	}
	whole.checkDisks(disks)
	return []*table{t, whole}, nil
}

// checkDisks holds strict delivery to its target where there is memory for the page cache, and gated delivery always.
func (t *table) checkDisks(disks []*disk) {
	for _, r := range t.Results {
		for _, d := range disks {
			if r.Disk != d.name {
				continue
			}
			limit := 1.02
			switch {
			case r.Name == fairwayGated.name:
				limit = gatedLimit
			case r.Name != fairwayStrict.name || d.bound > 0:
				continue
			}
			t.atMost(r.Name+" / direct, "+d.name, r.Seconds/t.Results[0].Seconds, limit)
		}
	}
}

// on is the same entrant with the receiver's files on another disk.
func (e entrant) on(d *disk) entrant {
	return entrant{e.name, func(ctx context.Context, b *bench, number int) (*contestant, error) {
		b.disk = d
		defer func() { b.disk = nil }()
		c, err := e.start(ctx, b, number)
		if err != nil {
			return nil, err
		}
		c.disk = d.name
		if err := d.hold(b.lab.run(), c.far); err != nil {
			leave([]*contestant{c})
			return nil, err
		}
		return c, nil
	}}
}
