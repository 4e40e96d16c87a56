// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/ident"
)

const firstSegment = "00000001.evidence"

// A segment that ends at any octet opens, holds exactly the records that were whole, and takes new ones.
func TestCrashAtAnyOctet(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	ends := []int64{preambleSize}
	for n := range 2 {
		put(t, s, small(fmt.Sprint(n)))
		ends = append(ends, s.disk.last.live.End)
	}
	s.Close()
	whole, err := os.ReadFile(filepath.Join(dir, firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(whole)) != ends[2] {
		t.Fatalf("the segment has %d octets, its records %d", len(whole), ends[2])
	}
	fillings := map[string][]byte{
		"nothing": nil,
		"zeros":   make([]byte, 100), // as some file systems leave them
		"rubbish": bytes.Repeat([]byte("rubbish"), 20),
	}
	for name, filling := range fillings {
		copied := t.TempDir()
		path := filepath.Join(copied, firstSegment)
		for size := range len(whole) + 1 {
			if name != "nothing" && (size < preambleSize || size%7 > 0 && !slices.Contains(ends, int64(size))) {
				continue // a preamble is durable before anything follows it
			}
			if err := os.WriteFile(path, append(whole[:size:size], filling...), 0o600); err != nil {
				t.Fatal(err)
			}
			records := 0
			for records < 2 && ends[records+1] <= int64(size) {
				records++
			}
			reader, err := OpenRead(copied)
			if err != nil {
				t.Fatalf("%s after %d octets: reading: %v", name, size, err)
			}
			expect(t, reader, records)
			reader.Close()
			s := openAt(t, copied, segmentSize)
			expect(t, s, records)
			if info, err := os.Stat(path); err != nil || info.Size() != ends[records] {
				t.Errorf("what is torn is still there: %d octets, want %d (%v)", info.Size(), ends[records], err)
			}
			if size%5 == 0 {
				put(t, s, small(fmt.Sprint(records)))
				s.Close()
				s = openAt(t, copied, segmentSize)
				expect(t, s, records+1)
			}
			s.Close()
			if t.Failed() {
				t.Fatalf("%s after %d octets", name, size)
			}
		}
	}
}

// An octet that has changed damages its own record, and no other. The last record is an exception when a writer opens:
// damaged, it cannot be told from a torn one.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	ends := []int64{preambleSize}
	for n := range 3 {
		put(t, s, small(fmt.Sprint(n)))
		ends = append(ends, s.disk.last.live.End)
	}
	s.Close()
	whole, err := os.ReadFile(filepath.Join(dir, firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	path := filepath.Join(copied, firstSegment)
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x10
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openShared(copied, Options{})
		if at < preambleSize {
			if err == nil {
				t.Errorf("octet %d: a damaged preamble is taken", at)
				s.Close()
			}
			continue
		}
		if err != nil {
			t.Fatalf("octet %d: %v", at, err)
		}
		damaged := 0
		for int64(at) >= ends[damaged+1] {
			damaged++
		}
		want := slices.Delete([]string{"0", "1", "2"}, damaged, damaged+1)
		if at%10 == 0 {
			put(t, s, small("new"))
			want = append(want, "new")
		}
		var got []string
		var damage []DamageError
		for r, err := range s.Find(t.Context(), Query{}) {
			var d *DamageError
			switch {
			case errors.As(err, &d):
				damage = append(damage, *d)
			case err != nil:
				t.Errorf("octet %d: %v", at, err)
			default:
				got = append(got, r.MessageID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("octet %d: found %q, want %q", at, got, want)
		}
		if damaged < 2 && (len(damage) != 1 || damage[0] != DamageError{firstSegment, ends[damaged], ends[damaged+1]}) {
			t.Errorf("octet %d: told of %v", at, damage)
		}
		s.Close()
		if t.Failed() {
			break
		}
	}
}

// A message that contains a record, however perfect, does not become one when the octets before it are damaged.
func TestRecordInsideAMessage(t *testing.T) {
	forged := t.TempDir()
	s := openAt(t, forged, segmentSize)
	for range 10 {
		put(t, s, small("forged"))
	}
	s.Close()
	octets, err := os.ReadFile(filepath.Join(forged, firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s = openAt(t, dir, segmentSize)
	put(t, s, keeping("true", octets))
	put(t, s, keeping("torn", octets))
	s.Close()
	path := filepath.Join(dir, firstSegment)
	if err := os.Truncate(path, s.disk.last.live.End-1); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, segmentSize)
	defer s.Close()
	if got := ids(t, s, Query{}); !slices.Equal(got, []string{"true"}) {
		t.Errorf("found %q", got)
	}
}

// A record that stands there again, or out of order, is none.
func TestRecordAgain(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	put(t, s, small("0"))
	end := s.disk.last.live.End
	put(t, s, small("1"))
	s.Close()
	path := filepath.Join(dir, firstSegment)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, whole[preambleSize:end]...), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, segmentSize)
	expect(t, s, 2)
	s.Close()
	if err := os.WriteFile(path, slices.Concat(whole[:preambleSize], whole[end:], whole[preambleSize:end]), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, segmentSize)
	defer s.Close()
	if got := ids(t, s, Query{}); !slices.Equal(got, []string{"1"}) {
		t.Errorf("found %q", got)
	}
}

// A file that its writer cuts between the look at its size and the reading ends earlier, and that is all.
func TestCutWhileReading(t *testing.T) {
	s, preamble := newSegment(1, 1, link{})
	b := written(t, s, 1, link{}, &Record{})
	whole := slices.Concat(preamble, b)
	for _, mode := range []scanMode{scanSealed, scanLast, scanLive} {
		for size := preambleSize; size <= len(whole); size++ {
			s, err := readPreamble(1, bytes.NewReader(whole))
			if err != nil {
				t.Fatal(err)
			}
			l := s.newLive()
			if err := s.scan(l, bytes.NewReader(whole[:size]), int64(len(whole)+100), mode); err != nil {
				t.Errorf("mode %d, cut at %d: %v", mode, size, err)
			}
			if mode != scanSealed && l.Entries > 0 != (size == len(whole)) {
				t.Errorf("mode %d, cut at %d: %d records", mode, size, l.Entries)
			}
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 2500)
	reader, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for n := range 30 {
		put(t, s, small(fmt.Sprint(n)))
		if n == 20 {
			put(t, s, keeping("21", make([]byte, 1<<20))) // larger than a segment may be
		}
		if n%7 == 0 {
			if r, err := reader.Get(t.Context(), uint64(n+1)); n < 20 && (err != nil || r.MessageID != fmt.Sprint(n)) {
				t.Errorf("a reader gets %v, %v", r, err)
			}
		}
	}
	if n := len(segments(t, dir)); n < 5 {
		t.Errorf("%d segments", n)
	}
	for _, store := range []Store{s, reader} {
		if got := ids(t, store, Query{}); len(got) != 31 {
			t.Errorf("found %q", got)
		}
	}
	s.Close()
	for _, name := range segments(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() > 2500 && info.Size() < 1<<20 || info.Size() > 1<<20+2500 {
			t.Errorf("%s has %d octets", name, info.Size())
		}
	}
	s = openAt(t, dir, 2500)
	defer s.Close()
	if got := ids(t, s, Query{}); len(got) != 31 {
		t.Errorf("opened again: found %q", got)
	}
	put(t, s, small("new"))
	if r, err := s.Get(t.Context(), 32); err != nil || r.MessageID != "new" {
		t.Errorf("opened again: got %v, %v", r, err)
	}
}

// A crash while a segment is begun leaves a file without a whole preamble, or with nothing behind it.
func TestCrashAtRotation(t *testing.T) {
	for size := range preambleSize + 1 {
		dir := t.TempDir()
		s := openAt(t, dir, segmentSize)
		for n := range 3 {
			put(t, s, small(fmt.Sprint(n)))
		}
		s.Close()
		_, preamble := newSegment(2, 4, link{})
		if err := os.WriteFile(filepath.Join(dir, "00000002.evidence"), preamble[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		reader, err := OpenRead(dir)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, reader, 3)
		s = openAt(t, dir, segmentSize)
		expect(t, s, 3)
		put(t, s, small("3"))
		expect(t, s, 4)
		expect(t, reader, 4)
		reader.Close()
		s.Close()
		s = openAt(t, dir, segmentSize)
		expect(t, s, 4)
		s.Close()
	}
}

// A segment that somebody takes away under a store that writes is missed.
func TestSegmentTakenAway(t *testing.T) {
	dir := linked(t)
	s := openAt(t, dir, 1200)
	if err := os.Remove(filepath.Join(dir, "00000002.evidence")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), 3); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("Get = %v", err)
	}
	missed := 0
	for _, err := range s.Find(t.Context(), Query{}) {
		if err != nil {
			missed++
		}
	}
	if missed != 1 {
		t.Errorf("%d errors", missed)
	}
	var b *BreakError
	if _, err := s.Check(t.Context(), nil); !errors.As(err, &b) || b.Number != 3 {
		t.Errorf("Check = %v", err)
	}
}

func TestRefusesWhatIsNotItsOwn(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
	}{
		{"another file", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "00000002.evidence"), make([]byte, 1000), 0o600)
		}},
		{"a damaged preamble before others", func(dir string) error {
			_, preamble := newSegment(2, 100, link{})
			return errors.Join(os.WriteFile(filepath.Join(dir, "00000002.evidence"), preamble, 0o600),
				os.Truncate(filepath.Join(dir, firstSegment), 10))
		}},
		{"a copy of a segment", func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, firstSegment))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "00000002.evidence"), b, 0o600))
		}},
	} {
		dir := t.TempDir()
		s := openAt(t, dir, segmentSize)
		put(t, s, small("0"))
		s.Close()
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenDisk(dir); err == nil {
			t.Errorf("%s: opened for writing", c.name)
			s.Close()
		} else if !strings.HasPrefix(err.Error(), "evidence: opening ") {
			t.Errorf("%s: %v", c.name, err)
		}
		if s, err := OpenRead(dir); err == nil {
			t.Errorf("%s: opened for reading", c.name)
			s.Close()
		}
	}
}

