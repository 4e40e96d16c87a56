// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The two ends of the line.
const (
	nearAddress = "10.77.0.1"
	farAddress  = "10.77.0.2"
	network     = "10.77.0.0/30"
	leg         = "leg" // name of the device at both ends
)

// scratch is where the files of a run are: a disk even where /tmp is memory.
const scratch = "/var/tmp"

// prefix begins the name of everything that a run leaves outside of itself; the process id follows.
const prefix = "fairway-bench-"

// lab is two network namespaces with a line between them, and a folder.
type lab struct {
	dir       string
	near, far string // namespaces: consumer and sender; receiver and service
}

// openLab sweeps what runs that were killed have left, and builds a new one.
func openLab(ctx context.Context) (_ *lab, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("this needs root, for network namespaces")
	}
	if err := sweep(ctx); err != nil {
		return nil, err
	}
	own := prefix + strconv.Itoa(os.Getpid())
	l := &lab{dir: filepath.Join(scratch, own), near: own + "-near", far: own + "-far"}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"netns", "add", l.near},
		{"netns", "add", l.far},
		{"link", "add", leg, "netns", l.near, "type", "veth", "peer", "name", leg, "netns", l.far},
		{"-n", l.near, "addr", "add", nearAddress + "/30", "dev", leg},
		{"-n", l.far, "addr", "add", farAddress + "/30", "dev", leg},
		{"-n", l.near, "link", "set", leg, "up"},
		{"-n", l.far, "link", "set", leg, "up"},
		{"-n", l.near, "link", "set", "lo", "up"},
		{"-n", l.far, "link", "set", "lo", "up"},
		// The same congestion control on every machine, whatever is its own default.
		{"-n", l.near, "route", "replace", network, "dev", leg, "src", nearAddress, "congctl", "cubic"},
		{"-n", l.far, "route", "replace", network, "dev", leg, "src", farAddress, "congctl", "cubic"},
	} {
		if err := command(ctx, "ip", args...); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// run is the name of this run.
func (l *lab) run() string { return filepath.Base(l.dir) }

// close takes everything away. What runs inside must have been stopped.
func (l *lab) close() error { return remove(context.Background(), l.run()) }

// remove takes away what the run of that name has made.
func remove(ctx context.Context, run string) error {
	if err := removeDisks(ctx, run); err != nil {
		return err // and nothing below it is touched
	}
	var err error
	for _, ns := range []string{run + "-near", run + "-far"} {
		if _, missing := os.Stat("/run/netns/" + ns); missing == nil {
			err = errors.Join(err, command(ctx, "ip", "netns", "del", ns))
		}
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(scratch, run)))
}

// sweep removes what runs have left that are no more.
func sweep(ctx context.Context) (err error) {
	for _, pattern := range []string{filepath.Join(scratch, prefix+"*"), "/run/netns/" + prefix + "*"} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, path := range found {
			pid := runOf(filepath.Base(path))
			if pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				err = errors.Join(err, remove(ctx, prefix+strconv.Itoa(pid)))
			}
		}
	}
	return err
}

// runOf returns the process id in a name of ours, or 0.
func runOf(name string) int {
	id, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "-")
	pid, err := strconv.Atoi(id)
	if err != nil || !strings.HasPrefix(name, prefix) {
		return 0
	}
	return pid
}

// The line's queue: what a full line makes everybody wait.
const queueMilliseconds = 20

// shape limits the line to that many Mb/s in each direction; 0 is no limit.
func (l *lab) shape(ctx context.Context, rate float64) error {
	for _, ns := range []string{l.near, l.far} {
		args := []string{"-n", ns, "qdisc", "replace", "dev", leg, "root"}
		if rate == 0 {
			args = append(args, "pfifo")
		} else {
			// A millisecond's worth may go at once, and at least one unsegmented packet.
			burst := max(64<<10, int(rate*1e6/8/1000))
			args = append(args, "tbf", "rate", fmt.Sprintf("%.0fkbit", rate*1000), "burst", strconv.Itoa(burst),
				"latency", strconv.Itoa(queueMilliseconds)+"ms")
		}
		if err := command(ctx, "tc", args...); err != nil {
			return err
		}
	}
	return nil
}

// payload is the share of the line that is left for what TCP carries: Ethernet, IP and TCP (with time-stamps) take the rest.
const payload = 1448.0 / 1514.0

// seconds is how long so many octets take on a line of that many Mb/s.
func lineSeconds(octets int64, rate float64) float64 {
	return float64(octets) * 8 / (rate * 1e6 * payload)
}

// crossed returns how many octets have left the near end of the line so far, and how many have come.
func (l *lab) crossed(ctx context.Context) (out, in int64, err error) {
	read := func(name string) (int64, error) {
		text, err := exec.CommandContext(ctx, "ip", "netns", "exec", l.near, "cat", "/sys/class/net/"+leg+"/statistics/"+name).Output()
		if err != nil {
			return 0, fmt.Errorf("reading %s of the line: %w", name, err)
		}
		return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if out, err = read("tx_bytes"); err == nil {
		in, err = read("rx_bytes")
	}
	return out, in, err
}

// command runs a program and puts what it says into the error.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
