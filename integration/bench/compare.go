// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

const boundary = "bench-boundary"

const envelope = `<?xml version="1.0" encoding="UTF-8"?>
<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:i="http://x-road.eu/xsd/identifiers"><s:Header>` +
	`<x:client i:objectType="SUBSYSTEM"><i:xRoadInstance>DEV</i:xRoadInstance><i:memberClass>GOV</i:memberClass><i:memberCode>1111</i:memberCode><i:subsystemCode>app</i:subsystemCode></x:client>` +
	`<x:service i:objectType="SERVICE"><i:xRoadInstance>DEV</i:xRoadInstance><i:memberClass>GOV</i:memberClass><i:memberCode>0000</i:memberCode><i:subsystemCode>registry</i:subsystemCode><i:serviceCode>echo</i:serviceCode><i:serviceVersion>v1</i:serviceVersion></x:service>` +
	`<x:userId>bench</x:userId><x:id>bench</x:id><x:protocolVersion>4.0</x:protocolVersion></s:Header><s:Body><echo%s/></s:Body></s:Envelope>`

// service takes a message, throws it away and answers. It runs in this process, for every contestant alike.
type service struct {
	url      string
	listener net.Listener
}

func startService() (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		w.Header().Set("X-Octets", fmt.Sprint(n))
		fmt.Fprintf(w, envelope, "Response")
	}))
	return &service{"http://" + l.Addr().String() + "/", l}, nil
}

func (s *service) close() { s.listener.Close() }

// upload sends the message to a contestant and returns how long the exchange took.
func (b *bench) upload(ctx context.Context, url string) (time.Duration, error) {
	head := "--" + boundary + "\r\nContent-Type: text/xml; charset=UTF-8\r\n\r\n" + fmt.Sprintf(envelope, "") + "\r\n--" + boundary + "\r\nContent-Type: application/octet-stream\r\nContent-ID: <a>\r\n\r\n"
	tail := "\r\n--" + boundary + "--\r\n"
	body := io.MultiReader(strings.NewReader(head), &noise{left: b.size}, strings.NewReader(tail))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return 0, err
	}
	req.ContentLength = int64(len(head)) + b.size + int64(len(tail))
	req.Header.Set("Content-Type", `multipart/related; type="text/xml"; boundary=`+boundary)
	start := time.Now()
	response, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(answer), "echoResponse") {
		return 0, fmt.Errorf("%s answered %s:\n%s", url, response.Status, answer)
	}
	return took, nil
}

var client = &http.Client{Transport: &http.Transport{WriteBufferSize: 256 << 10}}

// noise is octets that do not repeat within any buffer.
type noise struct{ left int64 }

var pattern = func() []byte {
	b := make([]byte, 1<<20+7)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}()

func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	k := copy(p[:min(int64(len(p)), n.left)], pattern[int(n.left%1021):])
	n.left -= int64(k)
	return k, nil
}

// sample is one run of one contestant.
type sample struct {
	seconds, cpu float64
}

// compare runs the contestants in turn and prints the table. The first is the one that the others are compared with.
func (b *bench) compare(ctx context.Context, contestants ...*contestant) error {
	if err := quiet(); err != nil {
		return err
	}
	samples := make([][]sample, len(contestants))
	for run := range b.runs + 1 {
		for i, c := range contestants {
			cpu := c.cpu()
			took, err := b.upload(ctx, c.url)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if run > 0 {
				samples[i] = append(samples[i], sample{took.Seconds(), c.cpu() - cpu})
			}
			fmt.Fprintf(os.Stderr, "run %d of %d, %s: %.2f s\n", run, b.runs, c.name, took.Seconds())
		}
	}
	return b.print(contestants, samples)
}

func (b *bench) print(contestants []*contestant, samples [][]sample) error {
	gb := float64(b.size) / 1e9
	base := median(samples[0], func(s sample) float64 { return s.seconds })
	header := []string{"contestant", "median s", "min", "max", "MB/s", "time / direct", "core-s per GB, proxies", "peak RssAnon"}
	lines := [][]string{header}
	for i, c := range contestants {
		seconds := func(s sample) float64 { return s.seconds }
		m := median(samples[i], seconds)
		memory := "-"
		if c.peak != nil {
			memory = humanize.IBytes(uint64(c.peak.octets()))
		}
		least := slices.MinFunc(samples[i], func(a, b sample) int { return compareFloat(a.seconds, b.seconds) })
		most := slices.MaxFunc(samples[i], func(a, b sample) int { return compareFloat(a.seconds, b.seconds) })
		lines = append(lines, []string{
			c.name, fmt.Sprintf("%.2f", m), fmt.Sprintf("%.2f", least.seconds), fmt.Sprintf("%.2f", most.seconds),
			fmt.Sprintf("%.0f", float64(b.size)/1e6/m), fmt.Sprintf("%.2f", m/base),
			fmt.Sprintf("%.2f", median(samples[i], func(s sample) float64 { return s.cpu })/gb), memory,
		})
	}
	if b.markdown {
		for i, line := range lines {
			fmt.Println("| " + strings.Join(line, " | ") + " |")
			if i == 0 {
				fmt.Println("|" + strings.Repeat("---|", len(line)))
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	for _, line := range lines {
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	return w.Flush()
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// maxLoad is the load average above which a measurement says nothing.
const maxLoad = 1.0

// quiet refuses a busy machine.
func quiet() error {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return errors.New("the load of this machine is not known: /proc/loadavg cannot be read")
	}
	var load float64
	fmt.Sscan(string(text), &load)
	if load > maxLoad && os.Getenv("BENCH_BUSY") == "" {
		return fmt.Errorf("the machine is busy (load %.2f): wait, or set BENCH_BUSY=1 for a run that only shows that it works", load)
	}
	return nil
}
