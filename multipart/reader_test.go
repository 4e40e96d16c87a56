// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readParts reads all parts as "header|body", and the error that ended the body.
func readParts(r *Reader) ([]string, error) {
	var parts []string
	for {
		p, err := r.Next()
		if err != nil {
			return parts, err
		}
		var head strings.Builder
		if _, err := p.Header.WriteTo(&head); err != nil {
			return parts, err
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return append(parts, head.String()+"|"+string(body)+"…"), err
		}
		parts = append(parts, head.String()+"|"+string(body))
	}
}

// inPieces returns pieces of at most n octets.
type inPieces struct {
	r io.Reader
	n int
}

func (p inPieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }

// atRandom returns pieces of 1 to 4096 octets, short ones more often, the same ones every time.
type atRandom struct {
	r      io.Reader
	random *rand.Rand
}

func inRandomPieces(r io.Reader) io.Reader { return atRandom{r, rand.New(rand.NewPCG(3, 4))} }

func (a atRandom) Read(b []byte) (int, error) {
	n := 1 + a.random.IntN(1<<a.random.IntN(13))
	return a.r.Read(b[:min(len(b), n)])
}

var waysToRead = map[string]func(io.Reader) io.Reader{
	"whole":        func(r io.Reader) io.Reader { return r },
	"one octet":    iotest.OneByteReader,
	"two octets":   func(r io.Reader) io.Reader { return inPieces{r, 2} },
	"seven octets": func(r io.Reader) io.Reader { return inPieces{r, 7} },
	"random":       inRandomPieces,
	"half":         iotest.HalfReader,
	"data and EOF": iotest.DataErrReader,
	"data, EOF and one octet": func(r io.Reader) io.Reader {
		return iotest.DataErrReader(iotest.OneByteReader(r))
	},
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 70)
	tests := []struct {
		name, boundary, body string
		want                 []string
		err                  error // nil: the closing delimiter was found
	}{
		{"one part", "b", "--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n", []string{"A: 1\r\n|x"}, nil},
		{"two parts", "b", "--b\r\nA: 1\r\n\r\nx\r\n--b\r\nB: 2\r\n\r\ny\r\n--b--\r\n", []string{"A: 1\r\n|x", "B: 2\r\n|y"}, nil},
		{"all LF", "b", "--b\nA: 1\n\nx\ny\n--b\n\nz\n--b--\n", []string{"A: 1\r\n|x\ny", "|z"}, nil},
		{"mixed line ends", "b", "--b\r\nA: 1\n\r\nx\n--b\nB: 2\r\n\ny\r\n--b--", []string{"A: 1\r\n|x", "B: 2\r\n|y"}, nil},
		{"no line end after the closing delimiter", "b", "--b\r\n\r\nx\r\n--b--", []string{"|x"}, nil},
		{"only the line end of the delimiter is taken", "b", "--b\r\n\r\n\r\nx\r\n\r\n--b--", []string{"|\r\nx\r\n"}, nil},
		{"CR CR LF", "b", "--b\r\n\r\nx\r\r\n--b--", []string{"|x\r"}, nil},
		{"LF CR LF", "b", "--b\r\n\r\nx\n\r\n--b--", []string{"|x\n"}, nil},
		{"LF CR before a delimiter without LF", "b", "--b\r\n\r\nx\n\r--b\r\n--b--", []string{"|x\n\r--b"}, nil},
		{"body of CR", "b", "--b\r\n\r\n\r\n--b--", []string{"|"}, nil},
		{"body of CR LF", "b", "--b\r\n\r\n\r\n\r\n--b--", []string{"|\r\n"}, nil},
		{"zero bytes", "b", "--b\r\nA: 1\r\n\r\n\r\n--b\r\nA: 2\r\n\r\n--b--", []string{"A: 1\r\n|", "A: 2\r\n|"}, nil},
		{"zero bytes without blank line", "b", "--b\r\nA: 1\r\n--b\r\nA: 2\r\n--b--", []string{"A: 1\r\n|", "A: 2\r\n|"}, nil},
		{"nothing between delimiters", "b", "--b\r\n--b\r\n--b--", []string{"|", "|"}, nil},
		{"no headers", "b", "--b\r\n\r\nx\r\n--b--", []string{"|x"}, nil},
		{"no parts", "b", "--b--\r\n", nil, nil},
		{"no parts, later", "b", "preamble\r\n--b--\r\n", nil, nil},

		{"padding", "b", "--b \t\r\n\r\nx\r\n--b\t \n\r\ny\r\n--b--  \r\n", []string{"|x", "|y"}, nil},
		{"longer boundary is data", "b", "--b\r\n\r\n--bx\r\n--bb--\r\nx--b\r\n -\r\n--b--", []string{"|--bx\r\n--bb--\r\nx--b\r\n -"}, nil},
		{"longer boundary in the preamble", "b", "--bx\r\n--b\r\n\r\nx\r\n--b--", []string{"|x"}, nil},
		{"longer boundary in a header block", "b", "--b\r\n--bx\r\nA: 1\r\n\r\nx\r\n--b--", []string{"A: 1\r\n|x"}, nil},
		{"boundary of dashes", "--", "----\r\n\r\nx\r\n---\r\n--\r\n------", []string{"|x\r\n---\r\n--"}, nil},
		{"false start right before a delimiter", "bb", "--bb\r\n\r\n\r\n--b\r\n--bb--", []string{"|\r\n--b"}, nil},
		{"many false starts", "b", "--b\r\n\r\n" + strings.Repeat("\r\n--", 50) + "\r\n--b--", []string{"|" + strings.Repeat("\r\n--", 50)}, nil},
		{"false start, then a lone CR", "b", "--b\r\n\r\n\r\n--bx\r\r\n--b--", []string{"|\r\n--bx\r"}, nil},
		{"closing, then junk", "b", "--b\r\n\r\nx\r\n--b-- junk\r\n--b\r\n\r\ny", []string{"|x"}, nil},
		{"closing with junk", "b", "--b\r\n\r\nx\r\n--b--junk", []string{"|x"}, nil},
		{"delimiter with a dash", "b", "--b\r\n\r\nx\r\n--b-x\r\n\r\ny\r\n--b--", []string{"|x"}, ErrDelimiterLine},
		{"delimiter with a blank and junk", "b", "--b\r\n\r\nx\r\n--b x\r\n\r\ny\r\n--b--", []string{"|x"}, ErrDelimiterLine},
		{"closing dashes after a blank", "b", "--b\r\n\r\nx\r\n--b --\r\n", []string{"|x"}, ErrDelimiterLine},
		{"delimiter with a lone CR", "b", "--b\r\n\r\nx\r\n--b\ry\r\n--b--", []string{"|x"}, ErrDelimiterLine},
		{"delimiter with two CR", "b", "--b\r\n\r\nx\r\n--b\r\r\ny\r\n--b--", []string{"|x"}, ErrDelimiterLine},
		{"first delimiter with junk", "b", "--b-x\r\n\r\nx\r\n--b--", nil, ErrDelimiterLine},

		{"colons", ":kQ7z:", "--:kQ7z:\r\n\r\nx\r\n--:kQ7z:--", []string{"|x"}, nil},
		{"punctuation", "a b'()+_,-./:=?z", "--a b'()+_,-./:=?z\r\n\r\nx\r\n--a b'()+_,-./:=?z--", []string{"|x"}, nil},
		{"seventy", long, "--" + long + "\r\n\r\nx\r\n--" + long + "--", []string{"|x"}, nil},
		{"one too short", long, "--" + long[1:] + "\r\n\r\nx\r\n--" + long[1:] + "--", nil, ErrTruncated},
		{"boundary of MTOM", "uuid:x+id=1", "MIME-Version: 1.0\r\nContent-Type: multipart/related;boundary=\"uuid:x+id=1\"\r\n\r\n--uuid:x+id=1\r\n\r\nx\r\n--uuid:x+id=1--\r\nepilogue", []string{"|x"}, nil},
		{"nested delimiters are data", "T", "--T\r\n\r\n\r\n--A\r\n\r\nx\r\n--A--\r\n\r\n--T--", []string{"|\r\n--A\r\n\r\nx\r\n--A--\r\n"}, nil},
		{"boundary that begins another", "A", "--A\r\n\r\n--AA\r\n\r\nx\r\n--AA--\r\n--A--", []string{"|--AA\r\n\r\nx\r\n--AA--"}, nil},

		{"empty body", "b", "", nil, ErrTruncated},
		{"no delimiter", "b", "hello\r\n", nil, ErrTruncated},
		{"end after a delimiter", "b", "--b\r\n", nil, ErrTruncated},
		{"end inside the first delimiter", "b", "--b", nil, ErrTruncated},
		{"end inside a header", "b", "--b\r\nA: ", nil, ErrTruncated},
		{"end before the blank line", "b", "--b\r\nA: 1\r\n", nil, ErrTruncated},
		{"end before the body", "b", "--b\r\nA: 1\r\n\r\n", []string{"A: 1\r\n|…"}, ErrTruncated},
		{"end inside the body", "b", "--b\r\n\r\nxy", []string{"|xy…"}, ErrTruncated},
		{"end before the delimiter", "b", "--b\r\n\r\nxy\r\n", []string{"|xy…"}, ErrTruncated},
		{"end inside a delimiter", "bb", "--bb\r\n\r\nxy\r\n--b", []string{"|xy…"}, ErrTruncated},
		{"end after the boundary", "b", "--b\r\n\r\nxy\r\n--b", []string{"|xy…"}, ErrTruncated},
		{"end inside the closing dashes", "b", "--b\r\n\r\nxy\r\n--b-", []string{"|xy"}, ErrTruncated},
		{"end inside the padding", "b", "--b\r\n\r\nxy\r\n--b \t", []string{"|xy"}, ErrTruncated},
		{"end inside the line end", "b", "--b\r\n\r\nxy\r\n--b\r", []string{"|xy"}, ErrTruncated},
		{"end before another part", "b", "--b\r\n\r\nxy\r\n--b\r\n", []string{"|xy"}, ErrTruncated},

		{"empty boundary", "", "--\r\n\r\n", nil, ErrBoundary},
		{"boundary with a line end", "a\nb", "--a\nb\r\n", nil, ErrBoundary},
		{"boundary that ends in a blank", "a ", "--a \r\n", nil, ErrBoundary},
		{"boundary above ASCII", "\xe4", "--\xe4\r\n", nil, ErrBoundary},
	}
	for _, tt := range tests {
		for way, wrap := range waysToRead {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				r := NewReader(wrap(strings.NewReader(tt.body)), tt.boundary, Limits{})
				got, err := readParts(r)
				if tt.err == nil {
					tt.err = io.EOF
				}
				if !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
					t.Errorf("got %q, %v; want %q, %v", got, err, tt.want, tt.err)
				}
				if _, again := r.Next(); again != err {
					t.Errorf("then %v", again)
				}
			})
		}
	}
}

