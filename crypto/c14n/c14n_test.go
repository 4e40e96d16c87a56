// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// must parses a document that is right.
func must(t testing.TB, doc string) *Element {
	t.Helper()
	e, err := Parse([]byte(doc), Limits{})
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	return e
}

// canonical returns the canonical form.
func canonical(t testing.TB, e *Element, algorithm string, prefixes ...string) string {
	t.Helper()
	var b bytes.Buffer
	if err := e.Canonicalize(&b, algorithm, prefixes...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// find returns the first element with that local name, in document order.
func find(e *Element, local string) *Element {
	if e.Local == local {
		return e
	}
	for _, c := range e.Children() {
		if f := find(c, local); f != nil {
			return f
		}
	}
	return nil
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ name, doc, reason string }{
		{"nothing", "", "missing"},
		{"declaration alone", `<?xml version="1.0" encoding="UTF-8"?>`, "missing"},
		{"white space before the declaration", ` <?xml version="1.0"?><a/>`, "processing instruction"},
		{"version 1.1", `<?xml version="1.1"?><a/>`, "version"},
		{"no version", `<?xml encoding="UTF-8"?><a/>`, "without version"},
		{"declaration out of order", `<?xml version="1.0" standalone="yes" encoding="UTF-8"?><a/>`, "declaration"},
		{"Latin-1", `<?xml version="1.0" encoding="ISO-8859-1"?><a/>`, "encoding"},
		{"UTF-16 declared", `<?xml version="1.0" encoding="UTF-16"?><a/>`, "encoding"},
		{"UTF-16", "\xFE\xFF\x00<\x00a\x00/\x00>", "not UTF-8"},
		{"Latin-1 octet", "<a>\xE4</a>", "not UTF-8"},
		{"overlong UTF-8", "<a>\xC0\xAF</a>", "not UTF-8"},
		{"surrogate in UTF-8", "<a>\xED\xA0\x80</a>", "not UTF-8"},
		{"NUL", "<a>\x00</a>", "U+0000"},
		{"U+FFFF", "<a>\uFFFF</a>", "U+FFFF"},
		{"standalone maybe", `<?xml version="1.0" standalone="maybe"?><a/>`, "standalone"},
		{"DOCTYPE", `<!DOCTYPE a><a/>`, "DOCTYPE"},
		{"entity expansion", `<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>`, "DOCTYPE"},
		{"external entity", `<?xml version="1.0"?><!DOCTYPE a SYSTEM "file:///x"><a/>`, "DOCTYPE"},
		{"unknown entity", `<a>&nbsp;</a>`, "reference"},
		{"unfinished reference", `<a>&amp</a>`, "reference"},
		{"reference to NUL", `<a>&#0;</a>`, "reference"},
		{"reference to a surrogate", `<a>&#xD800;</a>`, "reference"},
		{"reference beyond Unicode", `<a>&#x110000;</a>`, "reference"},
		{"huge reference", `<a>&#99999999999999999999;</a>`, "reference"},
		{"reference with a sign", `<a>&#+65;</a>`, "reference"},
		{"reference with a capital X", `<a>&#X41;</a>`, "reference"},
		{"empty reference", `<a>&#;</a>`, "reference"},
		{"processing instruction before", `<?b c?><a/>`, "processing instruction"},
		{"processing instruction inside", `<a><?b c?></a>`, "processing instruction"},
		{"processing instruction after", `<a/><?b c?>`, "processing instruction"},
		{"second declaration", `<?xml version="1.0"?><?xml version="1.0"?><a/>`, "processing instruction"},
		{"two roots", `<a/><b/>`, "after the root"},
		{"text before the root", `x<a/>`, "outside"},
		{"text after the root", `<a/>x`, "after the root"},
		{"CDATA outside", `<![CDATA[x]]><a/>`, "outside"},
		{"root not closed", `<a>`, "missing"},
		{"wrong end tag", `<a><b></a></b>`, "end tag"},
		{"end tag with another prefix", `<p:a xmlns:p="urn:x" xmlns:q="urn:x"></q:a>`, "end tag"},
		{"end tag alone", `</a>`, "without a start tag"},
		{"end tag with an attribute", `<a></a b="c">`, "end tag"},
		{"cut in a tag", `<a b="c"`, "start tag"},
		{"cut in a name", `<a`, "name"},
		{"cut in a value", `<a b="c`, "quoted value"},
		{"cut in a comment", `<a><!-- b`, "comment"},
		{"cut in CDATA", `<a><![CDATA[b`, "CDATA"},
		{"-- in a comment", `<a><!-- b -- c --></a>`, "comment"},
		{"comment ending in --->", `<a><!-- b ---></a>`, "comment"},
		{"]]> in text", `<a>]]></a>`, "]]>"},
		{"< in an attribute", `<a b="<"/>`, "<"},
		{"attribute without quotes", `<a b=c/>`, "quotes"},
		{"attribute without value", `<a b/>`, "equals"},
		{"attributes not separated", `<a b="c"d="e"/>`, "start tag"},
		{"attribute twice", `<a b="c" b="d"/>`, "twice"},
		{"attribute twice by two prefixes", `<a xmlns:p="urn:x" xmlns:q="urn:x" p:b="c" q:b="d"/>`, "twice"},
		{"default namespace twice", `<a xmlns="urn:x" xmlns="urn:x"/>`, "twice"},
		{"prefix twice", `<a xmlns:p="urn:x" xmlns:p="urn:y"/>`, "twice"},
		{"element prefix not declared", `<p:a/>`, "not declared"},
		{"attribute prefix not declared", `<a p:b="c"/>`, "not declared"},
		{"prefix of a sibling", `<a><p:b xmlns:p="urn:x"/><p:c/></a>`, "not declared"},
		{"prefix undeclared", `<a xmlns:p="urn:x"><b xmlns:p=""/></a>`, "cannot stand"},
		{"xml rebound", `<a xmlns:xml="urn:x"/>`, "cannot stand"},
		{"xml namespace for another prefix", `<a xmlns:p="http://www.w3.org/XML/1998/namespace"/>`, "cannot stand"},
		{"xml namespace as default", `<a xmlns="http://www.w3.org/XML/1998/namespace"/>`, "cannot stand"},
		{"xmlns declared", `<a xmlns:xmlns="urn:x"/>`, "cannot stand"},
		{"xmlns namespace for a prefix", `<a xmlns:p="http://www.w3.org/2000/xmlns/"/>`, "cannot stand"},
		{"xmlns as element prefix", `<xmlns:a/>`, "not declared"},
		{"relative namespace", `<a xmlns="foo"/>`, "cannot stand"},
		{"relative namespace with colon", `<a xmlns="/foo:bar"/>`, "cannot stand"},
		{"two colons", `<a:b:c xmlns:a="urn:x"/>`, "start tag"},
		{"empty prefix", `<:a/>`, "name"},
		{"empty local name", `<a: xmlns:a="urn:x"/>`, "name"},
		{"name starting with a digit", `<1a/>`, "name"},
		{"local name starting with a digit", `<p:1a xmlns:p="urn:x"/>`, "name"},
		{"space before the name", `< a/>`, "name"},
		{"markup declaration inside", `<a><!ELEMENT b ANY></a>`, "markup"},
		{"too deep", strings.Repeat("<a>", 65) + strings.Repeat("</a>", 65), "inside each other"},
		{"too deep with an empty element", strings.Repeat("<a>", 64) + "<b/>" + strings.Repeat("</a>", 64), "inside each other"},
		{"too many attributes", "<a" + attributes(65) + "/>", "attributes"},
		{"too many elements", "<a>" + strings.Repeat("<b/>", 200000) + "</a>", "nodes"},
		{"too much text", "<a>" + strings.Repeat("x<!---->", 200000) + "</a>", "nodes"},
		{"too long", "<a>" + strings.Repeat("x", 8<<20) + "</a>", "longer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, err := Parse([]byte(test.doc), Limits{})
			var e *Error
			if !errors.As(err, &e) || root != nil {
				t.Fatalf("got %v, %v", root, err)
			}
			if !strings.Contains(err.Error(), test.reason) {
				t.Errorf("error %q does not speak of %q", err, test.reason)
			}
			if e.Offset < 0 || e.Offset > len(test.doc) {
				t.Errorf("offset %d", e.Offset)
			}
		})
	}
}

