// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// The tests of this file are the attacks of signature-and-evidence 14.3, by number.

// container reads the files of a container vector by their URIs.
func container(t testing.TB, name string) map[string][]byte {
	t.Helper()
	octets := vector(t, name)
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[string][]byte)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if of["/"+f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	return of
}

// batch is the chain vector of batch-sig.xml.
func batch(t testing.TB) (result, chain []byte, parts []crypto.Part) {
	return vector(t, "signatures/hash-chain-result.xml"), vector(t, "signatures/hash-chain-1.xml"),
		message(crypto.SHA512, string(vector(t, "signatures/message-1.xml")), "blaah")
}

func TestAttack05ChainDoesNotFitTheMessage(t *testing.T) {
	of := container(t, "asic/invalid-signed-hashchain.asice")
	of["/attachment1"] = nil
	result, chain := of["/sig-hashchainresult.xml"], of["/sig-hashchain.xml"]
	if _, err := Follow(result, []crypto.Part{{Name: crypto.Message}}, files(of)); cause(t, err) != invalidData {
		t.Errorf("as a container: %v", err)
	}
	parts := message(crypto.SHA512, string(of["/message.xml"]), "")
	if err := Verify(result, chain, parts); cause(t, err) != invalidTop {
		t.Errorf("as a message with another attachment: %v", err)
	}
	attachment := regexp.MustCompile(`(?s)/attachment1">.*?Value>([^<]*)`).FindSubmatch(chain)[1]
	parts[1].Sum, _ = base64.StdEncoding.DecodeString(string(attachment))
	if err := Verify(result, chain, parts); cause(t, err) != invalidData {
		t.Errorf("as a message, where the top is right and only the chain's digest of the message is not: %v", err)
	}
	result, chain, parts = batch(t)
	parts[1].Sum = crypto.SHA512.Sum([]byte("other"))
	if err := Verify(result, chain, parts); cause(t, err) != invalidTop {
		t.Errorf("other attachment: %v", err)
	}
}

func TestAttack06ChainOfAnotherBatch(t *testing.T) {
	result, _, parts := batch(t)
	other := vector(t, "signatures/hash-chain-2.xml")
	if err := Verify(result, other, parts); cause(t, err) != invalidTop {
		t.Errorf("as a message: %v", err)
	}
	of := files(map[string][]byte{"/sig-hashchain.xml": other, "/message.xml": vector(t, "signatures/message-1.xml")})
	if _, err := Follow(result, []crypto.Part{{Name: crypto.Message}}, of); cause(t, err) != invalidData {
		t.Errorf("as a container: %v", err)
	}
}

func TestAttack07PartsThatTheChainDoesNotMention(t *testing.T) {
	result, chain, parts := batch(t)
	if err := Verify(result, chain, parts); err != nil {
		t.Fatal(err)
	}
	added := append(parts, crypto.Part{Name: crypto.Attachment(2), Digest: crypto.SHA512, Sum: parts[1].Sum})
	if err := Verify(result, chain, added); cause(t, err) != unusedInputs {
		t.Errorf("attachment added: %v", err)
	}
	if err := Verify(result, chain, parts[:1]); cause(t, err) != invalidURI {
		t.Errorf("attachment left out: %v", err)
	}
}

func TestAttack09RolesExchanged(t *testing.T) {
	result, _, parts := batch(t)
	foo, blaah := parts[0].Sum, parts[1].Sum

	chain := document512(`<HashStep id="STEP0">` + hv(b64(foo)) + dr("/message.xml", blaah) + `</HashStep>`)
	if err := Verify(result, []byte(chain), message(crypto.SHA512, "blaah")); err != nil {
		t.Errorf("the attachment as the message looks like a batch of two, but: %v", err)
	}
	path, err := Follow(result, message(crypto.SHA512, "blaah"), files(map[string][]byte{crypto.HashChain: []byte(chain)}))
	if err != nil || !path.Batch {
		t.Errorf("a container verifier must be able to say so: %v", err)
	}

	chain = document512(`<HashStep id="STEP0">` + dr("/attachment1", foo) + dr("/message.xml", blaah) + `</HashStep>`)
	exchanged := []crypto.Part{
		{Name: crypto.Message, Digest: crypto.SHA512, Sum: blaah}, {Name: crypto.Attachment(1), Digest: crypto.SHA512, Sum: foo},
	}
	if err := Verify(result, []byte(chain), exchanged); cause(t, err) != malformed {
		t.Errorf("message and attachment exchanged: %v", err)
	}
}