func TestReaderPartNumberInErrors(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"no part", "", "reading before the first part: multipart: body ends before its closing delimiter"},
		{"second part", "--b\r\n\r\n\r\n--b\r\n\r\nx", "reading part 2: multipart: body ends before its closing delimiter"},
		{"nested", "--b\r\n\r\n\r\n--b\r\n\r\n--c\r\n\r\nx", "reading nested part 1: reading part 2: multipart: body ends before its closing delimiter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(tt.body), "b", Limits{})
			p, err := r.Next()
			for err == nil {
				if strings.HasPrefix(tt.name, "nested") {
					if _, e := readParts(p.Nested("c")); strings.Contains(e.Error(), "nested part 1") {
						err = e
						break
					}
				}
				p, err = r.Next()
			}
			if err.Error() != tt.want {
				t.Errorf("got %q", err)
			}
			var cause interface{ Cause() string }
			if !errors.As(err, &cause) || cause.Cause() != "mime_parsing_failed" {
				t.Errorf("no cause in %v", err)
			}
		})
	}
}

func TestReaderLimits(t *testing.T) {
	header := func(lines string) string { return "--b\r\n" + lines + "\r\nx\r\n--b--" }
	limits := Limits{Boundary: 5, HeaderBytes: 40, Headers: 3, Fields: 5, Parts: 3, Depth: 2, Preamble: 10}
	tests := []struct {
		name, boundary, body string
		limit                string // "": within
	}{
		{"boundary", "bbbbb", "--bbbbb--", ""},
		{"boundary too long", "bbbbbb", "--bbbbbb--", "Boundary"},
		{"header octets", "b", header("A: " + strings.Repeat("x", 33) + "\r\n"), ""},
		{"header octets too many", "b", header("A: " + strings.Repeat("x", 34) + "\r\n"), "HeaderBytes"},
		{"endless header line", "b", "--b\r\n" + strings.Repeat("x", 1<<20), "HeaderBytes"},
		{"lines that are dropped count", "b", header(strings.Repeat("x\r\n", 20)), "HeaderBytes"},
		{"fields", "b", header("A: 1\r\nA: 1\r\nA: 1\r\n"), ""},
		{"fields too many", "b", header("A: 1\r\nA: 1\r\nA: 1\r\nA: 1\r\n"), "Headers"},
		{"padding", "b", "--b" + strings.Repeat(" ", 40) + "\r\n\r\n\r\n--b--", ""},
		{"padding too long", "b", "--b" + strings.Repeat(" ", 41) + "\r\n\r\n\r\n--b--", "HeaderBytes"},
		{"endless padding", "b", "--b" + strings.Repeat(" ", 1<<20), "HeaderBytes"},
		{"parts", "b", strings.Repeat("--b\r\n\r\n\r\n", 3) + "--b--", ""},
		{"fields too many", "b", strings.Repeat("--b\r\nX: y\r\nX: y\r\n\r\n\r\n", 3) + "--b--", "Fields"},
		{"parts too many", "b", strings.Repeat("--b\r\n\r\n\r\n", 4) + "--b--", "Parts"},
		{"preamble", "b", strings.Repeat("p", 10) + "\r\n--b--", ""},
		{"preamble too long", "b", strings.Repeat("p", 11) + "\r\n--b--", "Preamble"},
		{"endless preamble", "b", strings.Repeat("p", 1<<20), "Preamble"},
		{"preamble of false starts", "b", strings.Repeat("\r\n--c", 1<<18), "Preamble"},
	}
	for _, tt := range tests {
		for way, wrap := range waysToRead {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				_, err := readParts(NewReader(wrap(strings.NewReader(tt.body)), tt.boundary, limits))
				var over *LimitError
				switch {
				case tt.limit == "" && err != io.EOF:
					t.Errorf("got %v", err)
				case tt.limit != "" && (!errors.As(err, &over) || over.Limit != tt.limit || over.Cause() != "mime_parsing_failed"):
					t.Errorf("got %v, want limit %s", err, tt.limit)
				}
			})
		}
	}
	t.Run("preamble says what is missing", func(t *testing.T) {
		_, err := NewReader(strings.NewReader(strings.Repeat("p", 70<<10)), "b", Limits{}).Next()
		if err == nil || !strings.Contains(err.Error(), "start boundary not found") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("depth", func(t *testing.T) {
		body := "--b\r\n\r\n--c\r\n\r\n--d\r\n\r\n\r\n--d--\r\n--c--\r\n--b--"
		p, err := NewReader(strings.NewReader(body), "b", limits).Next()
		if err != nil {
			t.Fatal(err)
		}
		p, err = p.Nested("c").Next()
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Nested("d").Next()
		var over *LimitError
		if !errors.As(err, &over) || over.Limit != "Depth" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("parts of nested multiparts count", func(t *testing.T) {
		body := "--b\r\n\r\n--c\r\n\r\n\r\n--c\r\n\r\n\r\n--c--\r\n--b\r\n\r\n\r\n--b--"
		r := NewReader(strings.NewReader(body), "b", limits)
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readParts(p.Nested("c")); len(got) != 2 || err != io.EOF {
			t.Fatal(got, err)
		}
		_, err = r.Next()
		var over *LimitError
		if !errors.As(err, &over) || over.Limit != "Parts" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("defaults", func(t *testing.T) {
		body := strings.Repeat("--b\r\n\r\n\r\n", DefaultLimits.Parts) + "--b--"
		if got, err := readParts(NewReader(strings.NewReader(body), "b", Limits{})); len(got) != DefaultLimits.Parts || err != io.EOF {
			t.Errorf("%d parts, %v", len(got), err)
		}
	})
}

// TestReaderBlocks sees that Next says all it can say before it waits for more.
func TestReaderBlocks(t *testing.T) {
	tests := []struct {
		name, sent string
		want       error
	}{
		{"header block", "--b\r\nA: 1\r\n\r\n", nil},
		{"empty header block", "--b\r\n\r\n", nil},
		{"header block that ends in LF", "--b\nA: 1\n\n", nil},
		{"closing delimiter", "--b--", io.EOF},
		{"malformed delimiter", "--b-x", ErrDelimiterLine},
		{"delimiter after a part", "--b\r\n--b--", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := errors.New("asked for more")
			r := NewReader(io.MultiReader(strings.NewReader(tt.sent), iotest.ErrReader(asked)), "b", Limits{})
			if _, err := r.Next(); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	t.Run("body up to what may be a delimiter", func(t *testing.T) {
		asked := errors.New("asked for more")
		for sent, want := range map[string]string{"x": "x", "x\r": "x", "x\r\n": "x", "x\r\n--": "x", "x\r\n-a": "x\r\n-a", "x\ry": "x\ry", "--": "", "-x": "-x"} {
			r := NewReader(io.MultiReader(strings.NewReader("--b\r\n\r\n"+sent), iotest.ErrReader(asked)), "b", Limits{})
			p, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(p); string(got) != want || !errors.Is(err, asked) {
				t.Errorf("%q: got %q, %v", sent, got, err)
			}
		}
	})
}

func TestReaderSourceErrors(t *testing.T) {
	body := "--b\r\nA: 1\r\n\r\nhello\r\n--b\r\nB: 2\r\n\r\nworld\r\n--b--"
	lost := errors.New("connection lost")
	for cut := range len(body) {
		r := NewReader(io.MultiReader(strings.NewReader(body[:cut]), iotest.ErrReader(lost)), "b", Limits{})
		if _, err := readParts(r); !errors.Is(err, lost) || errors.Is(err, ErrTruncated) {
			t.Fatalf("after %d octets: %v", cut, err)
		}
		if _, err := r.Next(); err != lost {
			t.Fatalf("after %d octets, again: %v, want it as it is", cut, err)
		}
		r = NewReader(strings.NewReader(body[:cut]), "b", Limits{})
		if _, err := readParts(r); !errors.Is(err, ErrTruncated) {
			t.Fatalf("after %d octets: %v", cut, err)
		}
	}
	t.Run("a timeout is not forgotten", func(t *testing.T) {
		r := NewReader(iotest.TimeoutReader(inPieces{strings.NewReader(body), 10}), "b", Limits{})
		if _, err := readParts(r); !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("got %v", err)
		}
		if _, err := r.Next(); !errors.Is(err, iotest.ErrTimeout) {
			t.Errorf("then %v", err)
		}
	})
	t.Run("unexpected EOF stays", func(t *testing.T) {
		r := NewReader(io.MultiReader(strings.NewReader(body[:20]), iotest.ErrReader(io.ErrUnexpectedEOF)), "b", Limits{})
		if _, err := readParts(r); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("reader that returns nothing", func(t *testing.T) {
		r := NewReader(inPieces{strings.NewReader(body), 0}, "b", Limits{})
		if _, err := r.Next(); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("got %v", err)
		}
	})
}

// TestReaderSplits cuts a body in three at every pair of places.
func TestReaderSplits(t *testing.T) {
	body := "p\r\n--bB \r\nA: 1\r\n\r\nx\r\n--b\r\n--bBx\r\r\n--bB\nB: 2\n--bB\r\n\r\n\n--bB--\r\n"
	want := []string{"A: 1\r\n|x\r\n--b\r\n--bBx\r", "B: 2\r\n|", "|"}
	for i := range len(body) {
		for j := i; j < len(body); j++ {
			src := io.MultiReader(strings.NewReader(body[:i]), strings.NewReader(body[i:j]), strings.NewReader(body[j:]))
			if got, err := readParts(NewReader(src, "bB", Limits{})); err != io.EOF || !slices.Equal(got, want) {
				t.Fatalf("cut at %d and %d: %q, %v", i, j, got, err)
			}
		}
	}
}

// TestReaderSweep moves the delimiters over the edges of the buffers.
func TestReaderSweep(t *testing.T) {
	random := make([]byte, largeBuffer+1000)
	rand.NewChaCha8([32]byte{7}).Read(random)
	copy(random[len(random)/2:], "\r\n--b\r\n--Z") // and something like a delimiter
	ways := map[string]func(io.Reader) io.Reader{
		"whole":  func(r io.Reader) io.Reader { return r },
		"1460":   func(r io.Reader) io.Reader { return inPieces{r, 1460} },
		"random": inRandomPieces,
		"half":   iotest.HalfReader,
		"EOF":    iotest.DataErrReader,
		"octets": iotest.OneByteReader,
	}
	for _, boundary := range []string{"Y", Letters(34), Letters(70)} {
		for _, edge := range []int{smallBuffer, largeBuffer} {
			for d := -80; d <= 80; d++ {
				var body bytes.Buffer
				w := NewWriter(&body, boundary)
				sizes := []int{edge + d, 0, 1}
				for i, size := range sizes {
					p, err := w.Part(NewHeader("N", fmt.Sprint(i)))
					if err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						size -= body.Len() // so that the CR of the next delimiter is at edge+d
						sizes[0] = size
					}
					p.Write(random[:size])
				}
				w.Close()
				for way, wrap := range ways {
					if way == "octets" && (edge == largeBuffer || testing.Short()) {
						continue
					}
					r := NewReader(wrap(bytes.NewReader(body.Bytes())), boundary, Limits{})
					for i, size := range sizes {
						p, err := r.Next()
						if err != nil {
							t.Fatalf("boundary of %d, edge %d%+d, %s: part %d: %v", len(boundary), edge, d, way, i, err)
						}
						var got bytes.Buffer
						if _, err := p.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), random[:size]) {
							t.Fatalf("boundary of %d, edge %d%+d, %s: part %d has %d octets of %d, %v", len(boundary), edge, d, way, i, got.Len(), size, err)
						}
					}
					if _, err := r.Next(); err != io.EOF {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestReaderLengths reads parts of all lengths around nothing and around one, two and three buffers, in every way.
func TestReaderLengths(t *testing.T) {
	random := make([]byte, 3*largeBuffer+2)
	rand.NewChaCha8([32]byte{8}).Read(random)
	boundary := Letters(34)
	for _, size := range []int{smallBuffer, largeBuffer} {
		for length := range lengthsAround(size) {
			content := random[:length]
			var body bytes.Buffer
			w := NewWriter(&body, boundary)
			for range 2 { // the second part begins anywhere in a buffer
				p, err := w.Part(nil)
				if err != nil {
					t.Fatal(err)
				}
				p.Write(content)
			}
			w.Close()
			for way, wrap := range waysToRead {
				t.Run(fmt.Sprintf("%d/%s", length, way), func(t *testing.T) {
					r := NewReader(wrap(bytes.NewReader(body.Bytes())), boundary, Limits{})
					p, err := r.Next()
					if err != nil {
						t.Fatal(err)
					}
					if got, err := io.ReadAll(struct{ io.Reader }{p}); err != nil || !bytes.Equal(got, content) {
						t.Errorf("read: %d octets, %v", len(got), err)
					}
					if p, err = r.Next(); err != nil {
						t.Fatal(err)
					}
					var same comparer = content
					if n, err := p.WriteTo(&same); err != nil || n != int64(length) {
						t.Errorf("written: %d octets, %v", n, err)
					}
					if _, err := r.Next(); err != io.EOF {
						t.Errorf("then %v", err)
					}
				})
			}
		}
	}
}

// lengthsAround yields 0 to 3 times size, and two octets less and more.
func lengthsAround(size int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for times := range 4 {
			for d := -2; d <= 2; d++ {
				if length := times*size + d; length >= 0 && !yield(length) {
					return
				}
			}
		}
	}
}

// TestReaderImitations reads payloads that look like delimiters for long; a quadratic search would not end.
func TestReaderImitations(t *testing.T) {
	boundary := strings.Repeat("-", 500) + strings.Repeat("=", 500)
	for name, block := range map[string]string{
		"CR":                "\r",
		"LF":                "\n",
		"CR LF":             "\r\n",
		"CR LF dash dash":   "\r\n--",
		"dashes":            "-",
		"longer boundary":   "\r\n--" + boundary + "x",
		"all but the last":  "\r\n--" + boundary[:len(boundary)-1],
		"LF and dashes":     "\n" + strings.Repeat("-", 400),
		"half the boundary": "\n--" + boundary[:700] + "x",
	} {
		t.Run(name, func(t *testing.T) {
			const size = 2 << 20
			content := []byte(strings.Repeat(block, size/len(block)))
			for _, wrap := range []func(io.Reader) io.Reader{waysToRead["whole"], waysToRead["seven octets"]} {
				p, err := NewReader(wrap(newEndless(boundary, content, int64(len(content)))), boundary, Limits{}).Next()
				if err != nil {
					t.Fatal(err)
				}
				var same comparer = content
				if n, err := p.WriteTo(&same); err != nil || n != int64(len(content)) {
					t.Fatalf("%d octets of %d, %v", n, len(content), err)
				}
			}
		})
	}
}

// comparer is a writer that fails on the first octet that is not the expected one.
type comparer []byte

func (c *comparer) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(*c, b) {
		return 0, errors.New("other octets")
	}
	*c = (*c)[len(b):]
	return len(b), nil
}
