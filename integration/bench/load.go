// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// loadJob is a consumer that sends small messages at a steady pace until it is stopped, whether they are answered or not.
type loadJob struct {
	URL       string `json:"url"`
	PerSecond int    `json:"per_second"`
}

// loadOutcome is what became of them.
type loadOutcome struct {
	Sent   int     `json:"sent"`
	Failed int     `json:"failed"`
	Why    string  `json:"why,omitempty"` // of the first that failed
	Median float64 `json:"median"`        // seconds, from when a message was due until its answer had been read
	P99    float64 `json:"p99"`
}

// loadConnections is how many connections are kept: more than are ever busy.
const loadConnections = 256

func sendLoad(ctx context.Context, j loadJob) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadConnections}, Timeout: time.Minute}
	var (
		mu      sync.Mutex
		wait    sync.WaitGroup
		o       loadOutcome
		seconds []float64
	)
	interval := time.Second / time.Duration(j.PerSecond)
	for due := time.Now(); ctx.Err() == nil; due = due.Add(interval) {
		time.Sleep(time.Until(due))
		o.Sent++
		wait.Go(func() {
			// Those that are under way at the end are waited for.
			_, err := job{URL: j.URL}.exchange(context.WithoutCancel(ctx), client)
			took := time.Since(due).Seconds()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.Failed++
				o.Why = err.Error()
				return
			}
			seconds = append(seconds, took)
		})
	}
	wait.Wait()
	if len(seconds) > 0 {
		o.Median, o.P99 = median(seconds), percentile(seconds, 99)
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// meterJob looks at the line from the near end until it is stopped.
type meterJob struct{}

// meterOutcome is the longest time in which less than a stretch crossed the line, while more was to come.
type meterOutcome struct {
	Stall float64 `json:"stall"` // seconds
}

// stretch is what must cross the line to call it alive: more than acknowledgements and answers are.
const stretch = 256 << 10

func meter(ctx context.Context, _ meterJob) error {
	var o meterOutcome
	var moved time.Time // when the latest stretch was complete; zero: none has been
	var mark int64
	for first := true; ctx.Err() == nil; first = false {
		text, err := os.ReadFile("/sys/class/net/" + leg + "/statistics/tx_bytes")
		if err != nil {
			return err
		}
		now, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return err
		}
		if first {
			mark = now
		} else if now-mark >= stretch {
			if !moved.IsZero() {
				o.Stall = max(o.Stall, time.Since(moved).Seconds())
			}
			mark, moved = now, time.Now()
		}
		time.Sleep(2 * time.Millisecond)
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// finish stops a role that reports when it is stopped, and reads its report.
func finish[T any](p *process, patience time.Duration) (report T, err error) {
	p.stopWithin(patience)
	text, err := os.ReadFile(p.log)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("%s: %w: %.500s", p.name, err, text)
	}
	return report, nil
}

// atOnce lets several consumers do their jobs at the same time, and returns what each saw.
func (l *lab) atOnce(ctx context.Context, n int, j job) ([]outcome, error) {
	all, failed := make([]outcome, n), make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { all[i], _, failed[i] = l.ask(ctx, j) })
	}
	wait.Wait()
	return all, errors.Join(failed...)
}
