// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"crypto/sha512"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
)

// bodies are of 10 MiB, around what services send.
var bodies = []struct{ name, text string }{
	{"text", strings.Repeat("VGhpcyBpcyBCYXNlNjQgdGV4dCBvZiBhIGRvY3VtZW50LiBUaGlzIGlzIEJhc2U2NA==\n", 10<<20/69)},
	{"rows", repeat("<t:row>\n  <t:code>EE1234</t:code>\n  <t:name>Jaan Tamm</t:name>\n  <t:born>1970-01-01</t:born>\n</t:row>\n")},
	{"attributes", repeat(`<t:row code="EE1234" name="Jaan Tamm" born="1970-01-01" xsi:nil="true"/>`)},
	{"short", repeat(`<a><b/></a>`)},
	{"letters", repeat("<t:имя>Прибалтика õäöü žš</t:имя>")},
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
		b.Run(body.name, func(b *testing.B) { benchmarkBody(b, bodyOf(body.text)) })
	}
}

func repeat(s string) string { return strings.Repeat(s, 10<<20/len(s)) }

func bodyOf(text string) []byte {
	return []byte(strings.Replace(base, "<t:getThing/>", `<t:getThing xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">`+text+"</t:getThing>", 1))
}

func BenchmarkBody(b *testing.B) {
	for _, body := range bodies {
		data := bodyOf(body.text)
		b.Run(body.name, func(b *testing.B) { benchmarkBody(b, data) })
		b.Run(body.name+"/encoding-xml", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				d := xml.NewDecoder(bytes.NewReader(data))
				for {
					if _, err := d.Token(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	data := bodyOf(bodies[0].text)
	b.Run("sha512", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			sha512.Sum512(data)
		}
	})
}

func benchmarkBody(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	buf := make([]byte, 32<<10)
	for b.Loop() {
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

// BenchmarkMessage reads a small message.
func BenchmarkMessage(b *testing.B) {
	data := []byte(base)
	b.Run("soap", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		r := bytes.NewReader(nil)
		for b.Loop() {
			r.Reset(data)
			e, err := Open(r, "UTF-8", Limits{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := e.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-xml", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			d := xml.NewDecoder(bytes.NewReader(data))
			for {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
