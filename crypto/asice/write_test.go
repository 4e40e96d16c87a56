// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// samples are containers of each kind.
func samples(t testing.TB) map[string]*Container {
	long := signed(t, crypto.Direct, strings.Repeat("<row>text</row>\n", 100000), "", string(make([]byte, 100000)))
	return map[string]*Container{
		"message":                   signed(t, crypto.Direct),
		"message with stamp":        stamp(t, signed(t, crypto.Direct)),
		"attachments":               signed(t, crypto.Direct, "one", "two"),
		"attachments by SHA-256":    signedWith(t, crypto.Direct, crypto.SHA256, "one", "two"),
		"attachments with stamp":    stamp(t, signed(t, crypto.Direct, "one", "two")),
		"hash chain":                signed(t, crypto.Chain, "one", "two"),
		"hash chain with stamp":     stamp(t, signed(t, crypto.Chain, "one", "two")),
		"28 attachments":            signed(t, crypto.Direct, strings.Split(strings.Repeat("x", 28), "")...),
		"attachments of any length": long,
	}
}

func TestRoundTrip(t *testing.T) {
	for name, c := range samples(t) {
		t.Run(name, func(t *testing.T) {
			octets := written(t, c)
			again := mustOpen(t, octets)
			want := entriesOf(t, octets)
			delete(want, mimetypeName)
			mustHave(t, again, want)
			again.Time = c.Time
			if !bytes.Equal(written(t, again), octets) {
				t.Error("what is read is written in another way")
			}
			p, err := again.Verify()
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Proved) != 1+len(c.Attachments) || p.Form != c.Signature.Form() {
				t.Errorf("proved %q", p.Proved)
			}
			if _, token, err := p.Stamp(); string(token) != string(c.Stamp.Token) || errors.Is(err, ErrUnstamped) != (c.Stamp.Token == nil) {
				t.Errorf("token %x (%v)", token, err)
			}
		})
	}
}

// TestLayout is the ZIP file itself: the order of the entries, and mimetype as the ASiC rule wants it.
func TestLayout(t *testing.T) {
	for name, want := range map[string][]string{
		"message":                {"mimetype", "message.xml", "META-INF/signatures.xml", "META-INF/manifest.xml"},
		"attachments":            {"mimetype", "message.xml", "META-INF/signatures.xml", "META-INF/manifest.xml", "attachment1", "attachment2"},
		"hash chain with stamp":  {"mimetype", "message.xml", "META-INF/signatures.xml", "sig-hashchainresult.xml", "sig-hashchain.xml", "ts-hashchainresult.xml", "ts-hashchain.xml", "META-INF/manifest.xml", "META-INF/ASiCManifest.xml", "META-INF/timestamp.tst"},
		"attachments with stamp": {"mimetype", "message.xml", "META-INF/signatures.xml", "ts-hashchainresult.xml", "ts-hashchain.xml", "META-INF/manifest.xml", "META-INF/ASiCManifest.xml", "META-INF/timestamp.tst", "attachment1", "attachment2"},
	} {
		t.Run(name, func(t *testing.T) {
			octets := written(t, samples(t)[name])
			if got := namesOf(t, octets); !slices.Equal(got, want) {
				t.Errorf("entries %q", got)
			}
			z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
			if err != nil {
				t.Fatal(err)
			}
			if z.Comment != "mimetype=application/vnd.etsi.asic-e+zip" {
				t.Errorf("comment %q", z.Comment)
			}
			for i, f := range z.File {
				deflatedLater := f.Method == zip.Deflate && f.Flags == 0x808 && len(f.Extra) == 9
				storedNow := f.Method == zip.Store && f.Flags == 0 && len(f.Extra) == 0
				if i == 0 && !storedNow || i > 0 && !deflatedLater || !f.Modified.Equal(recorded) {
					t.Errorf("%s: %+v", f.Name, f.FileHeader)
				}
			}
		})
	}
	octets := written(t, signed(t, crypto.Direct))
	extraLength := binary.LittleEndian.Uint16(octets[28:])
	if media := octets[30:]; extraLength != 0 || !bytes.HasPrefix(media, []byte("mimetype"+MediaType+localSignature)) {
		t.Errorf("the file begins %q", octets[:100])
	}
}

