// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
)

// table is what a row found. What does not fit into results stands in lines of its own.
type table struct {
	Title   string     `json:"title"`
	Results []*result  `json:"results,omitempty"`
	Tallies []*tally   `json:"tallies,omitempty"` // of small messages
	Header  []string   `json:"header,omitempty"`
	Lines   [][]string `json:"lines,omitempty"`
	Checks  []check    `json:"checks,omitempty"`
}

// result is the runs of one contestant with one message.
type result struct {
	Name    string             `json:"name"`
	Rate    float64            `json:"rate,omitempty"` // of the line, Mb/s
	Disk    string             `json:"disk,omitempty"` // of the receiver, where it is slow
	Size    int64              `json:"size"`           // of the attachment
	Runs    int                `json:"runs"`
	Seconds float64            `json:"seconds"` // median
	Least   float64            `json:"least"`
	Most    float64            `json:"most"`
	CPU     map[string]float64 `json:"cpu"`    // core-seconds per GB, by role, median
	Memory  map[string]memory  `json:"memory"` // peaks by role
}

// throughput is in MB/s.
func (r *result) throughput() float64 { return float64(r.Size) / 1e6 / r.Seconds }

// servers is the core-seconds per GB of both servers.
func (r *result) servers() float64 { return r.CPU["sender"] + r.CPU["receiver"] }

// check is a target and what came out.
type check struct {
	What    string  `json:"what"`
	Got     float64 `json:"got"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least,omitempty"` // else at most
}

func (c check) ok() bool {
	if c.AtLeast {
		return c.Got >= c.Limit
	}
	return c.Got <= c.Limit
}

// String says the check in a line.
func (c check) String() string {
	sign, verdict := "≤", "good"
	if c.AtLeast {
		sign = "≥"
	}
	if !c.ok() {
		verdict = "**missed**"
	}
	return fmt.Sprintf("%s: %.4g (target %s %.4g): %s", c.What, c.Got, sign, c.Limit, verdict)
}

func (t *table) atMost(what string, got, limit float64) {
	t.Checks = append(t.Checks, check{What: what, Got: got, Limit: limit})
}

func (t *table) atLeast(what string, got, limit float64) {
	t.Checks = append(t.Checks, check{What: what, Got: got, Limit: limit, AtLeast: true})
}

// of returns the result of an entrant; there must be one.
func (t *table) of(e entrant) *result {
	for _, r := range t.Results {
		if r.Name == e.name {
			return r
		}
	}
	panic("no result of " + e.name)
}

// ratio is the time of an entrant in relation to that of the first one.
func (t *table) ratio(e entrant) float64 { return t.of(e).Seconds / t.Results[0].Seconds }

func (t *table) failed() (all []string) {
	for _, c := range t.Checks {
		if !c.ok() {
			all = append(all, t.Title+": "+c.String())
		}
	}
	return all
}

// cells returns header and lines.
func (t *table) cells() [][]string {
	if len(t.Tallies) > 0 {
		return t.tallyCells()
	}
	if len(t.Results) == 0 {
		return append([][]string{t.Header}, t.Lines...)
	}
	all := [][]string{{"contestant", "size", "median s", "min", "max", "MB/s", "time / first",
		"core-s per GB: consumer", "sender", "receiver", "service", "RssAnon (RSS) sender", "receiver"}}
	for _, r := range t.Results {
		name := r.Name
		if r.Disk != "" {
			name += ", " + r.Disk
		}
		all = append(all, []string{name, sizeText(r.Size), fmt.Sprintf("%.3f", r.Seconds), fmt.Sprintf("%.3f", r.Least), fmt.Sprintf("%.3f", r.Most),
			fmt.Sprintf("%.0f", r.throughput()), fmt.Sprintf("%.3f", r.Seconds/t.Results[0].Seconds),
			cpuCell(r.CPU, "consumer", "%.2f"), cpuCell(r.CPU, "sender", "%.2f"), cpuCell(r.CPU, "receiver", "%.2f"), cpuCell(r.CPU, "service", "%.2f"), memoryCell(r.Memory, "sender"), memoryCell(r.Memory, "receiver")})
	}
	return all
}

func cpuCell(cpu map[string]float64, role, format string) string {
	seconds, ok := cpu[role]
	if !ok {
		return "-"
	}
	return fmt.Sprintf(format, seconds)
}

func memoryCell(peaks map[string]memory, role string) string {
	m, ok := peaks[role]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", humanize.IBytes(uint64(m.Anon)), humanize.IBytes(uint64(m.RSS)))
}

// write prints the table as Markdown.
func (t *table) write(w io.Writer) {
	fmt.Fprintf(w, "\n### %s\n\n", t.Title)
	for i, line := range t.cells() {
		fmt.Fprintln(w, "| "+strings.Join(line, " | ")+" |")
		if i == 0 {
			fmt.Fprintln(w, "|"+strings.Repeat("---|", len(line)))
		}
	}
	if len(t.Checks) > 0 {
		fmt.Fprintln(w)
	}
	for _, c := range t.Checks {
		fmt.Fprintln(w, "- "+c.String())
	}
}
