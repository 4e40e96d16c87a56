// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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

// report prints the tables of a file in the order of the rows, and draws the plots.
func report(args []string) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	plots := flags.String("plots", "", "folder for the plots")
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
	for _, r := range rows {
		m := f.Rows[r.name]
		if m == nil {
			continue
		}
		fmt.Printf("\n## %s\n\n%s.\n\n```sh\n%s\n```\n\n%s; %s.\n", r.name, strings.ToUpper(r.about[:1])+r.about[1:], m.Command, m.Machine, m.Date)
		if m.Quick {
			fmt.Println("\nSmaller or fewer than the row asks for: these figures show that it works, and nothing else.")
		}
		for _, t := range m.Tables {
			t.write(os.Stdout)
		}
	}
	if *plots == "" {
		return nil
	}
	for name, p := range map[string]plot{"ratio-by-line.svg": ratioByLine(f), "memory-by-size.svg": memoryBySize(f)} {
		if err := os.WriteFile(filepath.Join(*plots, name), []byte(p.svg()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
