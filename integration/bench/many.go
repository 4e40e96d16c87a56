// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// manyRate is the line of many, in Mb/s, and manyPace a rate a little below what it carries.
const (
	manyRate = 568
	manyPace = "rate 64MB"
)

// many measures what large transfers at once do to each other, and to small messages beside them, without a rate and with
// one, which leaves the line's queue empty.
func many(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, manyRate); err != nil {
		return nil, err
	}
	var tables []*table
	for _, e := range []entrant{fairwayStrict, {"Fairway strict, " + manyPace, fairway(fairwayOptions{rate: manyPace})}} {
		t, err := b.many(ctx, e)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func (b *bench) many(ctx context.Context, e entrant) (*table, error) {
	const (
		transfers = 16
		perSecond = 100
		quietTime = 20 * time.Second
	)
	all, err := b.enter(ctx, e)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	c := all[0]
	size := b.sized(512 * megabyte)
	if b.quick && b.size == 0 {
		size /= transfers
	}
	load := func() (*process, error) {
		return b.lab.startRole(b.lab.near, "load", "load", loadJob{c.url, perSecond})
	}

	// The quiet value, after the connections have been made.
	p, err := load()
	if err != nil {
		return nil, err
	}
	sleep(ctx, b.brief(quietTime))
	quiet, err := finish[loadOutcome](p, time.Minute)
	if err != nil {
		return nil, err
	}

	var single, total, p99, middle []float64
	failed := quiet.Failed
	for run := range b.repetitions(often) {
		s, err := b.once(ctx, c, message{Size: size})
		if err != nil {
			return nil, err
		}
		single = append(single, float64(size)/1e6/s.seconds)
		if p, err = load(); err != nil {
			return nil, err
		}
		outcomes, err := b.lab.atOnce(ctx, transfers, job{URL: c.url, Message: message{Size: size}})
		var took float64
		for _, o := range outcomes {
			took = max(took, o.Seconds)
		}
		small, finished := finish[loadOutcome](p, time.Minute)
		if err != nil {
			return nil, err
		}
		if finished != nil {
			return nil, finished
		}
		if small.Failed > 0 {
			fmt.Fprintln(os.Stderr, "a small message failed:", small.Why)
		}
		failed += small.Failed
		total, p99, middle = append(total, transfers*float64(size)/1e6/took), append(p99, small.P99), append(middle, small.Median)
		fmt.Fprintf(os.Stderr, "run %d: one %.1f MB/s, %d at once %.1f MB/s, small messages p99 %s ms\n",
			run+1, single[run], transfers, total[run], ms(small.P99))
	}
	t := &table{
		Title:  fmt.Sprintf("%s: %d transfers of %s at once over %d Mb/s, and %d small messages a second", e.name, transfers, sizeText(size), manyRate, perSecond),
		Header: []string{"", "MB/s, all together", "small messages: median ms", "p99 ms", "failed"},
		Lines: [][]string{
			{"small messages alone", "-", ms(quiet.Median), ms(quiet.P99), fmt.Sprint(quiet.Failed)},
			{"one transfer alone", fmt.Sprintf("%.1f", median(single)), "-", "-", "-"},
			{"all", fmt.Sprintf("%.1f", median(total)), ms(median(middle)), ms(median(p99)), fmt.Sprint(failed - quiet.Failed)},
		},
	}
	t.atLeast("throughput of all / of one alone", median(total)/median(single), 0.95)
	t.atMost("p99 of small messages, ms (3 × alone, and the line's queue)", median(p99)*1000, 3*quiet.P99*1000+queueMilliseconds)
	t.atMost("small messages that failed", float64(failed), 0)
	return t, nil
}

// brief shortens a time in a quick run.
func (b *bench) brief(d time.Duration) time.Duration {
	if b.quick {
		return d / 10
	}
	return d
}

// sleep waits, and not longer than the run lasts.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