func TestManifestOrder(t *testing.T) {
	for name, want := range map[string][]string{
		"message":                {"/", "message.xml"},
		"hash chain":             {"/", "sig-hashchain.xml", "message.xml", "sig-hashchainresult.xml"},
		"message with stamp":     {"/", "message.xml", "ts-hashchainresult.xml", "ts-hashchain.xml"},
		"hash chain with stamp":  {"/", "sig-hashchain.xml", "message.xml", "ts-hashchainresult.xml", "sig-hashchainresult.xml", "ts-hashchain.xml"},
		"attachments with stamp": {"/", "message.xml", "ts-hashchainresult.xml", "ts-hashchain.xml", "attachment1", "attachment2"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(entriesOf(t, written(t, samples(t)[name]))[manifestName]) {
				if _, path, ok := strings.Cut(line, `full-path="`); ok {
					got = append(got, strings.TrimSuffix(path, "\"/>\n"))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the manifest lists %q", got)
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		change func(c *Container)
		want   string // cause, or text
	}{
		{"no message", func(c *Container) { c.Message = nil }, noMessage},
		{"blank message", func(c *Container) { c.Message = of(" \r\n") }, noMessage},
		{"empty message", func(c *Container) { c.Message = of("") }, noMessage},
		{"message not UTF-8", func(c *Container) { c.Message = of("<m>\xe4</m>") }, invalid},
		{"no signature", func(c *Container) { c.Signature.XML = nil }, noSignature},
		{"blank signature", func(c *Container) { c.Signature.XML = []byte("\n") }, noSignature},
		{"signature not UTF-8", func(c *Container) { c.Signature.XML = []byte("<x>\xff</x>") }, invalid},
		{"signature that is too long", func(c *Container) { c.Signature.XML = []byte(zeros[:2<<20+1]) }, invalid},
		{"chain without result", func(c *Container) { c.Signature.HashChain = []byte("<x/>") }, noChainResult},
		{"result without chain", func(c *Container) { c.Signature.HashChainResult = []byte("<x/>") }, noChain},
		{"time-stamp's chain without result", func(c *Container) { c.Stamp.HashChain = []byte("<x/>") }, noChainResult},
		{"time-stamp's result without chain", func(c *Container) { c.Stamp.HashChainResult = []byte("<x/>") }, noChain},
		{"blank token", func(c *Container) { c.Stamp.Token = []byte(" ") }, noTimestamp},
		{"hash chain and attachments", func(c *Container) {
			c.Signature.HashChain, c.Signature.HashChainResult = []byte("<x/>"), []byte("<x/>")
		}, "a hash chain stands for attachments"},
		{"attachment 0", func(c *Container) { c.Attachments[0] = of("x") }, "there is no attachment 0"},
		{"nothing", func(c *Container) { c.Attachments[2] = nil }, "there is no attachment 2"},
		{"many attachments", func(c *Container) {
			for i := range maxAttachments + 1 {
				c.Attachments[i+1] = of("x")
			}
		}, "attachments, more than"},
		{"message that cannot be opened", func(c *Container) { c.Message = func() (io.ReadCloser, error) { return nil, broken } }, "opening message.xml: broken"},
		{"attachment that breaks", func(c *Container) {
			c.Attachments[1] = func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(broken)), nil }
		}, "writing attachment1: broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := signed(t, crypto.Direct, "one", "two")
			test.change(c)
			var b bytes.Buffer
			err := c.Write(&b)
			if err == nil || cause(err) != test.want && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q (%v), want %q", cause(err), err, test.want)
			}
			if c, err := opened(b.Bytes()); err == nil {
				t.Errorf("what was written is a container: %+v", c)
			}
		})
	}
}

// TestWriteFails: an error of the writer, wherever it comes, comes out.
func TestWriteFails(t *testing.T) {
	c := signed(t, crypto.Direct, "one")
	for n := int64(0); n < int64(len(written(t, c))); n += 7 {
		if err := c.Write(&failing{left: n}); !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("after %d octets: %v", n, err)
		}
	}
}

