// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestOrder are the checks of section 10.2, in their order: each case lacks everything that is checked after it, too.
func TestOrder(t *testing.T) {
	const xml = "<x/>"
	entries := []struct{ name, text string }{}
	with := func(name, text string) []byte {
		entries = append(entries, struct{ name, text string }{name, text})
		var z zipFile
		for _, e := range entries {
			if e.text != "-" {
				z.pieces = append(z.pieces, store(e.name, e.text))
			}
		}
		return z.octets()
	}
	for _, step := range []struct{ name, bad, want, good string }{
		{"foreign", "x", noMIMEType, "x"},
		{mimetypeName, "", noMIMEType, ""},
		{mimetypeName, "\n", noMIMEType, ""},
		{mimetypeName, "application/zip", invalidMIMEType, ""},
		{mimetypeName, MediaType + "\n", invalidMIMEType, strings.ToUpper(MediaType)},
		{messageName, "", noMessage, ""},
		{messageName, strings.Repeat(" ", 10000), noMessage, strings.Repeat(" ", 10000) + "200\r\n"},
		{signatureName, " ", noSignature, xml},
		{sigChainName, xml, noChainResult, xml},
		{sigResultName, "", noChainResult, xml},
		{tokenName, "", noTimestamp, tokenText},
		{tsResultName, xml, noChain, xml},
		{tsChainName, " ", noChain, xml},
		{manifestName, "", noManifest, xml},
		{asicManifestName, "\t", noManifest, xml},
	} {
		_, err := opened(with(step.name, step.bad))
		mustBe(t, err, step.want)
		entries = entries[:len(entries)-1]
		if step.good != "" {
			with(step.name, step.good)
		}
	}
	c := mustOpen(t, with("attachment1", ""))
	if len(c.Attachments) != 1 {
		t.Errorf("%+v", c)
	}
}

// TestEncodings: messages are UTF-8, unless they say themselves what they are.
func TestEncodings(t *testing.T) {
	long := strings.Repeat("\u00e4\u20ac\U0001f68c", 20000)
	for _, test := range []struct{ name, text, want string }{
		{"ASCII", "<m/>", ""},
		{"UTF-8", "<m>" + long + "</m>", ""},
		{"UTF-8 with mark", "\ufeff<m/>", ""},
		{"UTF-8 that says so", `<?xml version="1.0" encoding='utf-8'?><m>` + long + `</m>`, ""},
		{"REST", "200\r\nOK\r\n" + long, ""},
		{"Latin-1 that says so", `<?xml version="1.0" encoding="ISO-8859-1" ?><m>v` + "\xe4yl\xe4</m>", ""},
		{"UTF-16", "\xfe\xff\x00<\x00m", ""},
		{"UTF-16, little end first", "\xff\xfe<\x00m\x00", ""},
		{"UTF-16 without mark", "\x00<\x00?\x00x\x00m\x00l\xd8", ""},
		{"UTF-16 without mark, little end first", "<\x00?\x00x\x00m\x00l\x00\xd8", ""},
		{"Latin-1", "<m>v\xe4yl\xe4</m>", invalid},
		{"Latin-1 that says UTF-8", `<?xml version="1.0" encoding="UTF-8"?><m>` + "\xe4</m>", invalid},
		{"Latin-1 that says so too late", `<m><?xml version="1.0" encoding="ISO-8859-1"?>` + "\xe4</m>", invalid},
		{"surrogate", "<m>\xed\xa0\x80</m>", invalid},
		{"overlong", "<m>\xc0\xaf</m>", invalid},
		{"cut off", "<m/>\xf0\x9f\x9a", invalid},
		{"cut off after much", long + "\xe2\x82", invalid},
		{"continued", "\x80", invalid},
		{"blank", strings.Repeat("\t\r\n ", 1000), noMessage},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, slow := range map[string]func(io.Reader) io.Reader{
				"": func(r io.Reader) io.Reader { return r }, "one octet": iotest.OneByteReader, "half": iotest.HalfReader, "data and error": iotest.DataErrReader,
			} {
				got, err := io.ReadAll(newMessageReader(slow(strings.NewReader(test.text))))
				if mustBe(t, err, test.want); err == nil && string(got) != test.text {
					t.Errorf("%s: got %q", name, got)
				}
			}
		})
	}
	if _, err := io.ReadAll(newMessageReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("<m/>"))))); err != iotest.ErrTimeout {
		t.Error(err)
	}
}