// Numbers are not given again when the records that had them are gone.
func TestNumbersAfterSegmentsWereTakenAway(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 1)
	for n := range 5 {
		put(t, s, small(fmt.Sprint(n)))
	}
	s.Close()
	names := segments(t, dir)
	for _, name := range names[:4] {
		os.Remove(filepath.Join(dir, name))
	}
	_, preamble := newSegment(6, 6, link{})
	os.Remove(filepath.Join(dir, names[4]))
	if err := os.WriteFile(filepath.Join(dir, "00000006.evidence"), preamble, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, 1)
	defer s.Close()
	r := small("new")
	put(t, s, r)
	if r.Number != 6 {
		t.Errorf("number %d, want 6", r.Number)
	}
}

// FuzzSegment opens a segment of arbitrary octets behind a true preamble.
func FuzzSegment(f *testing.F) {
	s, preamble := newSegment(1, 1, link{})
	one, two := written(f, s, 1, link{}, small("1")), written(f, s, 2, link{1}, keeping("2", []byte("octets")))
	f.Add([]byte(nil))
	f.Add(one)
	f.Add(slices.Concat(one, two))
	f.Add(slices.Concat(two, one))
	f.Add(slices.Concat(one[:100], two, []byte("rest")))
	f.Add(slices.Concat(s.mark[:], bytes.Repeat([]byte{0xff}, 40)))
	f.Add(bytes.Repeat(s.mark[:], 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4<<10 {
			return // who knows the mark, as the fuzzer does, can make the search slow
		}
		file := bytes.NewReader(append(bytes.Clone(preamble), b...))
		for _, mode := range []scanMode{scanSealed, scanLast, scanLive} {
			s, err := readPreamble(1, file)
			if err != nil {
				t.Fatal(err)
			}
			// The marks of the seeds are those of another run of the fuzzer; whatever begins the input is the mark.
			copy(s.mark[:], b)
			l := s.newLive()
			if err := s.scan(l, file, file.Size(), mode); err != nil {
				t.Fatal(err)
			}
			if l.End > file.Size() {
				t.Fatalf("ends at %d of %d", l.End, file.Size())
			}
			for _, e := range l.entries {
				h, err := readHead(file, e.at, file.Size(), s.mark)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := h.read(file, s.mark); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzHeader reads a record whose JSON and lengths are arbitrary and whose digest is right.
func FuzzHeader(f *testing.F) {
	d, err := encode(keeping("2", []byte("octets")), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(d.frame[headSize:headSize+d.head.header], uint16(d.documents), uint64(d.contents))
	f.Add([]byte(`{"documents":[1,-1,0],"parts":[{"size":9223372036854775807,"kept":true},{"size":2,"kept":true}]}`), uint16(0), uint64(1))
	f.Add([]byte(`{"documents":[0,0,0],"parts":[{"digest":"SHA-1"}]}`), uint16(0), uint64(1<<63))
	f.Add([]byte(`null`), uint16(0), uint64(0))
	f.Add([]byte(`{"documents":[1,1,144],"stamp":{"of":{"from":1,"to":2},"head":2,"digest":"`+strings.Repeat("0f", linkSize)+`"}}`), uint16(146), uint64(0))
	f.Add([]byte(`{"documents":[1,0,71],"stamp":{"digest":"0f"}}`), uint16(72), uint64(0))
	f.Add([]byte(`{"documents":[0,0,0],"removal":{"last":7,"digest":""}}`), uint16(0), uint64(0))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, json []byte, documents uint16, contents uint64) {
		var m mark
		h := head{number: 1, header: int64(len(json)), documents: int64(documents), contents: int64(contents)}
		n := headSize + len(json) + int(documents)
		b := make([]byte, n+digestSize+int(min(contents, 1000))+checkSize)
		copy(b[headSize:], json)
		h.body = sha256.Sum256(b[headSize:n])
		(&draft{head: h, frame: b}).seal(m)
		file := bytes.NewReader(b)
		h, err := readHead(file, 0, file.Size(), m)
		if err != nil {
			return
		}
		w, err := h.read(file, m)
		if err != nil {
			return
		}
		if w.Stamp != nil {
			newTree(w)
		}
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r := w.record(func() (*os.File, error) { return os.Open(path) })
		kept := drain(t, r)
		if signature := len(r.Signature.XML) + len(r.Signature.HashChainResult) + len(r.Signature.HashChain); signature != int(documents) || kept != int64(contents) {
			t.Errorf("the record has %d and %d octets, its head tells %d and %d", signature, kept, documents, contents)
		}
		again, err := encode(r, 0)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := h.decode(again.frame[headSize : len(again.frame)-digestSize-int(documents)]); err != nil {
			t.Errorf("what was read and written cannot be read: %v", err)
		}
	})
}

// written returns a record as it stands in a segment.
func written(t testing.TB, s *segment, number uint64, previous link, r *Record) []byte {
	t.Helper()
	w, err := encode(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.number, w.previous = number, previous
	w.seal(s.mark)
	b, err := newContents(r.Parts).appendTo(w.frame)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func drain(t testing.TB, r *Record) (kept int64) {
	for _, p := range r.Parts {
		if p.Content == nil {
			continue
		}
		n, err := io.Copy(io.Discard, p.Content)
		if err != nil || n != p.Size {
			t.Fatalf("a content of %d octets gives %d, %v", p.Size, n, err)
		}
		kept += n
	}
	return kept
}

// small returns a record of few octets, to cut at each of them.
func small(id string) *Record { return keeping(id, []byte("<m/>")) }

func keeping(id string, octets []byte) *Record {
	return &Record{
		MessageID: id, RequestID: "r", Client: ident.Client{Instance: "D", Class: "G", Member: "1"},
		Signature: crypto.Signature{XML: []byte("<s/>")},
		Parts: []Part{{
			Name: crypto.Message, Size: int64(len(octets)), Content: bytes.NewReader(octets),
			Digest: crypto.SHA256, Sum: crypto.SHA256.Sum(octets),
		}},
	}
}

func openAt(t testing.TB, dir string, rotate int64) *shared {
	t.Helper()
	s, err := openShared(dir, Options{SegmentSize: rotate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s Store, r *Record) {
	t.Helper()
	wait, err := s.Put(t.Context(), r)
	if err == nil {
		err = wait()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expect looks for records with ids that count from 0.
func expect(t testing.TB, s Store, records int) {
	t.Helper()
	got := ids(t, s, Query{})
	for n, id := range got {
		if id != fmt.Sprint(n) {
			t.Errorf("record %d has id %q", n, id)
		}
	}
	if len(got) != records {
		t.Errorf("found %q, want %d records", got, records)
	}
	for n := range uint64(records + 2) {
		if _, err := s.Get(t.Context(), n); (err == nil) != (n > 0 && n <= uint64(records)) {
			t.Errorf("Get(%d) of %d: %v", n, records, err)
		}
	}
}

func ids(t testing.TB, s Store, q Query) (found []string) {
	t.Helper()
	for r, err := range s.Find(t.Context(), q) {
		if err != nil {
			t.Error(err)
			continue
		}
		found = append(found, r.MessageID)
	}
	return found
}

func segments(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if numberOf(e.Name()) > 0 {
			names = append(names, e.Name())
		}
	}
	return names
}
