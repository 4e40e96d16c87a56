// SPDX-License-Identifier: Apache-2.0

// Command run tries the SOAP stacks of others with Fairway: it installs and
// builds the echo clients and services of integration/clients, starts the
// services and lets the clients call them, directly and through two security
// servers; then again with options of the stacks that change what they send.
// A run of all stacks both ways writes docs/interop.md, and one with -capture
// the octets that integration's TestClients sends again:
//
//	go run ./integration/clients/run -via direct -sizes 0,1,100 -capture integration/testdata/clients
//
//	go run ./integration/clients/run [-stack a,b] [-via direct|fairway] [-quick] [-capture DIR]
//
// It is started in the root of the repository.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-fairway/fairway/internal/freeport"
)

func main() {
	var o options
	flag.StringVar(&o.stacks, "stack", "", "comma-separated `names` of the stacks to try; default all")
	flag.StringVar(&o.via, "via", "", "only `direct` or only fairway; default both")
	flag.BoolVar(&o.quick, "quick", false, "only through Fairway, no stack with itself, and no option of a Java stack")
	flag.BoolVar(&o.installed, "installed", false, "do not install or build the stacks again")
	flag.StringVar(&o.capture, "capture", "", "keep what the stacks send directly in `folder`, with a README.md")
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

	all := expand(chosen)
	if o.quick {
		all = slices.DeleteFunc(all, func(s stack) bool { return s.option != nil && s.slow() })
	}
	b := &bench{
		dir: dir, folder: folder, sizes: strings.Split(o.sizes, ","), capture: o.capture, quick: o.quick,
		report: report{stacks: all, versions: map[string]string{}, answers: map[string]string{}},
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
	if o.capture != "" && o.via != "fairway" && !o.quick {
		if err := capture(o.capture, "README.md", []byte(b.report.captures(command()))); err != nil {
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

// command is how this run was started.
func command() string {
	return "go run ./integration/clients/run " + strings.Join(os.Args[1:], " ")
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
	ports, err := freeport.Find(1 + len(b.report.stacks))
	if err != nil {
		return err
	}
	b.reference = reference{shapes: map[string]string{}}
	if err := b.reference.serve(ports[0]); err != nil {
		return err
	}
	b.backends = []backend{{"reference", ports[0]}}
	for i, s := range b.report.stacks {
		var env []string
		if s.option != nil {
			env = []string{"OPTION=" + s.option.name}
		} else if b.report.versions[s.name], err = s.version(b.dir); err != nil {
			return err
		}
		if s.service == nil {
			continue
		}
		port := ports[1+i]
		args := append(append([]string{}, s.service...), fmt.Sprint(port))
		stop, err := start(b.dir, filepath.Join(b.folder, s.name+"-service.log"), port, env, args...)
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
// service, and the reference client against each stack's service. An option
// may name another stack whose service is asked, and needs no row with itself.
func (b *bench) exchange(via, capture string, url func(service backend) string) {
	for _, s := range b.report.stacks {
		peer := "reference"
		if s.option != nil && s.option.peer != "" {
			peer = s.option.peer
		}
		names := s.able("client")
		if service, ok := b.backend(peer); ok && s.asks() && len(names) > 0 {
			b.reference.watch(s, b.sizesFor(s), capture)
			b.call(via, s, service, url(service), names)
		}
	}
	for _, s := range b.report.stacks {
		own, ok := b.backend(s.name)
		if !ok {
			continue
		}
		b.ask(via, s, own, url(own), capture)
		if names := s.able("client", "service"); len(names) > 0 && s.option == nil && !b.quick {
			b.call(via, s, own, url(own), names)
		}
	}
}

// sizesFor returns the sizes of the files that are exchanged with a stack.
func (b *bench) sizesFor(s stack) []string {
	if s.option != nil && s.option.sizes != nil {
		return s.option.sizes
	}
	return b.sizes
}

// backend returns the running service of that name.
func (b *bench) backend(name string) (backend, bool) {
	i := slices.IndexFunc(b.backends, func(x backend) bool { return x.Name == name })
	if i < 0 {
		return backend{}, false
	}
	return b.backends[i], true
}

// call lets a stack's client ask.
func (b *bench) call(via string, s stack, service backend, url string, names []string) {
	if s.send != nil {
		for _, name := range names {
			_, err := ask(s.send, url, client, service.ID(), b.sizesFor(s), name, via == "fairway")
			b.note(s, via, s.name, service.Name, name, err)
		}
		return
	}
	log := filepath.Join(b.folder, s.name+"-client.log")
	outcomes, err := run(b.dir, log, s, url, client, service.ID(), b.sizesFor(s), names)
	for _, name := range names {
		o, ok := outcomes[name]
		err := err
		switch {
		case err != nil:
		case !ok:
			err = errors.New("the client said nothing of this case")
		case !o.OK:
			err = errors.New(cmp.Or(o.Error, "the client says so"))
		}
		b.note(s, via, s.name, service.Name, name, err)
	}
}

// ask lets the reference client ask a stack's service.
func (b *bench) ask(via string, s stack, service backend, url, folder string) {
	for _, name := range s.able("service") {
		got, err := ask(byHTTP, url, client, service.ID(), b.sizesFor(s), name, via == "fairway")
		if via == "direct" && got != nil {
			b.report.answers[s.name+" "+name] = got.shape
			if name == "plain" || strings.HasSuffix(name, "-response") {
				err = errors.Join(err, capture(folder, s.name+"."+name+".answer", got.raw))
			}
		}
		b.note(s, via, "reference", s.name, name, err)
	}
}

// faultCode finds the fault code in what a client says of a refusal.
var faultCode = regexp.MustCompile(`client[.][a-z_.]*[a-z]`)

// note keeps and prints a result: nil is what is wanted, and a fault where the option has that to be refused. Which one
// it is, only Fairway is asked.
func (b *bench) note(s stack, via, client, service, name string, err error) {
	r := result{via: via, client: client, service: service, name: name}
	verdict := "ok"
	switch refused := s.option != nil && s.option.refused != ""; {
	case refused && err == nil:
		r.err = "it was not refused"
	case refused && via == "fairway" && !strings.Contains(err.Error(), s.option.refused):
		r.err = err.Error()
	case refused:
		r.refused = "the reference knows no such message, either"
		if via == "fairway" {
			r.refused = "`" + faultCode.FindString(err.Error()) + "`"
		}
		verdict = "ok, refused: " + err.Error()
	case err != nil:
		r.err = err.Error()
	}
	if r.err != "" {
		verdict = "FAILED: " + r.err
	}
	b.report.results = append(b.report.results, r)
	fmt.Printf("%-8s %-26s → %-22s %-14s %s\n", r.via, r.client, r.service, r.name, verdict)
}
