// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
)

// tally is the runs of one contestant with one crowd. Figures are medians of the runs, but for memory, which is the peak.
type tally struct {
	Name      string             `json:"name"`
	Content   int                `json:"content"` // octets in the Body
	Clients   int                `json:"clients"`
	Calls     int                `json:"calls,omitempty"` // of a round
	Runs      int                `json:"runs"`
	PerSecond float64            `json:"per_second"` // exchanges
	Least     float64            `json:"least"`
	Most      float64            `json:"most"`
	Median    float64            `json:"median,omitempty"` // seconds of an exchange
	P99       float64            `json:"p99,omitempty"`
	Round     float64            `json:"round,omitempty"` // seconds of a round
	CPU       map[string]float64 `json:"cpu"`             // core-seconds of 1,000 exchanges, by role
	Memory    map[string]memory  `json:"memory"`          // peaks by role
}

// turn is what a contestant is to do when it is its turn.
type turn struct {
	contestant *contestant
	crowd      crowdJob
}

// crowd returns a turn of a contestant with so many clients, who go on for a time after another one to warm up.
func (b *bench) crowd(c *contestant, m message, clients int, count time.Duration) turn {
	count = b.brief(count)
	return turn{c, crowdJob{URL: c.url, Trust: c.trust, Fresh: c.fresh, Message: m, Clients: clients, Warm: count / 5, Count: count}}
}

// crowds returns such turns of several contestants.
func (b *bench) crowds(all []*contestant, m message, clients int, count time.Duration) (turns []turn) {
	for _, c := range all {
		turns = append(turns, b.crowd(c, m, clients, count))
	}
	return turns
}

