// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
)

// entry is in memory until it is too large for it, and in a file from then on.
type entry struct {
	store *store
	size  atomic.Int64

	mu      sync.Mutex
	memory  []byte // all of it, while file is nil
	file    *file
	taken   int64 // octets of the quota
	err     error // what everything but Remove returns from now on
	removed bool
}

func (e *entry) Reserve(n int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	return e.makeRoom(max(n, 0))
}

func (e *entry) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return 0, e.err
	}
	n := int64(len(p))
	if e.err = e.makeRoom(n); e.err != nil {
		return 0, e.err
	}
	if e.file == nil {
		e.memory = append(e.memory, p...)
	} else if e.err = e.file.write(p); e.err != nil {
		return 0, e.err
	}
	e.size.Add(n)
	e.store.size.Add(n)
	return len(p), nil
}

// makeRoom sees to room for n more octets. It leaves the entry as it was if there is none.
func (e *entry) makeRoom(n int64) error {
	size := e.size.Load()
	missing := max(n-(e.taken-size), 0)
	if missing > 0 {
		if err := e.store.take(missing, n > small-size); err != nil {
			return err
		}
	}
	var err error
	switch {
	case e.file != nil:
		err = e.file.makeRoom(n)
	case n > e.store.memory-size:
		if e.file, err = e.store.create(e.memory, n); err == nil {
			e.memory = nil
		}
	}
	if err != nil {
		e.store.used.give(missing)
		return err
	}
	e.taken += missing
	return nil
}

func (e *entry) Done() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.store.used.give(e.taken - e.size.Load())
	e.taken = e.size.Load()
	if e.file != nil {
		e.err = e.file.finish()
	}
	return e.err
}

func (e *entry) Open() (io.ReadSeekCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return nil, e.err
	}
	if e.file == nil {
		return &memoryReader{octets: e.memory}, nil
	}
	if e.err = e.file.show(); e.err != nil {
		return nil, e.err
	}
	r, err := e.file.open()
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (e *entry) Size() int64 { return e.size.Load() }

func (e *entry) Remove() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removed {
		return nil
	}
	e.removed, e.err, e.memory = true, errClosed, nil
	e.store.forget(e)
	if e.file == nil {
		return nil
	}
	return e.file.remove()
}

// memoryReader reads an entry in memory. The octets it was given never change: Write only appends after them.
type memoryReader struct {
	octets []byte
	at     atomic.Int64
	closed atomic.Bool
}

// rest returns what is still to be read.
func (m *memoryReader) rest() ([]byte, error) {
	if m.closed.Load() {
		return nil, fs.ErrClosed
	}
	return m.octets[min(m.at.Load(), int64(len(m.octets))):], nil
}

func (m *memoryReader) Read(p []byte) (int, error) {
	rest, err := m.rest()
	if err != nil || len(p) == 0 {
		return 0, err
	}
	if len(rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, rest)
	m.at.Add(int64(n))
	return n, nil
}

// memoryStep is what a reader in memory writes at once, so that others see how far it is.
const memoryStep = 64 << 10

func (m *memoryReader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		rest, err := m.rest()
		if err != nil || len(rest) == 0 {
			return total, err
		}
		step := rest[:min(memoryStep, len(rest))]
		n, err := w.Write(step)
		total += int64(n)
		if m.at.Add(int64(n)); err == nil && n < len(step) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

func (m *memoryReader) Seek(offset int64, whence int) (int64, error) {
	switch {
	case m.closed.Load():
		return 0, fs.ErrClosed
	case whence == io.SeekCurrent && offset == 0:
		return m.at.Load(), nil // nothing moves
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += m.at.Load()
	case io.SeekEnd:
		offset += int64(len(m.octets))
	default:
		return 0, fs.ErrInvalid
	}
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	m.at.Store(offset)
	return offset, nil
}

func (m *memoryReader) Close() error {
	if m.closed.Swap(true) {
		return fs.ErrClosed
	}
	return nil
}
