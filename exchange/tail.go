// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/caddy-fairway/fairway/wire"
)

// withheld is how many octets of the end of a message nobody gets before it is verified, the closing delimiter among them:
// an unverified message never becomes complete.
const withheld = 64 << 10

// tail reads a message out of the spool while it is still being read from the peer: what may be seen before it is verified,
// and the rest after that. One goroutine advances and settles it, another reads.
type tail struct {
	mu       sync.Mutex
	changed  sync.Cond
	octets   io.ReadCloser
	position int64 // the reader has what is before it
	released int64 // the reader may have what is before it
	complete bool  // there is no more than that
	reason   error // why the rest will not come
	waiting  bool  // the reader has all that it may have
	looks    int64
}

// releasable returns how much of a message that is being read may be seen, 0 where that is not more than the envelope: only
// messages with attachments are.
func releasable(m *wire.Message) int64 {
	if len(m.Parts) == 0 || m.FaultCode != "" {
		return 0
	}
	envelope := m.Parts[0].Offset + m.Parts[0].Size
	if free := m.Size() - withheld; free > envelope {
		return free
	}
	return 0
}

// openTail returns the tail of a message, or nil while that is in memory: it may move into a file, and then the reader
// would end too early.
func openTail(m *wire.Message) (*tail, error) {
	octets, err := m.Open()
	if err != nil {
		return nil, err
	}
	if _, file := octets.(*os.File); !file {
		return nil, octets.Close()
	}
	t := &tail{octets: octets}
	t.changed.L = &t.mu
	return t, nil
}

// release lets the reader have what is before free.
func (t *tail) release(free int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = max(t.released, free)
	t.changed.Broadcast()
}

// settle tells what became of the message: the reader gets it to its end, size, or learns why not.
func (t *tail) settle(size int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.released, t.complete = size, true
	} else if t.reason == nil {
		t.reason = err
	}
	t.changed.Broadcast()
}

// settled says whether it is known what became of the message.
func (t *tail) settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.complete || t.reason != nil
}

// Read implements io.Reader. It waits for what may be seen.
func (t *tail) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.position >= t.released && !t.complete && t.reason == nil {
		t.waiting = true
		t.changed.Wait()
		t.waiting = false
	}
	switch {
	case t.reason != nil:
		return 0, t.reason
	case t.position >= t.released:
		return 0, io.EOF
	}
	n, err := t.octets.Read(p[:min(int64(len(p)), t.released-t.position)])
	t.position += int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the spool has more
	}
	return n, err
}

// Seek tells where the reader stands. While it waits for us, that is somewhere else at every look: it is not silent.
func (t *tail) Seek(int64, int) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason != nil {
		return 0, t.reason
	}
	if t.waiting {
		t.looks++
	}
	return t.position + t.looks, nil
}

// seen returns how many octets the reader has got.
func (t *tail) seen() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.position
}

var errClosed = errors.New("nobody takes the rest of the message")

// Close implements io.Closer.
func (t *tail) Close() error {
	t.settle(0, errClosed)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.octets.Close()
}
