// SPDX-License-Identifier: Apache-2.0

package multipart

import "bytes"

// findDelimiter returns where in d the first delimiter begins, with the line feed in front of it, and whether it is sure that
// it is one: what begins as a delimiter at the end of d may go on as something else. Without any, at is the length of d.
//
// line is a line feed, two dashes and the boundary. It holds no second line feed, so the search goes from line feed to
// line feed; and where those are closer together than line is long, only the last within its length can be the right one.
// So the search takes linear time, and payloads of short lines or of imitated delimiters are passed by at a length of line
// a step.
func findDelimiter(d, line []byte) (at int, sure bool) {
	last := len(line) - 1
	for {
		dense := true
		if at >= len(d) || d[at] != '\n' {
			gap := bytes.IndexByte(d[at:], '\n')
			if gap < 0 {
				return len(d), false
			}
			at += gap
			dense = gap < last
		}
		end := at + last
		if end+1 >= len(d) {
			if bytes.HasPrefix(line, d[at:]) {
				return at, false
			}
			at++
			continue
		}
		if d[end] == line[last] && endsBoundary(d[end+1]) && bytes.Equal(d[at:end+1], line) {
			return at, true
		}
		if dense { // a loop of its own, for the line feed is near
			for end > at && d[end] != '\n' {
				end--
			}
			if end > at {
				at = end
				continue
			}
		}
		at++
	}
}
