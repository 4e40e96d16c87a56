// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package evidence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What children of these tests find in their environment: the folder to write to, whether to remove and stamp what
// they have written, and whether to write zeros ahead all the time.
const (
	childOf     = "EVIDENCE_TEST_CHILD_OF"
	childTidies = "EVIDENCE_TEST_CHILD_TIDIES"
	childEager  = "EVIDENCE_TEST_CHILD_EAGER"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childOf); dir != "" {
		fmt.Println(child(dir, os.Getenv(childTidies) != ""))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child writes records from several goroutines and prints each number and id once it is durable, until it is killed.
func child(dir string, tidies bool) error {
	o := Options{SegmentSize: 100_000}
	if tidies {
		o.Keep = 100 * time.Millisecond
	}
	s, err := openShared(dir, o)
	if err != nil {
		return err
	}
	if os.Getenv(childEager) != "" {
		eager(s)
	}
	fmt.Println("ready")
	failed := make(chan error)
	for w := range 8 {
		go func() {
			for n := 0; ; n++ {
				size := n % 2000
				if n%50 == 7 {
					size = inside + n
				}
				id := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, n)
				r := keeping(id, make([]byte, size))
				r.Time = time.Now()
				wait, err := s.Put(context.Background(), r)
				if err == nil {
					err = wait()
				}
				if err != nil {
					failed <- err
					return
				}
				os.Stdout.WriteString(fmt.Sprintf("%d %s\n", r.Number, id)) // one write, unbuffered
			}
		}()
	}
	for _, f := range []func() error{
		func() error { s.disk.settleAll(); return nil },
		func() error { return s.disk.retain(s.options) },
		func() error {
			o := s.options
			o.Timestamper = new(authority)
			_, err := s.disk.stampRound(context.Background(), o, 50)
			return err
		},
	} {
		go func() {
			for tidies {
				if err := f(); err != nil {
					failed <- err
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}
	return <-failed
}

func startChild(t *testing.T, dir string, environment ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), childOf+"="+dir), environment...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the child says %q", lines.Text())
	}
	return c, lines
}

// rounds is how often the tests that kill writers do so; EVIDENCE_TEST_KILLS says another number.
func rounds(t *testing.T) int {
	text := os.Getenv("EVIDENCE_TEST_KILLS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// killed starts a child, kills it soon after, and adds what it has acknowledged.
func killed(t *testing.T, dir string, acknowledged map[uint64]string, environment ...string) {
	t.Helper()
	c, lines := startChild(t, dir, environment...)
	time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, func() { c.Process.Kill() })
	for lines.Scan() {
		var number uint64
		var id string
		if n, _ := fmt.Sscanf(lines.Text(), "%d %s", &number, &id); n != 2 || !strings.HasPrefix(id, fmt.Sprint(c.Process.Pid, "-")) {
			if strings.Contains(lines.Text(), "evidence") {
				t.Errorf("a child says %q", lines.Text())
			}
			continue // its last words were cut
		}
		if acknowledged[number] != "" {
			t.Errorf("number %d was given twice", number)
		}
		acknowledged[number] = id
	}
	c.Wait()
}

// Whenever a writer is killed, what it acknowledged is there, whole and linked, and nothing is half there.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	acknowledged := make(map[uint64]string)
	kills := rounds(t)
	for range kills {
		killed(t, dir, acknowledged)
	}
	expectAcknowledged(t, dir, kills, acknowledged)
}

