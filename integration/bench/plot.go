// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// plot is a drawing of lines over an x axis that is logarithmic, or linear and begins at 0.
type plot struct {
	title, x, y string
	linear      bool
	floor       float64 // where the y axis begins
	series      []series
}

// series is one line.
type series struct {
	name   string
	points []point
}

type point struct {
	x, y  float64
	label string // of x
}

// Measures of a drawing, in pixels.
const (
	plotWidth, plotHeight         = 760, 420
	plotLeft, plotRight           = 64, 220
	plotTop, plotBottom           = 44, 56
	plotGridLines                 = 5
	plotTick                      = 40 // between two labels
	plotInnerWidth                = plotWidth - plotLeft - plotRight
	plotInnerHeight               = plotHeight - plotTop - plotBottom
	plotFont                      = "font-family=\"sans-serif\" font-size=\"12\""
	plotText, plotPaper, plotGrid = "#222", "#fff", "#ddd"
)

// colours can be told apart by people who see few of them.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// svg draws the plot. Without points it is a frame.
func (p plot) svg() string {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" %s fill="%s">`+"\n", plotWidth, plotHeight, plotFont, plotText)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="%s"/>`+"\n", plotWidth, plotHeight, plotPaper)
	text := func(x, y float64, anchor, format string, args ...any) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(fmt.Sprintf(format, args...)))
	}
	text(plotLeft, 24, "start", "%s", p.title)
	text(plotLeft+plotInnerWidth/2, plotHeight-12, "middle", "%s", p.x)
	text(8, plotTop-8, "start", "%s", p.y)

	lowX, highX, highY, ticks := p.extent()
	top := niceTop(p.floor, highY)
	toX := func(x float64) float64 {
		if lowX == highX && !p.linear {
			return plotLeft + plotInnerWidth/2
		}
		if p.linear {
			return plotLeft + plotInnerWidth*x/highX
		}
		return plotLeft + plotInnerWidth*(math.Log(x)-math.Log(lowX))/(math.Log(highX)-math.Log(lowX))
	}
	toY := func(y float64) float64 {
		return plotTop + plotInnerHeight*(1-(y-p.floor)/(top-p.floor))
	}
	for i := range plotGridLines + 1 {
		y := p.floor + (top-p.floor)*float64(i)/plotGridLines
		fmt.Fprintf(&s, `<path d="M%d %.1fH%d" stroke="%s"/>`+"\n", plotLeft, toY(y), plotLeft+plotInnerWidth, plotGrid)
		text(plotLeft-6, toY(y)+4, "end", "%.4g", y)
	}
	last := math.Inf(-1)
	for _, t := range ticks {
		if toX(t.x)-last < plotTick {
			continue // its label would stand in that of the one before
		}
		last = toX(t.x)
		text(last, plotTop+plotInnerHeight+18, "middle", "%s", t.label)
	}
	for i, one := range p.series {
		colour := colours[i%len(colours)]
		var path []string
		for _, pt := range one.points {
			path = append(path, fmt.Sprintf("%.1f %.1f", toX(pt.x), toY(pt.y)))
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", toX(pt.x), toY(pt.y), colour)
		}
		if len(path) > 1 {
			fmt.Fprintf(&s, `<path d="M%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, "L"), colour)
		}
		y := float64(plotTop + 18*i)
		fmt.Fprintf(&s, `<rect x="%d" y="%.1f" width="12" height="12" fill="%s"/>`+"\n", plotLeft+plotInnerWidth+16, y, colour)
		text(plotLeft+plotInnerWidth+34, y+10, "start", "%s", one.name)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// extent returns the range of all points, and one point for each x.
func (p plot) extent() (lowX, highX, highY float64, ticks []point) {
	highY = p.floor
	for _, one := range p.series {
		ticks = append(ticks, one.points...)
		for _, pt := range one.points {
			highY = max(highY, pt.y)
		}
	}
	slices.SortFunc(ticks, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	ticks = slices.CompactFunc(ticks, func(a, b point) bool { return a.x == b.x })
	if len(ticks) > 0 {
		lowX, highX = ticks[0].x, ticks[len(ticks)-1].x
	}
	return lowX, highX, highY, ticks
}

// niceTop returns where the y axis ends: grid lines are then at 1, 2 or 5 times a power of ten.
func niceTop(floor, high float64) float64 {
	step := (high - floor) / plotGridLines
	if step <= 0 {
		return floor + 1
	}
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, nice := range []float64{1, 2, 5, 10} {
		if nice*power >= step {
			step = nice * power
			break
		}
	}
	return floor + step*plotGridLines
}

// add appends a point to the series of that name, in the order in which names come.
func (p *plot) add(name string, pt point) {
	i := slices.IndexFunc(p.series, func(s series) bool { return s.name == name })
	if i < 0 {
		i, p.series = len(p.series), append(p.series, series{name: name})
	}
	p.series[i].points = append(p.series[i].points, pt)
}

// drawings are the plots and their files, in the order of the page.
var drawings = []struct {
	file string
	of   func(*figures) plot
}{
	{"benchmarks-ratio.svg", ratioByLine},
	{"benchmarks-memory.svg", memoryBySize},
	{"benchmarks-small.svg", ratioByContent},
	{"benchmarks-objects.svg", timeByObjects},
	{"benchmarks-clients.svg", rateByClients},
}

// ratioByLine draws how much longer than directly an upload takes, by the speed of the line. Where the full size was run
// once beside a smaller one, the smaller one counts, which was run often; of several disks the first, which is slow and has
// memory for its cache.
func ratioByLine(f *figures) plot {
	p := plot{title: "Time of an upload in relation to direct HTTP", x: "line, Mb/s", y: "time / direct", floor: 1}
	seen := make(map[string]bool)
	for _, row := range []string{"table1", "table2"} {
		m := f.Rows[row]
		if m == nil {
			continue
		}
		for _, t := range m.Tables {
			for _, r := range t.Results[min(1, len(t.Results)):] {
				if at := fmt.Sprint(r.Name, r.Rate); !seen[at] {
					seen[at] = true
					ratio := r.Seconds / t.Results[0].Seconds
					p.floor = min(p.floor, math.Floor(ratio*10)/10)
					p.add(r.Name, point{r.Rate, ratio, fmt.Sprintf("%g", r.Rate)})
				}
			}
		}
	}
	return p
}

// memoryBySize draws the peaks of anonymous memory by the size of the message.
func memoryBySize(f *figures) plot {
	p := plot{title: "Peak anonymous memory by size of the attachment", x: "attachment", y: "RssAnon, MiB"}
	m := f.Rows["sizes"]
	if m == nil {
		return p
	}
	for _, t := range m.Tables {
		for _, r := range t.Results {
			for _, role := range []string{"sender", "receiver"} {
				if peak, ok := r.Memory[role]; ok {
					p.add(r.Name+", "+role, point{float64(r.Size), float64(peak.Anon) / (1 << 20), sizeText(r.Size)})
				}
			}
		}
	}
	return p
}

// tallies calls for each of the tallies of a row.
func (f *figures) tallies(row string, visit func(t *table, y *tally)) {
	m := f.Rows[row]
	if m == nil {
		return
	}
	for _, t := range m.Tables {
		for _, y := range t.Tallies {
			visit(t, y)
		}
	}
}

// ratioByContent draws how many exchanges there are for each over a new connection without TLS, of few clients. What was
// not measured with all sizes, and what has nobody between consumer and service, is not drawn.
func ratioByContent(f *figures) plot {
	p := plot{title: "Small messages, in relation to HTTP without keep-alive, 8 clients", x: "content", y: "ratio"}
	f.tallies("seacat", func(t *table, y *tally) {
		for _, e := range []entrant{directTLSFresh, caddyPair, nginxPair, fairwayP256} {
			if y.Name == e.name && y.Clients == few {
				p.add(y.Name, point{float64(y.Content), y.PerSecond / t.Tallies[0].PerSecond, octets(y.Content)})
			}
		}
	})
	return p
}

// timeByObjects draws the round trip of objects by their size.
func timeByObjects(f *figures) plot {
	p := plot{title: "Round trip of objects in one message", x: "objects", y: "ms", linear: true}
	f.tallies("axis", func(_ *table, y *tally) {
		p.add(y.Name, point{float64(y.Content), y.Median * 1000, octets(y.Content)})
	})
	return p
}

// rateByClients draws the throughput of crowds.
func rateByClients(f *figures) plot {
	p := plot{title: "Messages of 128 octets by clients", x: "clients", y: "exchanges a second"}
	f.tallies("clients", func(t *table, y *tally) {
		if y.Name != direct.name { // which is beyond all others
			p.add(y.Name, point{float64(y.Clients), y.PerSecond, fmt.Sprint(y.Clients)})
		}
	})
	return p
}
