// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNested(t *testing.T) {
	body := "--T\r\nN: soap\r\n\r\nenvelope\r\n" +
		"--T\r\ncontent-type: multipart/mixed; boundary=TA\r\n\r\n" +
		"\r\n--TA\r\nN: 1\r\n\r\none\r\n--TA \r\nN: 2\r\n--TA\r\nN: 3\r\n\r\n--TA-\r\n--TAx\r\n--TA--\r\n" +
		"\r\n--T\r\nN: signature\r\n\r\nsigned\r\n--T--\r\n"
	body = strings.ReplaceAll(body, "--TA-\r\n", "--TA\v\r\n")
	for way, wrap := range waysToRead {
		t.Run(way, func(t *testing.T) {
			r := NewReader(wrap(strings.NewReader(body)), "T", Limits{})
			var got []string
			for {
				p, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if c, _ := ParseContentType(p.Header.Get("Content-Type")); c.Type == "multipart/mixed" {
					boundary, _ := c.Param("boundary")
					n := p.Nested(boundary)
					parts, err := readParts(n)
					if err != io.EOF {
						t.Fatal(err)
					}
					if err := n.Trailing(10); err != nil {
						t.Error(err)
					}
					got = append(got, parts...)
					continue
				}
				b, err := io.ReadAll(p)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, "N: "+p.Header.Get("n")+"\r\n|"+string(b))
			}
			want := []string{"N: soap\r\n|envelope", "N: 1\r\n|one", "N: 2\r\n|", "N: 3\r\n|--TA\v\r\n--TAx", "N: signature\r\n|signed"}
			if !slices.Equal(got, want) {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("left in the middle", func(t *testing.T) {
		r := NewReader(strings.NewReader(body), "T", Limits{})
		r.Next()
		p, _ := r.Next()
		n := p.Nested("TA")
		inner, err := n.Next()
		if err != nil {
			t.Fatal(err)
		}
		inner.Read(make([]byte, 1))
		if p, err = r.Next(); err != nil || p.Header.Get("N") != "signature" {
			t.Fatal(p, err)
		}
		if _, err := inner.Read(make([]byte, 1)); !errors.Is(err, errPartOver) {
			t.Errorf("got %v", err)
		}
		if _, err := n.Next(); !errors.Is(err, errPartOver) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("without closing delimiter", func(t *testing.T) {
		r := NewReader(strings.NewReader("--T\r\n\r\n--A\r\n\r\nx\r\n--T--"), "T", Limits{})
		p, _ := r.Next()
		if got, err := readParts(p.Nested("A")); !errors.Is(err, ErrTruncated) {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("then %v", err)
		}
	})
	t.Run("cut", func(t *testing.T) {
		for cut := range strings.LastIndex(body, "--") {
			r := NewReader(strings.NewReader(body[:cut]), "T", Limits{})
			var err error
			for err == nil {
				var p *Part
				if p, err = r.Next(); err == nil {
					readParts(p.Nested("TA"))
				}
			}
			if !errors.Is(err, ErrTruncated) {
				t.Fatalf("after %d octets: %v", cut, err)
			}
		}
	})
}

func TestPart(t *testing.T) {
	body := "--b\r\n\r\nhello\r\n--b\r\n\r\nworld\r\n--b--"
	t.Run("is over after Next", func(t *testing.T) {
		r := NewReader(strings.NewReader(body), "b", Limits{})
		first, _ := r.Next()
		second, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := first.Read(make([]byte, 9)); n != 0 || err != errPartOver {
			t.Errorf("first: %d, %v", n, err)
		}
		if n, err := first.WriteTo(io.Discard); n != 0 || err != errPartOver {
			t.Errorf("first: %d, %v", n, err)
		}
		if b, err := io.ReadAll(second); string(b) != "world" || err != nil {
			t.Errorf("second: %q, %v", b, err)
		}
		r.Next()
		if _, err := second.Read(make([]byte, 9)); err != errPartOver {
			t.Errorf("second: %v", err)
		}
	})
	t.Run("reads as a Reader should", func(t *testing.T) {
		content := strings.Repeat("0123456789", 1000)
		p, _ := NewReader(strings.NewReader("--b\r\n\r\n"+content+"\r\n--b--"), "b", Limits{}).Next()
		if err := iotest.TestReader(struct{ io.Reader }{p}, []byte(content)); err != nil {
			t.Error(err)
		}
	})
	t.Run("read and WriteTo share the place", func(t *testing.T) {
		p, _ := NewReader(strings.NewReader(body), "b", Limits{}).Next()
		p.Read(make([]byte, 2))
		var rest strings.Builder
		if n, err := p.WriteTo(&rest); n != 3 || err != nil || rest.String() != "llo" {
			t.Errorf("%d, %v, %q", n, err, rest.String())
		}
		if n, err := p.WriteTo(&rest); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("writer fails", func(t *testing.T) {
		full := errors.New("full")
		p, _ := NewReader(strings.NewReader(body), "b", Limits{}).Next()
		if n, err := p.WriteTo(limitedWriter{2, full}); n != 2 || err != full {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := p.WriteTo(limitedWriter{2, nil}); n != 2 || err != io.ErrShortWrite {
			t.Errorf("%d, %v", n, err)
		}
		if b, err := io.ReadAll(p); string(b) != "o" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("no allocation while it streams", func(t *testing.T) {
		p, err := NewReader(newEndless("b", payloads("b")["random"], 1<<40), "b", Limits{}).Next()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, largeBuffer)
		io.ReadFull(p, b)
		if n := testing.AllocsPerRun(100, func() { io.ReadFull(p, b) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// TestWriteToPassesTheBuffer sees that a part is not copied on its way to a writer, however deep it is nested.
func TestWriteToPassesTheBuffer(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	body := "--b\r\n\r\n--c\r\n\r\n" + content + "\r\n--c--\r\n--b--"
	r := NewReader(strings.NewReader(body), "b", Limits{})
	outer, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := outer.Nested("c").Next()
	if err != nil {
		t.Fatal(err)
	}
	own := &ownsWrites{buffer: r.src.(*buffer)}
	if n, err := inner.WriteTo(own); n != int64(len(content)) || err != nil {
		t.Fatal(n, err)
	}
	if own.copied > 0 || own.writes < len(content)/bulkBuffer {
		t.Errorf("%d of %d writes did not come from the buffer", own.copied, own.writes)
	}
}

// ownsWrites counts the writes whose octets are not the buffer's own: slices of one array end in the same capacity.
type ownsWrites struct {
	buffer         *buffer
	writes, copied int
}

func (o *ownsWrites) Write(b []byte) (int, error) {
	o.writes++
	whole, part := o.buffer.data[:cap(o.buffer.data)], b[:cap(b)]
	if &whole[len(whole)-1] != &part[len(part)-1] {
		o.copied++
	}
	return len(b), nil
}

// TestWriteToAllocatesNothing sees that a long part takes no more allocations than one that got the largest buffer.
func TestWriteToAllocatesNothing(t *testing.T) {
	block := payloads("b")["random"]
	allocations := func(size int64) float64 {
		return testing.AllocsPerRun(10, func() {
			p, err := NewReader(newEndless("b", block, size), "b", Limits{}).Next()
			if err != nil {
				t.Fatal(err)
			}
			if n, err := p.WriteTo(discard{}); n != size || err != nil {
				t.Fatal(n, err)
			}
		})
	}
	if short, long := allocations(2*bulkBody), allocations(20*bulkBody); long != short {
		t.Errorf("%v allocations for a short part, %v for a long one", short, long)
	}
}

type limitedWriter struct {
	n   int
	err error
}

func (w limitedWriter) Write(b []byte) (int, error) { return min(w.n, len(b)), w.err }

// TestCutIsNotTrailing sees that a body that ends too early and one that goes on too long are different errors.
func TestCutIsNotTrailing(t *testing.T) {
	cut := NewReader(strings.NewReader("--b\r\n\r\nx\r\n--b"), "b", Limits{})
	_, err := readParts(cut)
	if !errors.Is(err, ErrTruncated) || errors.Is(err, ErrTrailing) {
		t.Errorf("cut: %v", err)
	}
	long := NewReader(strings.NewReader("--b\r\n\r\nx\r\n--b--\r\n--b--"), "b", Limits{})
	if _, err := readParts(long); err != io.EOF {
		t.Fatal(err)
	}
	if err := long.Trailing(100); !errors.Is(err, ErrTrailing) || errors.Is(err, ErrTruncated) {
		t.Errorf("long: %v", err)
	}
}

func TestTrailing(t *testing.T) {
	lost := errors.New("lost")
	tests := []struct {
		name, tail string
		end        error
		want       error
	}{
		{"nothing", "", nil, nil},
		{"line end", "\r\n", nil, nil},
		{"white space", " \t\r\n\n ", nil, nil},
		{"up to the limit", "\r\n        ", nil, nil},
		{"white space over the limit", "\r\n         ", nil, ErrTrailing},
		{"text", "\r\nhello", nil, ErrTrailing},
		{"junk on the line", "junk", nil, ErrTrailing},
		{"long text", strings.Repeat("x", 1<<20), nil, ErrTrailing},
		{"error", "\r\n", lost, lost},
	}
	for _, tt := range tests {
		for way, wrap := range waysToRead {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				var src io.Reader = strings.NewReader("--b--" + tt.tail)
				if tt.end != nil {
					src = io.MultiReader(src, iotest.ErrReader(tt.end))
				}
				r := NewReader(wrap(src), "b", Limits{})
				if _, err := r.Next(); err != io.EOF {
					t.Fatal(err)
				}
				if err := r.Trailing(10); !errors.Is(err, tt.want) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
	t.Run("too early", func(t *testing.T) {
		r := NewReader(strings.NewReader("--b\r\n\r\n"), "b", Limits{})
		r.Next()
		if err := r.Trailing(10); err == nil {
			t.Error("no error")
		}
	})
	t.Run("does not read far beyond the limit", func(t *testing.T) {
		src := &endless{tail: []byte("--b--\r\n"), left: 0}
		counted := &counter{r: io.MultiReader(src, newEndless("b", []byte("x"), 1<<40))}
		r := NewReader(counted, "b", Limits{})
		r.Next()
		if err := r.Trailing(1000); err != ErrTrailing || counted.n > 1000+largeBuffer {
			t.Errorf("%v after %d octets", err, counted.n)
		}
	})
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}
