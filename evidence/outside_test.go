// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// Large contents whose writing takes its time keep nobody from writing, not even from beginning other segments.
func TestLargeContentsLetOthersWrite(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, 1200)
	octets := bytes.Repeat([]byte("x"), inside+10)
	content, w := io.Pipe()
	defer w.Close()
	done := make(chan error)
	r := keeping("6", octets)
	r.Parts[0].Content = content
	go func() {
		wait, err := s.Put(t.Context(), r)
		if err == nil {
			err = wait()
		}
		done <- err
	}()
	if _, err := w.Write(octets[:inside]); err != nil { // it has begun
		t.Fatal(err)
	}
	for n := range 6 {
		put(t, s, small(fmt.Sprint(n)))
	}
	w.Write(octets[inside:])
	w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		expect(t, s, 7)
		got, err := s.Get(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(got.Parts[0].Content); err != nil || !bytes.Equal(b, octets) {
			t.Errorf("its contents are other ones (%v)", err)
		}
		if _, err := s.Check(t.Context(), nil); err != nil {
			t.Error(err)
		}
		s.Close()
		expectFiles(t, dir, 1)
		if files, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf(contentsFolder, s.disk.last.number), "*")); len(files) != 1 {
			t.Errorf("the contents are not with their segment")
		}
		s = openAt(t, dir, 1200)
	}
}

// Wherever a crash cuts the writing of large contents and of their record, the record is there with all of them, or
// nothing is left of it.
func TestCrashWithLargeContents(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	put(t, s, keeping("0", make([]byte, inside+1)))
	before := s.disk.last.live.End
	put(t, s, keeping("1", make([]byte, inside+2)))
	end := s.disk.last.live.End
	s.Close()
	segment, err := os.ReadFile(filepath.Join(dir, firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.contents", "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the files are %q, %v", files, err)
	}
	second := files[0]
	if info, err := os.Stat(second); err != nil || info.Size() == inside+1+checkSize {
		second = files[1]
	}
	contents, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	crash := func(name string, cut, size int64, want int) {
		t.Helper()
		err := os.WriteFile(second, contents[:size], 0o600)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, firstSegment), segment[:cut], 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := openAt(t, dir, segmentSize)
		expect(t, s, want)
		for n := range want {
			r, err := s.Get(t.Context(), uint64(n+1))
			if err != nil {
				t.Fatal(err)
			}
			drain(t, r)
		}
		if _, err := s.Check(t.Context(), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
		expectFiles(t, dir, want)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	whole := int64(len(contents))
	for _, size := range []int64{0, 1, copySize - 1, copySize, copySize + 1, inside + 2, whole - 1, whole} {
		crash(fmt.Sprintf("%d octets of contents", size), before, size, 1)
	}
	for cut := before; cut < end; cut++ {
		crash(fmt.Sprintf("%d octets of the record", cut-before), cut, whole, 1)
	}
	crash("nothing is missing", end, whole, 2)
	if err := os.Rename(second, filepath.Join(dir, arriving, filepath.Base(second))); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, segmentSize) // the name beside the segment was not durable
	expect(t, s, 2)
	if _, err := s.Check(t.Context(), nil); err != nil {
		t.Error(err)
	}
	s.Close()
	expectFiles(t, dir, 2)
}

// What is not ours in the folder of contents stays.
func TestTidyingLeavesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, segmentSize)
	put(t, s, keeping("0", make([]byte, inside+1)))
	s.Close()
	folder := filepath.Join(dir, "00000001.contents")
	for _, path := range []string{filepath.Join(folder, "README"), filepath.Join(folder, "ABCDEF0123456789"), filepath.Join(dir, "1.index"), filepath.Join(dir, "notes")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"00000007.index", "00000001.index.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "00000007.contents", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, arriving, "0123456789abcdef"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, segmentSize)
	if left, err := os.ReadDir(filepath.Join(dir, arriving)); err != nil || len(left) != 0 {
		t.Errorf("what was arriving is still there: %v, %v", left, err)
	}
	s.Close()
	expectFiles(t, dir, 3)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 { // arriving, contents, evidence, 1.index, lock, notes
		t.Errorf("left: %v, %v", entries, err)
	}
}

// What cannot be proved is not kept.
func TestContentsWithoutDigest(t *testing.T) {
	s := openAt(t, t.TempDir(), segmentSize)
	for name, spoil := range map[string]func(*Part){
		"no method":        func(p *Part) { p.Digest = 0 },
		"no digest":        func(p *Part) { p.Sum = nil },
		"another's digest": func(p *Part) { p.Digest = crypto.SHA512 },
	} {
		r := small("0")
		spoil(&r.Parts[0])
		if _, err := s.Put(t.Context(), r); err == nil {
			t.Errorf("%s: it is kept", name)
		}
		r.Parts[0].Content = nil
		if _, err := s.Put(t.Context(), r); err != nil {
			t.Errorf("%s: as a digest: %v", name, err)
		}
	}
}
