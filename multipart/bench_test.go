// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	stdmultipart "mime/multipart"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// endless is a body of one part whose content is a block over and over; it costs as little as a copy.
type endless struct {
	head, tail []byte
	block      []byte
	left       int64
	at         int
}

func newEndless(boundary string, block []byte, size int64) *endless {
	return &endless{
		head:  []byte("--" + boundary + "\r\nContent-Type: application/octet-stream\r\n\r\n"),
		tail:  []byte("\r\n--" + boundary + "--\r\n"),
		block: block,
		left:  size,
	}
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.head) > 0 {
		n := copy(b, e.head)
		e.head = e.head[n:]
		return n, nil
	}
	if e.left > 0 {
		n := copy(b[:min(int64(len(b)), e.left)], e.block[e.at:])
		e.left -= int64(n)
		e.at = (e.at + n) % len(e.block)
		return n, nil
	}
	if len(e.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(b, e.tail)
	e.tail = e.tail[n:]
	return n, nil
}

// discard keeps io.Copy from using a ReaderFrom.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// payloads are what a long part may hold; almost is all but the last octet of a delimiter, over and over.
func payloads(boundary string) map[string][]byte {
	random := make([]byte, 1<<20)
	src := rand.NewChaCha8([32]byte{1})
	src.Read(random)
	return map[string][]byte{
		"random":    random,
		"delimiter": bytes.Repeat([]byte("\r\n--"), 1<<18),
		"almost":    bytes.Repeat([]byte("\r\n--"+boundary[:len(boundary)-1]), 1<<15),
		"lines":     bytes.Repeat([]byte("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0\r\n"), 1<<13),
	}
}

// BenchmarkPart reads one long part through this package and through mime/multipart.
func BenchmarkPart(b *testing.B) {
	boundary := "xtop" + Letters(30)
	const size = 64 << 20
	blocks := payloads(boundary)
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		block := blocks[name]
		std := func(buf []byte) func(b *testing.B) {
			return func(b *testing.B) {
				b.SetBytes(size)
				for b.Loop() {
					p, err := stdmultipart.NewReader(newEndless(boundary, block, size), boundary).NextRawPart()
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.CopyBuffer(discard{}, p, buf); n != size || err != nil {
						b.Fatal(n, err)
					}
				}
			}
		}
		b.Run(name+"/std32K", std(make([]byte, 32<<10)))
		b.Run(name+"/std1M", std(make([]byte, 1<<20)))
		b.Run(name+"/writeto", func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				p, err := NewReader(newEndless(boundary, block, size), boundary, Limits{}).Next()
				if err != nil {
					b.Fatal(err)
				}
				if n, err := p.WriteTo(discard{}); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
		b.Run(name+"/read32K", func(b *testing.B) {
			b.SetBytes(size)
			buf := make([]byte, 32<<10)
			for b.Loop() {
				p, err := NewReader(newEndless(boundary, block, size), boundary, Limits{}).Next()
				if err != nil {
					b.Fatal(err)
				}
				for {
					if _, err = p.Read(buf); err != nil {
						break
					}
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/nested", func(b *testing.B) {
			b.SetBytes(size)
			inner := "xatt" + boundary[4:]
			for b.Loop() {
				body := io.MultiReader(newEndless(inner, block, size), bytes.NewReader([]byte("\r\n--"+boundary+"--\r\n")))
				head := "--" + boundary + "\r\ncontent-type: multipart/mixed\r\n\r\n"
				r := NewReader(io.MultiReader(bytes.NewReader([]byte(head)), body), boundary, Limits{})
				outer, err := r.Next()
				if err != nil {
					b.Fatal(err)
				}
				p, err := outer.Nested(inner).Next()
				if err != nil {
					b.Fatal(err)
				}
				if n, err := p.WriteTo(discard{}); n != size || err != nil {
					b.Fatal(n, err)
				}
			}
		})
		b.Run(name+"/guard", func(b *testing.B) {
			b.SetBytes(int64(len(block)))
			g := NewGuard(boundary)
			for b.Loop() {
				for piece := block; len(piece) > 0; piece = piece[min(len(piece), 64<<10):] {
					if _, err := g.Write(piece[:min(len(piece), 64<<10)]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	b.Run("file", func(b *testing.B) { benchmarkFile(b, boundary, blocks["random"], size) })
	b.Run("source", func(b *testing.B) {
		b.SetBytes(size)
		buf := make([]byte, 64<<10)
		block := blocks["random"]
		for b.Loop() {
			e := newEndless(boundary, block, size)
			for {
				if _, err := e.Read(buf); err != nil {
					break
				}
			}
		}
	})
}

// benchmarkFile reads a body from a file, where each read costs a system call as it does from a connection.
func benchmarkFile(b *testing.B, boundary string, block []byte, size int64) {
	f, err := os.Create(filepath.Join(b.TempDir(), "body"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, newEndless(boundary, block, size)); err != nil {
		b.Fatal(err)
	}
	run := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					b.Fatal(err)
				}
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	buf := make([]byte, largeBuffer)
	run("std", func() error {
		p, err := stdmultipart.NewReader(f, boundary).NextRawPart()
		if err == nil {
			_, err = io.CopyBuffer(discard{}, p, buf)
		}
		return err
	})
	run("writeto", func() error {
		p, err := NewReader(f, boundary, Limits{}).Next()
		if err == nil {
			_, err = p.WriteTo(discard{})
		}
		return err
	})
	run("source", func() error {
		_, err := io.CopyBuffer(discard{}, struct{ io.Reader }{f}, buf)
		return err
	})
}

// BenchmarkMessage reads a message of a few small parts, as most are.
func BenchmarkMessage(b *testing.B) { benchmarkParts(b, 4, 800) }

// BenchmarkThousandParts reads a message of 1,000 parts of 1 KiB.
func BenchmarkThousandParts(b *testing.B) { benchmarkParts(b, 1000, 1<<10) }

func benchmarkParts(b *testing.B, count, size int) {
	boundary := "xatt" + Letters(30)
	var body bytes.Buffer
	w := NewWriter(&body, boundary)
	for i := range count {
		p, err := w.Part(NewHeader("Content-Type", "text/xml; charset=UTF-8", "Content-ID", fmt.Sprintf("<part%d>", i)))
		if err != nil {
			b.Fatal(err)
		}
		p.Write(bytes.Repeat([]byte("<a/>"), size/4))
	}
	w.Close()
	b.Run("std", func(b *testing.B) {
		b.SetBytes(int64(body.Len()))
		b.ReportAllocs()
		buf := make([]byte, 32<<10)
		for b.Loop() {
			r := stdmultipart.NewReader(bytes.NewReader(body.Bytes()), boundary)
			parts := 0
			for p, err := r.NextRawPart(); err == nil; p, err = r.NextRawPart() {
				io.CopyBuffer(discard{}, p, buf)
				parts++
			}
			if parts != count {
				b.Fatal(parts)
			}
		}
	})
	b.Run("fairway", func(b *testing.B) {
		b.SetBytes(int64(body.Len()))
		b.ReportAllocs()
		for b.Loop() {
			r := NewReader(bytes.NewReader(body.Bytes()), boundary, Limits{})
			parts := 0
			for p, err := r.Next(); err == nil; p, err = r.Next() {
				p.WriteTo(discard{})
				parts++
			}
			if parts != count {
				b.Fatal(parts)
			}
		}
	})
}
