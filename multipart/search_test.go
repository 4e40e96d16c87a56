// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"strings"
	"testing"
)

// TestFindDelimiterExhaustive compares the search with one that looks at every place, on all short texts of the octets that matter.
func TestFindDelimiterExhaustive(t *testing.T) {
	const octets = "\n-bx "
	places := func(d, line string) (int, bool) {
		for at := range len(d) {
			switch rest := d[at:]; {
			case len(rest) > len(line) && strings.HasPrefix(rest, line) && endsBoundary(rest[len(line)]):
				return at, true
			case len(rest) <= len(line) && strings.HasPrefix(line, rest):
				return at, false
			}
		}
		return len(d), false
	}
	for _, boundary := range []string{"b", "bb", "-"} {
		line := "\n--" + boundary
		longest := 8
		if testing.Short() {
			longest = 6
		}
		var grow func(d string)
		grow = func(d string) {
			at, sure := findDelimiter([]byte(d), []byte(line))
			if wantAt, wantSure := places(d, line); at != wantAt || sure != wantSure {
				t.Fatalf("boundary %q in %q: %d, %t; want %d, %t", boundary, d, at, sure, wantAt, wantSure)
			}
			if len(d) < longest {
				for _, c := range octets {
					grow(d + string(c))
				}
			}
		}
		grow("")
	}
}

// TestFindDelimiterDense looks for one delimiter behind line feeds that are close together, at every distance.
func TestFindDelimiterDense(t *testing.T) {
	boundary := "xtopQkZrWvBnMzTfLsXyCdGhJpUaEiOoRN"
	line := "\n--" + boundary
	for _, block := range []string{"\n", "\r\n", "\r\n--", "\n-", "\n\n" + boundary, line[:len(line)-1], line + "x", "\n" + boundary + "\n-", "abc\n" + line[:20]} {
		payload := strings.Repeat(block, 200/len(block)+2)
		for n := range len(payload) {
			if strings.HasSuffix(payload[:n], line) {
				continue // a delimiter, as a line feed follows
			}
			if at, sure := findDelimiter([]byte(payload[:n]+line+" "), []byte(line)); at != n || !sure {
				t.Fatalf("behind %q: found at %d, %t", payload[:n], at, sure)
			}
			if at, sure := findDelimiter([]byte(payload[:n]+line), []byte(line)); at != n || sure {
				t.Fatalf("behind %q, at the end: found at %d, %t", payload[:n], at, sure)
			}
		}
	}
}