// tallies lets contestants carry small messages, turn by turn.
func (b *bench) tallies(ctx context.Context, title string, turns []turn) ([]*tally, error) {
	outcomes, samples := make([][]crowdOutcome, len(turns)), make([][]sample, len(turns))
	for run := range b.repetitions(often) {
		for i, t := range turns {
			o, s, err := b.press(ctx, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", title, err)
			}
			outcomes[i], samples[i] = append(outcomes[i], o), append(samples[i], s)
			fmt.Fprintf(os.Stderr, "%s, run %d, %s, %s, %s: %.0f/s\n", title, run+1, t.contestant.name, octets(t.crowd.Message.Content), crowdText(t.crowd.Clients), o.PerSecond)
		}
	}
	var all []*tally
	for i, t := range turns {
		all = append(all, t.sum(outcomes[i], samples[i]))
		if err := b.profiled(ctx, title, t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// press lets a crowd do its job.
func (b *bench) press(ctx context.Context, t turn) (o crowdOutcome, s sample, err error) {
	s.cpu, s.memory, err = b.observe(t.contestant, func() (cpu float64, err error) {
		o, cpu, err = perform[crowdOutcome](ctx, b.lab, b.lab.near, "crowd", t.crowd)
		return cpu, err
	})
	return o, s, err
}

// sum sums up the runs of a turn.
func (t turn) sum(outcomes []crowdOutcome, samples []sample) *tally {
	y := &tally{Name: t.contestant.name, Content: t.crowd.Message.Content, Clients: t.crowd.Clients, Calls: t.crowd.Round,
		Runs: len(outcomes), CPU: make(map[string]float64), Memory: make(map[string]memory)}
	var perSecond, middle, p99, round []float64
	roles := make(map[string][]float64)
	for i, o := range outcomes {
		perSecond, middle, p99, round = append(perSecond, o.PerSecond), append(middle, o.Median), append(p99, o.P99), append(round, o.Round)
		for role, cpu := range samples[i].cpu {
			roles[role] = append(roles[role], cpu*1000/float64(o.All))
		}
		for role, peak := range samples[i].memory {
			y.Memory[role] = y.Memory[role].most(peak)
		}
	}
	y.PerSecond, y.Least, y.Most = spread(perSecond)
	y.Median, y.P99, y.Round = median(middle), median(p99), median(round)
	for role, values := range roles {
		y.CPU[role] = median(values)
	}
	return y
}

// profiled lets a turn run once more, which does not count, and writes profiles of both servers meanwhile.
func (b *bench) profiled(ctx context.Context, title string, t turn) error {
	c := t.contestant
	if b.profile == "" || c.admin == 0 {
		return nil
	}
	const seconds = 4
	t.crowd.Number, t.crowd.Warm, t.crowd.Count = 0, 0, (seconds+2)*time.Second
	name := fileName(fmt.Sprintf("%s %s %d", title, c.name, t.crowd.Message.Content))
	failed := make(chan error)
	go func() {
		_, _, err := b.press(ctx, t)
		failed <- err
	}()
	sleep(ctx, time.Second) // until all have begun
	err := together(2*len(profiles), func(i int) error {
		p, side, ns := profiles[i/2], "sender", b.lab.near
		if i%2 == 1 {
			side, ns = "receiver", b.lab.far
		}
		file, err := filepath.Abs(filepath.Join(b.profile, fmt.Sprintf("%s-%s.%s", name, side, p.name)))
		if err != nil {
			return err
		}
		url := fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s?seconds=%g", c.admin, p.path, seconds*p.share)
		_, _, err = perform[struct{}](ctx, b.lab, ns, "fetch", fetchJob{url, file})
		return err
	})
	if err := <-failed; err != nil {
		return err
	}
	return err
}

// profiles are what profiled writes. Whatever waits for something is seen in the trace.
var profiles = []struct {
	name, path string
	share      float64 // of the time
}{
	{"cpu.pprof", "profile", 1},
	{"allocs.pprof", "allocs", 1},
	{"trace", "trace", 0.05},
}

// fileName makes a name of a title.
func fileName(title string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(title), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), "-")
}

// crowdText says how many clients there are.
func crowdText(clients int) string {
	if clients == 1 {
		return "one client"
	}
	return humanize.Comma(int64(clients)) + " clients"
}

// octets writes a small size as tables do.
func octets(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	if n >= 10_000 && n%1000 == 0 {
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%d B", n)
}

// tally returns the only tally of that name; there must be one.
func (t *table) tally(e entrant) *tally {
	for _, y := range t.Tallies {
		if y.Name == e.name {
			return y
		}
	}
	panic("no tally of " + e.name)
}

// tallyCells returns header and lines of tallies, which are compared with the first of them.
func (t *table) tallyCells() [][]string {
	head := []string{"contestant", "content", "clients"}
	rounds := t.Tallies[0].Calls > 0
	if rounds {
		head = append(head, "calls", "ms, all", "per call", "× least calls")
	} else {
		head = append(head, "per second", "min", "max", "× first", "median ms", "p99 ms")
	}
	all := [][]string{append(head, "core-s per 1,000: load tool", "sender", "receiver", "service", "RssAnon (RSS) sender", "receiver")}
	least := make(map[string]*tally) // the first of each contestant
	for _, y := range t.Tallies {
		if least[y.Name] == nil {
			least[y.Name] = y
		}
		line := []string{y.Name, octets(y.Content), fmt.Sprint(y.Clients)}
		if rounds {
			line = append(line, fmt.Sprint(y.Calls), fmt.Sprintf("%.2f", y.Round*1000), fmt.Sprintf("%.3f", y.Round*1000/float64(y.Calls)),
				fmt.Sprintf("%.2f", y.Round/least[y.Name].Round))
		} else {
			line = append(line, fmt.Sprintf("%.0f", y.PerSecond), fmt.Sprintf("%.0f", y.Least), fmt.Sprintf("%.0f", y.Most),
				fmt.Sprintf("%.3f", y.PerSecond/t.Tallies[0].PerSecond), fmt.Sprintf("%.3f", y.Median*1000), fmt.Sprintf("%.3f", y.P99*1000))
		}
		for _, role := range []string{"consumer", "sender", "receiver", "service"} {
			line = append(line, cpuCell(y.CPU, role, "%.3f"))
		}
		all = append(all, append(line, memoryCell(y.Memory, "sender"), memoryCell(y.Memory, "receiver")))
	}
	return all
}
