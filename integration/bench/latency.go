// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/caddy-fairway/fairway/crypto/softkey"
)

// What one client may wait longer than directly, in milliseconds.
const (
	addedMedian = 0.8
	addedP99    = 3
)

// latency is how long an exchange takes that has everything for itself.
func latency(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	var (
		neither     = entrant{"Fairway, P-256, evidence off, batch off", fairway(fairwayOptions{evidence: "none", batch: "batch off"})}
		rsa         = entrant{"Fairway, RSA-2048, evidence off", fairway(fairwayOptions{keys: rsaKeys, evidence: "none"})}
		rsaSingles  = entrant{"Fairway, RSA-2048, evidence off, batch off", fairway(fairwayOptions{keys: rsaKeys, evidence: "none", batch: "batch off"})}
		evidenceToo = fairwayP256
	)
	all, err := b.enter(ctx, direct, caddyPair, fairwayNothing, neither, evidenceToo, rsa, rsaSingles)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	number := 5000
	if b.quick {
		number /= 20
	}
	title := fmt.Sprintf("128 B, one client, %d exchanges", number)
	turns := b.crowds(all, message{Content: 128}, 1, 2*time.Second)
	for i := range turns {
		turns[i].crowd.Number = number
	}
	before, err := syncTime(b.lab.dir, b.brief(2*time.Second))
	if err != nil {
		return nil, err
	}
	t := &table{Title: title}
	if t.Tallies, err = b.tallies(ctx, title, turns); err != nil {
		return nil, err
	}
	after, err := syncTime(b.lab.dir, b.brief(2*time.Second))
	if err != nil {
		return nil, err
	}
	synced := (before + after) / 2 * 1000
	added := func(e entrant) (middle, p99 float64) {
		mine, plain := t.tally(e), t.tally(direct)
		return (mine.Median - plain.Median) * 1000, (mine.P99 - plain.P99) * 1000
	}
	middle, p99 := added(fairwayNothing)
	t.atMost("ms added, median, evidence off", middle, addedMedian)
	t.atMost("ms added, p99, evidence off", p99, addedP99)
	middle, p99 = added(evidenceToo)
	what := fmt.Sprintf("and four times fdatasync, %.3f ms, with evidence", synced)
	t.atMost("ms added, median, "+what, middle, addedMedian+4*synced)
	t.atMost("ms added, p99, "+what, p99, addedP99+4*synced)
	for _, kind := range []struct {
		name, folder  string
		auto, singles entrant
	}{
		{"P-256", "ss1", fairwayNothing, neither},
		{"RSA-2048", "ss1" + rsaKeys, rsa, rsaSingles},
	} {
		signing, err := signingTime(filepath.Join(b.instance, kind.folder, "sign.pem"))
		if err != nil {
			return nil, err
		}
		t.atMost("ms added by batch auto, median, one operation of the "+kind.name+" key", (t.tally(kind.auto).Median-t.tally(kind.singles).Median)*1000, signing*1000)
	}
	return []*table{t}, nil
}

// syncTime returns the median time of writing a block to a file of a folder and making it durable, over and over.
func syncTime(dir string, duration time.Duration) (float64, error) {
	file, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 4<<10)
	var seconds []float64
	for begun := time.Now(); time.Since(begun) < duration; {
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return 0, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return median(seconds), nil
}

// signingTime returns the median time of an operation of a key.
func signingTime(file string) (float64, error) {
	key, err := softkey.Load(file)
	if err != nil {
		return 0, err
	}
	var seconds []float64
	for range 100 {
		sum := sha256.Sum256([]byte{byte(len(seconds))})
		start := time.Now()
		if _, err := key.Private.Sign(rand.Reader, sum[:], crypto.SHA256); err != nil {
			return 0, err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return median(seconds), nil
}