// TestAttack09DigestListAsAttachment: the attachment is a digest list, which its author shows as a step.
func TestAttack09DigestListAsAttachment(t *testing.T) {
	forged := message(crypto.SHA512, "<never-signed/>")
	var l digestList
	l.add(crypto.SHA512, crypto.SHA512.Sum([]byte("anything")))
	l.add(crypto.SHA512, forged[0].Sum)
	attachment := l.octets()
	if !LooksLikeDigestList(attachment) {
		t.Error("the signer does not notice")
	}
	step1 := `<HashStep id="STEP1">` + hv(b64(crypto.SHA512.Sum([]byte("anything")))) + dr("/message.xml", forged[0].Sum) + `</HashStep>`
	for attachments, want := range map[int]string{1: "", 2: malformed} {
		texts := []string{"<signed/>", string(attachment), "innocent"}
		signed := message(crypto.SHA512, texts[:attachments+1]...)
		result, _, err := Build([][]crypto.Part{signed}, crypto.SHA512)
		if err != nil {
			t.Fatal(err)
		}
		items := hv(b64(signed[0].Sum)) + `<StepRef URI="#STEP1"/>`
		if attachments == 2 {
			items += hv(b64(signed[2].Sum))
		}
		chain := document512(`<HashStep id="STEP0">`+items+`</HashStep>`, step1)
		if err := Verify(result, []byte(chain), forged); cause(t, err) != want {
			t.Errorf("%d attachments: %v", attachments, err)
		}
	}
}

// honest is a batch of three: the first message has an attachment and its chain three steps.
func honest(t testing.TB) (result []byte, chain string, parts []crypto.Part) {
	parts = message(crypto.SHA512, "<a/>", "x")
	result, chains, err := Build([][]crypto.Part{parts, message(crypto.SHA512, "<b/>"), message(crypto.SHA512, "<c/>")}, crypto.SHA512)
	if err != nil {
		t.Fatal(err)
	}
	return result, string(chains[0]), parts
}

