// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		name        string
		done, total int64
		since       time.Duration
		want        string
	}{
		{"begun", 0, 1 << 20, 0, "  0% [..............................] 0 B of 1.0 MiB, 0 B/s"},
		{"half", 512 << 10, 1 << 20, time.Second, " 50% [###############...............] 512 KiB of 1.0 MiB, 512 KiB/s"},
		{"done", 1 << 20, 1 << 20, 2 * time.Second, "1.0 MiB sent, waiting for the answer"},
		{"more than was said", 3 << 20, 1 << 20, time.Second, "3.0 MiB sent, waiting for the answer"},
		{"unknown", 2 << 20, 0, time.Second, "2.0 MiB, 2.0 MiB/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := line(c.done, c.total, c.since); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestProgressIsSilent draws on what is no terminal.
func TestProgressIsSilent(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, 100)
	p.Write(make([]byte, 50))
	p.Close()
	if b.Len() > 0 {
		t.Errorf("it drew %q", b.String())
	}
}
