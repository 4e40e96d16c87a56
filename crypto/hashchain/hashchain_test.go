// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/crypto"
)

// vector reads a test vector.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "vectors", "xroad")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cause returns X-Road's cause of an error, or "" for none.
func cause(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an *Error", err)
	}
	return e.Cause()
}

// message makes the parts of a message whose octets are the texts.
func message(d crypto.Digest, texts ...string) []crypto.Part {
	parts := make([]crypto.Part, len(texts))
	for i, text := range texts {
		parts[i] = crypto.Part{Name: crypto.Message, Digest: d, Sum: d.Sum([]byte(text))}
		if i > 0 {
			parts[i].Name = crypto.Attachment(i)
		}
	}
	return parts
}

// files resolves URIs from a map; those that hold nil are declined.
func files(of map[string][]byte) Resolver {
	return func(uri string) (io.ReadCloser, error) {
		octets, ok := of[uri]
		if !ok {
			return nil, fs.ErrNotExist
		}
		if octets == nil {
			return nil, ErrDeclined
		}
		return io.NopCloser(iotest.OneByteReader(bytes.NewReader(octets))), nil
	}
}

func b64(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// TestSection6_1 recomputes the worked example.
func TestSection6_1(t *testing.T) {
	sum := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	parts := []crypto.Part{
		{Name: crypto.Message, Digest: crypto.SHA512, Sum: sum("9844fe1b7ed8ad100c97dda3ee0c51f795bfac070e0519564eb6de24cb7b2fb94cafed4400b9ec351a6ae1f1fab14309356480d41da4a432f43435428c84279f")},
		{Name: crypto.Attachment(1), Digest: crypto.SHA512, Sum: sum("628676e9a0422ee195d16f49ec21fa62d39786412c95e530bb51b022b43e649c3b1810274f0459176b369ffcfc87588e9332e21663bca787f6555cfe1750ea62")},
	}
	var l digestList
	for _, p := range parts {
		l.add(p.Digest, p.Sum)
	}
	der := l.octets()
	if len(der) != 225 || hex.EncodeToString(der[:9]) != "3081de306d04409844" {
		t.Errorf("STEP0 is %d octets, %x…", len(der), der[:9])
	}
	if got := hex.EncodeToString(crypto.SHA512.Sum(der)); got != "44cace2618799ae9cd1e0bffdb037458ebb19fcc5e43a7790833a452389f225402a0ae7634a27219af067fa1691d9954e5528ce15cce60c4c52c92b178454dc6" {
		t.Errorf("value of STEP0 is %s", got)
	}
	result, chains, err := Build([][]crypto.Part{parts}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	if len(result) != 405 {
		t.Errorf("the result is %d octets", len(result))
	}
	if got := b64(crypto.SHA512.Sum(result)); got != "q+Yew8cBTKofLdOd7kN3nTwA122c0krgFQ/2ey5mnvBWGAIuDe9MvWzyWOK87rrKs/u/14Vf9RAYvL2oztYxzw==" {
		t.Errorf("digest of the result is %s", got)
	}
	if err := Verify(result, chains[0], parts); err != nil {
		t.Error(err)
	}
}

// TestSection6_4 follows a time-stamp chain of three steps.
func TestSection6_4(t *testing.T) {
	for _, encoding := range []string{"prefixed", "default"} {
		const values = "XAyWG7XkO/UoPwjnUbEPm5LAKG1uYtikL53x/mhh3wuD/TiAKmx9AFiZXuY3Tek66KPD+cUSgS+amPTTZwVOuA== " +
			"lbjsXWosAooytL3aXZnpZTrku65R/nJ3DAh4cVWrP4wfF7NEa0sjMo3ryCBo8lLthOK/EpmeHwThrbPp2AOESw== " +
			"dyq9/U5w9vqbVcsFtq1XieDgeB62xCUGm7EkwsX014f+Cuv8DgqBw81VXcHKJ8ccZdkvYsvatI3upVm8rkC9Fg=="
		v := strings.Fields(values)
		chain := document512(
			`<HashStep id="STEP0">`+hv(v[0])+`<StepRef URI="#STEP1"/></HashStep>`,
			`<HashStep id="STEP1">`+hv(v[1])+`<StepRef URI="#STEP2"/></HashStep>`,
			`<HashStep id="STEP2">`+hv(v[2])+`<DataRef URI="/META-INF/signatures.xml"><d:DigestValue>`+
				"Fv2DqfeCx+wzWiCbLcSkiMv0AtIxVPPBePh1hp5O+vlU33agHK/jZ+Ilt0KYObNkd5qD3jFO6MOV5Ss30JC5Qw=="+`</d:DigestValue></DataRef></HashStep>`)
		if encoding == "prefixed" {
			chain = reprefix(chain)
		}
		for step, value := range []string{
			"OJeX8QiwfAFqAYFZWh/c0IlOuvo6xj0CpDZk4aXr8Qn3a7yJp7oAI90tslvqhPITPPOmrNhv+N8zEeKBHBX2jg==",
			"BbnghKdtm/IgEfj2HtgCxqTnCbRvp20oEDse9XUDUxnpvCxqq8DE6B1MkIzj6+7iPviYJWjl3YaSiFd0KvvRcg==",
			"3umhqFSzlP3czHGRWlqscp8AzXZsGso2G8qdOOkghxxCc4VTz5ze8yfmBnPEHI0AiWp14OKNi8PgKi02T0Y3fA==",
		} {
			path, err := Follow(result512(fmt.Sprintf("/ts-hashchain.xml#STEP%d", step), value), []crypto.Part{{Name: "/META-INF/signatures.xml"}},
				files(map[string][]byte{"/ts-hashchain.xml": []byte(chain), "/META-INF/signatures.xml": nil}))
			if err != nil {
				t.Fatalf("STEP%d: %v", step, err)
			}
			if !path.Batch || len(path.Unresolved) != 1 {
				t.Errorf("STEP%d: batch %t, unresolved %v", step, path.Batch, path.Unresolved)
			}
			err = path.Shape("/META-INF/signatures.xml")
			if want := map[bool]string{true: "", false: malformed}[step == 0]; cause(t, err) != want {
				t.Errorf("shape from STEP%d: %v", step, err)
			}
			if err := path.Shape(crypto.Message); cause(t, err) != malformed {
				t.Errorf("shape of a message: %v", err)
			}
		}
	}
}

// TestSection6_5 has the known answers for the builder.
func TestSection6_5(t *testing.T) {
	var messages [][]crypto.Part
	for _, text := range []string{"one", "two", "three", "four"} {
		messages = append(messages, message(crypto.SHA256, text))
	}
	levels := tree(messages, crypto.SHA256)
	if got := b64(levels[len(levels)-1][0]); got != "D7oIIfhfp4ToT729xyx991PvstI5XvpW+d7oeWvXw8E=" {
		t.Errorf("top of four messages is %s", got)
	}
	parts := message(crypto.SHA256, "", "", "", "")
	for i := range parts {
		parts[i].Sum = []byte{0x0b + byte(i)}
	}
	if got := b64(tree([][]crypto.Part{parts}, crypto.SHA256)[0][0]); got != "v3CBVgjKmzZT5hnJ6vj6waqBazZe334tdEoNiL2oM5E=" {
		t.Errorf("top of one message of four parts is %s", got)
	}
}

// Fragments of documents with the hash chain namespace as default and that of digests as d.
func hv(sum string) string {
	return `<HashValue><d:DigestValue>` + sum + `</d:DigestValue></HashValue>`
}

func dr(uri string, sum []byte) string {
	return `<DataRef URI="` + uri + `"><d:DigestValue>` + b64(sum) + `</d:DigestValue></DataRef>`
}

const spaces = ` xmlns="` + hashChainSpace + `" xmlns:d="` + dsSpace + `"`

func document512(steps ...string) string {
	return `<HashChain` + spaces + `><DefaultDigestMethod Algorithm="` + crypto.SHA512.URI() + `"/>` + strings.Join(steps, "\n") + `</HashChain>`
}

func result512(uri, sum string) []byte {
	return []byte(`<HashChainResult` + spaces + ` URI="` + uri + `"><d:DigestMethod Algorithm="` + crypto.SHA512.URI() +
		`"/><d:DigestValue>` + sum + `</d:DigestValue></HashChainResult>`)
}

// reprefix exchanges which of the two namespaces is the default.
func reprefix(doc string) string {
	return strings.NewReplacer("<d:", "<", "</d:", "</", "</", "</n:", "<", "<n:", "xmlns:d", "xmlns", "xmlns=", "xmlns:n=").Replace(doc)
}

// TestVectors are the hash chain vectors with the outcomes that X-Road's tests assert.
func TestVectors(t *testing.T) {
	hash := func(text string) []byte { return crypto.SHA256.Sum([]byte(text)) }
	given := func(name string, sum []byte) crypto.Part {
		return crypto.Part{Name: name, Digest: crypto.SHA256, Sum: sum}
	}
	named := func(name string) crypto.Part { return crypto.Part{Name: name} }
	for _, test := range []struct {
		name, set, chain string
		inputs           []crypto.Part
		message          bool
		want             string
	}{
		{"simple, digest given", "1", "1-hashchain", []crypto.Part{given("/message.xml", hash("two"))}, false, ""},
		{"simple, to be resolved", "1", "1-hashchain", []crypto.Part{named("/message.xml")}, true, ""},
		{"simple, nothing to resolve", "1", "1-hashchain", []crypto.Part{named("/message.xml")}, false, invalidURI},
		{"simple, unused inputs", "1", "1-hashchain", []crypto.Part{
			given("/message.xml", hash("two")), given("/unused1", hash("x")), named("/unused2")}, false, unusedInputs},
		{"simple, digest of another file", "1", "1-hashchain", []crypto.Part{given("/message.xml", hash("three"))}, false, invalidTop},
		{"simple, digest of another method", "1", "1-hashchain", []crypto.Part{
			{Name: "/message.xml", Digest: crypto.SHA512, Sum: crypto.SHA512.Sum([]byte("two"))}}, false, invalidURI},
		{"attachments", "2", "2-hashchain", []crypto.Part{given("/message.xml", []byte{0x0b}), given("/attachment1", []byte{0x0c}),
			given("/attachment2", []byte{0x0d}), given("/attachment3", []byte{0x0e})}, false, ""},
		{"attachments unresolvable", "2", "2-hashchain", []crypto.Part{given("/message.xml", []byte{0x0b})}, false, ""},
		{"transforms", "3", "3-hashchain", []crypto.Part{named("/message.xml")}, true, ""},
		{"invalid schema", "3", "5-hashchain-invalid-schema", []crypto.Part{named("/message.xml")}, true, malformed},
		{"no chain", "1", "", []crypto.Part{named("/message.xml")}, true, invalidURI},
		{"a chain for a result", "", "1-hashchain", nil, false, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			of := map[string][]byte{"/attachment1": nil, "/attachment2": nil, "/attachment3": nil}
			if test.chain != "" {
				of["/hashchain.xml"] = vector(t, "hashchain/hc-verifier"+test.chain+".xml")
			}
			if test.message {
				of["/message.xml"] = vector(t, "hashchain/hc-verifier"+test.set+"-message.xml")
			}
			result := of["/hashchain.xml"]
			if test.set != "" {
				result = vector(t, "hashchain/hc-verifier"+test.set+"-hashchainresult.xml")
			}
			path, err := Follow(result, test.inputs, files(of))
			if got := cause(t, err); got != test.want {
				t.Fatalf("got %q (%v), want %q", got, err, test.want)
			}
			if err == nil && !path.Batch {
				t.Error("a chain with a HashValue is not called a batch")
			}
		})
	}
}

func TestBuildExact(t *testing.T) {
	d := crypto.SHA512
	one, two := message(d, "<a/>", "x"), message(d, "<b/>")
	_, chains, err := Build([][]crypto.Part{one, two}, d)
	if err != nil {
		t.Fatal(err)
	}
	head := `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<ns2:HashChain xmlns="http://www.w3.org/2000/09/xmldsig#" xmlns:ns2="http://cyber.ee/hashchain">
    <ns2:DefaultDigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/>
    <ns2:HashStep id="STEP0">
`
	want := []string{head + `        <ns2:StepRef URI="#STEP1"/>
        <ns2:HashValue>
            <DigestValue>` + b64(two[0].Sum) + `</DigestValue>
        </ns2:HashValue>
    </ns2:HashStep>
    <ns2:HashStep id="STEP1">
        <ns2:DataRef URI="/message.xml">
            <DigestValue>` + b64(one[0].Sum) + `</DigestValue>
        </ns2:DataRef>
        <ns2:DataRef URI="/attachment1">
            <DigestValue>` + b64(one[1].Sum) + `</DigestValue>
        </ns2:DataRef>
    </ns2:HashStep>
</ns2:HashChain>
`, head + `        <ns2:HashValue>
            <DigestValue>` + b64(step(d, one[0].Sum, one[1].Sum)) + `</DigestValue>
        </ns2:HashValue>
        <ns2:DataRef URI="/message.xml">
            <DigestValue>` + b64(two[0].Sum) + `</DigestValue>
        </ns2:DataRef>
    </ns2:HashStep>
</ns2:HashChain>
`}
	for i := range want {
		if string(chains[i]) != want[i] {
			t.Errorf("chain %d is\n%s\nwant\n%s", i, chains[i], want[i])
		}
	}
}

// TestBuildVector rebuilds documents that X-Road wrote.
func TestBuildVector(t *testing.T) {
	parts := message(crypto.SHA512, string(vector(t, "signatures/message-1.xml")), "blaah")
	result, chains, err := Build([][]crypto.Part{parts}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(result, vector(t, "signatures/hash-chain-result.xml")) {
		t.Errorf("result is\n%s", result)
	}
	if !bytes.Equal(chains[0], vector(t, "signatures/hash-chain-1.xml")) {
		t.Errorf("chain is\n%s", chains[0])
	}
}

// TestBuildVerify builds trees of many sizes: every chain leads to the one result, and none fits another message.
func TestBuildVerify(t *testing.T) {
	sizes := []int{100, 127, 129, 200, 255, 257, 352}
	for n := 1; n <= 69; n++ {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		var messages [][]crypto.Part
		for i := range n {
			texts := make([]string, 1+i*n%4)
			for j := range texts {
				texts[j] = fmt.Sprint(i, " ", j)
			}
			messages = append(messages, message(crypto.SHA512, texts...))
		}
		result, chains, err := Build(messages, crypto.SHA512)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && len(messages[0]) == 1 {
			if result != nil || chains != nil {
				t.Error("a chain for a message of one part")
			}
			continue
		}
		seen := make(map[string]bool)
		for i := range messages {
			if err := Verify(result, chains[i], messages[i]); err != nil {
				t.Errorf("message %d of %d: %v", i, n, err)
			}
			if err := verify(result, chains[i], messages[i]); err != nil {
				t.Errorf("message %d of %d, step by step: %v", i, n, err)
			}
			if seen[string(chains[i])] {
				t.Errorf("chain %d of %d is that of another", i, n)
			}
			seen[string(chains[i])] = true
			other := messages[(i+1)%n]
			if n > 1 && Verify(result, chains[i], other) == nil {
				t.Errorf("chain %d of %d verifies another message", i, n)
			}
		}
	}
}

// TestBuiltNeedsNoReading: of one message, what Build makes is known without being read, and nothing else is.
func TestBuiltNeedsNoReading(t *testing.T) {
	for _, d := range []crypto.Digest{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		for _, n := range []int{2, 3, 300} {
			parts := message(d, make([]string, n)...)
			result, chains, err := Build([][]crypto.Part{parts}, d)
			if err != nil {
				t.Fatal(err)
			}
			chain := chains[0]
			if !isBuilt(result, chain, parts) || verify(result, chain, parts) != nil {
				t.Errorf("%s, %d parts: not known, or not good", d, n)
			}
			for name, known := range map[string]bool{
				"a chain that is cut":     isBuilt(result, chain[:len(chain)-1], parts),
				"a chain that goes on":    isBuilt(result, append(bytes.Clone(chain), '\n'), parts),
				"no chain":                isBuilt(result, nil, parts),
				"a result that is cut":    isBuilt(result[:len(result)-1], chain, parts),
				"no result":               isBuilt(nil, chain, parts),
				"fewer parts":             isBuilt(result, chain, parts[:n-1]),
				"more parts":              isBuilt(result, chain, message(d, make([]string, n+1)...)),
				"another last part":       isBuilt(result, chain, append(parts[:n-1:n-1], crypto.Part{Name: parts[n-1].Name, Digest: d, Sum: d.Sum([]byte("x"))})),
				"a result of other parts": isBuilt(resultDocument(crypto.HashChain, parts[0].Sum, d), chain, parts),
				"one part":                isBuilt(resultDocument(crypto.HashChain, parts[0].Sum, d), nil, parts[:1]),
			} {
				if known {
					t.Errorf("%s, %d parts: %s is taken for what Build makes", d, n, name)
				}
			}
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	good := message(crypto.SHA512, "a", "b")
	for name, messages := range map[string][][]crypto.Part{
		"message without parts":  {good, {}},
		"no message":             {good[1:]},
		"part of another digest": {{good[0], message(crypto.SHA256, "a", "b")[1]}},
		"too many parts":         {message(crypto.SHA512, make([]string, MaxParts+1)...)},
	} {
		if result, chains, err := Build(messages, crypto.SHA512); err == nil || result != nil || chains != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if result, chains, err := Build(nil, crypto.SHA512); err != nil || result != nil || chains != nil {
		t.Errorf("nothing: %v", err)
	}
}

// TestMaxParts: the largest message that Build takes is within what Verify reads.
func TestMaxParts(t *testing.T) {
	parts := message(crypto.SHA512, make([]string, MaxParts)...)
	result, chains, err := Build([][]crypto.Part{parts, parts}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(result, chains[0], parts); err != nil {
		t.Error(err)
	}
}

func TestVerifyParts(t *testing.T) {
	parts := message(crypto.SHA512, "a", "b")
	result, chains, err := Build([][]crypto.Part{parts}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	if got := cause(t, Verify(result, chains[0], nil)); got != internalError {
		t.Errorf("no parts: %s", got)
	}
	if got := cause(t, Verify(result, nil, parts)); got != invalidURI {
		t.Errorf("no chain: %s", got)
	}
	if got := cause(t, Verify(nil, chains[0], parts)); got != malformed {
		t.Errorf("no result: %s", got)
	}
}

// TestFollowFiles reads a chain that goes on in a second file, and files that fail.
func TestFollowFiles(t *testing.T) {
	sum := crypto.SHA512.Sum([]byte("data"))
	first := document512(`<HashStep id="A">` + hv(b64(sum)) + `<StepRef URI="/second.xml#B"/></HashStep>`)
	second := document512(`<HashStep id="B">` + dr("/data", sum) + `<StepRef URI="#C"/></HashStep><HashStep id="C"/>`)
	var c, b, a digestList
	b.add(crypto.SHA512, sum)
	b.add(crypto.SHA512, crypto.SHA512.Sum(c.octets()))
	a.add(crypto.SHA512, sum)
	a.add(crypto.SHA512, crypto.SHA512.Sum(b.octets()))
	result := result512("/first.xml#A", b64(crypto.SHA512.Sum(a.octets())))
	of := map[string][]byte{"/first.xml": []byte(first), "/second.xml": []byte(second), "/data": []byte("data")}
	path, err := Follow(result, []crypto.Part{{Name: "/data"}}, files(of))
	if err != nil {
		t.Fatal(err)
	}
	if err := path.Shape("/data"); cause(t, err) != malformed {
		t.Errorf("shape over two files: %v", err)
	}
	for _, failing := range []string{"/second.xml", "/data"} {
		_, err := Follow(result, nil, func(uri string) (io.ReadCloser, error) {
			if uri == failing {
				return io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), nil
			}
			return files(of)(uri)
		})
		if cause(t, err) != invalidURI || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s fails: %v", failing, err)
		}
	}
	of["/data"] = []byte("other")
	if _, err := Follow(result, nil, files(of)); cause(t, err) != invalidData {
		t.Errorf("other data: %v", err)
	}
}

func TestLooksLikeDigestList(t *testing.T) {
	list := func(d crypto.Digest, sums ...[]byte) []byte {
		var l digestList
		for _, sum := range sums {
			l.add(d, sum)
		}
		return l.octets()
	}
	sum := func(d crypto.Digest) []byte { return d.Sum([]byte("x")) }
	many := make([][]byte, 1000)
	for i := range many {
		many[i] = sum(crypto.SHA512)
	}
	for _, test := range []struct {
		name string
		data []byte
		want bool
	}{
		{"SHA-256, two items", list(crypto.SHA256, sum(crypto.SHA256), sum(crypto.SHA256)), true},
		{"SHA-384, one item", list(crypto.SHA384, sum(crypto.SHA384)), true},
		{"SHA-512, a thousand items", list(crypto.SHA512, many...), true},
		{"digest of one octet", list(crypto.SHA512, []byte{1}), true},
		{"digest of no octets", list(crypto.SHA512, nil), true},
		{"digest longer than the prefix", list(crypto.SHA512, make([]byte, 100000)), true},
		{"list with octets behind it", append(list(crypto.SHA512, sum(crypto.SHA512)), "more"...), true},
		{"method of our own invention", []byte("\x30\x09\x30\x07\x04\x01x\x0c\x00\x30\x00"), true},
		{"nothing", nil, false},
		{"one octet", []byte("0"), false},
		{"text", []byte("0123456789"), false},
		{"XML", []byte(`<?xml version="1.0"?>`), false},
		{"ZIP", []byte("PK\x03\x04"), false},
		{"certificate", []byte("\x30\x82\x03\x87\x30\x82\x02\x6f\xa0\x03\x02\x01\x02"), false},
		{"OCSP response", []byte("\x30\x82\x08\x00\x0a\x01\x00"), false},
		{"short list cut in the digest", list(crypto.SHA512, sum(crypto.SHA512))[:40], false},
		{"short list cut before the method", list(crypto.SHA256, sum(crypto.SHA256))[:38], false},
		{"cut in the header", []byte("\x30\x82\x01"), false},
		{"indefinite length", []byte("\x30\x80\x30\x80\x04\x01x\x0c\x01x"), false},
		{"length of nine octets", []byte("\x30\x89\x00\x00\x00\x00\x00\x00\x00\x00\x09"), false},
		{"huge length", []byte("\x30\x88\xff\xff\xff\xff\xff\xff\xff\xff\x30\x88\xff\xff\xff\xff\xff\xff\xff\xff\x04\x88\xff\xff\xff\xff\xff\xff\xff\xff"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := LooksLikeDigestList(test.data[:min(len(test.data), PrefixLength)]); got != test.want {
				t.Errorf("got %t for %.60x", got, test.data)
			}
		})
	}
}
