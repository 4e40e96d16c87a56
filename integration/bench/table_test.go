// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoLines is what a table row finds on two lines.
func twoLines() *figures {
	at := func(rate, ratio float64) *table {
		return &table{Title: "a title", Results: []*result{
			{Name: direct.name, Rate: rate, Size: 1e9, Runs: 5, Seconds: 10, Least: 9, Most: 11, CPU: map[string]float64{"consumer": 1}},
			{Name: fairwayStrict.name, Rate: rate, Size: 1e9, Runs: 5, Seconds: 10 * ratio, CPU: map[string]float64{"sender": 1.5, "receiver": 2},
				Memory: map[string]memory{"sender": {Anon: 12 << 20, RSS: 60 << 20}, "receiver": {Anon: 13 << 20}}},
		}}
	}
	m := &measured{Tables: []*table{at(175.6, 1.02), at(568, 1.07), at(568, 3)}} // the last repeats one
	return &figures{Rows: map[string]*measured{"table2": m, "sizes": m}}
}

func TestTable(t *testing.T) {
	table := twoLines().Rows["table2"].Tables[1]
	table.atMost("a", table.ratio(fairwayStrict), 1.08)
	table.atMost("b", table.of(fairwayStrict).servers(), 3)
	table.atLeast("c", 0.9, 0.8)
	table.atLeast("d", 0.7, 0.8)
	if failed := strings.Join(table.failed(), "\n"); !strings.Contains(failed, ": b:") || !strings.Contains(failed, ": d:") || strings.Count(failed, "\n") != 1 {
		t.Errorf("b and d fail, and not:\n%s", failed)
	}
	var text strings.Builder
	table.write(&text)
	for _, want := range []string{
		"### a title\n\n| contestant | size |",
		"\n|---|---|",
		"\n| direct HTTP | 1.0 GB | 10.000 | 9.000 | 11.000 | 100 | 1.000 | 1.00 | - |",
		"| 1.070 | - | 1.50 | 2.00 | - | 12 MiB (60 MiB) | 13 MiB (0 B) |\n",
		"- a: 1.07 (target ≤ 1.08): good\n",
		"- d: 0.7 (target ≥ 0.8): **missed**\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}

// TestKeep puts rows into a file in turn.
func TestKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	for _, name := range []string{"table2", "sizes", "table2"} {
		if err := keep(file, name, twoLines().Rows["table2"].Tables, options{}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Rows) != 2 || f.Rows["table2"].Tables[1].ratio(fairwayStrict) != 1.07 || f.Rows["sizes"].Machine == "" {
		t.Errorf("got %+v", f.Rows)
	}
}

// TestPlots looks whether the plots are XML with a point for each result.
func TestPlots(t *testing.T) {
	for name, c := range map[string]struct {
		plot   plot
		points int
		series string
	}{
		"ratio":         {ratioByLine(twoLines()), 2, fairwayStrict.name},
		"memory":        {memoryBySize(twoLines()), 6, fairwayStrict.name + ", receiver"},
		"content":       {ratioByContent(crowded()), 4, fairwayP256.name},
		"objects":       {timeByObjects(crowded()), 6, direct.name},
		"clients":       {rateByClients(crowded()), 4, caddyPair.name},
		"nobody came":   {rateByClients(&figures{}), 0, "exchanges a second"},
		"nothing":       {ratioByLine(&figures{}), 0, "time / direct"},
		"markup inside": {plot{series: []series{{name: "a<b&c", points: []point{{1, 1, "x"}}}}}, 1, "a&lt;b&amp;c"},
	} {
		t.Run(name, func(t *testing.T) {
			svg := c.plot.svg()
			for d := xml.NewDecoder(strings.NewReader(svg)); ; {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v in\n%s", err, svg)
				}
			}
			if got := strings.Count(svg, "<circle"); got != c.points {
				t.Errorf("%d points, want %d", got, c.points)
			}
			if !strings.Contains(svg, c.series) || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Errorf("got\n%s", svg)
			}
		})
	}
}

