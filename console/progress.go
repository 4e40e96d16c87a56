// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

// progress draws how far a transfer is, on one line of a terminal. On anything else it is silent.
type progress struct {
	out   io.Writer // nil: silent
	total int64     // octets to come; 0 is not known
	begun time.Time
	done  atomic.Int64
	end   chan struct{}
	wait  sync.WaitGroup
}

// newProgress begins to draw on w, if that is a terminal. Close ends it.
func newProgress(w io.Writer, total int64) *progress {
	p := &progress{total: total, begun: time.Now(), end: make(chan struct{})}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.out = w
		p.wait.Go(p.draw)
	}
	return p
}

// Write counts octets, so that a progress can stand at the side of an io.TeeReader.
func (p *progress) Write(b []byte) (int, error) {
	p.done.Add(int64(len(b)))
	return len(b), nil
}

// Close wipes the line. It may be called once.
func (p *progress) Close() {
	close(p.end)
	p.wait.Wait()
}

func (p *progress) draw() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	wipe := ""
	for {
		select {
		case <-tick.C:
			wipe = "\r\x1b[K"
			fmt.Fprintf(p.out, "\r%s\x1b[K", line(p.done.Load(), p.total, time.Since(p.begun)))
		case <-p.end:
			fmt.Fprint(p.out, wipe)
			return
		}
	}
}

// line is the text of a progress.
func line(done, total int64, since time.Duration) string {
	const width = 30
	rate := uint64(float64(done) / max(since.Seconds(), 0.001))
	switch {
	case total <= 0:
		return fmt.Sprintf("%s, %s/s", size(done), humanize.IBytes(rate))
	case done >= total:
		return fmt.Sprintf("%s sent, waiting for the answer", size(done))
	}
	full := int(float64(done) / float64(total) * width)
	return fmt.Sprintf("%3d%% [%s%s] %s of %s, %s/s", int(float64(done)/float64(total)*100),
		strings.Repeat("#", full), strings.Repeat(".", width-full), size(done), size(total), humanize.IBytes(rate))
}

// size is a number of octets for people.
func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
