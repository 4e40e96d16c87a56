// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/ident"
)

// archive measures the evidence store by itself: how many records it makes durable, and how soon it finds one of many.
func archive(ctx context.Context, b *bench) ([]*table, error) {
	records := 5_000_000
	if b.quick {
		records /= 1000
	}
	var tables []*table
	for _, size := range []int{512, 8 << 10} {
		t, err := b.appends(ctx, size)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	o, cpu, err := b.archived(ctx, archiveJob{Way: queries, Writers: 2048, Octets: 512, Records: records, Count: b.brief(5 * time.Second)})
	if err != nil {
		return nil, err
	}
	q := &table{Title: fmt.Sprintf("Query by id in %d records of %d octets", records, o.Size),
		Header: []string{"median ms", "p99 ms", "not there: median ms", "core-s, making all", "RssAnon (RSS)"},
		Lines: [][]string{{fmt.Sprintf("%.3f", o.Query*1000), fmt.Sprintf("%.3f", o.QueryP99*1000), fmt.Sprintf("%.3f", o.Absent*1000), fmt.Sprintf("%.0f", cpu),
			memoryCell(map[string]memory{"": o.Memory}, "")}}}
	q.atMost("ms of a query by id, median", o.Query*1000, 5)
	return append(tables, q), nil
}

// appends measures how many records of a size are made durable, by some who write at once.
func (b *bench) appends(ctx context.Context, size int) (*table, error) {
	ways := []string{bareLoop, store}
	t := &table{Title: fmt.Sprintf("Records of %s made durable, a second", octets(size)), Header: []string{"", "writers", "a second", "min", "max", "store / bare loop", "core-s per 1,000", "RssAnon (RSS)"}}
	for _, n := range []int{1, 16, 128} {
		rates, cpus := make([][]float64, len(ways)), make([][]float64, len(ways))
		peaks := make([]memory, len(ways))
		for run := range b.repetitions(often) {
			for i, way := range ways {
				o, cpu, err := b.archived(ctx, archiveJob{Way: way, Writers: n, Octets: size, Count: b.brief(3 * time.Second)})
				if err != nil {
					return nil, err
				}
				rates[i], cpus[i] = append(rates[i], o.PerSecond), append(cpus[i], cpu*1000/float64(o.Records))
				peaks[i] = peaks[i].most(o.Memory)
				fmt.Fprintf(os.Stderr, "%s, run %d, %s, %d writers: %.0f/s\n", t.Title, run+1, way, n, o.PerSecond)
			}
		}
		bare := median(rates[0])
		for i, way := range ways {
			middle, least, most := spread(rates[i])
			t.Lines = append(t.Lines, []string{way, fmt.Sprint(n), fmt.Sprintf("%.0f", middle), fmt.Sprintf("%.0f", least), fmt.Sprintf("%.0f", most),
				fmt.Sprintf("%.3f", middle/bare), fmt.Sprintf("%.4f", median(cpus[i])), memoryCell(map[string]memory{way: peaks[i]}, way)})
		}
		t.atLeast(fmt.Sprintf("store / bare loop of group commits, %d writers", n), median(rates[1])/bare, 0.5)
	}
	return t, nil
}

// The ways in which records are kept, and what else is measured.
const (
	bareLoop = "bare loop of group commits"
	store    = "evidence store"
	queries  = "queries"
)

// archiveJob is what an archive is to do, in a folder of its own.
type archiveJob struct {
	Way     string        `json:"way"`
	Dir     string        `json:"dir"`
	Writers int           `json:"writers"`
	Octets  int           `json:"octets"` // of a record
	Count   time.Duration `json:"count"`
	Records int           `json:"records,omitempty"` // that are queried
}

// archiveOutcome is what it did.
type archiveOutcome struct {
	Records   int     `json:"records"`
	PerSecond float64 `json:"per_second"`
	Size      int64   `json:"size,omitempty"`  // of a record on the disk
	Query     float64 `json:"query,omitempty"` // seconds, median
	QueryP99  float64 `json:"query_p99,omitempty"`
	Absent    float64 `json:"absent,omitempty"` // of one that is not there, median
	Memory    memory  `json:"memory"`           // at the end
}

func (b *bench) archived(ctx context.Context, j archiveJob) (archiveOutcome, float64, error) {
	j.Dir = filepath.Join(b.lab.dir, "archive")
	defer os.RemoveAll(j.Dir)
	o, cpu, err := perform[archiveOutcome](ctx, b.lab, b.lab.near, "archive", j)
	if err != nil {
		err = fmt.Errorf("%s: %w", j.Way, err)
	}
	return o, cpu, err
}

func measureArchive(ctx context.Context, j archiveJob) error {
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		return err
	}
	o, err := j.do(ctx)
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	o.Memory = parseStatus(string(status))
	return json.NewEncoder(os.Stdout).Encode(o)
}