// The same while zeros are written ahead of the records all the time.
func TestKilledInZeros(t *testing.T) {
	dir := t.TempDir()
	acknowledged := make(map[uint64]string)
	kills, inZeros := rounds(t), 0
	for range kills {
		killed(t, dir, acknowledged, childEager+"=1")
		reader, err := OpenRead(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Check(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		reader.Close()
		names := segments(t, dir)
		last, err := os.ReadFile(filepath.Join(dir, names[len(names)-1]))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasSuffix(last, make([]byte, sectorSize)) {
			inZeros++
		}
	}
	expectAcknowledged(t, dir, kills, acknowledged)
	t.Logf("%d of %d with zeros at the end", inZeros, kills)
	if inZeros == 0 {
		t.Error("there were no zeros")
	}
}

func expectAcknowledged(t *testing.T, dir string, kills int, acknowledged map[uint64]string) {
	t.Helper()
	s := openAt(t, dir, segmentSize)
	found := make(map[uint64]string)
	large := 0
	for r, err := range s.Find(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		found[r.Number] = r.MessageID
		if drain(t, r) > inside {
			large++
		}
	}
	for number, id := range acknowledged {
		if found[number] != id {
			t.Errorf("record %d of %s was acknowledged, and there is %q", number, id, found[number])
		}
	}
	if r, err := s.Check(t.Context(), nil); err != nil || r.Indexes != nil {
		t.Errorf("Check = %+v, %v", r, err)
	}
	expectFiles(t, dir, large)
	t.Logf("%d kills: %d records acknowledged, %d found, %d of them with large contents", kills, len(acknowledged), len(found), large)
	if len(acknowledged) == 0 {
		t.Error("nothing was acknowledged")
	}
}

// The same while records get time-stamps and old ones are removed: after each kill all is whole but what was removed.
func TestKilledWhileTidying(t *testing.T) {
	dir := t.TempDir()
	acknowledged := make(map[uint64]string)
	kills, stamps := rounds(t), 0
	var report *Report
	for range kills {
		killed(t, dir, acknowledged, childTidies+"=1")
		s := openAt(t, dir, 100_000)
		var err error
		if report, err = s.Check(t.Context(), genuine); err != nil || report.Refused != nil || report.Indexes != nil {
			t.Fatalf("Check = %+v, %v", report, err)
		}
		stamps = max(stamps, report.Timestamps)
		found := make(map[uint64]string)
		large := 0
		for r, err := range s.Find(t.Context(), Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			found[r.Number] = r.MessageID
			if drain(t, r) > inside {
				large++
			}
		}
		for number, id := range acknowledged {
			if number > report.Removed && found[number] != id {
				t.Fatalf("record %d of %s was acknowledged, and there is %q", number, id, found[number])
			}
		}
		expectFiles(t, dir, large)
		upTo := s.disk.stampedUpTo()
		for number := range found {
			if r, err := s.Get(t.Context(), number); err != nil || (r.Timestamp != nil) != (number <= upTo) {
				t.Fatalf("record %d of %d that are stamped: %v", number, upTo, err)
			}
		}
		s.Close()
	}
	t.Logf("%d kills: %d records acknowledged, %d removed, at most %d time-stamps", kills, len(acknowledged), report.Removed, stamps)
	if report.Removed == 0 || stamps == 0 {
		t.Error("nothing was removed, or nothing was stamped")
	}
}

func TestAnotherProcessWrites(t *testing.T) {
	dir := t.TempDir()
	c, _ := startChild(t, dir)
	s, err := OpenDisk(dir)
	if err == nil {
		s.Close()
		t.Fatal("two processes write to one folder")
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("process %d writes to it", c.Process.Pid)) {
		t.Errorf("the error does not name the process: %v", err)
	}
	r, err := OpenRead(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Find(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	c.Process.Kill()
	c.Wait()
	openAt(t, dir, segmentSize).Close()
}

// Whatever the umask, nobody else can read.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "a", "evidence")
	s := openAt(t, dir, 1)
	put(t, s, small("0"))
	put(t, s, keeping("1", make([]byte, inside+1)))
	s.Close()
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenDisk(open); err == nil {
		s.Close()
		t.Error("a folder that everybody may write to is taken")
	}
}

// A symbolic link that waits under the name of a file of ours is not followed out of the folder.
func TestLinksInTheWay(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{firstSegment, "lock"} {
		dir := t.TempDir()
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenDisk(dir); err == nil {
			s.Close()
			t.Errorf("took a link for %s", name)
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != "untouched" {
			t.Errorf("the victim of a link at %s is now %q, %v", name, b, err)
		}
	}
}

// A pipe that waits under the name of a file of ours keeps nobody waiting.
func TestPipesInTheWay(t *testing.T) {
	inTheWay := func(dir string, name string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	dir := linked(t)
	inTheWay(dir, "00000001.index")
	r, err := check(t, dir)
	if err != nil || len(r.Indexes) != 1 {
		t.Errorf("an index: Check = %+v, %v", r, err)
	}
	s := openAt(t, dir, 1200)
	expect(t, s, 6)
	if err := s.Close(); err != nil {
		t.Error(err)
	}

	dir = t.TempDir()
	s = openAt(t, dir, segmentSize)
	put(t, s, keeping("large", make([]byte, inside+1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.contents", "*"))
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	name, _ := filepath.Rel(dir, files[0])
	inTheWay(dir, name)
	breaks(t, dir, 1, "contents")
}

// shortWrites is set in the process that limits its files.
const shortWrites = "EVIDENCE_TEST_SHORT_WRITES"

// A limit on the size of files makes the kernel itself cut a write short.
func TestShortWriteOfTheKernel(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems may write nothing at all")
	}
	// The limit holds for the whole process, the log that the go command lets tests write included.
	if os.Getenv(shortWrites) == "" {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		c.Env = append(os.Environ(), shortWrites+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Skip(err)
	}
	s := openAt(t, t.TempDir(), segmentSize)
	put(t, s, small("0"))
	for _, size := range []int{100_000, 1_000_000} {
		limit := old
		limit.Cur = 50_000
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Skip(err)
		}
		_, err := s.Put(t.Context(), keeping("bad", make([]byte, size)))
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
		if !errors.Is(err, syscall.EFBIG) {
			t.Errorf("Put of %d octets = %v", size, err)
		}
	}
	put(t, s, small("1"))
	expect(t, s, 2)
}
