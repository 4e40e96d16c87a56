// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"crypto/sha512"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

// bodies are of 10 MiB, around what services send.
var bodies = []struct{ name, text string }{
	{"text", strings.Repeat("VGhpcyBpcyBCYXNlNjQgdGV4dCBvZiBhIGRvY3VtZW50LiBUaGlzIGlzIEJhc2U2NA==\n", 10<<20/69)},
	{"rows", people("<t:row>\n  <t:code>EE%04d</t:code>\n  <t:name>%s</t:name>\n  <t:born>%d-01-01</t:born>\n</t:row>\n")},
	{"attributes", people(`<t:row code="EE%04d" name="%s" born="%d-01-01" xsi:nil="true"/>`)},
	{"short", repeat(`<a><b/></a>`)},
	{"letters", repeat("<t:имя>Прибалтика õäöü žš</t:имя>")},
}

// people repeats format, with code, name and year.
func people(format string) string {
	var b strings.Builder
	names := [...]string{"Jaan Tamm", "Mari-Liis Kask", "Bo Li", "Aleksander Konstantinov", "Anna Sepp"}
	for i := 0; b.Len() < 10<<20; i++ {
		fmt.Fprintf(&b, format, i*7919%10000, names[i%len(names)], 1930+i%90)
	}
	return b.String()
}

// hostile are bodies of 10 MiB that would be slow if anything were searched for one by one.
var hostile = []struct{ name, text string }{
	{"9 attributes", repeat("<a a1='' a2='' a3='' a4='' a5='' a6='' a7='' a8='' a9=''/>")},
	{"1000 attributes", repeat(attributes(1000))},
	{"1000 attributes of 1000 namespaces", repeat(prefixed(1000))},
	{"500 deep", repeat(strings.Repeat("<a>", 500) + strings.Repeat("</a>", 500))},
	{"20000 prefixes in scope", inScope(20, 1000, "<p0:a/>")},
	{"long URIs", longURIs(16)},
	{"comments", repeat("<!---->")},
	{"references", repeat("&amp;")},
	{"brackets", repeat("]")},
}

// prefixed is an element with n attributes of one name in n namespaces.
func prefixed(n int) string {
	var b strings.Builder
	b.WriteString("<a")
	for i := range n / 2 {
		fmt.Fprintf(&b, " p%d:a='' xmlns:p%d='%d'", i, i, i)
	}
	return b.String() + "/>"
}

// inScope repeats text inside depth elements that declare n prefixes each.
func inScope(depth, n int, text string) string {
	var b strings.Builder
	for d := range depth {
		b.WriteString("<a")
		for i := range n {
			fmt.Fprintf(&b, " xmlns:p%d='u'", d*n+i)
		}
		b.WriteString(">")
	}
	return b.String() + repeat(text) + strings.Repeat("</a>", depth)
}

// longURIs has elements with n attributes of one name in n namespaces whose long URIs differ at their ends only.
func longURIs(n int) string {
	var open, element strings.Builder
	open.WriteString("<a")
	element.WriteString("<a")
	for i := range n {
		fmt.Fprintf(&open, " xmlns:p%d='%s%d'", i, strings.Repeat("u", 8000), i)
		fmt.Fprintf(&element, " p%d:b=''", i)
	}
	return open.String() + ">" + repeat(element.String()+"/>") + "</a>"
}

func BenchmarkHostile(b *testing.B) {
	for _, body := range hostile {
		data, read := bodyOf(body.text), inPieces(b)
		b.Run(body.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				read(data)
			}
		})
	}
}

func repeat(s string) string { return strings.Repeat(s, 10<<20/len(s)) }

func bodyOf(text string) []byte {
	return []byte(strings.Replace(base, "<t:getThing/>", `<t:getThing xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">`+text+"</t:getThing>", 1))
}

// beside times ours and theirs in turn and reports the least time that ours took, and how many times as long theirs did.
func beside(b *testing.B, data [][]byte, ours func([]byte)) {
	var n int64
	for _, d := range data {
		n += int64(len(d))
	}
	b.SetBytes(n)
	least := func(most time.Duration, read func([]byte)) time.Duration {
		start := time.Now()
		for _, d := range data {
			read(d)
		}
		return min(most, time.Since(start))
	}
	our, their := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		our = least(our, ours)
		their = least(their, func(d []byte) {
			if err := acceptedByStandard(d); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.ReportMetric(float64(our.Nanoseconds())/float64(len(data)), "ns/envelope")
	b.ReportMetric(float64(their)/float64(our), "x-encoding/xml")
}

// wholly opens and reads envelopes.
func wholly(b *testing.B) func([]byte) {
	return func(data []byte) {
		e, err := Open(bytes.NewReader(data), "", Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// inPieces opens and reads envelopes as they come from a network.
func inPieces(b *testing.B) func([]byte) {
	buf := make([]byte, 32<<10)
	return func(data []byte) {
		e, err := Open(bytes.NewReader(data), "", Limits{})
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = e.Read(buf)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
}

// headers opens envelopes.
func headers(b *testing.B) func([]byte) {
	return func(data []byte) {
		if _, err := Open(bytes.NewReader(data), "", Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVectors reads all envelopes of X-Road's own messages that are accepted, and so does encoding/xml.
func BenchmarkVectors(b *testing.B) {
	var data [][]byte
	for _, v := range readVectors(b) {
		if !strings.HasPrefix(v.File, "soap-") {
			continue
		}
		envelope := readVector(b, v.File)
		if openIn(envelope, "", Limits{}, len(envelope)+1).err == nil {
			data = append(data, envelope)
		}
	}
	if len(data) < 20 {
		b.Fatalf("only %d envelopes", len(data))
	}
	b.Run("header", func(b *testing.B) { beside(b, data, headers(b)) })
	b.Run("whole", func(b *testing.B) { beside(b, data, wholly(b)) })
}

// BenchmarkBody reads envelopes of 10 MiB, and so does encoding/xml.
func BenchmarkBody(b *testing.B) {
	for _, body := range bodies {
		data := bodyOf(body.text)
		b.Run(body.name, func(b *testing.B) { beside(b, [][]byte{data}, inPieces(b)) })
	}
	data := bodyOf(bodies[0].text)
	b.Run("sha512", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			sha512.Sum512(data)
		}
	})
}

// BenchmarkMessage reads a small message, and so does encoding/xml.
func BenchmarkMessage(b *testing.B) {
	data := []byte(base)
	for _, reader := range []struct {
		name string
		read func([]byte)
	}{
		{"header", headers(b)}, {"whole", wholly(b)}, {"encoding-xml", func(data []byte) { _ = acceptedByStandard(data) }},
	} {
		b.Run(reader.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				reader.read(data)
			}
		})
	}
}
