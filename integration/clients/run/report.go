// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A result is one exchange, or the attempt.
type result struct {
	via     string // "direct" or "fairway"
	client  string // a stack, or "reference"
	service string
	name    string // of the case
	err     string // empty: all was as it should be
	refused string // the fault, where one had to come and came
}

// A report collects results and writes the page.
type report struct {
	stacks   []stack
	versions map[string]string
	sizes    []string
	results  []result
	requests map[string]string // "stack case" to the shape of the request
	answers  map[string]string // the same of the stack's answers
}

var titles = map[string]string{
	"plain":       "plain",
	"swa-request": "SwA →", "swa-response": "SwA ←", "swa-both": "SwA ↔",
	"mtom-request": "MTOM →", "mtom-response": "MTOM ←", "mtom-both": "MTOM ↔",
}

// page returns the matrix as Markdown.
func (r *report) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# SOAP stacks that Fairway was tried with

Written by `+"`go run ./integration/clients/run`"+` on %s; do not edit. Each stack is a small echo client and service in
[integration/clients](../integration/clients), as a user of that stack would write them.

The client sends X-Road header blocks and a body; the service answers with the same blocks and the SHA-256 of every
attachment that it received, and sends the attachments that it was asked for; the client compares. Attachments have
%s octets. Plain is one XML document (SOAP 1.1), SwA are attachments that the body does not name, MTOM are files that
the body includes (XOP); → in the request, ← in the answer, ↔ in both. The other side is the reference, written for this
purpose with strict views of the wire, or, in the rows "with itself", the same stack.

Through Fairway means: client → sending security server → receiving security server → service, with signatures, evidence
and mutual TLS between the two. Direct is the control.

What the stacks send is kept in [integration/testdata/clients](../integration/testdata/clients), with small files, and
`+"`go test ./integration -run Clients`"+` sends it through Fairway again without any of the stacks.

`, time.Now().Format(time.DateOnly), strings.Join(r.sizes, ", "))
	notes := &notes{}
	r.table(&b, "fairway", "Through Fairway", notes)
	r.options(&b, "fairway", "Through Fairway, with odd options", notes)
	r.table(&b, "direct", "Direct", notes)
	r.options(&b, "direct", "Direct, with odd options", notes)
	b.WriteString("✓ as it should be · – the stack cannot, see the note · refused, as it should be, with the fault of the note · " +
		"✗ went wrong, see the note · blank: the option does not matter there\n\n")
	for i, n := range notes.texts {
		fmt.Fprintf(&b, "%d. %s.\n", i+1, n)
	}
	b.WriteString("\n## Remarks\n\n")
	for _, s := range r.stacks {
		for _, remark := range s.remarks {
			fmt.Fprintf(&b, "- %s: %s.\n", s.title, remark)
		}
	}
	b.WriteString("\n## What the stacks send\n\nAs the reference saw it, directly; boundaries and ids shortened. " +
		"Options have a row where they change something.\n\n")
	b.WriteString("| stack | role | case | framing and Content-Type |\n|---|---|---|---|\n")
	of := "" // the stack without options
	for _, s := range r.stacks {
		if s.option == nil {
			of = s.name
		}
		shapes(&b, s, of, "client", r.requests)
		shapes(&b, s, of, "service", r.answers)
	}
	return b.String()
}

// captures returns what is to be known of the captured octets, as Markdown.
func (r *report) captures(command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What SOAP stacks send

Messages of the clients and services in [integration/clients](../../clients), as they went over the wire, made on %s by

    %s

A file is named STACK[-OPTION].CASE.request or .answer: all octets that the client sent on its connection for one
request, or the service for one answer, HTTP included and nothing changed, random boundaries and ports neither. The cases
are those of the runner: plain, attachments that the body does not name (swa) and files that it includes (mtom); what a
client sends in a case that is not here looks like one of those that are. options is what CXF sends before its first message
over HTTP/2. The other side was the runner's reference client or service. TestClients in
[integration/clients_test.go](../../clients_test.go) sends all of them through Fairway again.

| file | stack | version | option |
|---|---|---|---|
`, time.Now().Format(time.DateOnly), command)
	version := ""
	for _, s := range r.stacks {
		how := "–"
		if s.option != nil {
			how = s.option.how
		} else {
			version = r.versions[s.name]
		}
		if !s.asks() || s.option != nil && s.option.peer != "" {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.name, s.title, version, how)
	}
	return b.String()
}

