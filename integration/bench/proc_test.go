// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	for name, c := range map[string]struct {
		stat string
		want float64
	}{
		"plain":                      {"42 (fairway) S 1 42 42 0 -1 4194304 9 0 0 0 150 25 7 7 20 0 9 0 1", 1.75},
		"a name with spaces and ')'": {"42 (a ) R 1 (b)) S 1 42 42 0 -1 4194304 9 0 0 0 300 100 7 7 20 0 9 0 1", 4},
		"cut off":                    {"42 (fairway) S 1 42", 0},
		"empty":                      {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseStat([]byte(c.stat)); got != c.want {
				t.Errorf("got %g, want %g", got, c.want)
			}
		})
	}
}

func TestParseStatus(t *testing.T) {
	status := "Name:\tfairway\nVmPeak:\t  900 kB\nVmHWM:\t  60416 kB\nVmRSS:\t  59392 kB\nRssAnon:\t  11264 kB\nRssFile:\t  48128 kB\n"
	if got, want := parseStatus(status), (memory{11264 << 10, 60416 << 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := parseStatus("Name:\tkthread\n"); got != (memory{}) {
		t.Errorf("without memory: got %+v", got)
	}
}

func TestWatchMemory(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("there is no /proc here")
	}
	w := watchMemory(os.Getpid())
	ballast := make([]byte, 64<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	peaks := w.stop()
	if len(peaks) != 1 || peaks[0].Anon == 0 || peaks[0].RSS < peaks[0].Anon {
		t.Errorf("got %+v", peaks)
	}
	_ = ballast[len(ballast)-1]
}

func TestRunOf(t *testing.T) {
	for name, want := range map[string]int{
		"fairway-bench-123":      123,
		"fairway-bench-123-near": 123,
		"fairway-bench-":         0,
		"fairway-bench-x-near":   0,
		"fairway-123-near":       0,
		"123":                    0,
	} {
		if got := runOf(name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}
