// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// reference is a Reader that has the whole body in its hands and goes line by line.
func reference(body, boundary string) (parts []string, err error) {
	const (
		preamble = iota
		header
		content
	)
	state := preamble
	var block, text string
	lonely := func() bool { return strings.Count(block, "\r") != strings.Count(block, "\r\n") }
	end := func() {
		if state == preamble {
			return
		}
		if cut, ok := strings.CutSuffix(text, "\r\n"); ok {
			text = cut
		} else {
			text = strings.TrimSuffix(text, "\n")
		}
		h, _ := parseHeader(nil, block, 1000)
		written, _ := h.append(nil)
		parts = append(parts, string(written)+"|"+text)
		block, text = "", ""
	}
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, "--"+boundary)
		if ok && rest != "" && strings.ContainsAny(rest[:1], " \t\r\n-") {
			if lonely() {
				return parts, ErrHeader
			}
			end()
			state = header
			blankless := strings.TrimLeft(rest, " \t")
			switch {
			case strings.HasPrefix(rest, "--"):
				return parts, io.EOF
			case blankless == "\n" || blankless == "\r\n":
			case blankless == "" || blankless == "\r" || rest == "-":
				return parts, ErrTruncated // for there is no line end
			default:
				return parts, ErrDelimiterLine
			}
			continue
		}
		switch {
		case state == header && (line == "\n" || line == "\r\n"):
			if lonely() {
				return parts, ErrHeader
			}
			state = content
		case state == header:
			block += line
		case state == content:
			text += line
		}
	}
	return parts, ErrTruncated
}

// TestReaderAgainstReference compares the Reader with the reference, and with mime/multipart, on random bodies of the octets that matter.
func TestReaderAgainstReference(t *testing.T) {
	words := []string{"\r\n", "\r\n", "\n", "\n", "\r", "--b", "--b", "--b", "--", "-", "b", " ", "\t", "A: 1", "x", "\r\n--b\r\n", "\r\n--b--", "\n\n"}
	rounds := 200000
	if testing.Short() {
		rounds /= 10
	}
	random := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range rounds {
		var b strings.Builder
		if random.IntN(2) == 0 {
			b.WriteString("--b\r\n")
		}
		for range 1 + random.IntN(14) {
			b.WriteString(words[random.IntN(len(words))])
		}
		if random.IntN(2) == 0 {
			b.WriteString("\r\n--b--\r\n")
		}
		body := b.String()
		want, wantErr := reference(body, "b")
		var r io.Reader = strings.NewReader(body)
		if n := random.IntN(8); n > 0 {
			r = inPieces{r, n}
		}
		got, err := readParts(NewReader(r, "b", Limits{}))
		if len(got) > 0 && strings.HasSuffix(got[len(got)-1], "…") {
			got = got[:len(got)-1]
		}
		if !slices.Equal(got, want) || !errors.Is(err, wantErr) {
			t.Fatalf("body %q: got %q, %v; want %q, %v", body, got, err, want, wantErr)
		}
		if err == io.EOF {
			accepted++
			compareWithStd(t, body, "b", got)
		}
	}
	if accepted < rounds/10 {
		t.Errorf("only %d bodies of %d were accepted", accepted, rounds)
	}
}
