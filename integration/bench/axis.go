// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// axis is how long the round trip of many objects in one message takes, by their size: what Axis's users measured of it.
func axis(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	all, err := b.enter(ctx, direct, caddyPair, fairwayP256)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	var turns []turn
	kilobytes := []int{10, 20, 40, 80, 160, 320}
	for _, kb := range kilobytes {
		turns = append(turns, b.crowds(all, message{Content: kb * 1000}, 1, smallTime)...)
	}
	tallies, err := b.tallies(ctx, "round trips", turns)
	if err != nil {
		return nil, err
	}
	var tables []*table
	for i, kb := range kilobytes {
		tables = append(tables, &table{Title: fmt.Sprintf("Round trip of %d KB of objects", kb), Tallies: tallies[i*len(all) : (i+1)*len(all)]})
	}
	var x, y, added []float64
	for i, t := range tables {
		ours := t.tally(fairwayP256).Median
		x, y, added = append(x, float64(kilobytes[i])), append(y, ours), append(added, ours-t.tally(direct).Median)
	}
	last := tables[len(tables)-1]
	_, r2 := fit(x, y)
	last.atLeast("R² of Fairway's time by size", r2, 0.99)
	last.atMost("Fairway's time for 320 KB / for 10 KB", y[len(y)-1]/y[0], 6)
	slope, _ := fit(x, added)
	last.atMost("µs added for each KB, by the slope", slope*1e6, 12)
	return tables, nil
}

// split is how long 1,000 objects take in one call or in many.
func split(ctx context.Context, b *bench) ([]*table, error) {
	const items = 1000
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	all, err := b.enter(ctx, direct, caddyPair, fairwayP256)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	calls := []int{1, 2, 4, 5, 10, 20, 40, 50, 100, 200, 250, 500, 1000}
	var tables []*table
	for _, way := range []struct {
		name    string
		clients int
	}{
		{"one after another", 1},
		{"16 at a time", 16},
	} {
		var turns []turn
		for _, c := range all {
			for _, n := range calls {
				one := b.crowd(c, framed(items/n), way.clients, 750*time.Millisecond)
				one.crowd.Round = n
				turns = append(turns, one)
			}
		}
		title := fmt.Sprintf("%d objects of %d octets in calls %s", items, itemSize, way.name)
		tallies, err := b.tallies(ctx, title, turns)
		if err != nil {
			return nil, err
		}
		t := &table{Title: title, Tallies: tallies}
		var x, y []float64
		for _, tally := range tallies {
			if tally.Name == fairwayP256.name {
				x, y = append(x, float64(tally.Calls)), append(y, tally.Round)
			}
		}
		_, best, _ := spread(y)
		if way.clients == 1 {
			// What two measurements of the same are apart is not slower.
			t.atMost("one call / the best split, one after another", y[0]/best, splitTolerance)
			_, r2 := fit(x, y)
			t.atLeast("R² of time by calls", r2, 0.99)
		} else {
			t.atMost("one call / the best split, 16 at a time", y[0]/best, 2.2)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// splitTolerance is how much slower one call may seem than many.
const splitTolerance = 1.05
