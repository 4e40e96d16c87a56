// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Timestamper gets time-stamps from an authority, or from several in turn. One call is made at a time.
type Timestamper interface {
	// Stamp returns a token (RFC 3161, DER) over data of which imprint is the SHA-512 digest. It has judged the token.
	Stamp(ctx context.Context, imprint []byte) (token []byte, err error)
}

// How time-stamping goes (signature-and-evidence 9.4).
const (
	batchLimit = 10_000 // signatures under one time-stamp
	retryDelay = time.Minute

	minInterval = time.Minute
	maxInterval = 24 * time.Hour

	// DefaultAcceptable is how long time-stamping may fail before Put refuses, where nothing is said.
	DefaultAcceptable = 4 * time.Hour
	// NoLimit lets time-stamping fail for ever.
	NoLimit = time.Duration(-1)

	remindAfter  = time.Hour       // that time-stamping still fails
	stampTimeout = 5 * time.Minute // one that hangs has failed
)

// stamper gets time-stamps for a disk, while others write.
type stamper struct {
	stop func()          // ends the goroutine and waits for it; nil: there is none
	over chan struct{}   // closed when it has ended
	asks chan chan error // who wants a time-stamp now, and waits for the outcome

	mu         sync.Mutex
	acceptable time.Duration
	failing    time.Time // since when; zero: the last attempt succeeded
	err        error     // of the last attempt
	next       time.Time // attempt
	told       time.Time // when Report was last told of a failure; zero: nothing fails
	toldOfPut  bool      // and that Put refuses
}

// start goes on with other options. Nobody uses the earlier Timestamper any more when it returns.
func (s *stamper) start(d *disk, o Options) {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acceptable = o.Acceptable
	if o.Timestamper == nil {
		s.failing, s.err, s.told = time.Time{}, nil, time.Time{}
		return
	}
	if soonest := time.Now().Add(o.Interval); s.next.After(soonest) {
		s.next = soonest
	}
	ctx, cancel := context.WithCancel(context.Background())
	over, asks := make(chan struct{}), make(chan chan error)
	s.stop, s.over, s.asks = func() { cancel(); <-over }, over, asks
	go func() {
		defer close(over)
		s.run(ctx, d, o, asks)
	}()
}

func (s *stamper) end() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

func (s *stamper) run(ctx context.Context, d *disk, o Options, asks <-chan chan error) {
	var asker chan error // nil: nobody waits
	for {
		s.mu.Lock()
		wait, retry := time.Until(s.next), !s.failing.IsZero()
		s.mu.Unlock()
		timer := time.NewTimer(wait)
		next := asks
		if asker != nil {
			next = nil // one after the other
		}
		select {
		case <-timer.C:
		case asker = <-next:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
		limit := d.batchLimit
		if retry {
			limit = 1
		}
		full, err := d.stampRound(ctx, o, limit)
		if ctx.Err() != nil {
			return
		}
		more := retry || full
		s.note(o, err, more)
		s.tell(o, d)
		if asker != nil && (err != nil || !more) {
			asker <- err
			asker = nil
		}
	}
}

// note plans the next attempt: after a failure soon, with a single record; after the success of that, or when there
// was more than one round takes, at once.
func (s *stamper) note(o Options, err error, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.err = err
	switch {
	case err != nil:
		if s.failing.IsZero() {
			s.failing = now
		}
		s.next = now.Add(min(retryDelay, o.Interval))
	case more:
		s.failing, s.next = time.Time{}, now
	default:
		s.failing, s.next = time.Time{}, now.Add(o.Interval)
	}
}

// tell reports what the last attempt has changed.
func (s *stamper) tell(o Options, d *disk) {
	if o.Report == nil || !s.news() {
		return
	}
	st, _ := d.archive.status() // what cannot be counted is told by Status
	s.status(&st)
	o.Report(st)
}

// news reports whether there is something to tell.
func (s *stamper) news() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.IsZero() {
		over := !s.told.IsZero()
		s.told, s.toldOfPut = time.Time{}, false
		return over
	}
	now := time.Now()
	refuses := s.acceptable >= 0 && now.Sub(s.failing) > s.acceptable
	if !s.told.IsZero() && refuses == s.toldOfPut && now.Sub(s.told) < remindAfter {
		return false
	}
	s.told, s.toldOfPut = now, refuses
	return true
}

