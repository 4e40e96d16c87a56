// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// drain changes the configuration of both servers and then tells them to end, while transfers are under way.
func drain(ctx context.Context, b *bench) ([]*table, error) {
	const (
		rate      = 568
		transfers = 10
	)
	if err := b.shape(ctx, rate); err != nil {
		return nil, err
	}
	size := b.sized(gigabyte)
	if b.quick && b.size == 0 {
		size /= transfers
	}
	t := &table{
		Title:  fmt.Sprintf("%d transfers of %s over %d Mb/s, interrupted", transfers, sizeText(size), rate),
		Header: []string{"", "seconds", "broken", "longest stall of the line, ms", "of a consumer, ms"},
	}
	for _, way := range []struct {
		name    string
		disturb func(ctx context.Context, p *fairwayPair, c *contestant) error
	}{
		{"undisturbed", nil},
		{"both reload", reload},
		{endName, end},
	} {
		// Transfers of the three would not be alike if they were not each the first of their servers.
		b.entered++
		pair := &fairwayPair{b: b, number: b.entered}
		c, err := pair.start(ctx)
		if err != nil {
			return nil, err
		}
		line, err := b.interrupted(ctx, c, transfers, size, func(ctx context.Context) error {
			if way.disturb == nil {
				return nil
			}
			return way.disturb(ctx, pair, c)
		})
		if way.name == endName && err == nil {
			still := remain(c.servers(), 10*time.Second)
			t.atMost(way.name+": servers that go on after their last transfer", float64(still), 0)
		}
		leave([]*contestant{c})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		t.Lines = append(t.Lines, []string{way.name, fmt.Sprintf("%.1f", line.seconds), fmt.Sprint(line.broken), ms(line.stall), ms(line.consumer)})
		if way.disturb != nil {
			t.atMost(way.name+": broken", float64(line.broken), 0)
			t.atMost(way.name+": longest stall of the line, ms", line.stall*1000, 200)
		}
	}
	return []*table{t}, nil
}

const endName = "both are told to end"

// remain returns how many processes have not ended after some time.
func remain(all []*process, patience time.Duration) int {
	late := time.After(patience)
	for i, p := range all {
		select {
		case <-p.exited:
		case <-late:
			return len(all) - i
		}
	}
	return 0
}

// interruption is what became of transfers.
type interruption struct {
	seconds         float64
	broken          int
	stall, consumer float64 // seconds
}

// interrupted runs transfers at once and disturbs them a third of their way.
func (b *bench) interrupted(ctx context.Context, c *contestant, transfers int, size int64, disturb func(context.Context) error) (i interruption, err error) {
	if err := b.greet(ctx, c); err != nil {
		return i, err
	}
	meter, err := b.lab.startRole(b.lab.near, "meter", "meter", meterJob{})
	if err != nil {
		return i, err
	}
	defer meter.stop()
	disturbed := make(chan error, 1)
	begun := time.Now()
	go func() {
		third := lineSeconds(size*int64(transfers), b.rate) / 3
		sleep(ctx, time.Duration(third*float64(time.Second)))
		disturbed <- disturb(ctx)
	}()
	all, broken := b.lab.atOnce(ctx, transfers, job{URL: c.url, Message: message{Size: size}})
	i.seconds = time.Since(begun).Seconds()
	if err := <-disturbed; err != nil {
		return i, err
	}
	for _, o := range all {
		if o.Seconds == 0 {
			i.broken++
		}
		i.consumer = max(i.consumer, o.Stall)
	}
	if broken != nil {
		fmt.Fprintln(os.Stderr, broken)
	}
	report, err := finish[meterOutcome](meter, time.Second)
	i.stall = report.Stall
	return i, err
}

// reload gives both servers another configuration.
func reload(ctx context.Context, p *fairwayPair, c *contestant) error {
	p.options.quota = "quota 1000GB"
	for _, side := range []struct {
		ns      string
		process *process
		write   func(dir string) ([]string, error)
	}{
		{p.b.lab.far, c.far, p.receiver},
		{p.b.lab.near, c.sender, p.sender},
	} {
		argv, err := side.write(filepath.Join(p.b.lab.dir, side.process.name))
		if err != nil {
			return err
		}
		argv[1] = "reload"
		cmd := p.b.lab.command(side.ns, append(argv, "--address", fmt.Sprintf("127.0.0.1:%d", p.port(2000)))...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("reloading %s: %w: %s", side.process.name, err, out)
		}
	}
	// What comes now comes under the new one.
	return p.b.greet(ctx, c)
}

// end tells both servers to end. They end after their last transfer.
func end(_ context.Context, p *fairwayPair, c *contestant) error {
	for _, one := range c.servers() {
		if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return nil
}