func (j archiveJob) do(ctx context.Context) (archiveOutcome, error) {
	if j.Way == bareLoop {
		return j.bare()
	}
	s, err := evidence.OpenDisk(j.Dir)
	if err != nil {
		return archiveOutcome{}, err
	}
	defer s.Close()
	o, err := j.write(func(n int) error {
		durable, err := s.Put(ctx, record(n, j.Octets))
		if err != nil {
			return err
		}
		return durable()
	})
	if err != nil || j.Way == store {
		return o, err
	}
	if o.Size, err = sizeOf(j.Dir); err != nil {
		return o, err
	}
	o.Size /= int64(o.Records)
	ask := func(id func(n int) string, want int) (seconds []float64, err error) {
		for begun := time.Now(); time.Since(begun) < j.Count; {
			start, found := time.Now(), 0
			for _, err := range s.Find(ctx, evidence.Query{MessageID: id(rand.IntN(j.Records))}) {
				if err != nil {
					return nil, err
				}
				found++
			}
			if found != want {
				return nil, fmt.Errorf("found %d records, not %d", found, want)
			}
			seconds = append(seconds, time.Since(start).Seconds())
		}
		return seconds, nil
	}
	there, err := ask(messageID, 1)
	if err != nil {
		return o, err
	}
	absent, err := ask(strconv.Itoa, 0)
	if err != nil {
		return o, err
	}
	o.Query, o.QueryP99, o.Absent = median(there), percentile(there, 99), median(absent)
	return o, nil
}

// write has so many writers put records for a time, or until there are enough.
func (j archiveJob) write(put func(n int) error) (o archiveOutcome, err error) {
	var number atomic.Int64
	begin := time.Now()
	err = together(j.Writers, func(int) error {
		for j.Records > 0 || time.Since(begin) < j.Count {
			n := int(number.Add(1)) - 1
			if j.Records > 0 && n >= j.Records {
				return nil
			}
			if err := put(n); err != nil {
				return err
			}
		}
		return nil
	})
	o.Records = int(number.Load())
	if j.Records > 0 {
		o.Records = j.Records
	}
	o.PerSecond = float64(o.Records) / time.Since(begin).Seconds()
	return o, err
}

// bare writes what has come since it last did, makes it durable, and lets those go on who wait for it. No store that
// makes each record durable before its writer goes on can do less.
func (j archiveJob) bare() (archiveOutcome, error) {
	file, err := os.Create(filepath.Join(j.Dir, "bare"))
	if err != nil {
		return archiveOutcome{}, err
	}
	defer file.Close()
	var (
		mu      sync.Mutex
		waiting []chan error
		wake    = make(chan struct{}, 1)
		block   = make([]byte, j.Octets*j.Writers)
		done    sync.WaitGroup
	)
	done.Go(func() {
		for range wake {
			mu.Lock()
			group := waiting
			waiting = nil
			mu.Unlock()
			_, err := file.Write(block[:j.Octets*len(group)])
			if err == nil {
				err = syscall.Fdatasync(int(file.Fd()))
			}
			for _, w := range group {
				w <- err
			}
		}
	})
	o, err := j.write(func(int) error {
		mine := make(chan error, 1)
		mu.Lock()
		waiting = append(waiting, mine)
		mu.Unlock()
		select {
		case wake <- struct{}{}:
		default:
		}
		return <-mine
	})
	close(wake)
	done.Wait()
	return o, err
}

func messageID(n int) string { return fmt.Sprintf("message-%08d", n) }

// record is of so many octets on the disk, a few less or more where they are many.
func record(n, octets int) *evidence.Record {
	client := ident.Client{Instance: "DEV", Class: "GOV", Member: strconv.Itoa(n % 100)}
	return &evidence.Record{
		Time: time.Unix(1_900_000_000+int64(n), 0).UTC(), Role: "send", MessageID: messageID(n), RequestID: fmt.Sprintf("request-%08d", n/2),
		Client: client, Service: ident.Service{Client: client, Code: "c"},
		Signature: crypto.Signature{XML: make([]byte, octets-316)},
	}
}

// sizeOf returns the octets in the files of a folder.
func sizeOf(dir string) (octets int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			octets += info.Size()
		}
		return err
	})
	return octets, err
}
