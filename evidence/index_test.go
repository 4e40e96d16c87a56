// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

const firstIndex = "00000001.index"

// entries makes entries as of so many records, some of which share an id.
func entries(s *segment, n int) *live {
	l := s.newLive()
	for i := range n {
		j := &header{
			Time: time.Unix(int64(i)*1e6, 7).UTC(), MessageID: fmt.Sprint(i % 300), RequestID: fmt.Sprint(i),
			Client: [4]string{"D", "G", fmt.Sprint(i % 5)}, Documents: [3]int64{int64(i % 3)},
		}
		switch i % 7 {
		case 5:
			j.Stamp = &stamp{Of: span{uint64(i - 1), uint64(i)}, Head: uint64(i)}
		case 6:
			j.Removal = &removal{Last: uint64(i)}
		}
		h := head{at: l.End, number: l.Next, outside: fileID(i % 4)}
		l.add(s.mark, h, j, link{byte(i)})
	}
	l.Damaged = []DamageError{{s.name(), 1, 2}}
	return l
}

// inMemory returns a file with those octets.
func inMemory(t testing.TB, b []byte) fs.File {
	f, err := fstest.MapFS{"file": {Data: b}}.Open("file")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// An index says what its maker knew.
func TestIndex(t *testing.T) {
	for _, n := range []int{0, 1, 2, 85, 86, bucketRows - 1, bucketRows, bucketRows + 1, 3000} {
		s, _ := newSegment(1, 1, link{})
		l := entries(s, n)
		var b bytes.Buffer
		if err := l.writeTo(&b, s.mark); err != nil {
			t.Fatal(err)
		}
		x, err := readIndex(inMemory(t, b.Bytes()), s, l.Size)
		if err != nil {
			t.Fatalf("%d entries: %v", n, err)
		}
		if !reflect.DeepEqual(x.summary, l.summary) {
			t.Errorf("%d entries: the summary is\n%+v, want\n%+v", n, x.summary, l.summary)
		}
		for i := range n {
			if e, err := x.entry(i); err != nil || e != l.entries[i] {
				t.Fatalf("%d entries: entry %d is %+v, %v, want %+v", n, i, e, err, l.entries[i])
			}
		}
		for i := range l.Stamps {
			if r, err := x.stamp(i); err != nil || r != l.stamps[i] {
				t.Fatalf("%d entries: stamp %d is %+v, %v, want %+v", n, i, r, err, l.stamps[i])
			}
		}
		for kind := range idKinds {
			for i := range 400 {
				hash := s.mark.hash(byte(kind), fmt.Sprint(i))
				want, _ := l.withID(kind, hash)
				if got, err := x.withID(kind, hash); err != nil || !slices.Equal(got, want) {
					t.Fatalf("%d entries: with id %d are %v, %v, want %v", n, i, got, err, want)
				}
			}
			for _, hash := range []uint32{0, math.MaxUint32} {
				if _, err := x.withID(kind, hash); err != nil {
					t.Error(err)
				}
			}
		}
		other, _ := newSegment(2, 1, link{})
		if _, err := readIndex(inMemory(t, b.Bytes()), other, l.Size); !errors.Is(err, errIndex) {
			t.Errorf("%d entries: as the index of another segment: %v", n, err)
		}
		if _, err := readIndex(inMemory(t, b.Bytes()), s, l.Size+1); !errors.Is(err, errIndex) {
			t.Errorf("%d entries: when the segment has grown: %v", n, err)
		}
	}
}

// searched finds each record of linked in each way.
func searched(t *testing.T, s Store) {
	t.Helper()
	expect(t, s, 6)
	for n := range 6 {
		id := fmt.Sprint(n)
		if got := ids(t, s, Query{MessageID: id}); !slices.Equal(got, []string{id}) {
			t.Errorf("with id %s: %q", id, got)
		}
	}
	if got := ids(t, s, Query{RequestID: "r"}); len(got) != 6 {
		t.Errorf("with the request: %q", got)
	}
}

// An index that is missing, cut at any octet or changed at any octet is made again, and misleads nobody.
func TestIndexIsMadeAgain(t *testing.T) {
	dir := linked(t)
	path := filepath.Join(dir, firstIndex)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(name string, made bool, spoil func() error) {
		t.Helper()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		r, err := OpenRead(dir)
		if err != nil {
			t.Fatalf("%s: reading: %v", name, err)
		}
		searched(t, r)
		r.Close()
		s := openAt(t, dir, 1200)
		searched(t, s)
		s.Close()
		if b, err := os.ReadFile(path); made && (err != nil || !bytes.Equal(b, whole)) {
			t.Errorf("%s: the index was not made again (%v)", name, err)
		}
		if t.Failed() {
			t.Fatal(name)
		}
	}
	spoil("missing", true, func() error { return os.Remove(path) })
	spoil("half made", true, func() error { return os.Rename(path, path+".new") })
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); left != nil || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
	for size := 0; size < len(whole); size += 13 {
		spoil(fmt.Sprintf("cut at %d", size), true, func() error { return os.Truncate(path, int64(size)) })
	}
	spoil("longer", true, func() error { return os.WriteFile(path, append(bytes.Clone(whole), make([]byte, pageSize)...), 0o600) })
	for at := 0; at < len(whole); at += 17 {
		spoil(fmt.Sprintf("octet %d changed", at), true, func() error { flip(t, path, int64(at)); return nil })
	}
	spoil("that of the next", true, func() error {
		b, err := os.ReadFile(filepath.Join(dir, "00000002.index"))
		return errors.Join(err, os.WriteFile(path, b, 0o600))
	})
	spoil("a folder", false, func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) })
}

