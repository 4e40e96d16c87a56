// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command bench measures Fairway beside its peers, in one run, on this machine.
//
//	go run ./integration/bench list
//	go run ./integration/bench NAME… [-quick] [-json FILE]
//	go run ./integration/bench report FILE [-page docs/benchmarks.md]
//
// It needs Linux, root, and network namespaces, which it makes itself: the consumer and the sending server share one, the
// receiving server and the service the other, and only the line between the two is shaped. Every contestant carries the
// same message from the same program to the same service; their runs are interleaved, and what is compared is the ratio of
// medians within one run. Times of different runs or machines say nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// row is one table, or several that belong together.
type row struct {
	name, about string
	run         func(ctx context.Context, b *bench) ([]*table, error)
}

var rows = []row{
	{"table1", "uploads over a line of 52 Mb/s, with disks of 16 and 72 MB/s", table1},
	{"table2", "uploads over lines of 175.6 and 568 Mb/s", table2},
	{"unshaped", "uploads over a line without limit, SHA-512 and SHA-256", unshaped},
	{"mtom", "SwA and MTOM, as request and as response, over a line without limit", mtom},
	{"sizes", "uploads from 1 MB to 30 GB, direct and through Fairway, and the memory that they take", sizes},
	{"many", "large uploads at once, and small messages beside them", many},
	{"drain", "a change of configuration, and an end, during large uploads", drain},
	{"refuse", "how soon an upload is refused without a right or without room", refuse},
	{"container", "more uploads than fit, and small messages, with 256 MiB of memory for each server", container},
	{"seacat", "small messages of 128 octets to 16 KiB, as SeaCat's authors measured theirs", seacat},
	{"latency", "what one client waits longer than directly", latency},
	{"slowkey", "crowds and keys as slow as those in a device", slowkeys},
	{"axis", "objects of 10 to 320 KB in one message, as Axis's users measured it", axis},
	{"split", "1,000 objects in one call or in many", split},
	{"clients", "up to 4,096 clients that keep their connections, busy and idle", clients},
	{"evidence", "the evidence store by itself: records made durable, and found", archive},
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "role":
			return playRole(ctx, args[1:])
		case "report":
			return report(args[1:])
		}
	}
	names, o, err := parse(args)
	if err != nil {
		return err
	}
	if len(names) == 0 || names[0] == "list" {
		for _, r := range rows {
			fmt.Printf("%-10s %s\n", r.name, r.about)
		}
		return nil
	}
	var chosen []row
	for _, name := range names {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			return fmt.Errorf("no row %q; see: go run ./integration/bench list", name)
		}
		chosen = append(chosen, rows[i])
	}
	return measure(ctx, chosen, o)
}

// options are what the command line says.
type options struct {
	quick bool
	json  string
	size  int64 // instead of each row's own; 0: the row's own
	runs  int   // likewise

	profile string // folder for profiles of the servers with small messages; empty: none
}

func parse(args []string) (names []string, o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&o.quick, "quick", false, "100 MB, one repetition, a tenth of the time, no slow disk: shows that it works, measures nothing")
	flags.StringVar(&o.json, "json", "", "file that takes up the figures; those of other rows in it stay")
	flags.IntVar(&o.runs, "runs", 0, "repetitions, instead of the row's own")
	flags.StringVar(&o.profile, "profile", "", "folder for profiles of both servers, each from one more run, of the rows with small messages")
	flags.Func("size", "size of the attachment, instead of the row's own", func(s string) error {
		n, err := humanize.ParseBytes(s)
		o.size = int64(n)
		return err
	})
	for len(args) > 0 {
		if strings.HasPrefix(args[0], "-") {
			if err := flags.Parse(args); err != nil {
				return nil, o, err
			}
			args = flags.Args()
			continue
		}
		names, args = append(names, args[0]), args[1:]
	}
	return names, o, nil
}

// measure runs the rows in one laboratory.
func measure(ctx context.Context, chosen []row, o options) (err error) {
	if !o.quick {
		if err := quiet(); err != nil {
			return err
		}
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var failed []string
	for _, r := range chosen {
		fmt.Fprintf(os.Stderr, "== %s: %s\n", r.name, r.about)
		tables, err := r.run(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		for _, t := range tables {
			if o.quick {
				t.Checks = nil // a quick run measures nothing
			}
			t.write(os.Stdout)
			failed = append(failed, t.failed()...)
		}
		if o.json != "" {
			if err := keep(o.json, r.name, tables, o); err != nil {
				return err
			}
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as it should be:\n%s", strings.Join(failed, "\n"))
	}
	return nil
}
