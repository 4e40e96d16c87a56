// SPDX-License-Identifier: Apache-2.0

package c14n

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool finds a program that knows canonical XML independently of us.
func tool(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not installed")
	}
	return path
}

// documents are whole documents without comments (xmllint keeps those), written to be awkward; more come from generate.
var documents = []string{
	`<a/>`,
	"<?xml version=\"1.0\"?>\n\n<a  b = 'c'\n\td=\"e\" ></a >\n\n",
	"<a>\r\nx\ry&#13;\n&#xA;z</a>",
	"<a b=' x\r\ny\tz\n &#13;&#10;&#9; &lt;&gt;&quot;&apos;&amp;'/>",
	"<a><![CDATA[<b>&amp;\r\n]]]]>&gt;</a>",
	`<z:a xmlns:z="urn:z" xmlns:y="urn:y" xmlns="urn:d"><y:b z:c="1" y:c="2" c="3" b="4"/><b xmlns=""><z:c/></b></z:a>`,
	`<a xmlns="urn:d"><b xmlns=""><c xmlns="urn:d"><d xmlns="urn:d"/></c></b></a>`,
	`<a xmlns:p="urn:1"><b xmlns:p="urn:2"><p:c xmlns:p="urn:1"><p:d xmlns:q="urn:1" q:e="x"/></p:c></b></a>`,
	`<a xml:lang="fi" xmlns:xml="http://www.w3.org/XML/1998/namespace"><b xml:space="preserve" xml:lang=""/></a>`,
	`<a xmlns:B="urn:b" xmlns:b="urn:B" b:x="1" B:x="2" x="3"/>`,
	"<\u00E4:\u4E2D xmlns:\u00E4='urn:x' \u00E4:\u00F6='\U0001F600'>\u00E5\u200D</\u00E4:\u4E2D>",
}

func allDocuments() []string {
	all := append([]string(nil), documents...)
	for seed := range uint64(30) {
		all = append(all, generate(rand.New(rand.NewPCG(seed, 0))))
	}
	return all
}

// generate makes a document with namespaces bound, rebound and taken back at random. One element has the Id "target".
func generate(r *rand.Rand) string {
	var b strings.Builder
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	var element func(depth int, scope map[string]string)
	element = func(depth int, scope map[string]string) {
		inner := map[string]string{}
		for p, uri := range scope {
			inner[p] = uri
		}
		var attrs []string
		for _, p := range []string{"p", "q", "r", ""} {
			if r.IntN(3) > 0 {
				continue
			}
			inner[p] = pick("urn:1", "urn:2", "http://example.org/3")
			name := "xmlns:" + p
			if p == "" {
				name, inner[p] = "xmlns", pick(inner[p], "")
			}
			attrs = append(attrs, fmt.Sprintf(`%s="%s"`, name, inner[p]))
		}
		used := map[string]bool{}
		for range r.IntN(4) {
			local := pick("a", "b", "C")
			p := pick("p", "q", "r")
			if inner[p] == "" || r.IntN(2) == 0 {
				p = ""
			}
			name := local
			key := local
			if p != "" {
				name, key = p+":"+local, inner[p]+" "+local
			}
			if !used[key] {
				used[key] = true
				attrs = append(attrs, name+pick(`="1"`, `=' &#10;&#9;&#13; '`, `="&lt;&gt;&amp;&quot;'"`, `=""`))
			}
		}
		if r.IntN(4) == 0 {
			attrs = append(attrs, pick(`xml:lang="fi"`, `xml:space="preserve"`, `xml:lang=""`))
		}
		name := pick("e", "f", "G")
		if depth == 2 {
			name = "t"
			attrs = append(attrs, `Id="target"`)
		}
		if p := pick("p", "q", "r", ""); inner[p] != "" && p != "" {
			name = p + ":" + name
		}
		r.Shuffle(len(attrs), func(i, j int) { attrs[i], attrs[j] = attrs[j], attrs[i] })
		b.WriteString("<" + strings.Join(append([]string{name}, attrs...), pick(" ", "\n\t")))
		n := r.IntN(4)
		if depth < 2 {
			n = 1 // so that there is one element of depth 2
		}
		if n == 0 && r.IntN(2) == 0 || depth > 5 {
			b.WriteString("/>")
			return
		}
		b.WriteString(">")
		for range n {
			b.WriteString(pick("", "text", "\r\n", "&lt;&#13;&gt;", "<![CDATA[ <&> ]]>", "\u00E4"))
			element(depth+1, inner)
		}
		b.WriteString(pick("", "\r", "&amp;") + "</" + name + ">")
	}
	element(0, map[string]string{})
	return b.String()
}