// forgeIndex replaces the first index by one that somebody made who knows how.
func forgeIndex(t *testing.T, dir string, forge func(l *live)) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	a := archive{root: root}
	if err := a.load(scanLive); err != nil {
		t.Fatal(err)
	}
	s := a.segments[0]
	l := s.newLive()
	if err := a.scan(s, l, scanSealed); err != nil {
		t.Fatal(err)
	}
	forge(l)
	if err := writeIndex(root, s, l); err != nil {
		t.Fatal(err)
	}
}

// A record that an index leads to is read and compared, and what an index hides comes out at the latest with a check.
func TestIndexThatLies(t *testing.T) {
	for name, c := range map[string]struct {
		forge  func(l *live)
		hidden bool
	}{
		"places exchanged": {forge: func(l *live) { l.entries[0].at, l.entries[1].at = l.entries[1].at, l.entries[0].at }},
		"no places":        {forge: func(l *live) { l.entries[0].at = 3 }},
		"far places":       {forge: func(l *live) { l.entries[1].at = 1 << 60 }},
		"other numbers":    {func(l *live) { l.entries[1].number = 7 }, true},
		"ids exchanged":    {func(l *live) { l.ids[0], l.ids[1] = l.ids[1], l.ids[0] }, true},
		"one left out":     {func(l *live) { l.Entries, l.entries, l.ids = 1, l.entries[1:], l.ids[1:] }, true},
		"another time":     {func(l *live) { l.entries[0].seconds = 0 }, true},
		"damage hidden":    {func(l *live) { l.Damaged = []DamageError{{"x", 1, 2}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := linked(t)
			forgeIndex(t, dir, c.forge)
			if !c.hidden {
				for _, read := range []bool{true, false} {
					var s Store
					var err error
					if s, err = OpenRead(dir); !read {
						s.Close()
						s = openAt(t, dir, 1200)
					}
					if err != nil {
						t.Fatal(err)
					}
					searched(t, s)
					s.Close()
				}
				forgeIndex(t, dir, c.forge)
			}
			if r, err := check(t, dir); err != nil || !slices.Equal(r.Indexes, []string{firstIndex}) {
				t.Errorf("Check of a reader = %+v, %v", r, err)
			}
			s := openAt(t, dir, 1200)
			if r, err := s.Check(t.Context(), nil); err != nil || !slices.Equal(r.Indexes, []string{firstIndex}) {
				t.Errorf("Check = %+v, %v", r, err)
			}
			if r, err := s.Check(t.Context(), nil); err != nil || r.Indexes != nil {
				t.Errorf("Check again = %+v, %v", r, err)
			}
			searched(t, s)
		})
	}
}

// Who opens a store reads no records but those of the last segment; damage in others comes out when they are read.
func TestOpeningReadsNoRecords(t *testing.T) {
	dir := linked(t)
	path := filepath.Join(dir, firstSegment)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := preambleSize; i < len(whole); i++ {
		whole[i] = 0
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, dir, 1200)
	if n := s.disk.segments[0].known().Entries; n != 2 {
		t.Errorf("%d records are known", n)
	}
	if _, err := s.Get(t.Context(), 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get = %v", err)
	}
	damage := 0
	for r, err := range s.Find(t.Context(), Query{}) {
		var d *DamageError
		if errors.As(err, &d) && *d == (DamageError{firstSegment, preambleSize, int64(len(whole))}) {
			damage++
		} else if err != nil || r.Number < 3 {
			t.Errorf("found %v, %v", r, err)
		}
	}
	if damage != 1 {
		t.Errorf("told of the damage %d times", damage)
	}
}

// However many segments there are and however many parts are held, few files are open.
func TestOpenFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts what is in /proc")
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(entries)
	}
	before := open()
	s := openAt(t, t.TempDir(), 1)
	for n := range 50 {
		put(t, s, keeping(fmt.Sprint(n), make([]byte, inside+n%2)))
	}
	var held []*Record
	for r, err := range s.Find(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
		if _, err := s.Get(t.Context(), r.Number); err != nil {
			t.Fatal(err)
		}
		if n := open() - before; n > 10 {
			t.Fatalf("%d files are open", n)
		}
	}
	for _, r := range held {
		drain(t, r)
	}
	if n := open() - before; len(held) != 50 || n > 5 {
		t.Errorf("%d records are held and %d files are open", len(held), n)
	}
}

// FuzzIndex reads an index of arbitrary octets whose pages are right.
func FuzzIndex(f *testing.F) {
	s := &segment{number: 1, first: 1}
	for _, n := range []int{0, 2, bucketRows + 1} {
		var b bytes.Buffer
		l := entries(s, n)
		if err := l.writeTo(&b, s.mark); err != nil {
			f.Fatal(err)
		}
		var octets []byte
		for page := range slices.Chunk(b.Bytes(), pageSize) {
			octets = append(octets, page[:pageRoom]...)
		}
		f.Add(bytes.TrimRight(octets, "\x00"), l.Size, uint32(7))
	}
	f.Fuzz(func(t *testing.T, octets []byte, size int64, hash uint32) {
		var b bytes.Buffer
		w := &pageWriter{to: bufio.NewWriter(&b), mark: s.mark}
		w.Write(octets)
		w.finish()
		x, err := readIndex(inMemory(t, b.Bytes()), s, size)
		if err != nil {
			return
		}
		for i := range min(x.Entries, 1000) {
			x.entry(i)
		}
		for i := range min(x.Stamps, 1000) {
			x.stamp(i)
		}
		for kind := range idKinds {
			found, err := x.withID(kind, hash)
			for _, i := range found {
				if i >= x.Entries || err != nil {
					t.Errorf("found entry %d of %d, %v", i, x.Entries, err)
				}
			}
		}
	})
}