// attributes returns n attributes.
func attributes(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(" a" + strings.Repeat("x", i) + `=""`)
	}
	return b.String()
}

func TestParseReads(t *testing.T) {
	root := must(t, "\uFEFF<?xml version='1.0' encoding='utf-8' standalone='no' ?>\r\n<!-- c -->\r\n"+
		"<p:a xmlns:p='urn:x' xmlns='urn:y' p:b=' 1&#10;2\r\n3\t' c=\"'&quot;&lt;\" xml:lang='fi'>\r\n"+
		"te<!-- not here -->xt &amp; <![CDATA[<&]]]]>\r<d xmlns=''/><d/>&#13;\u00E4</p:a>\n<!-- c -->\n")
	if !root.Is("urn:x", "a") || root.Prefix != "p" || root.Parent != nil {
		t.Errorf("root %+v", root)
	}
	if got, want := root.Text(), "\ntext & <&]]\n\r\u00E4"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if v, ok := root.Attr("c"); v != `'"<` || !ok {
		t.Errorf("c is %q, %t", v, ok)
	}
	if _, ok := root.Attr("b"); ok {
		t.Error("b has a namespace, but was found without")
	}
	if want := (Attr{"urn:x", "p", "b", " 1\n2 3 "}); root.Attrs[0] != want {
		t.Errorf("p:b is %+v", root.Attrs[0])
	}
	if want := (Attr{xmlSpace, "xml", "lang", "fi"}); root.Attrs[2] != want {
		t.Errorf("xml:lang is %+v", root.Attrs[2])
	}
	children := root.Children()
	if len(children) != 2 || !children[0].Is("", "d") || !children[1].Is("urn:y", "d") || children[1].Parent != root {
		t.Errorf("children %+v", children)
	}
	if children[0].Text() != "" {
		t.Errorf("text of an empty element: %q", children[0].Text())
	}
}

