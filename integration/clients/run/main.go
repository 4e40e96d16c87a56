// SPDX-License-Identifier: Apache-2.0

// Command run tries the SOAP stacks of others with Fairway: it installs and
// builds the echo clients and services of integration/clients, starts the
// services and lets the clients call them, directly and through two security
// servers. A run of all stacks both ways writes docs/interop.md.
//
//	go run ./integration/clients/run [-stack a,b] [-via direct|fairway] [-quick] [-capture DIR]
//
// It is started in the root of the repository.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.stacks, "stack", "", "comma-separated `names` of the stacks to try; default all")
	flag.StringVar(&o.via, "via", "", "only `direct` or only fairway; default both")
	flag.BoolVar(&o.quick, "quick", false, "only through Fairway, and no stack with itself")
	flag.BoolVar(&o.installed, "installed", false, "do not install or build the stacks again")
	flag.StringVar(&o.capture, "capture", "", "keep the octets of every direct request to the reference in `folder`")
	flag.StringVar(&o.sizes, "sizes", "0,1,2048,1048576", "`octets` of the attachments")
	flag.Parse()
	failed, err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

type options struct {
	stacks, via, capture, sizes string
	quick, installed            bool
}

func (o options) run() (failed bool, err error) {
	chosen, err := choose(o.stacks)
	if err != nil {
		return false, err
	}
	dir, err := filepath.Abs("integration/clients")
	if err != nil {
		return false, err
	}
	if !o.installed {
		if err := install(dir, chosen); err != nil {
			return false, err
		}
	}
	if o.capture != "" {
		if err := os.MkdirAll(o.capture, 0o755); err != nil {
			return false, err
		}
	}
	folder, err := os.MkdirTemp("", "fairway-clients-")
	if err != nil {
		return false, err
	}
	defer func() {
		if failed || err != nil {
			fmt.Fprintln(os.Stderr, "run: the logs are in", folder)
		} else {
			os.RemoveAll(folder)
		}
	}()

	b := &bench{
		dir: dir, folder: folder, sizes: strings.Split(o.sizes, ","), capture: o.capture, quick: o.quick,
		report: report{stacks: chosen, versions: map[string]string{}, answers: map[string]string{}},
	}
	defer b.stop()
	if err := b.startServices(); err != nil {
		return false, err
	}
	if o.via != "fairway" && !o.quick {
		b.direct()
	}
	if o.via != "direct" {
		if err := b.fairway(filepath.Join(dir, "../..")); err != nil {
			return false, err
		}
	}
	bad := 0
	for _, r := range b.report.results {
		if r.err != "" {
			bad++
		}
	}
	fmt.Printf("clients: %d passed, %d failed\n", len(b.report.results)-bad, bad)
	if o.stacks == "" && o.via == "" && !o.quick {
		b.report.sizes = b.sizes
		err = os.WriteFile("docs/interop.md", []byte(b.report.page()), 0o644)
	}
	return bad > 0, err
}

func install(dir string, chosen []stack) error {
	cmd := exec.Command(filepath.Join(dir, "install"))
	for _, s := range chosen {
		if s.client != nil {
			cmd.Args = append(cmd.Args, s.name)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing: %w\n%s", err, out)
	}
	return nil
}

// A bench is the stacks' services and the reference, running.
type bench struct {
	dir, folder, capture string
	sizes                []string
	quick                bool
	reference            reference
	backends             []backend // the reference first
	stops                []func()
	report               report
}

func (b *bench) stop() {
	for _, stop := range b.stops {
		stop()
	}
}

func (b *bench) startServices() error {
	ports, err := freePorts(1 + len(b.report.stacks))
	if err != nil {
		return err
	}
	b.reference = reference{sizes: b.sizes, shapes: map[string]string{}}
	if err := b.reference.serve(ports[0]); err != nil {
		return err
	}
	b.backends = []backend{{"reference", ports[0]}}
	for i, s := range b.report.stacks {
		version, err := s.version(b.dir)
		if err != nil {
			return err
		}
		b.report.versions[s.name] = version
		if s.service == nil {
			continue
		}
		port := ports[1+i]
		args := append(append([]string{}, s.service...), fmt.Sprint(port))
		stop, err := start(b.dir, filepath.Join(b.folder, s.name+"-service.log"), port, nil, args...)
		if err != nil {
			return err
		}
		b.stops = append(b.stops, stop)
		b.backends = append(b.backends, backend{s.name, port})
	}
	return nil
}

// direct lets the clients call the services without anything between them.
func (b *bench) direct() {
	b.exchange("direct", b.capture, func(service backend) string { return service.URL() })
	b.report.requests = maps.Clone(b.reference.shapes) // before Fairway's requests come
}

// fairway lets them meet through two security servers.
func (b *bench) fairway(repository string) error {
	url, stop, err := startFairway(repository, b.folder, b.backends)
	if err != nil {
		return err
	}
	b.stops = append(b.stops, stop)
	b.exchange("fairway", "", func(backend) string { return url })
	return nil
}

// exchange runs each stack's client against the reference and against its own
// service, and the reference client against each stack's service.
func (b *bench) exchange(via, capture string, url func(service backend) string) {
	reference := b.backends[0]
	for _, s := range b.report.stacks {
		if names := s.able("client"); len(names) > 0 {
			b.reference.watch(s.name, capture)
			b.call(via, s, reference, url(reference), names)
		}
	}
	for _, s := range b.report.stacks {
		for _, own := range b.backends[1:] {
			if own.Name != s.name {
				continue
			}
			b.ask(via, s, own, url(own))
			if names := s.able("client", "service"); len(names) > 0 && !b.quick {
				b.call(via, s, own, url(own), names)
			}
		}
	}
}

func (b *bench) call(via string, s stack, service backend, url string, names []string) {
	log := filepath.Join(b.folder, s.name+"-client.log")
	outcomes, err := run(b.dir, log, s.client, url, client, service.ID(), b.sizes, names)
	for _, name := range names {
		o, ok := outcomes[name]
		switch {
		case err != nil:
			o.Error = err.Error()
		case !ok:
			o.Error = "the client said nothing of this case"
		case !o.OK && o.Error == "":
			o.Error = "the client says so"
		}
		b.note(result{via, s.name, service.Name, name, o.Error})
	}
}

func (b *bench) ask(via string, s stack, service backend, url string) {
	for _, name := range s.able("service") {
		shape, err := ask(url, client, service.ID(), b.sizes, name, via == "fairway")
		r := result{via, "reference", s.name, name, ""}
		if err != nil {
			r.err = err.Error()
		}
		if via == "direct" {
			b.report.answers[s.name+" "+name] = shape
		}
		b.note(r)
	}
}

func (b *bench) note(r result) {
	b.report.results = append(b.report.results, r)
	verdict := "ok"
	if r.err != "" {
		verdict = "FAILED: " + r.err
	}
	fmt.Printf("%-8s %-10s → %-10s %-14s %s\n", r.via, r.client, r.service, r.name, verdict)
}