type failing struct{ left int64 }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= int64(len(p)); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// TestWriteKeepsNothing: Write leaves the container as it was, and closes what it opened.
func TestWriteKeepsNothing(t *testing.T) {
	c := stamp(t, signed(t, crypto.Direct, "one"))
	c.Signature.HashChain = []byte{}
	open := 0
	for _, o := range []*Opener{&c.Message} {
		inner := *o
		*o = func() (io.ReadCloser, error) {
			r, err := inner()
			open++
			return &counting{r, &open}, err
		}
	}
	first := written(t, c)
	if second := written(t, c); !bytes.Equal(first, second) || c.manifest != nil || c.Signature.HashChain == nil || open != 0 {
		t.Errorf("%d are open, the container is %+v", open, c)
	}
}

type counting struct {
	io.ReadCloser
	open *int
}

func (c *counting) Close() error {
	*c.open--
	return c.ReadCloser.Close()
}

// TestMemory: neither way holds an attachment.
func TestMemory(t *testing.T) {
	const size = 32 << 20
	c := signed(t, crypto.Direct)
	c.Attachments = map[int]Opener{1: generated(1, size)}
	octets := written(t, c)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.Write(io.Discard); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, octets)
	r, err := again.Attachments[1]()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{r}); err != nil || n != size {
		t.Errorf("%d octets, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("it took %d octets of memory", n)
	}
}

// TestZeros: what we write is no bomb to us, however well it could be packed.
func TestZeros(t *testing.T) {
	c := signed(t, crypto.Direct)
	c.Attachments = map[int]Opener{1: of(zeros)}
	octets := written(t, c)
	if len(octets) > len(zeros)/7 {
		t.Errorf("%d octets", len(octets))
	}
	if again := mustOpen(t, octets); len(again.Attachments) != 1 {
		t.Errorf("%+v", again)
	}
}

func TestDOSTime(t *testing.T) {
	for _, test := range []struct {
		t           time.Time
		date, clock uint16
	}{
		{time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), 46<<9 | 2<<5 | 3, 4<<11 | 5<<5 | 3},
		{time.Date(2107, 12, 31, 23, 59, 59, 0, time.UTC), 127<<9 | 12<<5 | 31, 23<<11 | 59<<5 | 29},
		{time.Time{}, 0, 0},
		{time.Date(1979, 1, 1, 0, 0, 0, 0, time.UTC), 0, 0},
		{time.Date(2108, 1, 1, 0, 0, 0, 0, time.UTC), 0, 0},
	} {
		if date, clock := dosTime(test.t); date != test.date || clock != test.clock {
			t.Errorf("%v is %#x %#x", test.t, date, clock)
		}
	}
}

func TestFileName(t *testing.T) {
	for _, test := range []struct {
		id       string
		response bool
		record   uint64
		want     string
	}{
		{"4711", false, 1, "4711-request-1.asice"},
		{"4711", true, 35, "4711-response-13.asice"},
		{"", false, 0, "-request-0.asice"},
		{"a b.c-d*e_f~g+h", false, 31, "a+b.c-d*e_f%7Eg%2Bh-request-v.asice"},
		{"../../etc/passwd", true, 32, "..%2F..%2Fetc%2Fpasswd-response-10.asice"},
		{"v\u00e4yl\u00e4", false, 1 << 40, "v%C3%A4yl%C3%A4-request-100000000.asice"},
		{"\x00\xff\\", false, 1<<64 - 1, "%00%FF%5C-request-fvvvvvvvvvvvv.asice"},
		{strings.Repeat("x", 300), true, 1<<64 - 1, strings.Repeat("x", 226) + "-response-fvvvvvvvvvvvv.asice"},
		{strings.Repeat("x", 225) + "/", true, 1, strings.Repeat("x", 225) + "%-response-1.asice"},
		{strings.Repeat("/", 100000), true, 1, strings.Repeat("%2F", 75) + "%-response-1.asice"},
	} {
		if got := FileName(test.id, test.response, test.record); got != test.want || len(got) > 255 {
			t.Errorf("%.50q: %s", test.id, got)
		}
	}
}

