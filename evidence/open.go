// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
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
	"time"
)

// Options say how a folder is written. The zero value keeps everything for ever and stamps nothing.
type Options struct {
	// SegmentSize is how large a file of records becomes before another begins, large contents not counted.
	// Default: 256 MiB.
	SegmentSize int64

	// Keep is how long records are kept. They go by whole segments, when the youngest in them is older than this and,
	// with a Timestamper, all that is signed in them has a time-stamp; no record stays for more than an eighth longer.
	// Default: for ever.
	Keep time.Duration

	// Timestamper stamps signed records in the background. It is in use until the Store is closed that it came with,
	// or another is opened in the same folder. Default: none.
	Timestamper Timestamper

	// Interval is how often it does so, between 60 s and 24 h. Default: 60 s.
	Interval time.Duration

	// Acceptable is how long time-stamping may have been failing before Put refuses, with the cause
	// logging_failed.timestamping_failed. NoLimit: Put never does. Default: DefaultAcceptable.
	Acceptable time.Duration

	// Report is told when time-stamping begins to fail, when Put begins to refuse for it, once an hour as long as it lasts,
	// and when it is over: then the Status has no Failing. One goroutine calls it after an attempt; it must not close the
	// Store. Default: nobody is told.
	Report func(Status)

	// Clock tells the time by which records are too old. Default: time.Now.
	Clock func() time.Time
}

func (o Options) check() (Options, error) {
	if o.SegmentSize < 0 || o.Keep < 0 || o.Interval < 0 {
		return o, errors.New("a size or a duration is negative")
	}
	if o.Acceptable < 0 && o.Acceptable != NoLimit {
		return o, errors.New("the acceptable duration is negative")
	}
	o.SegmentSize = cmp.Or(o.SegmentSize, segmentSize)
	o.Interval = min(max(o.Interval, minInterval), maxInterval)
	o.Acceptable = cmp.Or(o.Acceptable, DefaultAcceptable)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o, nil
}

const segmentSize = 256 << 20

// OpenDisk is Open with no options.
func OpenDisk(dir string) (Store, error) { return Open(dir, Options{}) }

// Open returns a Store below dir. One process at a time may hold a folder for writing; within it, stores of one folder
// are one: what one keeps the others find, and the last to be closed gives the folder back. So two configurations may
// overlap over a reload. The options that count are those of the store that was opened last, of those that are open.
//
// dir is created with mode 0700 where it is missing; one that everybody may write to is refused. Opening reads the
// records of the last segment; one at its end that a crash has left torn is cut off.
//
// Put writes small contents beside their record and large ones to a file of their own, and lets others write meanwhile.
// Where the disk has no room, the error wraps that of the system, nothing of the record is left, and later records are
// tried anew. Where making records durable fails, nobody knows what the disk holds: the store refuses every later Put,
// and so does Open, until all stores of the folder have been closed.
//
// Every signed record gets a time-stamp in turn, each once, and each time-stamp of several records covers the links of all
// records so far (see Check). Where time-stamping fails, it is tried again with one record every 60 s. How long it has
// failed is counted by the process, and begins anew when the folder is opened anew.
func Open(dir string, o Options) (Store, error) {
	s, err := openShared(dir, o)
	if err != nil {
		return nil, &Error{"opening " + dir, err}
	}
	return s, nil
}

// held are the folders that this process writes to.
var held struct {
	sync.Mutex
	disks []*disk
}

func openShared(dir string, o Options) (*shared, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
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
		return d.share(o), nil
	}
	d, err := openDisk(root)
	if err != nil {
		return nil, err
	}
	held.disks = append(held.disks, d)
	return d.share(o), nil
}

// share returns one more Store of a disk. Its options count from now on.
func (d *disk) share(o Options) *shared {
	s := &shared{disk: d, options: o}
	d.shares = append(d.shares, s)
	d.obey(o)
	return s
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
	disk    *disk
	options Options
	closed  atomic.Bool
}

func (s *shared) Put(ctx context.Context, r *Record) (func() error, error) {
	wait, err := func() (func() error, error) {
		if s.closed.Load() {
			return nil, os.ErrClosed
		}
		if err := s.disk.stamper.refusal(); err != nil {
			return nil, err
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

func (s *shared) Status() (Status, error) {
	if s.closed.Load() {
		return Status{}, errClosed
	}
	st, err := s.disk.status()
	s.disk.stamper.status(&st)
	return st, err
}

func (s *shared) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	held.Lock()
	defer held.Unlock()
	d := s.disk
	newest := d.shares[len(d.shares)-1]
	d.shares = slices.DeleteFunc(d.shares, func(other *shared) bool { return other == s })
	if n := len(d.shares); n > 0 {
		if s == newest {
			d.obey(d.shares[n-1].options)
		}
		return nil
	}
	held.disks = slices.DeleteFunc(held.disks, func(other *disk) bool { return other == d })
	if err := d.close(); err != nil {
		return &Error{"closing", err}
	}
	return nil
}

// OpenRead returns a Store below dir that only reads, also while another process writes: each call sees the records that
// are whole by then, durable or not yet. It makes no indexes: where one is missing, a search reads the segment itself.
// Put returns an error, and Status cannot tell of failures.
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

func (r *reader) Status() (Status, error) {
	if err := r.refresh(); err != nil {
		return Status{}, err
	}
	return r.archive.status()
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
