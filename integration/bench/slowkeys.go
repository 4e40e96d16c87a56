// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// An operation of a slow key, and how many it has a second.
const (
	slowOperation = 10 * time.Millisecond
	slowRate      = float64(time.Second / slowOperation)
)

// slowkeys is what a crowd gets from members' keys as slow as those in a device, at both ends.
func slowkeys(ctx context.Context, b *bench) (tables []*table, err error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	if b.slow, err = b.build(ctx, "integration/bench/slowserver"); err != nil {
		return nil, err
	}
	keys := fmt.Sprintf("Fairway, %g signatures a second", slowRate)
	var (
		singles = entrant{keys + ", batch off", fairway(fairwayOptions{slow: slowOperation.String(), batch: "batch off"})}
		batches = entrant{keys, fairway(fairwayOptions{slow: slowOperation.String()})}
	)
	all, err := b.enter(ctx, fairwayP256, singles, batches)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	for _, clients := range []int{64, 256} {
		t := &table{Title: fmt.Sprintf("128 B, %d clients, keys with %g signatures a second at both ends", clients, slowRate)}
		// One exchange after another takes all clients of batch off a few seconds.
		if t.Tallies, err = b.tallies(ctx, t.Title, b.crowds(all, message{Content: 128}, clients, 8*time.Second)); err != nil {
			return nil, err
		}
		y := t.tally(batches)
		if clients == 64 {
			t.atMost("p99 ms, 64 clients", y.P99*1000, 60)
		} else {
			t.atLeast("exchanges / signatures of the key, 256 clients", y.PerSecond/slowRate, 40)
			t.atMost("p99 ms, 256 clients", y.P99*1000, 150)
		}
		tables = append(tables, t)
	}
	return tables, nil
}