func TestAgainstXMLLint(t *testing.T) {
	xmllint := tool(t, "xmllint")
	file := filepath.Join(t.TempDir(), "doc.xml")
	for _, doc := range allDocuments() {
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		for option, algorithm := range map[string]string{"--c14n": Inclusive, "--exc-c14n": Exclusive} {
			want, err := exec.Command(xmllint, option, file).Output()
			if err != nil {
				t.Fatalf("xmllint does not read %q: %v", doc, err)
			}
			if got := canonical(t, must(t, doc), algorithm); got != string(want) {
				t.Errorf("%s of %q\ngot  %q\nwant %q", option, doc, got, want)
			}
		}
	}
}

// TestAgainstXMLSec lets xmlsec1 verify HMACs over subtrees that we canonicalised.
func TestAgainstXMLSec(t *testing.T) {
	xmlsec := tool(t, "xmlsec1")
	dir := t.TempDir()
	key := []byte("0123456789abcdef0123456789abcdef")
	if err := os.WriteFile(filepath.Join(dir, "key.bin"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, doc := range allDocuments()[len(documents):] {
		for _, algorithm := range []string{Inclusive, Exclusive} {
			for _, prefixes := range [][]string{nil, {"p", "#default"}} {
				if prefixes != nil && algorithm == Inclusive {
					continue
				}
				if i%3 != 0 && prefixes == nil && algorithm == Exclusive {
					continue // a process each: enough of these
				}
				signed := sign(t, doc, algorithm, prefixes, key)
				file := filepath.Join(dir, "doc.xml")
				name := "t"
				if prefix := find(must(t, doc), "t").Prefix; prefix != "" {
					name = prefix + ":t"
				}
				dtd := "<!DOCTYPE a [<!ATTLIST " + name + " Id ID #IMPLIED>]>" // how xmlsec1 learns of Ids
				if err := os.WriteFile(file, []byte(dtd+signed), 0o600); err != nil {
					t.Fatal(err)
				}
				out, err := exec.Command(xmlsec, "--verify", "--hmackey", filepath.Join(dir, "key.bin"), file).CombinedOutput()
				if err != nil {
					t.Errorf("%s %q of %q: %v\n%s", algorithm, prefixes, signed, err, out)
				}
			}
		}
	}
}

// sign puts a signature over the target element inside the root of the document.
func sign(t *testing.T, doc, algorithm string, prefixes []string, key []byte) string {
	method := `Algorithm="` + algorithm + `"/>`
	transform := method
	if prefixes != nil {
		transform = `Algorithm="` + algorithm + `"><InclusiveNamespaces xmlns="` + Exclusive + `" PrefixList="` +
			strings.Join(prefixes, " ") + `"/></Transform>`
	}
	sum := sha256.Sum256([]byte(canonical(t, find(must(t, doc), "t"), algorithm, prefixes...)))
	info := `<SignedInfo><CanonicalizationMethod ` + method +
		`<SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"/><Reference URI="#target"><Transforms><Transform ` +
		transform + `</Transforms><DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/><DigestValue>` +
		base64.StdEncoding.EncodeToString(sum[:]) + `</DigestValue></Reference></SignedInfo>`
	with := func(value string) string {
		end := strings.LastIndex(doc, "</")
		return doc[:end] + `<Signature xmlns="http://www.w3.org/2000/09/xmldsig#">` + info + "<SignatureValue>" + value +
			"</SignatureValue></Signature>" + doc[end:]
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(canonical(t, find(must(t, with("")), "SignedInfo"), algorithm)))
	return with(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
