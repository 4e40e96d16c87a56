// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// clients is what many information systems that keep their connections get, and what those cost that say nothing.
func clients(ctx context.Context, b *bench) ([]*table, error) {
	most := 4096
	if b.quick {
		most = 512
	}
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	if err := raiseFiles(3 * uint64(most)); err != nil {
		return nil, err
	}
	ours := entrant{"Fairway, P-256, exchanges 4096", fairway(fairwayOptions{crowd: true})}
	all, err := b.enter(ctx, direct, caddyPair, ours)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	var tables []*table
	perSecond := make(map[int]float64)
	for _, n := range []int{1, few, lots, 512, 4096} {
		if n > most {
			continue
		}
		t := &table{Title: "128 B, " + crowdText(n)}
		// The more there are, the longer it takes until each has had its turn, and they tend to come in waves.
		duration := smallTime
		switch {
		case n > 512:
			duration = 12 * time.Second
		case n > lots:
			duration = 8 * time.Second
		}
		if t.Tallies, err = b.tallies(ctx, t.Title, b.crowds(all, message{Content: 128}, n, duration)); err != nil {
			return nil, err
		}
		perSecond[n] = t.tally(ours).PerSecond
		tables = append(tables, t)
	}
	tables[len(tables)-1].atLeast(fmt.Sprintf("Fairway's throughput with %s / with %s", crowdText(most), crowdText(lots)), perSecond[most]/perSecond[lots], 0.85)

	t := &table{Title: crowdText(most) + " that say nothing", Header: []string{"contestant", "RSS of the sender with one, MiB", "with all", "KiB for each"}}
	for _, e := range []entrant{caddyPair, ours} {
		one, with, err := b.idle(ctx, e, most)
		if err != nil {
			return nil, err
		}
		each := (with - one) / 1024 / float64(most-1)
		t.Lines = append(t.Lines, []string{e.name, fmt.Sprintf("%.1f", one/(1<<20)), fmt.Sprintf("%.1f", with/(1<<20)), fmt.Sprintf("%.1f", each)})
		if e.name == ours.name {
			t.atMost("KiB for each idle client", each, 64)
		}
	}
	return append(tables, t), nil
}

// idle returns the memory of a sender that has just started, with one client that has exchanged a message and stays, and
// with many such.
func (b *bench) idle(ctx context.Context, e entrant, most int) (one, all float64, err error) {
	entered, err := b.enter(ctx, e)
	if err != nil {
		return 0, 0, err
	}
	defer leave(entered)
	c := entered[0]
	hold := func(n int) (float64, error) {
		p, err := b.lab.startRole(b.lab.near, "hold", "hold", crowdJob{URL: c.url, Message: message{Content: 128}, Clients: n})
		if err != nil {
			return 0, err
		}
		defer p.stop()
		for begun := time.Now(); !strings.Contains(p.said(), holding); sleep(ctx, 50*time.Millisecond) {
			if gone := isGone(p); gone || ctx.Err() != nil || time.Since(begun) > time.Minute {
				return 0, fmt.Errorf("%d clients are not there: %s", n, p.said())
			}
		}
		// What they used while they were busy is given back in time.
		sleep(ctx, b.brief(20*time.Second))
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.sender.pid()))
		if err != nil {
			return 0, err
		}
		var total, resident float64
		_, err = fmt.Sscan(string(status), &total, &resident)
		return resident * float64(os.Getpagesize()), err
	}
	if one, err = hold(1); err != nil {
		return 0, 0, err
	}
	all, err = hold(most)
	return one, all, err
}

func isGone(p *process) bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// raiseFiles lets this process, and those that it starts from now on, have so many files open.
func raiseFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < n {
		limit.Max = n
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("allowing %d open files: %w", n, err)
	}
	return nil
}
