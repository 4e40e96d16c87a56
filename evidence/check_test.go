// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// linked makes a store of three segments with two small records each, and returns its folder.
func linked(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	s := openAt(t, dir, 1200)
	for n := range 6 {
		put(t, s, small(fmt.Sprint(n)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := segments(t, dir); len(got) != 3 {
		t.Fatalf("the segments are %q", got)
	}
	return dir
}

func check(t testing.TB, dir string) (*Report, error) {
	t.Helper()
	s, err := OpenRead(dir)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Check(t.Context(), nil)
}

// breaks expects that the records break at a number.
func breaks(t testing.TB, dir string, number uint64, what string) {
	t.Helper()
	r, err := check(t, dir)
	if err != nil && r == nil {
		return // it does not even open
	}
	var b *BreakError
	if !errors.As(err, &b) {
		t.Errorf("%s: Check = %+v, %v", what, r, err)
		return
	}
	if b.Number != number {
		t.Errorf("%s: breaks at %d, want %d: %v", what, b.Number, number, err)
	}
	if r.Head.Number != number-1 && r.Removed != number-1 {
		t.Errorf("%s: whole up to %d", what, r.Head.Number)
	}
}

func TestCheck(t *testing.T) {
	dir := linked(t)
	r, err := check(t, dir)
	if err != nil || r.Records != 6 || r.First != 1 || r.Head.Number != 6 || len(r.Head.Digest) != 32 || r.Indexes != nil {
		t.Errorf("Check = %+v, %v", r, err)
	}
	if text := r.Unnoticed(); !strings.Contains(text, "newest") {
		t.Errorf("Unnoticed = %q", text)
	}
	s := openAt(t, dir, 1200)
	defer s.Close()
	again, err := s.Check(t.Context(), nil)
	if err != nil || !bytes.Equal(again.Head.Digest, r.Head.Digest) {
		t.Errorf("opened for writing: Check = %+v, %v", again, err)
	}
	put(t, s, keeping("6", make([]byte, inside+1)))
	if r, err := s.Check(t.Context(), nil); err != nil || r.Records != 7 {
		t.Errorf("one more: Check = %+v, %v", r, err)
	}
}

// Whichever octet of whichever file is changed, Check tells of the record to which it belongs.
func TestEveryOctetIsLinked(t *testing.T) {
	dir := linked(t)
	for i, name := range segments(t, dir) {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		second := bytes.LastIndex(whole, whole[preambleSize:preambleSize+markSize])
		for at := range whole {
			if at > 0 {
				flip(t, path, int64(at)-1) // as it was
			}
			flip(t, path, int64(at))
			number := uint64(2*i + 1)
			if at >= second {
				number++
			}
			if at < preambleSize {
				if _, err := check(t, dir); err == nil {
					t.Errorf("%s, octet %d: a changed beginning is not noticed", name, at)
				}
				continue
			}
			if number == 6 { // the very last cannot be told from a torn one
				if r, err := check(t, dir); err == nil && (r.Head.Number == 6 || r.Torn == 0) {
					t.Errorf("%s, octet %d: a changed record is not noticed", name, at)
				}
				continue
			}
			breaks(t, dir, number, fmt.Sprintf("%s, octet %d changed", name, at))
			if t.Failed() {
				return
			}
		}
		flip(t, path, int64(len(whole))-1)
	}
}

// Somebody who knows the format removes, moves, repeats and makes anew.
func TestAttack37Tampering(t *testing.T) {
	type file struct {
		path          string
		preamble      []byte
		first, second []byte // its records
	}
	read := func(t *testing.T, dir string) (files []*file) {
		for _, name := range segments(t, dir) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			i := bytes.LastIndex(b, b[preambleSize:preambleSize+markSize])
			files = append(files, &file{path, b[:preambleSize:preambleSize], b[preambleSize:i:i], b[i:]})
		}
		return files
	}
	write := func(t *testing.T, f *file, records ...[]byte) {
		if err := os.WriteFile(f.path, slices.Concat(append([][]byte{f.preamble}, records...)...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// again seals a record that was changed.
	again := func(b []byte, number uint64, previous link) []byte {
		b = bytes.Clone(b)
		m := mark(b[:markSize])
		h, err := readHead(bytes.NewReader(b), 0, int64(len(b)), m)
		if err != nil {
			panic(err)
		}
		h.number, h.previous = number, previous
		d := &draft{head: h, frame: b}
		d.body = sha256.Sum256(b[headSize:h.digestAt()])
		d.seal(m)
		return b
	}
	digest := func(b []byte) link {
		h, err := readHead(bytes.NewReader(b), 0, int64(len(b)), mark(b[:markSize]))
		if err != nil {
			panic(err)
		}
		return link(b[h.digestAt():])
	}
	for _, c := range []struct {
		name   string
		tamper func(*testing.T, []*file)
		breaks uint64
	}{
		{"the first removed", func(t *testing.T, f []*file) { write(t, f[0], f[0].second) }, 1},
		{"the last of a segment removed", func(t *testing.T, f []*file) { write(t, f[0], f[0].first) }, 2},
		{"one removed, the next renumbered", func(t *testing.T, f []*file) {
			write(t, f[1], again(f[1].second, 3, digest(f[1].first)))
		}, 3},
		{"one removed, the next renumbered and linked", func(t *testing.T, f []*file) {
			write(t, f[1], again(f[1].second, 3, digest(f[0].second)))
		}, 4},
		{"two moved", func(t *testing.T, f []*file) { write(t, f[1], f[1].second, f[1].first) }, 3},
		{"two moved and renumbered", func(t *testing.T, f []*file) {
			write(t, f[1], again(f[1].second, 3, digest(f[0].second)), again(f[1].first, 4, digest(f[1].second)))
		}, 4},
		{"two moved, renumbered and linked", func(t *testing.T, f []*file) {
			third := again(f[1].second, 3, digest(f[0].second))
			write(t, f[1], third, again(f[1].first, 4, digest(third)))
		}, 5},
		{"one repeated", func(t *testing.T, f []*file) { write(t, f[1], f[1].first, f[1].second, f[1].second) }, 5},
		{"one added", func(t *testing.T, f []*file) {
			write(t, f[0], f[0].first, f[0].second, again(f[0].first, 3, digest(f[0].second)))
		}, 4},
		{"one changed and sealed", func(t *testing.T, f []*file) {
			changed := bytes.Replace(f[1].first, []byte(`"message_id":"2"`), []byte(`"message_id":"9"`), 1)
			write(t, f[1], again(changed, 3, digest(f[0].second)), f[1].second)
		}, 4},
		{"a segment removed", func(t *testing.T, f []*file) { os.Remove(f[1].path) }, 3},
		{"the first segment removed", func(t *testing.T, f []*file) { os.Remove(f[0].path) }, 1},
		{"a segment made anew, the next not", func(t *testing.T, f []*file) {
			third := again(bytes.Replace(f[1].first, []byte("<s/>"), []byte("<t/>"), 1), 3, digest(f[0].second))
			write(t, f[1], third, again(f[1].second, 4, digest(third)))
		}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := linked(t)
			c.tamper(t, read(t, dir))
			breaks(t, dir, c.breaks, c.name)
		})
	}
	t.Run("the newest removed", func(t *testing.T) {
		dir := linked(t)
		f := read(t, dir)
		write(t, f[2], f[2].first)
		if r, err := check(t, dir); err != nil || r.Head.Number != 5 {
			t.Errorf("Check = %+v, %v", r, err)
		}
	})
	t.Run("a preamble names another record", func(t *testing.T) {
		dir := linked(t)
		f := read(t, dir)
		s, preamble := newSegment(2, 3, digest(f[0].first))
		copy(preamble[len(preamble)-checkSize-markSize:], f[1].preamble[len(preamble)-checkSize-markSize:])
		binary.BigEndian.PutUint32(preamble[len(preamble)-checkSize:], crc32.Checksum(preamble[:len(preamble)-checkSize], castagnoli))
		f[1].preamble = preamble
		write(t, f[1], f[1].first, f[1].second)
		breaks(t, dir, s.first, "another preamble")
	})
}

// What is kept is part of the check, wherever it lies.
func TestCheckOfContents(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int
		spoil func(t *testing.T, dir string)
	}{
		{"one changed", 1000, func(t *testing.T, dir string) {
			path := filepath.Join(dir, firstSegment)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			flip(t, path, int64(bytes.Index(b, []byte("xxx"))+500))
		}},
		{"outside, the first octet", inside + 1, func(t *testing.T, dir string) { flip(t, onlyContents(t, dir), 0) }},
		{"outside, the last octet", inside + 1, func(t *testing.T, dir string) { flip(t, onlyContents(t, dir), inside) }},
		{"outside, its check", inside + 1, func(t *testing.T, dir string) { flip(t, onlyContents(t, dir), inside+checkSize) }},
		{"outside, cut", inside + 1, func(t *testing.T, dir string) { os.Truncate(onlyContents(t, dir), inside) }},
		{"outside, its check cut", inside + 1, func(t *testing.T, dir string) { os.Truncate(onlyContents(t, dir), inside+checkSize) }},
		{"outside, removed", inside + 1, func(t *testing.T, dir string) { os.Remove(onlyContents(t, dir)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openAt(t, dir, segmentSize)
			put(t, s, keeping("0", bytes.Repeat([]byte("x"), c.size)))
			put(t, s, small("1"))
			s.Close()
			if _, err := check(t, dir); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			breaks(t, dir, 1, c.name)
		})
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func onlyContents(t *testing.T, dir string) string {
	t.Helper()
	expectFiles(t, dir, 1)
	files, _ := filepath.Glob(filepath.Join(dir, "*.contents", "*"))
	return files[0]
}
