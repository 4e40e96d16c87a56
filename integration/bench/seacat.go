// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// smallTime is how long the runs of small messages are that count.
const smallTime = 1500 * time.Millisecond

// A crowd of few, and one that always has somebody waiting.
const (
	few  = 8
	lots = 64
)

// seacat compares small messages of several sizes: the measurement that SeaCat's authors made of theirs.
func seacat(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	simple := []entrant{directFresh, direct, directTLSFresh, directTLS, caddyPair, nginxPair, fairwayP256}
	variants := []entrant{fairwayOneByOne, fairwayNothing, fairwayRSA, fairwayRSASingles}
	all, err := b.enter(ctx, append(simple, variants...)...)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	var tables []*table
	if _, err := exec.LookPath("wrk"); err == nil {
		t, err := b.wrk(ctx, all)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	sizes := []int{128, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10}
	if b.quick {
		sizes = []int{128, 2 << 10, 16 << 10}
	}
	for _, size := range sizes {
		for _, clients := range []int{few, lots} {
			telling := size == 128 || size == 2<<10 // of the sizes, for what is not measured with all of them
			if clients == lots && !telling {
				continue
			}
			chosen := all
			if !telling {
				chosen = among(all, simple)
			}
			title := octets(size) + ", " + crowdText(clients)
			t := &table{Title: title}
			if t.Tallies, err = b.tallies(ctx, title, b.crowds(chosen, message{Content: size}, clients, smallTime)); err != nil {
				return nil, err
			}
			seacatChecks(t, size, clients)
			tables = append(tables, t)
		}
	}
	return tables, nil
}

func seacatChecks(t *table, size, clients int) {
	ours := t.tally(fairwayP256).PerSecond
	pair, least := t.tally(caddyPair).PerSecond, 0.5
	if clients == lots {
		least = 0.9
	}
	t.atLeast("Fairway, P-256 / stock Caddy pair", ours/pair, least)
	if clients == lots {
		t.atLeast("Fairway, RSA-2048 / P-256", t.tally(fairwayRSA).PerSecond/ours, 0.8)
		return
	}
	if size <= 2<<10 {
		t.atLeast("Fairway, P-256 / HTTP, no keep-alive", ours/t.tally(directFresh).PerSecond, 0.35)
	}
	t.atLeast("Fairway, P-256 / HTTPS, no keep-alive", ours/t.tally(directTLSFresh).PerSecond, 12)
}

// among returns the contestants that these entrants have become.
func among(all []*contestant, entrants []entrant) (some []*contestant) {
	for _, c := range all {
		for _, e := range entrants {
			if c.name == e.name {
				some = append(some, c)
			}
		}
	}
	return some
}

// wrk lets another load tool do the same, where it is installed: whether ours takes more of the processors than it must.
func (b *bench) wrk(ctx context.Context, all []*contestant) (*table, error) {
	const size = 128
	t := &table{Title: fmt.Sprintf("the load tool beside wrk, %s, %d clients", octets(size), few), Header: []string{"contestant", "per second", "with wrk", "ours / wrk"}}
	body := message{Content: size}.envelope(false)
	script, err := written(b.lab.dir, "post.lua", fmt.Sprintf("wrk.method = \"POST\"\nwrk.headers[\"Content-Type\"] = \"text/xml; charset=utf-8\"\nwrk.body = [==[%s]==]\n", body))
	if err != nil {
		return nil, err
	}
	some := among(all, []entrant{direct, caddyPair, fairwayP256})
	own, other := make([][]float64, len(some)), make([][]float64, len(some))
	for range b.repetitions(often) {
		for i, c := range some {
			o, _, err := b.press(ctx, b.crowd(c, message{Content: size}, few, 2*time.Second))
			if err != nil {
				return nil, err
			}
			cmd := b.lab.command(b.lab.near, "wrk", "-t", "1", "-c", fmt.Sprint(few), "-d", fmt.Sprintf("%.0fs", max(1, b.brief(2*time.Second).Seconds())), "-s", filepath.Clean(script), c.url)
			text, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("wrk: %w", err)
			}
			_, after, _ := strings.Cut(string(text), "Requests/sec:")
			var perSecond float64
			if _, err := fmt.Sscan(after, &perSecond); err != nil || strings.Contains(string(text), "Non-2xx") {
				return nil, fmt.Errorf("wrk says:\n%s", text)
			}
			own[i], other[i] = append(own[i], o.PerSecond), append(other[i], perSecond)
			fmt.Fprintf(os.Stderr, "%s, %s: %.0f/s, with wrk %.0f/s\n", t.Title, c.name, o.PerSecond, perSecond)
		}
	}
	for i, c := range some {
		ours, theirs := median(own[i]), median(other[i])
		t.Lines = append(t.Lines, []string{c.name, fmt.Sprintf("%.0f", ours), fmt.Sprintf("%.0f", theirs), fmt.Sprintf("%.3f", ours/theirs)})
	}
	return t, nil
}
