// SPDX-License-Identifier: Apache-2.0

package spool

import (
	"crypto/rand"
	"fmt"
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
	file    io.WriteCloser
	name    string // of the file
	err     error  // what Write returns from now on
	removed bool
}

func (e *entry) Write(p []byte) (n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return 0, e.err
	}
	if e.err = e.store.reserve(int64(len(p))); e.err != nil {
		return 0, e.err
	}
	n, e.err = e.write(p)
	e.size.Add(int64(n))
	e.store.used.Add(int64(n - len(p)))
	return n, e.err
}

func (e *entry) write(p []byte) (int, error) {
	if e.file == nil && int64(len(p)) <= e.store.memory-int64(len(e.memory)) {
		e.memory = append(e.memory, p...)
		return len(p), nil
	}
	if e.file == nil {
		if err := e.spill(int64(len(p))); err != nil {
			return 0, err
		}
	} else if err := e.store.room(int64(len(p)), false); err != nil {
		return 0, err
	}
	n, err := e.file.Write(p)
	if err != nil {
		err = fmt.Errorf("spool: writing: %w", full(err))
	}
	return n, err
}

// spill moves the entry into a file that next more octets will follow.
func (e *entry) spill(next int64) error {
	if err := e.store.room(int64(len(e.memory))+next, true); err != nil {
		return err
	}
	name := rand.Text()
	f, err := e.store.create(name)
	if err != nil {
		return fmt.Errorf("spool: creating a file: %w", full(err))
	}
	if _, err := f.Write(e.memory); err != nil {
		f.Close()
		e.store.folder.remove(name)
		return fmt.Errorf("spool: writing: %w", full(err))
	}
	e.file, e.name, e.memory = f, name, nil
	return nil
}

func (e *entry) Open() (io.ReadSeekCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removed {
		return nil, errClosed
	}
	if e.file == nil {
		return &memoryReader{octets: e.memory}, nil
	}
	f, err := e.store.folder.open(e.name)
	if err != nil {
		return nil, fmt.Errorf("spool: opening a file: %w", err)
	}
	return f, nil
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
	e.file.Close() // nobody needs what it could not write
	if err := e.store.folder.remove(e.name); err != nil {
		return fmt.Errorf("spool: removing a file: %w", err)
	}
	return nil
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

func (m *memoryReader) WriteTo(w io.Writer) (int64, error) {
	rest, err := m.rest()
	if err != nil || len(rest) == 0 {
		return 0, err
	}
	n, err := w.Write(rest)
	if m.at.Add(int64(n)); err == nil && n < len(rest) {
		err = io.ErrShortWrite
	}
	return int64(n), err
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
