// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sort"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// entry is what is known of a record without reading it. Of identifiers it has only hashes: who finds something by
// them reads the record to be sure.
type entry struct {
	number   uint64
	at       int64
	seconds  int64
	nanos    uint32
	flags    uint32
	client   [2]uint32 // its hash, and that of its member
	provider [2]uint32
}

const (
	signed  uint32 = 1 << iota // it has a signature, and wants a time-stamp
	outside                    // it has a file of contents
	ours                       // the store has made it for itself
)

func (e entry) time() time.Time { return time.Unix(e.seconds, int64(e.nanos)).UTC() }

// idHashes are the hashes of the texts by which one may ask for a record.
type idHashes [idKinds]uint32

const (
	messageID = iota
	requestID
	idKinds
)

// summary is what is known of all the records of a segment together.
type summary struct {
	Size    int64         `json:"size"`    // of the file
	End     int64         `json:"end"`     // of the last whole record
	Entries int           `json:"entries"` // how many there are
	Next    uint64        `json:"next"`    // the least number that a following record may have
	Head    link          `json:"head"`    // the digest that a following record names
	Oldest  time.Time     `json:"oldest"`
	Newest  time.Time     `json:"newest"`
	Damaged []DamageError `json:"damaged,omitempty"`

	Signed      int       `json:"signed"`       // how many want a time-stamp
	LastSigned  uint64    `json:"last_signed"`  // the last of them
	LastMessage uint64    `json:"last_message"` // the last record that the store has not made for itself
	Stamps      int       `json:"stamps"`       // how many time-stamps of records there are
	Stamped     span      `json:"stamped"`      // what they cover
	Covered     uint64    `json:"covered"`      // up to this record its time-stamps cover the links
	LastStamp   time.Time `json:"last_stamp"`
	Removal     *removal  `json:"removal,omitempty"` // the last one
}

// live has the entries of a segment in memory.
type live struct {
	summary
	entries []entry    // ascending; what is in it never changes
	ids     []idHashes // of the entries
	stamps  []stampRow // ascending
}

func (s *segment) newLive() *live {
	return &live{summary: summary{Size: preambleSize, End: preambleSize, Next: s.first, Head: s.previous}}
}

// add notes a record that is whole.
func (l *live) add(m mark, h head, j *header, digest link) {
	e := entry{
		number: h.number, at: h.at, seconds: j.Time.Unix(), nanos: uint32(j.Time.Nanosecond()),
		client: m.hashClient(j.client()), provider: m.hashClient(j.service().Client),
	}
	if h.outside != 0 {
		e.flags |= outside
	}
	switch {
	case j.Stamp != nil:
		e.flags |= ours
		l.addStamp(j)
	case j.Removal != nil:
		e.flags |= ours
		l.Removal = j.Removal
	default:
		l.LastMessage = h.number
		if j.Documents[0] > 0 {
			e.flags |= signed
			l.Signed++
			l.LastSigned = h.number
		}
	}
	l.entries = append(l.entries, e)
	l.ids = append(l.ids, idHashes{m.hash(messageID, j.MessageID), m.hash(requestID, j.RequestID)})
	if l.Entries == 0 || j.Time.Before(l.Oldest) {
		l.Oldest = j.Time
	}
	if l.Entries == 0 || j.Time.After(l.Newest) {
		l.Newest = j.Time
	}
	l.Entries++
	l.End, l.Next, l.Head = h.end(), h.number+1, digest
	l.Size = max(l.Size, l.End)
}

func (l *live) addStamp(j *header) {
	l.LastStamp = j.Time
	l.Covered = max(l.Covered, j.Stamp.Head)
	if of := j.Stamp.Of; of.To > 0 {
		l.stamps = append(l.stamps, stampRow{of, uint32(len(l.entries))})
		l.Stamps++
		if l.Stamped.From == 0 {
			l.Stamped.From = of.From
		}
		l.Stamped.To = of.To
	}
}

// view reads what is known of the records of a segment. Not for concurrent use.
type view interface {
	known() *summary
	entry(i int) (entry, error)
	// withID returns which entries have the hash of an id, ascending.
	withID(kind int, hash uint32) ([]int, error)
	stamp(i int) (stampRow, error)
	close() error
}

// snapshot returns a view of what there is now, with the lock of the archive.
func (l *live) snapshot() view {
	now := *l
	return &now
}

func (l *live) known() *summary               { return &l.summary }
func (l *live) entry(i int) (entry, error)    { return l.entries[i], nil }
func (l *live) stamp(i int) (stampRow, error) { return l.stamps[i], nil }
func (l *live) close() error                  { return nil }

func (l *live) withID(kind int, hash uint32) (found []int, err error) {
	for i := range l.ids {
		if l.ids[i][kind] == hash {
			found = append(found, i)
		}
	}
	return found, nil
}

// search returns the first entry for which after is true. It is false for all before.
func search(v view, after func(entry) bool) (int, error) {
	var failed error
	i := sort.Search(v.known().Entries, func(i int) bool {
		e, err := v.entry(i)
		failed = errors.Join(failed, err)
		return failed != nil || after(e)
	})
	return i, failed
}

// hash returns the hash of an identifier. Nobody who does not know the mark can make identifiers of one hash.
func (m mark) hash(kind byte, id ...string) uint32 {
	b := make([]byte, 0, 256)
	b = append(append(b, m[:]...), kind)
	for _, s := range id {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint32(sum[:])
}

const member = idKinds // one more kind of hash

func (m mark) hashClient(c ident.Client) [2]uint32 {
	return [2]uint32{
		m.hash(member, c.Instance, c.Class, c.Member, c.Subsystem),
		m.hash(member, c.Instance, c.Class, c.Member, ""),
	}
}

// may reports whether the record of an entry may be one that the query selects, as far as entries tell.
func (e entry) may(q Query, of uint32) bool {
	if t := e.time(); !q.From.IsZero() && t.Before(q.From) || !q.To.IsZero() && !t.Before(q.To) {
		return false
	}
	return q.Member.IsZero() || of == e.client[0] || of == e.client[1] || of == e.provider[0] || of == e.provider[1]
}

// selects reports whether a record is one that the query selects.
func (q Query) selects(r *Record) bool {
	switch {
	case q.MessageID != "" && r.MessageID != q.MessageID, q.RequestID != "" && r.RequestID != q.RequestID:
		return false
	case !q.From.IsZero() && r.Time.Before(q.From), !q.To.IsZero() && !r.Time.Before(q.To):
		return false
	}
	return q.Member.IsZero() || q.belongs(r.Client) || q.belongs(r.Service.Client)
}

func (q Query) belongs(c ident.Client) bool { return c == q.Member || c.MemberOf() == q.Member }

// outOf reports whether the query selects a time in which there are no records.
func (s *summary) outOf(q Query) bool {
	return !q.From.IsZero() && s.Newest.Before(q.From) || !q.To.IsZero() && !s.Oldest.Before(q.To)
}
