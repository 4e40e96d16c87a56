// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxLoad is the load average above which a measurement says nothing.
const maxLoad = 1.0

// quiet refuses a busy machine.
func quiet() error {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return errors.New("the load of this machine is not known: /proc/loadavg cannot be read")
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return fmt.Errorf("/proc/loadavg is %q", text)
	}
	if load > maxLoad && os.Getenv("BENCH_BUSY") == "" {
		return fmt.Errorf("the machine is busy (load %.2f): wait, or set BENCH_BUSY=1 for a run that only shows that it works", load)
	}
	return nil
}

// cpuOf reads the processor time of a process, in seconds.
func cpuOf(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseStat(stat)
}

// parseStat returns user and system time in seconds (proc(5): utime and stime, in hundredths). The command's name may
// hold anything, so the fields are counted from its end.
func parseStat(stat []byte) float64 {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// memory is what a process holds, in octets.
type memory struct {
	Anon int64 `json:"rss_anon"` // anonymous: what it cannot give back
	RSS  int64 `json:"rss"`      // all of it, with pages of files that are mapped
}

func (m memory) most(n memory) memory { return memory{max(m.Anon, n.Anon), max(m.RSS, n.RSS)} }

// parseStatus reads RssAnon as it is and the peak of RSS (VmHWM).
func parseStatus(status string) memory {
	read := func(name string) int64 {
		_, after, _ := strings.Cut(status, "\n"+name+":")
		kib, _ := strconv.ParseInt(strings.TrimSpace(strings.SplitN(after, "kB", 2)[0]), 10, 64)
		return kib << 10
	}
	return memory{read("RssAnon"), read("VmHWM")}
}

// watch samples the memory of processes until it is stopped.
type watch struct {
	done chan struct{}
	wait sync.WaitGroup
	peak []memory
}

func watchMemory(pids ...int) *watch {
	w := &watch{done: make(chan struct{}), peak: make([]memory, len(pids))}
	for _, pid := range pids {
		// Forget earlier peaks of RSS (proc(5), clear_refs). Where that is not possible, they count.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	}
	w.wait.Go(func() {
		for {
			for i, pid := range pids {
				if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
					w.peak[i] = w.peak[i].most(parseStatus(string(status)))
				}
			}
			select {
			case <-w.done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return w
}

// stop returns the peaks, in the order of the processes.
func (w *watch) stop() []memory {
	close(w.done)
	w.wait.Wait()
	return w.peak
}