func TestParseAtTheLimits(t *testing.T) {
	for name, doc := range map[string]string{
		"depth":      strings.Repeat("<a>", 64) + strings.Repeat("</a>", 64),
		"attributes": "<a" + attributes(64) + "/>",
		"nodes":      "<a>" + strings.Repeat("<b/>", 200000-1) + "</a>",
		"size":       "<a>" + strings.Repeat("x", 8<<20-7) + "</a>",
	} {
		if _, err := Parse([]byte(doc), Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Parse([]byte("<a><b/></a>"), Limits{Depth: 1}); err == nil {
		t.Error("a limit of the caller was not obeyed")
	}
}

func TestCanonicalize(t *testing.T) {
	const doc = `<?xml version="1.0"?><!-- c -->
<a:r xmlns:a="urn:a" xmlns:u="urn:u" xmlns="urn:d" xml:lang="fi" xml:space="default"><m xml:space="preserve" xmlns:b="urn:b">` +
		`<a:e z="1" a:y="2" x='"&lt;&gt;&amp;&#9;&#10;&#13;' xmlns:c="urn:c" a:b="3"><!-- c --><f xmlns="" g="&gt;"/>&lt;&gt;&amp;"&#13;` +
		"\r\n" + `<h xmlns:a="urn:a"/><i xmlns:a="urn:a2" a:j=""><a:k/></i></a:e></m></a:r>`
	for _, test := range []struct {
		name, element, algorithm string
		prefixes                 []string
		want                     string
	}{
		{"inclusive subtree", "e", Inclusive, nil,
			`<a:e xmlns="urn:d" xmlns:a="urn:a" xmlns:b="urn:b" xmlns:c="urn:c" xmlns:u="urn:u" x="&quot;&lt;>&amp;&#x9;&#xA;&#xD;" z="1"` +
				` xml:lang="fi" xml:space="preserve" a:b="3" a:y="2">` +
				`<f xmlns="" g=">"></f>&lt;&gt;&amp;"&#xD;` + "\n" + `<h></h><i xmlns:a="urn:a2" a:j=""><a:k></a:k></i></a:e>`},
		{"exclusive subtree", "e", Exclusive, nil,
			`<a:e xmlns:a="urn:a" x="&quot;&lt;>&amp;&#x9;&#xA;&#xD;" z="1" a:b="3" a:y="2">` +
				`<f g=">"></f>&lt;&gt;&amp;"&#xD;` + "\n" + `<h xmlns="urn:d"></h><i xmlns="urn:d" xmlns:a="urn:a2" a:j=""><a:k></a:k></i></a:e>`},
		{"exclusive subtree with prefixes", "e", Exclusive, []string{"#default", "u", "c", "none"},
			`<a:e xmlns="urn:d" xmlns:a="urn:a" xmlns:c="urn:c" xmlns:u="urn:u" x="&quot;&lt;>&amp;&#x9;&#xA;&#xD;" z="1" a:b="3" a:y="2">` +
				`<f xmlns="" g=">"></f>&lt;&gt;&amp;"&#xD;` + "\n" + `<h></h><i xmlns:a="urn:a2" a:j=""><a:k></a:k></i></a:e>`},
		{"inclusive, default namespace taken back", "f", Inclusive, nil,
			`<f xmlns:a="urn:a" xmlns:b="urn:b" xmlns:c="urn:c" xmlns:u="urn:u" g=">" xml:lang="fi" xml:space="preserve"></f>`},
		{"exclusive, default namespace taken back", "f", Exclusive, nil, `<f g=">"></f>`},
		{"exclusive, prefix bound anew", "k", Exclusive, nil, `<a:k xmlns:a="urn:a2"></a:k>`},
		{"exclusive, default namespace inherited", "h", Exclusive, nil, `<h xmlns="urn:d"></h>`},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := find(must(t, doc), test.element)
			if got := canonical(t, e, test.algorithm, test.prefixes...); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestCanonicalizeRefuses(t *testing.T) {
	e := must(t, "<a/>")
	for _, algorithm := range []string{"", Inclusive + "#WithComments", Exclusive + "WithComments", "http://www.w3.org/2006/12/xml-c14n11"} {
		if err := e.Canonicalize(new(bytes.Buffer), algorithm); err == nil {
			t.Errorf("%q was taken", algorithm)
		}
	}
	if err := e.Canonicalize(new(bytes.Buffer), Inclusive, "a"); err == nil {
		t.Error("prefixes were taken with the inclusive form")
	}
	failing := errors.New("full")
	if err := e.Canonicalize(failingWriter{failing}, Inclusive); !errors.Is(err, failing) {
		t.Errorf("a failing writer gave %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestStructure(t *testing.T) {
	const doc = `<a x="1" y="2"> <b>aGk=</b><c/><c/> <d> a G
k = </d></a>`
	for _, test := range []struct {
		name, want string
		read       func(s *Structure, root *Element)
	}{
		{"as it is", "", func(s *Structure, root *Element) {
			c := s.Open(root, "x", "y", "z")
			hi := string(s.Base64(c.One("", "b"))) + s.Attribute(root, "x")
			if n := len(c.Many("", "c")); n != 2 || c.Maybe("", "c") != nil {
				t.Errorf("%d c", n)
			}
			hi += string(s.Base64(c.Next()))
			if c.End(); hi != "hi1hi" || c.Next() != nil {
				t.Errorf("read %q", hi)
			}
		}},
		{"unknown attribute", "unknown attribute", func(s *Structure, root *Element) { s.Open(root, "x") }},
		{"missing attribute", "without z", func(s *Structure, root *Element) { s.Attribute(root, "z") }},
		{"missing element", "without b", func(s *Structure, root *Element) {
			c := s.Open(root, "x", "y")
			c.One("", "b")
			s.Base64(c.One("", "b"))
			c.Many("", "c")
			c.End()
		}},
		{"wrong namespace", "without b", func(s *Structure, root *Element) { c := s.Open(root, "x", "y"); c.One("urn:x", "b") }},
		{"something left", "unexpected", func(s *Structure, root *Element) { s.Open(root, "x", "y").End() }},
		{"text", "text in b", func(s *Structure, root *Element) { s.Open(find(root, "b")) }},
		{"nothing to open", "missing", func(s *Structure, root *Element) { c := s.Open(nil); c.One("", "a") }},
		{"not base64", "decoding", func(s *Structure, root *Element) { s.Base64(must(t, "<a>!</a>")) }},
		{"base64 with loose bits", "decoding", func(s *Structure, root *Element) { s.Base64(must(t, "<a>aGl=</a>")) }},
		{"empty base64", "empty", func(s *Structure, root *Element) { s.Base64(find(root, "c")) }},
		{"base64 with an element", "element in", func(s *Structure, root *Element) { s.Base64(root, "x", "y") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s Structure
			test.read(&s, must(t, doc))
			if test.want == "" && s.Err() != nil || test.want != "" && (s.Err() == nil || !strings.Contains(s.Err().Error(), test.want)) {
				t.Errorf("got %v", s.Err())
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`<a/>`,
		`<?xml version="1.0" encoding="UTF-8" standalone="no"?><a xmlns="urn:x" b="c">&#13;<b:c xmlns:b="urn:y" b:d="&lt;&#10;"/><![CDATA[x]]><!-- y --></a>`,
		`<a:a xmlns:a="urn:x"><a:b xmlns:a="urn:y" xml:lang="fi"/> <c xmlns=""/></a:a>`,
		`<a xmlns="urn:x"><b xmlns=""><c xmlns="urn:x"/></b></a>`,
		`<!DOCTYPE a><a/>`,
		"<a>\r\n]]&gt;</a>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		root, err := Parse(doc, Limits{})
		if err != nil {
			return
		}
		for _, algorithm := range []string{Inclusive, Exclusive} {
			once := canonical(t, root, algorithm)
			if twice := canonical(t, must(t, once), algorithm); twice != once {
				t.Errorf("%s: %q becomes %q", algorithm, once, twice)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	doc := []byte("<a xmlns='urn:x'>" + strings.Repeat(`<b c="d">`+strings.Repeat("A", 200)+"</b>\n", 50) + "</a>")
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(doc, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
