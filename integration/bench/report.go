// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// figures is the file that keeps what was measured.
type figures struct {
	Rows map[string]*measured `json:"rows"`
}

// measured is a row with where and when it was.
type measured struct {
	Command string   `json:"command"`
	Machine string   `json:"machine"`
	Date    string   `json:"date"`
	Quick   bool     `json:"quick,omitempty"`
	Tables  []*table `json:"tables"`
}

func load(file string) (*figures, error) {
	f := &figures{Rows: make(map[string]*measured)}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return f, nil
}

// keep puts a row into the file; the others stay.
func keep(file, name string, tables []*table, o options) error {
	f, err := load(file)
	if err != nil {
		return err
	}
	f.Rows[name] = &measured{
		Command: "go run ./integration/bench " + name, Machine: machine(),
		Date: time.Now().Format(time.DateOnly), Quick: o.quick || o.size > 0 || o.runs > 0, Tables: tables,
	}
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// machine says what class of machine this is.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(after, "\n")
			model = strings.TrimSpace(strings.TrimLeft(line, " \t:"))
		}
	}
	var gib float64
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		fmt.Sscanf(string(text), "MemTotal: %f", &gib)
	}
	return fmt.Sprintf("%d × %s, %.0f GiB, %s, %s", runtime.NumCPU(), model, gib/(1<<20), runtime.GOOS, runtime.Version())
}

// Between these lines of a page are the figures.
const (
	figuresBegin = "<!-- figures: made by go run ./integration/bench report -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

// report prints the tables of a file in the order of the rows; or it puts them into a page, with the plots beside it.
func report(args []string) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	page := flags.String("page", "", "Markdown page that takes them up")
	if len(args) == 0 {
		return errors.New("report of which file?")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	f, err := load(args[0])
	if err != nil {
		return err
	}
	var text strings.Builder
	f.write(&text)
	if *page == "" {
		_, err := fmt.Print(text.String())
		return err
	}
	old, err := os.ReadFile(*page)
	if err != nil {
		return err
	}
	for _, d := range drawings {
		drawn := d.of(f)
		if len(drawn.series) == 0 {
			continue // its rows have not been measured
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(*page), d.file), []byte(drawn.svg()), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n![%s](%s)\n", drawn.title, d.file)
	}
	before, rest, begins := strings.Cut(string(old), figuresBegin)
	_, after, ends := strings.Cut(rest, figuresEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for figures: it needs the lines %q and %q", *page, figuresBegin, figuresEnd)
	}
	return os.WriteFile(*page, []byte(before+figuresBegin+text.String()+"\n"+figuresEnd+after), 0o644)
}

// write prints all rows in their order.
func (f *figures) write(w io.Writer) {
	for _, r := range rows {
		m := f.Rows[r.name]
		if m == nil {
			continue
		}
		fmt.Fprintf(w, "\n## %s\n\n%s.\n\n```sh\n%s\n```\n\n%s; %s.\n", r.name, strings.ToUpper(r.about[:1])+r.about[1:], m.Command, m.Machine, m.Date)
		if m.Quick {
			fmt.Fprintln(w, "\nSmaller or fewer than the row asks for: these figures show that it works, and nothing else.")
		}
		for _, t := range m.Tables {
			t.write(w)
		}
	}
}
