// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// refuse measures how soon a consumer learns that its upload is in vain, and what that cost.
func refuse(ctx context.Context, b *bench) ([]*table, error) {
	const rate = 568
	if err := b.shape(ctx, rate); err != nil {
		return nil, err
	}
	all, err := b.enter(ctx, fairwayStrict)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	size := b.sized(gigabyte)
	t := &table{Title: fmt.Sprintf("%s over %d Mb/s, refused", sizeText(size), rate),
		Header: []string{"refused", "median ms", "max", "envelope alone, ms", "octets across the line, max", "left on disk"}}

	// An envelope that is refused, alone: the round trip.
	const noRight, noRoom = "access_denied", "the spool of this security server is full"
	closed, alone := message{Size: size, Service: "closed"}, message{Service: "closed"}
	trip, err := b.refused(ctx, all[0], alone, noRight)
	if err != nil {
		return nil, err
	}
	// No disk has that much room. It cannot be greeted with an attachment: nothing of the kind passes.
	full, err := fairway(fairwayOptions{spool: "free 8000TB"})(ctx, b, b.entered+1)
	if err != nil {
		return nil, err
	}
	b.entered++
	full.name = "Fairway without room"
	defer leave([]*contestant{full})
	if _, _, err := b.lab.ask(ctx, job{URL: full.url, Message: alone, Patient: true, Refused: noRight}); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, full.far.said())
	}
	full.before = func(ctx context.Context) error {
		_, _, err := b.lab.ask(ctx, job{URL: full.url, Message: alone, Refused: noRight})
		return err
	}
	for _, way := range []struct {
		name       string
		contestant *contestant
		message    message
		fault      string
	}{
		{"no right", all[0], closed, noRight},
		{"no room", full, message{Size: size}, noRoom},
	} {
		r, err := b.refused(ctx, way.contestant, way.message, way.fault)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		left, err := b.left(way.contestant)
		if err != nil {
			return nil, err
		}
		t.Lines = append(t.Lines, []string{way.name, ms(r.seconds), ms(r.most), ms(trip.seconds), fmt.Sprint(r.crossed), fmt.Sprint(left)})
		t.atMost(way.name+": ms more than the envelope alone", (r.seconds-trip.seconds)*1000, 5)
		t.atMost(way.name+": octets across the line", float64(r.crossed), 1<<20)
		t.atMost(way.name+": octets left on disk", float64(left), 0)
	}
	return []*table{t}, nil
}

func ms(seconds float64) string { return fmt.Sprintf("%.1f", seconds*1000) }

// refusal is what refusals of one kind took.
type refusal struct {
	seconds, most float64
	crossed       int64 // octets that left the near end of the line, at most
}

func (b *bench) refused(ctx context.Context, c *contestant, m message, fault string) (r refusal, err error) {
	var seconds []float64
	for range b.repetitions(often) {
		if err := c.before(ctx); err != nil {
			return r, err
		}
		before, _, err := b.lab.crossed(ctx)
		if err != nil {
			return r, err
		}
		o, _, err := b.lab.ask(ctx, job{URL: c.url, Message: m, Refused: fault})
		if err != nil {
			return r, fmt.Errorf("%w\n%s said:\n%s\n%s said:\n%s", err, c.sender.name, c.sender.said(), c.far.name, c.far.said())
		}
		time.Sleep(200 * time.Millisecond) // what is still on its way counts
		after, _, err := b.lab.crossed(ctx)
		if err != nil {
			return r, err
		}
		seconds, r.crossed = append(seconds, o.Seconds), max(r.crossed, after-before)
	}
	r.seconds, _, r.most = spread(seconds)
	return r, nil
}

// left returns the octets in the receiver's spool.
func (b *bench) left(c *contestant) (octets int64, err error) {
	return sizeOf(filepath.Join(b.lab.dir, c.far.name, "spool"))
}
