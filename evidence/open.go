// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// OpenDisk returns a Store below dir. One process at a time may hold a folder for writing; within it, stores of one
// folder are one: what one keeps the others find, and the last to be closed gives the folder back. So two
// configurations may overlap over a reload.
//
// dir is created with mode 0700 where it is missing; one that everybody may write to is refused. Opening reads the
// records that are there; a record at the end that a crash has left torn is cut off.
//
// Put writes small contents beside their record and large ones to a file of their own, and lets others write meanwhile.
// Where the disk has no room, the error wraps that of the system, nothing of the record is left, and later records are tried anew.
// Where making records durable fails, nobody knows what the disk holds: the store refuses every later Put, and so
// does OpenDisk, until all stores of the folder have been closed.
func OpenDisk(dir string) (Store, error) {
	s, err := openShared(dir, segmentSize)
	if err != nil {
		return nil, &Error{"opening " + dir, err}
	}
	return s, nil
}

const segmentSize = 256 << 20 // a segment of this size is the last no more

// held are the folders that this process writes to.
var held struct {
	sync.Mutex
	disks []*disk
}

func openShared(dir string, rotate int64) (*shared, error) {
	if err := makeFolder(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	held.Lock()
	defer held.Unlock()
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	for _, d := range held.disks {
		if !os.SameFile(d.folder, info) {
			continue
		}
		root.Close()
		if err := d.commits.failure(); err != nil {
			return nil, err
		}
		d.handles++
		return &shared{disk: d}, nil
	}
	d, err := openDisk(root, rotate)
	if err != nil {
		return nil, err
	}
	d.handles = 1
	held.disks = append(held.disks, d)
	return &shared{disk: d}, nil
}

// makeFolder is os.MkdirAll, but durable.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	parent := filepath.Dir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeFolder(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer root.Close()
	return syncFolder(root, ".")
}

// shared is one Store of those that write to a folder.
type shared struct {
	disk   *disk
	closed atomic.Bool
}

func (s *shared) Put(ctx context.Context, r *Record) (func() error, error) {
	wait, err := func() (func() error, error) {
		if s.closed.Load() {
			return nil, os.ErrClosed
		}
		return s.disk.put(ctx, r)
	}()
	if err != nil {
		return nil, &Error{"putting a record", err}
	}
	return func() error {
		if err := wait(); err != nil {
			return &Error{"waiting for a record to be durable", err}
		}
		return nil
	}, nil
}

func (s *shared) Get(ctx context.Context, number uint64) (*Record, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	return s.disk.Get(ctx, number)
}

func (s *shared) Find(ctx context.Context, q Query) iter.Seq2[*Record, error] {
	if s.closed.Load() {
		return only(errClosed)
	}
	return s.disk.Find(ctx, q)
}

func (s *shared) Check(ctx context.Context, verify VerifyToken) (*Report, error) {
	if s.closed.Load() {
		return new(Report), errClosed
	}
	return s.disk.Check(ctx, verify)
}

func (s *shared) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	held.Lock()
	defer held.Unlock()
	if s.disk.handles--; s.disk.handles > 0 {
		return nil
	}
	held.disks = slices.DeleteFunc(held.disks, func(d *disk) bool { return d == s.disk })
	if err := s.disk.close(); err != nil {
		return &Error{"closing", err}
	}
	return nil
}

// OpenRead returns a Store below dir that only reads, also while another process writes: each Get and Find sees the
// records that are whole by then, durable or not yet. Put returns an error.
func OpenRead(dir string) (Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &Error{"opening " + dir, err}
	}
	r := &reader{archive: archive{root: root}}
	if err := r.load(scanLive); err != nil {
		root.Close()
		return nil, &Error{"opening " + dir, err}
	}
	return r, nil
}

type reader struct {
	archive
	closed atomic.Bool
}

func (r *reader) Put(context.Context, *Record) (func() error, error) {
	return nil, &Error{"putting a record", fmt.Errorf("the store is open for reading only: %w", errors.ErrUnsupported)}
}

func (r *reader) Get(ctx context.Context, number uint64) (*Record, error) {
	if err := r.refresh(); err != nil {
		return nil, err
	}
	return r.archive.Get(ctx, number)
}

func (r *reader) Find(ctx context.Context, q Query) iter.Seq2[*Record, error] {
	if err := r.refresh(); err != nil {
		return only(err)
	}
	return r.archive.Find(ctx, q)
}

func (r *reader) Check(ctx context.Context, verify VerifyToken) (*Report, error) {
	if err := r.refresh(); err != nil {
		return new(Report), err
	}
	return r.archive.Check(ctx, verify)
}

func (r *reader) refresh() error {
	if r.closed.Load() {
		return errClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(scanLive); err != nil {
		return fmt.Errorf("evidence: reading on: %w", err)
	}
	return nil
}

func (r *reader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	return r.root.Close()
}

var errClosed = fmt.Errorf("evidence: %w", os.ErrClosed)

// only yields an error and nothing else.
func only(err error) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) { yield(nil, err) }
}
