// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A result is one exchange, or the attempt.
type result struct {
	via     string // "direct" or "fairway"
	client  string // a stack, or "reference"
	service string
	name    string // of the case
	err     string // empty: all was as it should be
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

Written by `+"`go run ./integration/clients/run`"+`; do not edit. Each stack is a small echo client and service in
[integration/clients](../integration/clients), as a user of that stack would write them.

The client sends X-Road header blocks and a body; the service answers with the same blocks and the SHA-256 of every
attachment that it received, and sends the attachments that it was asked for; the client compares. Attachments have
%s octets. Plain is one XML document (SOAP 1.1), SwA are attachments that the body does not name, MTOM are files that
the body includes (XOP); → in the request, ← in the answer, ↔ in both. The other side is the reference, written for this
purpose with strict views of the wire, or, in the rows "with itself", the same stack.

Through Fairway means: client → sending security server → receiving security server → service, with signatures, evidence
and mutual TLS between the two. Direct is the control.

`, strings.Join(r.sizes, ", "))
	notes := &notes{}
	r.table(&b, "fairway", "Through Fairway", notes)
	r.table(&b, "direct", "Direct", notes)
	b.WriteString("✓ as it should be · – the stack cannot, see the note · ✗ went wrong, see the note\n\n")
	for i, n := range notes.texts {
		fmt.Fprintf(&b, "%d. %s.\n", i+1, n)
	}
	b.WriteString("\n## Remarks\n\n")
	for _, s := range r.stacks {
		for _, remark := range s.remarks {
			fmt.Fprintf(&b, "- %s: %s.\n", s.title, remark)
		}
	}
	b.WriteString("\n## What the stacks send\n\nAs the reference saw it, directly; boundaries and ids shortened.\n\n")
	b.WriteString("| stack | role | case | framing and Content-Type |\n|---|---|---|---|\n")
	for _, s := range r.stacks {
		shapes(&b, s, "client", r.requests)
		shapes(&b, s, "service", r.answers)
	}
	return b.String()
}

func (r *report) table(b *strings.Builder, via, title string, notes *notes) {
	fmt.Fprintf(b, "## %s\n\n| stack | role |", title)
	for _, name := range cases {
		fmt.Fprintf(b, " %s |", titles[name])
	}
	b.WriteString("\n|---|---|" + strings.Repeat(":---:|", len(cases)) + "\n")
	for _, s := range r.stacks {
		r.row(b, via, s, "client", []string{"client"}, s.name, "reference", notes)
		r.row(b, via, s, "service", []string{"service"}, "reference", s.name, notes)
		if len(s.able("client", "service")) > 0 {
			r.row(b, via, s, "with itself", []string{"client", "service"}, s.name, s.name, notes)
		}
	}
	b.WriteString("\n")
}

func (r *report) row(b *strings.Builder, via string, s stack, title string, roles []string, client, service string, notes *notes) {
	fmt.Fprintf(b, "| %s | %s |", strings.TrimSpace(s.title+" "+r.versions[s.name]), title)
	for _, name := range cases {
		fmt.Fprintf(b, " %s |", r.cell(via, s, roles, client, service, name, notes))
	}
	b.WriteString("\n")
}

func (r *report) cell(via string, s stack, roles []string, client, service, name string, notes *notes) string {
	for _, role := range roles {
		if ok, why := s.can(role, name); !ok {
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

// shapes writes one row for each shape, with the cases that have it.
func shapes(b *strings.Builder, s stack, role string, seen map[string]string) {
	var order []string
	by := map[string][]string{}
	for _, name := range cases {
		shape, ok := seen[s.name+" "+name]
		if !ok {
			continue
		}
		if by[shape] == nil {
			order = append(order, shape)
		}
		by[shape] = append(by[shape], titles[name])
	}
	for _, shape := range order {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", s.title, role, strings.Join(by[shape], ", "), shape)
	}
}

var (
	uuids    = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)
	numbers  = regexp.MustCompile(`[0-9]+[.][0-9]+`)
	randoms  = regexp.MustCompile(`[0-9A-Za-z+/_-]{30,}`)
	counters = regexp.MustCompile(`Part_[0-9]+_`)
)

// shape describes how a message was sent, the same for every run.
func shape(encoding []string, contentType string) string {
	framing := "Content-Length"
	if slices.Contains(encoding, "chunked") {
		framing = "chunked"
	}
	contentType = uuids.ReplaceAllString(contentType, "UUID")
	contentType = counters.ReplaceAllString(contentType, "Part_N_")
	contentType = numbers.ReplaceAllString(contentType, "N.N")
	contentType = randoms.ReplaceAllString(contentType, "RANDOM")
	return fmt.Sprintf("%s, `%s`", framing, contentType)
}
