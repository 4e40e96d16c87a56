// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// json prints the finding as one line.
func (f *finding) json(w io.Writer) error { return json.NewEncoder(w).Encode(f) }

// text prints the finding in words. Most of them are a stranger's: what could move the cursor is escaped.
func (f *finding) text(w io.Writer) error {
	var b strings.Builder
	line := liner(&b)
	if !f.Proved {
		fmt.Fprintf(&b, "%s: NOT PROVED\n", printable(f.File))
		line("reason", "%s", f.Reason)
		line("code", "%s", f.Code)
		for _, o := range f.Needs {
			line("needs", "%s with %s %s", o.Name, o.Method, o.Digest)
		}
		if len(f.Needs) > 0 {
			line("", "Everything else is proved. Hand it in by --attachment N=FILE.")
		}
		_, err := io.WriteString(w, b.String())
		return err
	}

	fmt.Fprintf(&b, "%s: PROVED\n", printable(f.File))
	m := f.Message
	line("message", "%s %s with the id %q", m.Protocol, m.kind(), m.ID)
	line("client", "%s", m.Client)
	line("service", "%s", m.Service)
	line("signed by", "member %s%s", f.Signer.Member, called(f.Signer.Name))
	for i, c := range f.Certificate {
		label := "certificate"
		if i > 0 {
			label = "issuer"
		}
		line(label, "%s, serial %s", c.Subject, c.Serial)
		line("", "issued by %s, valid from %s to %s", c.Issuer, utc(c.NotBefore), utc(c.NotAfter))
		line("", "was good: OCSP response by %s, produced at %s, status of %s", c.GoodBy, utc(c.ProducedAt), utc(c.ThisUpdate))
	}
	switch t := f.Time; {
	case t.Stamped != nil:
		line("time", "time-stamp by %s at %s, serial %s", t.Authority, utc(*t.Stamped), t.Serial)
		if t.Given {
			line("", "judged as of %s, the time that you gave", utc(t.At))
		}
	default:
		line("time", "no time-stamp: the time is the one that you gave, %s", utc(t.At))
	}
	if f.Signer.Says != nil {
		line("", "the signer says that it signed at %s; nobody else does", utc(*f.Signer.Says))
	}
	for i, o := range f.Octets {
		label := ""
		if i == 0 {
			label = "octets"
		}
		line(label, "%s, %d octets, %s %s", o.Name, *o.Size, o.Method, o.Digest)
	}
	for _, o := range f.ByDigest {
		line("digest only", "%s with %s %s", o.Name, o.Method, o.Digest)
	}
	for _, n := range f.Notices {
		line("notice", "%s", n)
	}
	for _, n := range f.NotProved {
		line("not proved", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// liner returns what prints a line with a label.
func liner(w io.Writer) func(label, format string, args ...any) {
	return func(label, format string, args ...any) {
		fmt.Fprintf(w, "  %-12s %s\n", label, printable(fmt.Sprintf(format, args...)))
	}
}

func called(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", name)
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// printable escapes what does not print, and what changes the direction of writing.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}