// TestReaders: message and attachments read as readers should.
func TestReaders(t *testing.T) {
	text := strings.Repeat("attachment ", 5000)
	c := mustOpen(t, written(t, signed(t, crypto.Direct, text)))
	for _, test := range []struct {
		open Opener
		want string
	}{{c.Message, messageText}, {c.Attachments[1], text}} {
		r, err := test.open()
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(r, []byte(test.want)); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	r, _ := c.Attachments[1]()
	r.Read(make([]byte, 10))
	r.Close()
	if n, err := r.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read %d octets after Close (%v)", n, err)
	}
}

// TestUnreadable: a disk that fails is no fault of the container.
func TestUnreadable(t *testing.T) {
	octets := written(t, signed(t, crypto.Direct, "one", "two"))
	broken := errors.New("broken")
	for _, from := range []int64{0, 10, 100, int64(len(octets)) - 30, int64(len(octets)) - 200} {
		r := &brokenAt{bytes.NewReader(octets), from, broken}
		c, err := Open(r, int64(len(octets)))
		if err == nil {
			_, err = c.Verify()
		}
		if mustBe(t, err, unreadable); !errors.Is(err, broken) {
			t.Errorf("from %d on: %v", from, err)
		}
	}
	if _, err := Open(bytes.NewReader(octets), int64(len(octets))+1); err == nil {
		t.Error("a file that is shorter than it should be")
	}
	c := mustOpen(t, octets)
	for _, n := range []int64{-1, 0, 3} {
		if _, err := Open(bytes.NewReader(octets), n); cause(err) != noMIMEType {
			t.Errorf("%d octets: %v", n, err)
		}
	}
	if !c.Time.IsZero() {
		t.Errorf("time %v", c.Time)
	}
}

type brokenAt struct {
	io.ReaderAt
	from int64
	err  error
}

func (b *brokenAt) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.from {
		return 0, b.err
	}
	return b.ReaderAt.ReadAt(p, at)
}

// FuzzOpen: whatever is a container to us is one to the standard library, with the same entries, and writes to the same.
// Its inputs are long, so that it wants -fuzzminimizetime=20x.
func FuzzOpen(f *testing.F) {
	for _, c := range samples(f) {
		if octets := written(f, c); len(octets) < 10000 {
			f.Add(octets)
		}
	}
	z := pieces(f)
	f.Add(z.octets())
	z.zip64, z.offset = true, unknown32
	f.Add(z.octets())
	f.Fuzz(func(t *testing.T, octets []byte) {
		c, err := opened(octets)
		if err != nil {
			if c != nil || cause(err) == "" {
				t.Errorf("%+v and %v", c, err)
			}
			return
		}
		_, verifyErr := c.Verify()
		all, err := contents(c)
		if err != nil {
			if verifyErr == nil {
				t.Errorf("verified, but it cannot be read: %v", err)
			}
			return
		}
		theirs := entriesOf(t, octets)
		for name, text := range all {
			if theirs[name] != text {
				t.Errorf("%s is %q, to others %q", name, text, theirs[name])
			}
		}
		if len(c.Attachments) > 0 && c.Signature.HashChain != nil {
			return // read, but never written
		}
		again := mustOpen(t, written(t, c))
		delete(all, manifestName)
		delete(all, asicManifestName)
		rewritten, err := contents(again)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range all {
			if rewritten[name] != text {
				t.Errorf("%s is %q, written anew %q", name, text, rewritten[name])
			}
		}
		if _, err := again.Verify(); (err == nil) != (verifyErr == nil) {
			t.Errorf("verifying gives %v, written anew %v", verifyErr, err)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	octets := written(b, large(b, 0))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := opened(octets); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, test := range []struct {
		name string
		size int64
	}{{"message", 0}, {"attachment of 16 MiB", 16 << 20}} {
		b.Run(test.name, func(b *testing.B) {
			octets := written(b, large(b, test.size))
			b.SetBytes(int64(len(octets)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := prove(octets); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
