// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// containerMemory is what each of both servers may have, with its program and the page cache that it fills.
const containerMemory = 256 << 20

// container lets both servers, each in a container, carry more uploads at once than there is memory for, and small messages beside
// them: with the exchanges that there are where nothing is said, so that whoever finds no place has to come again, and with
// a place for everybody.
func container(ctx context.Context, b *bench) ([]*table, error) {
	uploads, perSecond, size := 50, 100, b.sized(64*megabyte)
	if b.quick && b.size == 0 {
		uploads, size = 30, megabyte
	}
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	t := &table{
		Title: fmt.Sprintf("%d uploads of %s at once and %d small messages a second, each server in %d MiB", uploads, sizeText(size), perSecond, containerMemory>>20),
		Header: []string{"exchanges", "seconds", "uploads", "came again", "small messages answered", "refused, come again", "failed", "median ms", "p99 ms",
			"idle RSS (MiB) sender", "receiver", "peak RssAnon (RSS) sender", "receiver", "killed"},
	}
	for _, way := range []struct{ name, places string }{
		{"default", ""},
		{"90, one peer all of them", "exchanges 90 {\n\t\t\tpeer 90\n\t\t}"},
	} {
		if err := b.contained(ctx, t, way.name, way.places, containedJob{Uploads: uploads, PerSecond: perSecond, Size: size}); err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return []*table{t}, nil
}

// contained runs the job once and adds a line.
func (b *bench) contained(ctx context.Context, t *table, name, places string, j containedJob) error {
	b.entered++
	f := &fairwayPair{b, fairwayOptions{places: places}, b.entered}
	c, err := b.startPair(fmt.Sprintf("contained-%d", f.number), inContainer(f.sender), inContainer(f.receiver))
	if err != nil {
		return err
	}
	defer leave([]*contestant{c})
	c.name, c.url = name, fmt.Sprintf("http://127.0.0.1:%d/", f.port(8000))
	for _, p := range c.servers() {
		if err := b.hold(p); err != nil {
			return err
		}
	}
	if err := b.greet(ctx, c); err != nil {
		return err
	}
	sleep(ctx, b.brief(10*time.Second))
	idle := watchMemory(c.sender.pid(), c.far.pid()).stop()
	j.URL = c.url
	var o containedOutcome
	_, peaks, err := b.observe(c, func() (cpu float64, err error) {
		o, cpu, err = perform[containedOutcome](ctx, b.lab, b.lab.near, "contained", j)
		return cpu, err
	})
	if err != nil {
		return err
	}
	if o.Why != "" {
		fmt.Fprintln(os.Stderr, "a message failed:", o.Why)
	}
	killed := 0
	for _, p := range c.servers() {
		select {
		case <-p.exited:
			killed++
			fmt.Fprintf(os.Stderr, "%s has ended: %s\n", p.name, p.said())
		default:
		}
	}
	mebibytes := func(octets int64) string { return fmt.Sprintf("%.0f", float64(octets)/(1<<20)) }
	t.Lines = append(t.Lines, []string{name, fmt.Sprintf("%.1f", o.Seconds), fmt.Sprintf("%d of %d", o.Complete, j.Uploads), fmt.Sprint(o.Again),
		fmt.Sprintf("%d of %d", o.Answered, o.Sent), fmt.Sprint(o.Refused), fmt.Sprint(o.Failed), ms(o.Median), ms(o.P99),
		mebibytes(idle[0].RSS), mebibytes(idle[1].RSS), memoryCell(peaks, "sender"), memoryCell(peaks, "receiver"), fmt.Sprint(killed)})
	t.atMost(name+": servers that were killed", float64(killed), 0)
	t.atLeast(name+": uploads that are complete", float64(o.Complete), float64(j.Uploads))
	t.atMost(name+": small messages that were neither answered nor told to come again", float64(o.Failed), 0)
	t.atMost(name+": idle RSS of a server, MiB", float64(max(idle[0].RSS, idle[1].RSS))/(1<<20), 64)
	return nil
}

// inContainer has the command of a server wait until it is in a container, with the limit that Caddy would set there.
func inContainer(server func(dir string) ([]string, error)) func(dir string) ([]string, error) {
	return func(dir string) ([]string, error) {
		argv, err := server(dir)
		return append([]string{"sh", "-c", `until [ -e "$0" ]; do sleep 0.1; done; exec "$@"`, filepath.Join(dir, "held"),
			"env", fmt.Sprintf("GOMEMLIMIT=%d", containerMemory/10*9)}, argv...), err
	}
}

// hold puts such a server into its container and lets it begin.
func (b *bench) hold(p *process) error {
	if err := (&disk{bound: containerMemory}).hold(b.lab.run(), p); err != nil {
		return err
	}
	_, err := written(filepath.Join(b.lab.dir, p.name), "held", "")
	return err
}

// containedJob is a consumer that uploads at once, and sends small messages at a steady pace until all that is done. Who is told
// to come again does so, but for small messages.
type containedJob struct {
	URL       string `json:"url"`
	Uploads   int    `json:"uploads"`
	Size      int64  `json:"size"`
	PerSecond int    `json:"per_second"`
}

// containedOutcome is what became of it.
type containedOutcome struct {
	Seconds  float64 `json:"seconds"` // until the last upload
	Complete int     `json:"complete"`
	Again    int     `json:"again"` // uploads that had to come again, each time
	Sent     int     `json:"sent"`  // small messages
	Answered int     `json:"answered"`
	Refused  int     `json:"refused"` // and told to come again
	Failed   int     `json:"failed"`
	Why      string  `json:"why,omitempty"` // of the first that failed, an upload too
	Median   float64 `json:"median"`        // seconds, of those that were answered
	P99      float64 `json:"p99"`
}

// mostAgain is how often an upload comes again before it is given up.
const mostAgain = 300

func sendContained(ctx context.Context, j containedJob) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadConnections, WriteBufferSize: 256 << 10}, Timeout: 10 * time.Minute}
	var (
		mu      sync.Mutex // guards what follows
		o       containedOutcome
		seconds []float64
	)
	failed := func(err error) {
		if o.Why == "" {
			o.Why = err.Error()
		}
	}
	begun := time.Now()
	var uploads, small sync.WaitGroup
	for range j.Uploads {
		uploads.Go(func() {
			for range mostAgain {
				after, err := try(ctx, client, j.URL, message{Size: j.Size})
				mu.Lock()
				switch {
				case err == nil:
					o.Complete++
				case after > 0:
					o.Again++
				default:
					failed(err)
				}
				mu.Unlock()
				if after == 0 {
					return
				}
				sleep(ctx, after)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		uploads.Wait()
		close(done)
	}()
	interval := time.Second / time.Duration(j.PerSecond)
	for due := time.Now(); ; due = due.Add(interval) {
		select {
		case <-done:
			o.Seconds = time.Since(begun).Seconds()
			small.Wait()
			if len(seconds) > 0 {
				o.Median, o.P99 = median(seconds), percentile(seconds, 99)
			}
			return json.NewEncoder(os.Stdout).Encode(o)
		case <-time.After(time.Until(due)):
		}
		small.Go(func() {
			after, err := try(ctx, client, j.URL, message{})
			took := time.Since(due).Seconds()
			mu.Lock()
			defer mu.Unlock()
			o.Sent++
			switch {
			case err == nil:
				o.Answered++
				seconds = append(seconds, took)
			case after > 0:
				o.Refused++
			default:
				o.Failed++
				failed(err)
			}
		})
	}
}

// try sends a message once. after is how long it has been told to wait before it comes again; 0: nobody has told it to.
func try(ctx context.Context, client *http.Client, url string, m message) (after time.Duration, err error) {
	body, length, contentType := m.body(false)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, err
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", contentType)
	response, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return 0, err
	case strings.Contains(string(text), "Fault>"):
		// What another server has said is in the fault, and in no header.
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if seconds == 0 && strings.Contains(string(text), "try again after") {
			seconds = 1
		}
		return time.Duration(seconds) * time.Second, errors.New(string(text))
	case !strings.Contains(string(text), "echoResponse"):
		return 0, errors.New("the answer is not from the service")
	}
	return 0, nil
}