// table writes the rows of the stacks as they are.
func (r *report) table(b *strings.Builder, via, title string, notes *notes) {
	fmt.Fprintf(b, "## %s\n\n| stack | role |%s", title, columns(2))
	for _, s := range r.stacks {
		if s.option != nil {
			continue
		}
		name := strings.TrimSpace(s.title + " " + r.versions[s.name])
		r.row(b, via, s, name, "client", []string{"client"}, s.name, "reference", notes)
		if s.send != nil {
			continue
		}
		r.row(b, via, s, name, "service", []string{"service"}, "reference", s.name, notes)
		if len(s.able("client", "service")) > 0 {
			r.row(b, via, s, name, "with itself", []string{"client", "service"}, s.name, s.name, notes)
		}
	}
	b.WriteString("\n")
}

// options writes the rows of the stacks with an option.
func (r *report) options(b *strings.Builder, via, title string, notes *notes) {
	fmt.Fprintf(b, "## %s\n\n| stack | option | role |%s", title, columns(3))
	for _, s := range r.stacks {
		if s.option == nil {
			continue
		}
		name := s.title + " | " + s.option.how
		service := cmp.Or(s.option.peer, "reference")
		r.row(b, via, s, name, "client", []string{"client"}, s.name, service, notes)
		if s.service != nil {
			r.row(b, via, s, name, "service", []string{"service"}, "reference", s.name, notes)
		}
	}
	b.WriteString("\n")
}

// columns returns the rest of a table's head, behind the given number of columns.
func columns(before int) string {
	var b strings.Builder
	for _, name := range cases {
		fmt.Fprintf(&b, " %s |", titles[name])
	}
	b.WriteString("\n" + strings.Repeat("|---", before) + "|" + strings.Repeat(":---:|", len(cases)) + "\n")
	return b.String()
}

func (r *report) row(b *strings.Builder, via string, s stack, title, role string, roles []string, client, service string, notes *notes) {
	fmt.Fprintf(b, "| %s | %s |", title, role)
	for _, name := range cases {
		fmt.Fprintf(b, " %s |", r.cell(via, s, roles, client, service, name, notes))
	}
	b.WriteString("\n")
}

func (r *report) cell(via string, s stack, roles []string, client, service, name string, notes *notes) string {
	for _, role := range roles {
		if ok, why := s.can(role, name); !ok && why == "" {
			return ""
		} else if !ok {
			return "–" + notes.mark(why)
		}
	}
	i := slices.IndexFunc(r.results, func(x result) bool {
		return x.via == via && x.client == client && x.service == service && x.name == name
	})
	switch {
	case i < 0:
		return "not run"
	case r.results[i].err != "":
		return "✗" + notes.mark(r.results[i].err)
	case r.results[i].refused != "":
		return "refused" + notes.mark(r.results[i].refused)
	}
	return "✓"
}

// notes numbers reasons in the order in which they are first given.
type notes struct{ texts []string }

func (n *notes) mark(text string) string {
	i := slices.Index(n.texts, text)
	if i < 0 {
		i = len(n.texts)
		n.texts = append(n.texts, text)
	}
	return fmt.Sprintf(" (%d)", i+1)
}

// shapes writes one row for each shape, with the cases that have it, unless the stack without option has it, too.
func shapes(b *strings.Builder, s stack, of, role string, seen map[string]string) {
	var order []string
	by := map[string][]string{}
	for _, name := range cases {
		shape, ok := seen[s.name+" "+name]
		if !ok || s.name != of && shape == seen[of+" "+name] {
			continue
		}
		if by[shape] == nil {
			order = append(order, shape)
		}
		by[shape] = append(by[shape], titles[name])
	}
	for _, shape := range order {
		title := s.title
		if s.option != nil {
			title += ", " + s.option.how
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", title, role, strings.Join(by[shape], ", "), shape)
	}
}

var (
	uuids    = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)
	numbers  = regexp.MustCompile(`[0-9]+[.][0-9]+`)
	randoms  = regexp.MustCompile(`[0-9A-Za-z+/_-]{30,}`)
	counters = regexp.MustCompile(`Part_[0-9]+_`)
)

// shape describes how a message was sent, the same for every run.
func shape(encoding []string, length int64, h http.Header) string {
	framing := "Content-Length"
	if slices.Contains(encoding, "chunked") {
		framing = "chunked"
	} else if length < 0 {
		framing = "to the end of the connection"
	}
	for _, name := range []string{"Content-Encoding", "Expect", "Upgrade"} {
		if value := h.Get(name); value != "" {
			framing += fmt.Sprintf(", %s: %s", name, value)
		}
	}
	contentType := uuids.ReplaceAllString(h.Get("Content-Type"), "UUID")
	contentType = counters.ReplaceAllString(contentType, "Part_N_")
	contentType = numbers.ReplaceAllString(contentType, "N.N")
	contentType = randoms.ReplaceAllStringFunc(contentType, func(s string) string {
		if !strings.ContainsAny(s, "0123456789") {
			return s
		}
		return "RANDOM"
	})
	return fmt.Sprintf("%s, `%s`", framing, contentType)
}