// TestAttack10And11And12Chains changes an honest chain. Most changes keep the top value, since that does not depend on
// names and kinds.
func TestAttack10And11And12Chains(t *testing.T) {
	result, chain, parts := honest(t)
	if err := Verify(result, []byte(chain), parts); err != nil {
		t.Fatal(err)
	}
	const method = `<DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/>`
	const ref1, ref2 = `<ns2:StepRef URI="#STEP1"/>`, `<ns2:StepRef URI="#STEP2"/>`
	transforms := func(algorithm string) string {
		return `<Transforms><Transform Algorithm="` + algorithm + `"/></Transforms>`
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"10: step of itself", ref1, `<ns2:StepRef URI="#STEP0"/>`, malformed},
		{"10: cycle", ref2, `<ns2:StepRef URI="#STEP0"/>`, malformed},
		{"10: cycle by the name of the file", ref2, `<ns2:StepRef URI="/sig-hashchain.xml#STEP1"/>`, malformed},
		{"10: step reached twice", `<ns2:HashValue>`, `<ns2:StepRef URI="#STEP2"/><ns2:HashValue>`, malformed},
		{"10: repeated id", `id="STEP1"`, `id="STEP0"`, malformed},
		{"10: step that nobody reaches", `</ns2:HashChain>`, `<ns2:HashStep id="STEP3"/></ns2:HashChain>`, malformed},
		{"10: too many steps", `</ns2:HashChain>`, strings.Repeat(`<ns2:HashStep/>`, 62) + `</ns2:HashChain>`, malformed},
		{"10: unknown step", ref1, `<ns2:StepRef URI="#STEP9"/>`, malformed},
		{"10: no fragment", ref1, `<ns2:StepRef URI="STEP1"/>`, malformed},
		{"10: empty fragment", ref1, `<ns2:StepRef URI="#"/>`, malformed},
		{"10: second chain file", ref1, `<ns2:StepRef URI="/other.xml#STEP1"/>`, invalidURI},
		{"10: chain as data", `URI="/attachment1"`, `URI="/sig-hashchain.xml"`, invalidData},
		{"10: part used twice", `URI="/attachment1"`, `URI="/message.xml"`, invalidTop},
		{"11: unknown element in a step", ref1, `<ns2:Foo/>` + ref1, malformed},
		{"11: unknown element in an item", `<DigestValue>`, `<FooBar/><DigestValue>`, malformed},
		{"11: element of another namespace", `<ns2:HashValue>`, `<HashValue xmlns="urn:x"/><ns2:HashValue>`, malformed},
		{"11: digest of the wrong namespace", `<DigestValue>`, `<ns2:DigestValue/><DigestValue>`, malformed},
		{"11: digest twice", `</DigestValue>`, `</DigestValue><DigestValue>AA==</DigestValue>`, malformed},
		{"11: unknown attribute", `id="STEP1"`, `id="STEP1" x="y"`, malformed},
		{"11: ID in place of id", `id="STEP1"`, `ID="STEP1"`, malformed},
		{"11: text between", `<ns2:HashValue>`, `x<ns2:HashValue>`, malformed},
		{"11: reference without URI", ref1, `<ns2:StepRef/>`, malformed},
		{"11: reference with a digest", ref1, `<ns2:StepRef URI="#STEP1"><DigestValue>AA==</DigestValue></ns2:StepRef>`, malformed},
		{"11: no default method", `<ns2:DefaultDigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/>`, ``, malformed},
		{"11: SHA-1", `xmlenc#sha512`, `xmldsig#sha1`, malformed},
		{"11: default method after a step", `</ns2:HashChain>`, `<ns2:DefaultDigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/></ns2:HashChain>`, malformed},
		{"11: DOCTYPE", `<ns2:HashChain `, `<!DOCTYPE a><ns2:HashChain `, malformed},
		{"11: cut", `</ns2:HashChain>`, ``, malformed},
		{"11: another root", `ns2:HashChain`, `ns2:HashChainX`, malformed},
		{"11: digest that is not base64", `<DigestValue>`, `<DigestValue>!`, malformed},
		{"12: transform on a part", `<ns2:DataRef URI="/message.xml">`,
			`<ns2:DataRef URI="/message.xml">` + transforms("http://www.w3.org/TR/2001/REC-xml-c14n-20010315"), malformed},
		{"12: transform on another digest", `<ns2:HashValue>`,
			`<ns2:HashValue>` + transforms("http://www.w3.org/2001/10/xml-exc-c14n#"), malformed},
		{"12: XPath", `<ns2:DataRef URI="/message.xml">`,
			`<ns2:DataRef URI="/message.xml">` + transforms("http://www.w3.org/TR/1999/REC-xpath-19991116"), malformed},
		{"12: c14n with comments", `<ns2:DataRef URI="/message.xml">`,
			`<ns2:DataRef URI="/message.xml">` + transforms("http://www.w3.org/TR/2001/REC-xml-c14n-20010315#WithComments"), malformed},
		{"shape: own method", `<ns2:DataRef URI="/message.xml">`, `<ns2:DataRef URI="/message.xml">` + method, malformed},
		{"shape: own method of a step", ref1, `<ns2:StepRef URI="#STEP1">` + method + `</ns2:StepRef>`, malformed},
		{"shape: the same step by the name of the file", ref1, `<ns2:StepRef URI="/sig-hashchain.xml#STEP1"/>`, ""},
		{"another order of attributes and white space", `<ns2:HashStep id="STEP1">`, "<ns2:HashStep\n id='STEP1' >", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !strings.Contains(chain, test.old) {
				t.Fatalf("the chain has no %s", test.old)
			}
			changed := strings.ReplaceAll(chain, test.old, test.new)
			if test.old == `<ns2:HashValue>` || test.old == "<DigestValue>" || test.old == "</DigestValue>" {
				changed = strings.Replace(chain, test.old, test.new, 1)
			}
			if err := Verify(result, []byte(changed), parts); cause(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestAttack10Doubling: thirty steps that each refer to the next one twice would be 2^30 work.
func TestAttack10Doubling(t *testing.T) {
	var steps []string
	for i := range 30 {
		ref := fmt.Sprintf(`<StepRef URI="#S%d"/>`, i+1)
		steps = append(steps, fmt.Sprintf(`<HashStep id="S%d">%s%s</HashStep>`, i, ref, ref))
	}
	parts := message(crypto.SHA512, "a")
	steps = append(steps, `<HashStep id="S30">`+dr("/message.xml", parts[0].Sum)+`</HashStep>`)
	err := Verify(result512("/sig-hashchain.xml#S0", b64(parts[0].Sum)), []byte(document512(steps...)), parts)
	if cause(t, err) != malformed {
		t.Error(err)
	}
}

func TestAttack11Results(t *testing.T) {
	result, chain, parts := honest(t)
	for _, test := range []struct{ name, old, new, want string }{
		{"no method", `<DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/>`, ``, malformed},
		{"SHA-1", `xmlenc#sha512`, `xmldsig#sha1`, malformed},
		{"MD5", `xmlenc#sha512`, `xmldsig-more#md5`, malformed},
		{"another method", `sha512`, `sha256`, invalidTop},
		{"no URI", ` URI="/sig-hashchain.xml#STEP0"`, ``, malformed},
		{"no file", `/sig-hashchain.xml#STEP0`, `#STEP0`, malformed},
		{"no fragment", `#STEP0"`, `"`, malformed},
		{"another file", `/sig-hashchain.xml`, `/ts-hashchain.xml`, invalidURI},
		{"another step", `#STEP0`, `#STEP1`, invalidTop},
		{"unknown step", `#STEP0`, `#STEP7`, malformed},
		{"unknown element", `</ns2:HashChainResult>`, `<x/></ns2:HashChainResult>`, malformed},
		{"another root", `HashChainResult`, `HashChain`, malformed},
		{"empty digest", `<DigestValue>`, `<DigestValue/><DigestValue>`, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := bytes.ReplaceAll(result, []byte(test.old), []byte(test.new))
			if bytes.Equal(changed, result) {
				t.Fatal("nothing changed")
			}
			if err := Verify(changed, []byte(chain), parts); cause(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestShape has chains that lead to their result and are honest in nothing else.
func TestShape(t *testing.T) {
	d := crypto.SHA512
	one, two := d.Sum([]byte("1")), d.Sum([]byte("2"))
	msg := message(d, "m", "a")
	der := func(sums ...[]byte) []byte {
		var l digestList
		for _, sum := range sums {
			l.add(d, sum)
		}
		return d.Sum(l.octets())
	}
	m, a := dr("/message.xml", msg[0].Sum), dr("/attachment1", msg[1].Sum)
	for _, test := range []struct {
		name  string
		top   []byte
		steps []string
		parts []crypto.Part
		want  string
	}{
		{"leaf", der(one, msg[0].Sum), []string{hv(b64(one)) + m}, msg[:1], ""},
		{"leaf the other way round", der(msg[0].Sum, one), []string{m + hv(b64(one))}, msg[:1], ""},
		{"list of parts", der(msg[0].Sum, msg[1].Sum), []string{m + a}, msg, ""},
		{"message alone", der(msg[0].Sum), []string{m}, msg[:1], malformed},
		{"two other digests", der(one, two, msg[0].Sum), []string{hv(b64(one)) + hv(b64(two)) + m}, msg[:1], malformed},
		{"other digest among the parts", der(msg[0].Sum, msg[1].Sum, one), []string{m + a + hv(b64(one))}, msg, malformed},
		{"parts in another order", der(msg[1].Sum, msg[0].Sum), []string{a + m}, msg, malformed},
		{"a part twice", der(msg[0].Sum, msg[1].Sum, msg[1].Sum), []string{m + a + a}, msg, malformed},
		{"leaf in the middle", der(der(), one), []string{`<StepRef URI="#S1"/>` + hv(b64(one)), ""}, nil, malformed},
		{"step without other digest", der(der(msg[0].Sum, msg[1].Sum)), []string{`<StepRef URI="#S1"/>`, m + a}, msg, malformed},
		{"two next steps", der(der(one, msg[0].Sum), der(two, msg[1].Sum)),
			[]string{`<StepRef URI="#S1"/><StepRef URI="#S2"/>`, hv(b64(one)) + m, hv(b64(two)) + a}, msg, malformed},
		{"steps in another order", der(one, der(two, der(one, msg[0].Sum))),
			[]string{hv(b64(one)) + `<StepRef URI="#S2"/>`, hv(b64(one)) + m, hv(b64(two)) + `<StepRef URI="#S1"/>`}, msg[:1], malformed},
		{"short digest", der([]byte{1}, msg[0].Sum), []string{hv("AQ==") + m}, msg[:1], malformed},
		{"short digest of a part", der(one, msg[0].Sum), []string{hv(b64(one)) + `<DataRef URI="/message.xml"><d:DigestValue>AQ==</d:DigestValue></DataRef>`},
			msg[:1], malformed},
		{"attachment as leaf", der(der(one, msg[1].Sum), msg[0].Sum), []string{`<StepRef URI="#S1"/>` + m, hv(b64(one)) + a}, msg, malformed},
		{"empty step", der(), []string{""}, nil, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps := make([]string, len(test.steps))
			for i, items := range test.steps {
				steps[i] = fmt.Sprintf(`<HashStep id="S%d">%s</HashStep>`, i, items)
			}
			path, err := Follow(result512("/c#S0", b64(test.top)), test.parts, files(map[string][]byte{"/c": []byte(document512(steps...))}))
			if err != nil {
				t.Fatalf("the chain does not even lead to its result: %v", err)
			}
			if err := path.Shape(crypto.Message); cause(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzVerify(f *testing.F) {
	result, chain, _ := honest(f)
	f.Add(result, []byte(chain))
	built, chains, err := Build([][]crypto.Part{message(crypto.SHA512, "<a/>", "x")}, crypto.SHA512)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(built, chains[0])
	f.Add(result512("/sig-hashchain.xml#S", "AQ=="), []byte(document512(`<HashStep id="S"><StepRef URI="#S"/></HashStep>`)))
	f.Add([]byte(reprefix(string(result512("/sig-hashchain.xml#S", "AQ==")))), []byte(reprefix(document512(`<HashStep id="S">`+hv("AQ==")+`</HashStep>`))))
	parts := message(crypto.SHA512, "<a/>", "x")
	f.Fuzz(func(t *testing.T, result, chain []byte) {
		err := Verify(result, chain, parts)
		if cause(t, err) != cause(t, verify(result, chain, parts)) {
			t.Errorf("what Build makes is judged otherwise: %v", err)
		}
		path, followed := Follow(result, nil, func(uri string) (io.ReadCloser, error) {
			if uri == crypto.HashChain {
				return io.NopCloser(bytes.NewReader(chain)), nil
			}
			return nil, ErrDeclined
		})
		if cause(t, followed); followed == nil {
			cause(t, path.Shape(crypto.Message))
		}
	})
}