// Stamp has the store that this process writes to dir by stamp what has no time-stamp now, and not only when it is time
// for that. It returns when all of that is durable, or when an attempt has failed.
func Stamp(ctx context.Context, dir string) error {
	if err := stampNow(ctx, dir); err != nil {
		return &Error{"time-stamping " + dir, err}
	}
	return nil
}

func stampNow(ctx context.Context, dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	held.Lock()
	var s *stamper
	for _, d := range held.disks {
		if os.SameFile(d.folder, info) && d.stamper.stop != nil {
			s = &d.stamper
		}
	}
	if s == nil {
		held.Unlock()
		return errors.New("no store with a time-stamper is open there")
	}
	over, asks := s.over, s.asks
	held.Unlock()

	done := make(chan error, 1)
	select {
	case asks <- done:
	case <-over:
		return errStamperGone
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-over:
		return errStamperGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errStamperGone = errors.New("the store was closed, or opened anew, meanwhile")

// refusal is the error of Put when time-stamping has failed for too long.
func (s *stamper) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing.IsZero() || s.acceptable < 0 || time.Since(s.failing) <= s.acceptable {
		return nil
	}
	return &timestampingError{s.failing, s.acceptable, s.err}
}

func (s *stamper) status(to *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Failing, to.Reason = s.failing, s.err
	if !s.failing.IsZero() && s.acceptable >= 0 {
		to.Refusing = s.failing.Add(s.acceptable)
	}
}

// timestampingError says that time-stamping has failed for too long. Its reason is not among its causes.
type timestampingError struct {
	since time.Time
	limit time.Duration
	err   error
}

// Error implements error.
func (e *timestampingError) Error() string {
	return fmt.Sprintf("time-stamping has been failing since %s, for longer than %s: %v", e.since.UTC().Format(time.RFC3339), e.limit, e.err)
}

// Cause returns "timestamping_failed" (message-and-transport 10.3).
func (e *timestampingError) Cause() string { return "timestamping_failed" }

// stampRound gets a time-stamp for the first records that have none, and for the linking of all. full: it took as many
// as it may.
func (d *disk) stampRound(ctx context.Context, o Options, limit int) (full bool, err error) {
	head, digest, err := d.durable(ctx)
	if err != nil {
		return false, err
	}
	batch, err := d.unstampedLeaves(d.stampedUpTo(), head, limit)
	if err != nil {
		return false, err
	}
	full = len(batch) == limit
	if len(batch) == 1 {
		value, err := d.signatureValueOf(batch[0])
		if err == nil {
			if err := d.stamp(ctx, o, &stamp{}, value, nil, batch); err != nil || limit == 1 {
				return full, err
			}
			batch = nil
		} // else it is covered as one of several
	}
	if len(batch) == 0 && d.linkingCovered() {
		return full, nil
	}
	of := &stamp{Head: head, Digest: digest}
	if len(batch) == 0 {
		return full, d.stamp(ctx, o, of, statement(head, digest), nil, nil)
	}
	result, _, err := buildTree(batch, head, digest)
	if err != nil {
		return false, err
	}
	return full, d.stamp(ctx, o, of, result, result, batch)
}

// stamp gets a token over data and puts the record of it.
func (d *disk) stamp(ctx context.Context, o Options, of *stamp, data, result []byte, batch []leaf) error {
	limited, cancel := context.WithTimeout(ctx, stampTimeout)
	defer cancel()
	token, err := o.Timestamper.Stamp(limited, sumMethod.Sum(data))
	if err != nil {
		return err
	}
	if len(token) == 0 || len(token) > maxToken {
		return fmt.Errorf("a time-stamp of %d octets", len(token))
	}
	w, err := newStamp(&header{Time: o.Clock().UTC(), Pending: d.commits.pendingFrom(), Stamp: of}, token, result, batch)
	if err != nil {
		return err
	}
	return d.putOwn(ctx, w)
}

// putOwn puts a record that the store makes for itself, and waits until it is durable.
func (d *disk) putOwn(ctx context.Context, w *draft) error {
	w.frame = append(w.frame, make([]byte, checkSize)...) // that of no contents
	_, wait, err := d.append(ctx, w, nil)
	if err != nil {
		return err
	}
	return wait()
}

// durable makes all records so far durable and returns the last one.
func (d *disk) durable(ctx context.Context) (number uint64, digest link, err error) {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, link{}, ctx.Err()
	}
	out, last := d.out, *d.last.known()
	to := place{d.last.number, last.End}
	<-d.turn
	return last.Next - 1, last.Head, d.commits.sync(out, to)
}

