// SPDX-License-Identifier: Apache-2.0

// Command bench measures Fairway beside its peers, in one run, on this machine.
//
//	go run ./integration/bench list
//	go run ./integration/bench unshaped [-size 1GiB] [-runs 5] [-markdown]
//
// Every contestant carries the same message from the same program to the same service; their runs are interleaved, and
// what is compared is the ratio of medians within one run. Times of different runs or machines say nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/dustin/go-humanize"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// rows are the tables that can be made.
var rows = map[string]struct {
	about string
	run   func(ctx context.Context, b *bench) error
}{
	"unshaped": {"one upload with one attachment over loopback, no limit: direct, through a stock Caddy pair, through Fairway", unshaped},
}

func run(args []string) error {
	if len(args) == 0 || args[0] == "list" {
		for name, row := range rows {
			fmt.Printf("%-10s %s\n", name, row.about)
		}
		return nil
	}
	row, ok := rows[args[0]]
	if !ok {
		return fmt.Errorf("no row %q; see: go run ./integration/bench list", args[0])
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	size := flags.String("size", "1GiB", "size of the attachment")
	runs := flags.Int("runs", 5, "runs of each contestant that count, after one that does not")
	markdown := flags.Bool("markdown", false, "print the table as Markdown")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	octets, err := humanize.ParseBytes(*size)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := newBench(ctx, int64(octets), *runs, *markdown)
	if err != nil {
		return err
	}
	defer b.close()
	return row.run(ctx, b)
}

// bench is what all rows share: the binary under test, the service and the message.
type bench struct {
	dir      string
	binary   string
	service  *service
	size     int64
	runs     int
	markdown bool
}

func newBench(ctx context.Context, size int64, runs int, markdown bool) (*bench, error) {
	dir, err := os.MkdirTemp("", "fairway-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, binary: filepath.Join(dir, "fairway"), size: size, runs: runs, markdown: markdown}
	build := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "github.com/caddy-fairway/fairway/cmd/fairway")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		b.close()
		return nil, fmt.Errorf("building the binary: %w", err)
	}
	if b.service, err = startService(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	if b.service != nil {
		b.service.close()
	}
	os.RemoveAll(b.dir)
}

// unshaped compares uploads over loopback.
func unshaped(ctx context.Context, b *bench) error {
	pair, err := startCaddyPair(ctx, b)
	if err != nil {
		return err
	}
	defer pair.stop()
	fairway, err := startFairway(ctx, b)
	if err != nil {
		return err
	}
	defer fairway.stop()
	direct := &contestant{name: "direct", url: b.service.url}
	return b.compare(ctx, direct, pair, fairway)
}
