// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// caretaker does what a disk needs now and then, while others write and read.
type caretaker struct {
	wake chan struct{}
	over chan struct{} // closed when it has ended
}

func (c *caretaker) start(d *disk) {
	c.wake, c.over = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(c.over)
		look := time.NewTicker(retentionPeriod)
		defer look.Stop()
		for {
			select {
			case _, ok := <-c.wake:
				if !ok {
					return
				}
				d.settleAll()
			case <-look.C:
				d.retain(*d.options.Load()) // where it fails, it is tried again the next time
			}
		}
	}()
}

// call says that there is something to do.
func (c *caretaker) call() {
	select {
	case c.wake <- struct{}{}:
	default: // called already
	}
}

// stop lets it finish what it was called for. Nobody may call any more.
func (c *caretaker) stop() {
	close(c.wake)
	<-c.over
}

// settleAll writes the indexes of the segments that others follow and that have none yet. Where that fails, their
// entries stay in memory until the next time.
func (d *disk) settleAll() {
	d.mu.RLock()
	var unsettled []*segment
	for _, s := range d.segments[:len(d.segments)-1] {
		if s.live != nil {
			unsettled = append(unsettled, s)
		}
	}
	d.mu.RUnlock()
	for _, s := range unsettled {
		d.settle(s)
	}
}

// settle writes the index of a segment that others follow, and lets go of its entries.
func (d *disk) settle(s *segment) error {
	d.mu.RLock()
	l := s.live
	d.mu.RUnlock()
	if l == nil {
		return nil // somebody has
	}
	if err := d.makeIndex(s, l); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.sealed, s.live = l.summary, nil
	return nil
}

var isBeside = regexp.MustCompile(`^([0-9]{8})\.(index|index\.new|contents)$`)

// tidy removes segments whose removal was begun, what segments that are gone have left beside them, and indexes that
// were not finished.
func (d *disk) tidy() error {
	if err := d.finishRemoval(); err != nil {
		return err
	}
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		m := isBeside.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		number, _ := strconv.ParseUint(m[1], 10, 64)
		has := slices.ContainsFunc(d.segments, func(s *segment) bool { return s.number == number })
		if has && m[2] != "index.new" {
			continue
		}
		if err := d.root.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