// crowded is what rows of small messages find with two sizes.
func crowded() *figures {
	at := func(content int) *table {
		t := &table{Title: "a title"}
		for i, e := range []entrant{direct, caddyPair, fairwayP256} {
			t.Tallies = append(t.Tallies, &tally{Name: e.name, Content: content, Clients: few, PerSecond: float64(1000 - i), Median: 0.001})
		}
		return t
	}
	m := &measured{Tables: []*table{at(128), at(2 << 10)}}
	clients := &measured{Tables: []*table{at(128), {Tallies: []*tally{{Name: caddyPair.name, Clients: lots}, {Name: fairwayP256.name, Clients: lots}}}}}
	return &figures{Rows: map[string]*measured{"seacat": m, "axis": m, "clients": clients}}
}

// TestLinear: what grows with x is a straight line from the corner where the axis is linear.
func TestLinear(t *testing.T) {
	p := plot{linear: true, series: []series{{points: []point{{5, 1, "5"}, {10, 2, "10"}}}}}
	if svg := p.svg(); !strings.Contains(svg, fmt.Sprintf(`<circle cx="%.1f"`, plotLeft+plotInnerWidth/2.0)) || !strings.Contains(svg, fmt.Sprintf(`<circle cx="%.1f"`, float64(plotLeft+plotInnerWidth))) {
		t.Errorf("got\n%s", svg)
	}
}

// TestRatioBelowOne: what was faster than directly is drawn as it was.
func TestRatioBelowOne(t *testing.T) {
	f := twoLines()
	f.Rows["table2"].Tables[0].Results[1].Seconds = 9.8
	p := ratioByLine(f)
	if math.Abs(p.series[0].points[0].y-0.98) > 1e-9 || p.floor != 0.9 {
		t.Errorf("got %+v", p)
	}
}

func TestNiceTop(t *testing.T) {
	for _, c := range []struct{ floor, high, want float64 }{
		{0, 64, 100}, {1, 1.08, 1.1}, {0, 0, 1}, {0, 5, 5}, {1, 2.4, 3.5},
	} {
		if got := niceTop(c.floor, c.high); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%g to %g: got %g, want %g", c.floor, c.high, got, c.want)
		}
	}
}

// TestReport puts figures into a page twice: the second time in the place of the first.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "figures.json"), filepath.Join(dir, "page.md")
	if err := keep(file, "table2", twoLines().Rows["table2"].Tables, options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("before\n"+figuresBegin+"old\n"+figuresEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for range 2 {
		if err := report([]string{file, "-page", page}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if !strings.HasPrefix(texts[0], "before\n"+figuresBegin) || !strings.HasSuffix(texts[0], figuresEnd+"after\n") ||
		strings.Contains(texts[0], "old") || !strings.Contains(texts[0], "Fairway strict") || !strings.Contains(texts[0], drawings[0].file) {
		t.Errorf("got\n%s", texts[0])
	}
	if len(texts[0]) != len(texts[1]) {
		t.Errorf("the second time\n%s", texts[1])
	}
	if err := os.WriteFile(page, []byte("no place\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := report([]string{file, "-page", page}); err == nil {
		t.Error("a page without a place is taken")
	}
}

// TestCheckDisks knows which targets hold on which disk.
func TestCheckDisks(t *testing.T) {
	cached, bare := &disk{name: "cached"}, &disk{name: "bare", bound: bounded}
	table := &table{Results: []*result{{Name: direct.name, Seconds: 100}}}
	for _, d := range []*disk{cached, bare} {
		for _, e := range []entrant{fairwayStrict, fairwayGated, xroadModel} {
			table.Results = append(table.Results, &result{Name: e.name, Disk: d.name, Seconds: 101.5})
		}
	}
	table.checkDisks([]*disk{cached, bare})
	var got []string
	for _, c := range table.Checks {
		got = append(got, fmt.Sprintf("%s %g %t", c.What, c.Limit, c.ok()))
	}
	want := "Fairway strict / direct, cached 1.02 true\nFairway gated / direct, cached 1.01 false\nFairway gated / direct, bare 1.01 false"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
