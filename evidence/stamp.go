// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/crypto/xades"
)

// A time-stamp is a record that the store makes for itself, behind the records that it is for. Its documents are the
// token, the hash chain result and the sums: for each signature document of the batch its record's number, in 8 octets,
// and its SHA-512, in order of the numbers. What is stamped is
//
//   - of several records: the hash chain result over the sums and, as the last leaf, that of the statement of the head;
//   - of a single one: the signature value. There is no hash chain result;
//   - of none: the statement of the head. There are no sums either.
//
// The hash chains of the signature documents are not kept: they are made from the sums when they are asked for.
const (
	sumMethod = crypto.SHA512
	sumSize   = 64
	leafSize  = 8 + sumSize
	maxToken  = 256 << 10
)

// stamp is what the header of a time-stamp has.
type stamp struct {
	Of     span   `json:"of"`     // the records of its signatures, and others that are not signed
	Head   uint64 `json:"head"`   // the linking is covered up to this record; 0: it is not
	Digest link   `json:"digest"` // of that record
}

// span is from one number to another, both included. Zero: there are none.
type span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// stampRow leads to a time-stamp of records.
type stampRow struct {
	span
	entry uint32
}

// leaf is a signature document of a batch.
type leaf struct {
	number uint64
	sum    []byte
}

// statement is what a time-stamp over the linking says. Nothing that is signed or linked looks like this.
func statement(head uint64, digest link) []byte {
	return fmt.Appendf(nil, "Fairway evidence: record %d has the SHA-256 digest %x and names the record before it.\n", head, digest[:])
}

// newStamp returns a draft of a time-stamp.
func newStamp(j *header, token, result []byte, batch []leaf) (*draft, error) {
	sums := make([]byte, 0, len(batch)*leafSize)
	for _, l := range batch {
		sums = append(binary.BigEndian.AppendUint64(sums, l.number), l.sum...)
	}
	if n := len(batch); n > 0 {
		j.Stamp.Of = span{batch[0].number, batch[n-1].number}
	}
	return j.encode(0, token, result, sums)
}

// batch returns the signature documents of a time-stamp.
func (w *whole) batch() ([]leaf, error) {
	sums := w.document(2)
	if len(sums)%leafSize != 0 {
		return nil, fmt.Errorf("%w: sums of %d octets", errNotWhole, len(sums))
	}
	batch := make([]leaf, 0, len(sums)/leafSize)
	for b := range slices.Chunk(sums, leafSize) {
		batch = append(batch, leaf{binary.BigEndian.Uint64(b), b[8:]})
	}
	return batch, nil
}

// buildTree returns what is stamped of several signature documents, and what makes their hash chains.
func buildTree(batch []leaf, head uint64, digest link) (result []byte, chain func(i int) []byte, err error) {
	sums := make([][]byte, 0, len(batch)+1)
	for _, l := range batch {
		sums = append(sums, l.sum)
	}
	return hashchain.BuildTimestamp(append(sums, sumMethod.Sum(statement(head, digest))), sumMethod)
}

// tree is a time-stamp that was looked up.
type tree struct {
	stamp *whole
	batch []leaf
	chain func(i int) []byte // nil: a single one
}

func newTree(w *whole) (*tree, error) {
	batch, err := w.batch()
	if err != nil {
		return nil, err
	}
	t := &tree{stamp: w, batch: batch}
	result := w.document(1)
	if result == nil {
		return t, nil
	}
	var made []byte
	if made, t.chain, err = buildTree(batch, w.Stamp.Head, w.Stamp.Digest); err != nil {
		return nil, err
	}
	if !bytes.Equal(made, result) {
		return nil, errors.New("the hash chain result is not that of the signatures")
	}
	return t, nil
}

// latestTree remembers one.
type latestTree struct {
	sync.Mutex
	*tree
}

// timestamp returns the time-stamp of a record, or nil.
func (a *archive) timestamp(s *segment, w *whole) (*Timestamp, error) {
	if w.Documents[0] == 0 {
		return nil, nil
	}
	t, err := a.treeOf(s, w.number)
	if err != nil {
		return nil, fmt.Errorf("its time-stamp: %w", err)
	}
	if t == nil {
		return nil, nil
	}
	i, ok := slices.BinarySearchFunc(t.batch, w.number, func(l leaf, n uint64) int {
		if l.number < n {
			return -1
		}
		return int(min(l.number-n, 1))
	})
	if !ok {
		return nil, nil
	}
	if !bytes.Equal(t.batch[i].sum, sumMethod.Sum(w.document(0))) {
		return nil, errors.New("its time-stamp is that of another signature")
	}
	stamp := &Timestamp{Token: t.stamp.document(0)}
	if t.chain != nil {
		stamp.HashChainResult, stamp.HashChain = t.stamp.document(1), t.chain(i)
	}
	return stamp, nil
}

// treeOf returns the time-stamp that covers a number of a segment, or nil.
func (a *archive) treeOf(s *segment, number uint64) (*tree, error) {
	a.mu.RLock()
	i, _ := slices.BinarySearchFunc(a.segments, s.number, func(s *segment, n uint64) int { return int(s.number) - int(n) })
	var holder *segment
	for _, s := range a.segments[i:] { // most likely this one or the next
		if of := s.known().Stamped; of.From <= number && number <= of.To {
			holder = s
			break
		}
	}
	a.mu.RUnlock()
	if holder == nil {
		return nil, nil
	}
	at, err := a.stampOf(holder, number)
	if at == 0 || err != nil {
		return nil, err
	}
	a.tree.Lock()
	defer a.tree.Unlock()
	if a.tree.tree != nil && a.tree.stamp.number == at {
		return a.tree.tree, nil
	}
	_, w, err := a.fetch(at)
	if err != nil {
		return nil, err
	}
	if w.Stamp == nil {
		return nil, fmt.Errorf("record %d is not one", at)
	}
	t, err := newTree(w)
	if err != nil {
		return nil, err
	}
	a.tree.tree = t
	return t, nil
}

// stampOf returns the number of the time-stamp in a segment that covers a record, or 0.
func (a *archive) stampOf(s *segment, number uint64) (uint64, error) {
	v, err := a.look(s)
	if err != nil {
		return 0, err
	}
	defer v.close()
	var failed error
	i := sort.Search(v.known().Stamps, func(i int) bool {
		r, err := v.stamp(i)
		failed = errors.Join(failed, err)
		return failed != nil || r.To >= number
	})
	if failed != nil || i == v.known().Stamps {
		return 0, failed
	}
	r, err := v.stamp(i)
	if err != nil || r.From > number {
		return 0, err
	}
	e, err := v.entry(int(r.entry))
	return e.number, err
}

// singleValue returns what a single time-stamp of a signature document is over. An error means that there can be none in
// this document: it has one already, say.
func singleValue(document []byte) ([]byte, error) {
	if _, err := xades.AddTimestamp(document, []byte("token")); err != nil {
		return nil, err
	}
	return xades.Value(document)
}
