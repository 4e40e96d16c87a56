// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
)

// bench is what all rows share: the laboratory, the binary under test and the service.
type bench struct {
	options
	lab         *lab
	binary      string
	slow        string // likewise, with keys that take a while; empty: it has not been built
	instance    string // folder of writeInstance
	certificate string // file with certificate and key of everybody who is not Fairway
	servants    []*process
	service     *process
	entered     int     // contestants so far
	rate        float64 // of the line, in Mb/s; 0: no limit
	disk        *disk   // of the receiver that is about to start; nil: an ordinary one
}

func newBench(ctx context.Context, o options) (_ *bench, err error) {
	b := &bench{options: o}
	if b.lab, err = openLab(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.binary, err = b.build(ctx, "cmd/fairway"); err != nil {
		return nil, err
	}
	b.instance = filepath.Join(b.lab.dir, "instance")
	if err := writeInstance(ctx, b.instance); err != nil {
		return nil, fmt.Errorf("making an instance: %w", err)
	}
	b.certificate = filepath.Join(b.lab.dir, "certificate", "bench.pem")
	if err := writeCertificate(b.certificate); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		ns, name, role string
		particulars    any
	}{
		{b.lab.near, "ocsp-near", "ocsp", responderJob{b.instance}},
		{b.lab.far, "ocsp-far", "ocsp", responderJob{b.instance}},
		{b.lab.far, "service", "service", serviceJob{b.certificate}},
	} {
		p, err := b.lab.startRole(s.ns, s.name, s.role, s.particulars)
		if err != nil {
			return nil, err
		}
		b.servants = append(b.servants, p)
		b.service = p
	}
	return b, nil
}

// build builds a command of this repository and returns the binary.
func (b *bench) build(ctx context.Context, path string) (binary string, err error) {
	binary = filepath.Join(b.lab.dir, filepath.Base(path))
	return binary, command(ctx, "go", "build", "-o", binary, "github.com/caddy-fairway/fairway/"+path)
}

func (b *bench) close() error {
	for _, p := range b.servants {
		p.stop()
	}
	return b.lab.close()
}

// place returns where a receiver whose folder is dir keeps its files: there, or on the slow disk that it is to have.
func (b *bench) place(dir string) string {
	if b.disk == nil {
		return dir
	}
	return filepath.Join(b.disk.dir, filepath.Base(dir))
}

// sized returns the size to use where a row would use n, and likewise the repetitions.
func (b *bench) sized(n int64) int64 {
	switch {
	case b.size > 0:
		return b.size
	case b.quick:
		return min(n, 100e6)
	}
	return n
}

func (b *bench) repetitions(n int) int {
	switch {
	case b.runs > 0:
		return b.runs
	case b.quick:
		return 1
	}
	return n
}

// lineTolerance is how far the line, or a disk, may be from what it should be.
const lineTolerance = 0.05

// shape limits the line, measures it, and refuses one that is not as it should be.
func (b *bench) shape(ctx context.Context, rate float64) error {
	if err := b.lab.shape(ctx, rate); err != nil {
		return err
	}
	b.rate = rate
	if rate == 0 {
		return nil
	}
	size := int64(rate * 1e6 / 8 * 2) // two seconds
	url := "http://" + farAddress + ":" + servicePort + "/"
	o, _, err := b.lab.ask(ctx, job{URL: url, Message: message{Size: size}, Patient: true})
	if err != nil {
		return fmt.Errorf("measuring the line: %w", err)
	}
	off := lineSeconds(size, rate)/o.Seconds - 1
	fmt.Fprintf(os.Stderr, "line: %.1f Mb/s, %+.1f %%\n", rate*(1+off), off*100)
	if math.Abs(off) > lineTolerance && !b.quick {
		return fmt.Errorf("the line carries %.1f Mb/s instead of %g", rate*(1+off), rate)
	}
	return nil
}

// race is what contestants are to carry, in turn.
type race struct {
	title   string
	message message
	runs    int
}

// measure is one run of one contestant.
type sample struct {
	seconds float64
	cpu     map[string]float64 // seconds of processor time by role
	memory  map[string]memory  // peaks by server
}

// compare runs the contestants in turn. The first is the one that the others are compared with.
func (b *bench) compare(ctx context.Context, r race, all []*contestant) (*table, error) {
	samples := make([][]sample, len(all))
	for run := range r.runs {
		for i, c := range all {
			s, err := b.once(ctx, c, r.message)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], s)
			fmt.Fprintf(os.Stderr, "%s, run %d of %d, %s: %.2f s\n", r.title, run+1, r.runs, c.name, s.seconds)
		}
	}
	t := &table{Title: r.title}
	for i, c := range all {
		t.Results = append(t.Results, b.result(c, r.message, samples[i]))
	}
	return t, nil
}

// once lets a contestant carry the message.
func (b *bench) once(ctx context.Context, c *contestant, m message) (s sample, err error) {
	if c.before != nil {
		if err := c.before(ctx); err != nil {
			return s, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	s.cpu, s.memory, err = b.observe(c, func() (cpu float64, err error) {
		o, cpu, err := b.lab.ask(ctx, job{URL: c.url, Trust: c.trust, Message: m})
		s.seconds = o.Seconds
		return cpu, err
	})
	return s, err
}

// observe returns the processor time and the peaks of memory of everybody while a consumer works, which says what its own
// processor time was.
func (b *bench) observe(c *contestant, work func() (cpu float64, err error)) (cpu map[string]float64, peaks map[string]memory, err error) {
	observed := append(c.servers(), b.service)
	before := make([]float64, len(observed))
	var pids []int
	for i, p := range observed {
		before[i] = p.cpu()
		pids = append(pids, p.pid())
	}
	watch := watchMemory(pids...)
	own, err := work()
	most := watch.stop()
	if err != nil {
		return nil, nil, c.explain(err)
	}
	cpu, peaks = map[string]float64{"consumer": own}, make(map[string]memory)
	for i, p := range observed {
		role := c.role(p)
		cpu[role] = p.cpu() - before[i]
		peaks[role] = most[i]
	}
	return cpu, peaks, nil
}

// explain puts what a contestant's servers have said behind an error.
func (c *contestant) explain(err error) error {
	for _, p := range c.servers() {
		err = fmt.Errorf("%w\n%s said:\n%s", err, p.name, p.said())
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// role names a process as tables do.
func (c *contestant) role(p *process) string {
	switch p {
	case c.sender:
		return "sender"
	case c.far:
		return "receiver"
	}
	return "service"
}

// result sums up the runs of a contestant.
func (b *bench) result(c *contestant, m message, samples []sample) *result {
	octets := m.Size + m.Return
	r := &result{Name: c.name, Rate: b.rate, Disk: c.disk, Size: octets, Runs: len(samples), CPU: make(map[string]float64), Memory: make(map[string]memory)}
	var seconds []float64
	roles := make(map[string][]float64)
	for _, s := range samples {
		seconds = append(seconds, s.seconds)
		for role, cpu := range s.cpu {
			roles[role] = append(roles[role], cpu*1e9/float64(octets))
		}
		for role, peak := range s.memory {
			r.Memory[role] = r.Memory[role].most(peak)
		}
	}
	r.Seconds, r.Least, r.Most = spread(seconds)
	for role, values := range roles {
		r.CPU[role] = median(values)
	}
	return r
}

// sizeText writes a size as tables do.
func sizeText(octets int64) string {
	if octets%(1<<20) == 0 {
		return humanize.IBytes(uint64(octets))
	}
	return humanize.Bytes(uint64(octets))
}