// stampedUpTo returns the number up to which all that is signed has a time-stamp.
func (a *archive) stampedUpTo() uint64 {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, s := range slices.Backward(a.segments) {
		if to := s.known().Stamped.To; to > 0 {
			return to
		}
	}
	return 0
}

// linkingCovered reports whether the last message is under a time-stamp of the linking.
func (a *archive) linkingCovered() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var covered, last uint64
	for _, s := range slices.Backward(a.segments) {
		covered, last = cmp.Or(covered, s.known().Covered), cmp.Or(last, s.known().LastMessage)
		if last > 0 && covered > 0 {
			break
		}
	}
	return last <= covered
}

// eachSigned calls f with the entries of signed records with numbers after one and up to another, until it returns false.
func (a *archive) eachSigned(after, upTo uint64, f func(entry) bool) error {
	a.mu.RLock()
	var segments []*segment
	for _, s := range a.segments {
		if k := s.known(); k.LastSigned > after && s.first <= upTo {
			segments = append(segments, s)
		}
	}
	a.mu.RUnlock()
	for _, s := range segments {
		v, err := a.look(s)
		if a.removed(s, err) {
			continue
		}
		if err != nil {
			return err
		}
		i, err := search(v, func(e entry) bool { return e.number > after })
		for ; err == nil && i < v.known().Entries; i++ {
			var e entry
			if e, err = v.entry(i); err != nil {
				break
			}
			if e.number > upTo || e.flags&signed != 0 && !f(e) {
				v.close()
				return nil
			}
		}
		v.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// unstampedLeaves returns the first signature documents after a number and up to another. It leaves out what cannot be
// read any more.
func (a *archive) unstampedLeaves(after, upTo uint64, limit int) ([]leaf, error) {
	var batch []leaf
	var failed error
	err := a.eachSigned(after, upTo, func(e entry) bool {
		_, w, err := a.fetch(e.number)
		switch {
		case errors.Is(err, ErrNotFound) || errors.Is(err, errNotWhole):
			return true
		case err != nil:
			failed = err
			return false
		}
		batch = append(batch, leaf{e.number, sumMethod.Sum(w.document(0))})
		return len(batch) < limit
	})
	return batch, errors.Join(err, failed)
}

// signatureValueOf returns the octets that a time-stamp of a single record is over.
func (a *archive) signatureValueOf(l leaf) ([]byte, error) {
	_, w, err := a.fetch(l.number)
	if err != nil {
		return nil, err
	}
	return singleValue(w.document(0))
}

// status counts what has no time-stamp.
func (a *archive) status() (st Status, err error) {
	upTo := a.stampedUpTo()
	a.mu.RLock()
	var partly *segment
	for _, s := range a.segments {
		k := s.known()
		st.Signed += k.Signed
		if k.LastStamp.After(st.Stamped) {
			st.Stamped = k.LastStamp
		}
		switch {
		case k.LastSigned <= upTo:
		case s.first > upTo:
			st.Unstamped += k.Signed
		default:
			partly = s
		}
	}
	a.mu.RUnlock()
	if partly != nil {
		err = a.eachSigned(upTo, partly.known().Next-1, func(entry) bool { st.Unstamped++; return true })
	}
	if st.Unstamped > 0 && err == nil {
		err = a.eachSigned(upTo, ^uint64(0), func(e entry) bool { st.Oldest = e.time(); return false })
	}
	if err != nil {
		err = fmt.Errorf("evidence: counting what has no time-stamp: %w", err)
	}
	return st, err
}