// TestNeedsFiles: attachments of the direct form that were not kept.
func TestNeedsFiles(t *testing.T) {
	c := stamp(t, signed(t, crypto.Direct, "one", "two", "three"))
	whole := maps.Clone(c.Attachments)
	delete(c.Attachments, 1)
	delete(c.Attachments, 3)
	octets := written(t, c)
	digestOnly := mustOpen(t, octets)
	p, err := digestOnly.Verify()
	mustBe(t, err, "invalid_reference")
	if got, want := err.Error(), "verifying the signature: it also covers /attachment1, /attachment3, of which only digests are there"; got != want {
		t.Errorf("got %s", got)
	}
	if p == nil || !slices.Equal(p.Proved, []string{"/message.xml", "/attachment2"}) || len(p.Missing) != 2 ||
		!bytes.Equal(p.Missing[1].Sum, crypto.SHA512.Sum([]byte("three"))) || p.Certificate == nil {
		t.Errorf("proved %+v", p)
	}

	t.Run("wrong file", func(t *testing.T) {
		c := mustOpen(t, octets)
		c.Attach(1, whole[1])
		c.Attach(3, of("other"))
		_, err := c.Verify()
		mustBe(t, err, "invalid_signature_value")
	})
	t.Run("file of which nothing is signed", func(t *testing.T) {
		c := mustOpen(t, octets)
		c.Attach(4, of("four"))
		p, err := c.Verify()
		if mustBe(t, err, malformed); p != nil {
			t.Errorf("proved %+v", p)
		}
	})
	t.Run("file that breaks", func(t *testing.T) {
		c := mustOpen(t, octets)
		c.Attach(1, func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe })
		_, err := c.Verify()
		if mustBe(t, err, "invalid_reference"); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	if digestOnly.Attach(2, of("two")) == nil || digestOnly.Attach(0, of("x")) == nil {
		t.Error("it attaches what is there")
	}
	for _, n := range []int{1, 3} {
		if err := digestOnly.Attach(n, whole[n]); err != nil {
			t.Error(err)
		}
	}
	if p, err = digestOnly.Verify(); err != nil || len(p.Proved) != 4 {
		t.Errorf("with its files: %v", err)
	}
	// Completed, it is what it would have been.
	c.Attachments, digestOnly.Time = whole, c.Time
	if !bytes.Equal(written(t, digestOnly), written(t, c)) {
		t.Error("completed, it is something else")
	}
	if err := new(Container).Attach(1, of("x")); err != nil {
		t.Error(err)
	}
}

// FuzzWrite: what is written reads the same, and verifies the same.
func FuzzWrite(f *testing.F) {
	for _, c := range samples(f) {
		all, err := contents(c)
		if err != nil || len(all[messageName]) > 1000 {
			f.Fatal(err)
		}
		f.Add([]byte(all[messageName]), c.Signature.XML, c.Signature.HashChainResult, c.Signature.HashChain,
			c.Stamp.HashChainResult, c.Stamp.HashChain, c.Stamp.Token, []byte(all["attachment1"]), []byte(all["attachment2"]))
	}
	f.Fuzz(func(t *testing.T, message, xml, sigResult, sigChain, tsResult, tsChain, token, one, two []byte) {
		c := &Container{
			Message:   of(string(message)),
			Signature: crypto.Signature{XML: xml, HashChainResult: sigResult, HashChain: sigChain},
			Stamp:     Stamp{HashChainResult: tsResult, HashChain: tsChain, Token: token},
		}
		for i, octets := range [][]byte{one, two} {
			if len(octets) > 0 {
				c.Attach(i+1, of(string(octets)))
			}
		}
		var b bytes.Buffer
		if err := c.Write(&b); err != nil {
			return
		}
		again := mustOpen(t, b.Bytes())
		want, err := contents(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := contents(again)
		if err != nil {
			t.Fatal(err)
		}
		delete(got, manifestName)
		delete(got, asicManifestName)
		if !maps.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_, before := c.Verify()
		if _, after := again.Verify(); cause(before) != cause(after) {
			t.Errorf("verifying gives %v, and %v once written", before, after)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, test := range []struct {
		name string
		size int64
	}{{"message", 0}, {"attachment of 16 MiB", 16 << 20}} {
		b.Run(test.name, func(b *testing.B) {
			c := large(b, test.size)
			n := int64(len(written(b, c)))
			b.SetBytes(n)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Write(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// large makes a container with an attachment of that size.
func large(b *testing.B, size int64) *Container {
	b.Helper()
	if size == 0 {
		return stamp(b, signed(b, crypto.Direct))
	}
	r, _ := generated(1, size)()
	octets, err := io.ReadAll(r)
	if err != nil {
		b.Fatal(err)
	}
	return stamp(b, signed(b, crypto.Direct, string(octets)))
}
