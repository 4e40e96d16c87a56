// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/multipart"
)

// heap watches what the collector finds in use on the heap of this process, in which client, both servers and service are.
// What is not in use any more does not count: how much of that lies about depends on how busy the machine is.
type heap struct {
	before, peak uint64
	end          chan struct{}
	ended        sync.WaitGroup
}

func heapNow() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// watchHeap begins with a clean heap, and has it looked at often.
func watchHeap(t *testing.T) *heap {
	runtime.GC()
	before := debug.SetGCPercent(20)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	h := &heap{before: heapNow(), end: make(chan struct{})}
	h.ended.Go(func() {
		for {
			h.peak = max(h.peak, heapNow())
			select {
			case <-h.end:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	return h
}

// grown returns by how many octets the heap has grown at most.
func (h *heap) grown() uint64 {
	close(h.end)
	h.ended.Wait()
	return h.peak - min(h.peak, h.before)
}

// maxGrowth is what any message may cost in memory, in both servers together.
const maxGrowth = 64 << 20

// generated is n octets that look random, read once.
func generated(n int64, seed byte) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

// digestOf reads r to its end.
func digestOf(r io.Reader) (digest string, n int64, err error) {
	hash := sha512.New()
	n, err = io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	return string(hash.Sum(nil)), n, err
}

// streamed posts a body of unknown length.
func (f *field) streamed(t *testing.T, contentType string, body io.Reader) *http.Response {
	t.Helper()
	return post(t, "http://"+f.address+"/", contentType, struct{ io.Reader }{body})
}

// TestFieldManyAttachments: a message of 10,000 attachments (FR-40), with memory as flat as ever.
func TestFieldManyAttachments(t *testing.T) {
	const count, size = 10_000, 1 << 10
	f := newField(t)
	id := f.id()
	var all strings.Builder
	sums := make([]string, count)
	for i := range count {
		octets := octetsOf(size, uint64(i))
		sum := sha512.Sum512([]byte(octets))
		sums[i] = string(sum[:])
		fmt.Fprintf(&all, "\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <file%d@example.test>\r\n\r\n%s", i, octets)
	}
	body := "--b\r\n" + strings.Replace(rootPart, env, request(id), 1) + all.String() + "\r\n--b--\r\n"
	answered := strings.Replace(body, request(id), response(request(id)), 1)
	all.Reset()
	arrived := make(chan error, 1)
	f.streams(func(octets io.Reader, conn net.Conn) error {
		err := sameParts(octets, request(id), sums)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: "+related1+"\r\nConnection: close\r\n\r\n")
		_, failed := io.WriteString(conn, answered)
		err = errors.Join(err, failed)
		arrived <- err
		return err
	})
	watched := watchHeap(t)
	answer := f.streamed(t, related1, strings.NewReader(body))
	err := sameParts(answer.Body, hashed(response(request(id)), request(id)), sums)
	grown := watched.grown()
	if err != nil {
		t.Error("the answer: ", err)
	}
	if err := <-arrived; err != nil {
		t.Error("the request: ", err)
	}
	if grown > maxGrowth { // what is known of each attachment, and a line in each of two signatures
		t.Errorf("the heap grew by %d octets", grown)
	}
	t.Logf("the heap grew by %d MiB", grown>>20)
}

// sameParts reads a body that has that envelope and attachments of those digests.
func sameParts(body io.Reader, envelope string, sums []string) error {
	r := multipart.NewReader(body, "b", multipart.Limits{})
	hash := sha512.New()
	for i := -1; ; i++ {
		part, err := r.Next()
		if err == io.EOF && i == len(sums) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i+1, err)
		}
		if i < 0 {
			if octets, err := io.ReadAll(part); err != nil || string(octets) != envelope {
				return fmt.Errorf("the envelope: %s, %w", difference(string(octets), envelope), err)
			}
			continue
		}
		hash.Reset()
		if _, err := part.WriteTo(hash); err != nil {
			return err
		}
		if i >= len(sums) || string(hash.Sum(nil)) != sums[i] {
			return fmt.Errorf("attachment %d is another", i)
		}
	}
}

// large reports whether messages have the sizes of the field cases, which takes minutes, or some that show the same.
func large() bool { return os.Getenv("FAIRWAY_LARGE") != "" }

// TestFieldLargeEnvelope_FR28_FR79: an envelope of 300 MiB, or 96, in a part and bare, passes with memory as flat as ever (FR-28, FR-79).
func TestFieldLargeEnvelope_FR28_FR79(t *testing.T) {
	size := 96 << 20
	if large() {
		size = 300 << 20
	}
	f := newField(t)
	for _, contentType := range []string{"text/xml", related1} {
		t.Run(contentType, func(t *testing.T) {
			id := f.id()
			head, tail, _ := strings.Cut(request(id), "</e:echo>")
			tail = "</e:echo>" + tail
			line := []byte("<row a='1' b=\"two\">some text &amp; more of it, as rows have it</row>\n")
			envelope := func() io.Reader {
				return io.MultiReader(strings.NewReader(head), io.LimitReader(&repeated{octets: line}, int64(size/len(line)*len(line))), strings.NewReader(tail))
			}
			body := envelope()
			if contentType == related1 {
				before, after, _ := strings.Cut(form("b", rootPart, filePart+"x"), env)
				body = io.MultiReader(strings.NewReader(before), body, strings.NewReader(after))
			}
			want, n, err := digestOf(envelope())
			if err != nil {
				t.Fatal(err)
			}
			arrived := make(chan error, 1)
			f.streams(func(octets io.Reader, conn net.Conn) error {
				if contentType == related1 {
					part, err := multipart.NewReader(octets, "b", multipart.Limits{}).Next()
					if err != nil {
						arrived <- err
						return err
					}
					octets = part
				}
				digest, m, err := digestOf(octets)
				if err == nil && (digest != want || m != n) {
					err = fmt.Errorf("%d octets in place of %d, or others", m, n)
				}
				arrived <- err
				_, err = io.WriteString(conn, httpAnswer("200 OK", "text/xml", response(request(id))))
				return err
			})
			watched := watchHeap(t)
			answer := f.streamed(t, contentType, body)
			octets, err := io.ReadAll(answer.Body)
			grown := watched.grown()
			if err != nil {
				t.Fatal(err)
			}
			if hash := base64.StdEncoding.EncodeToString([]byte(want)); !strings.Contains(string(octets), hash) {
				t.Fatalf("the answer has not the hash of the envelope: %.1000s", octets)
			}
			if err := <-arrived; err != nil {
				t.Error("the request: ", err)
			}
			if grown > maxGrowth {
				t.Errorf("the heap grew by %d octets", grown)
			}
			t.Logf("the heap grew by %d MiB", grown>>20)
		})
	}
}

// TestFieldBorders_FR71: attachments whose sizes, or whose sum, lie where counters of 31 and 32 bits end, or some of a
// megabyte, come whole, and evidence names their sizes (FR-71).
func TestFieldBorders_FR71(t *testing.T) {
	border := int64(1 << 20)
	messages := [][]int64{{border - 1}, {border}, {border + 1}, {border, 1, border}}
	if large() {
		messages = [][]int64{{1<<31 - 1}, {1 << 31}, {1<<31 + 1}, {1<<32 - 1}, {1 << 32}, {1<<32 + 1}, {1 << 31, 1, 1 << 31}}
	}
	f := newField(t)
	for _, sizes := range messages {
		t.Run(fmt.Sprint("FR-71 attachments of ", sizes), func(t *testing.T) {
			id := f.id()
			bodies := []io.Reader{strings.NewReader("--b\r\n" + strings.Replace(rootPart, env, request(id), 1))}
			for _, size := range sizes {
				bodies = append(bodies, strings.NewReader("\r\n--b\r\n"+filePart), io.LimitReader(&repeated{octets: []byte("some text, again and again, ")}, size))
			}
			body := io.MultiReader(append(bodies, strings.NewReader("\r\n--b--\r\n"))...)
			arrived := make(chan error, 1)
			f.streams(func(octets io.Reader, conn net.Conn) error {
				err := sized(octets, sizes)
				arrived <- err
				_, failed := io.WriteString(conn, httpAnswer("200 OK", "text/xml", response(request(id))))
				return errors.Join(err, failed)
			})
			answer := f.streamed(t, related1, body)
			if octets, err := io.ReadAll(answer.Body); err != nil || string(octets) != hashed(response(request(id)), request(id)) {
				t.Fatalf("got %.1000s, %v", octets, err)
			}
			if err := <-arrived; err != nil {
				t.Error(err)
			}
			for _, name := range []string{"ss1", "ss2"} {
				var kept []int64
				store, err := evidence.OpenRead(filepath.Join(caddy.AppDataDir(), "xroad", name, "evidence"))
				if err != nil {
					t.Fatal(err)
				}
				for record, err := range store.Find(t.Context(), evidence.Query{MessageID: id}) {
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range record.Parts[1:] {
						kept = append(kept, p.Size)
					}
				}
				store.Close()
				if !slices.Equal(kept, sizes) {
					t.Errorf("%s keeps attachments of %d octets", name, kept)
				}
			}
		})
	}
}

// sized reads a body that has attachments of those sizes.
func sized(body io.Reader, sizes []int64) error {
	r := multipart.NewReader(body, "b", multipart.Limits{})
	for i := -1; ; i++ {
		part, err := r.Next()
		if err == io.EOF && i == len(sizes) {
			return nil
		}
		if err != nil || i == len(sizes) {
			return fmt.Errorf("part %d: %w", i+1, err)
		}
		if n, err := io.Copy(io.Discard, part); err != nil || i >= 0 && n != sizes[i] {
			return fmt.Errorf("attachment %d has %d octets: %w", i+1, n, err)
		}
	}
}

// repeated yields the same octets for ever.
type repeated struct {
	octets []byte
	at     int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], r.octets[r.at:])
		n += k
		r.at = (r.at + k) % len(r.octets)
	}
	return n, nil
}

// TestFieldLargeMTOM_FR37: the header of an MTOM answer is touched, its attachment streams (FR-37).
func TestFieldLargeMTOM_FR37(t *testing.T) {
	size := int64(96 << 20)
	if large() {
		size = 8 << 30
	}
	const contentType = `multipart/related; type="application/xop+xml"; start="<root>"; start-info="text/xml"; boundary="b"`
	f := newField(t)
	id := f.id()
	body := func(envelope string, seed byte) io.Reader {
		before, after, _ := strings.Cut(strings.Replace(form("b", xopPart, filePart+"{FILE}"), env, envelope, 1), "{FILE}")
		return io.MultiReader(strings.NewReader(before), generated(size, seed), strings.NewReader(after))
	}
	// The whole bodies: what arrives is what was sent.
	sent, length, err := digestOf(body(request(id), 1))
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := digestOf(body(hashed(response(request(id)), request(id)), 2))
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan error, 1)
	f.streams(func(octets io.Reader, conn net.Conn) error {
		digest, n, err := digestOf(octets)
		if err == nil && digest != sent {
			err = fmt.Errorf("%d octets in place of %d, or others", n, length)
		}
		arrived <- err
		out := bufio.NewWriter(conn)
		fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n", contentType)
		_, failed := io.Copy(out, body(response(request(id)), 2))
		return errors.Join(err, failed, out.Flush())
	})
	watched := watchHeap(t)
	answer := f.streamed(t, contentType, body(request(id), 1))
	digest, n, err := digestOf(answer.Body)
	grown := watched.grown()
	if err != nil || digest != back {
		t.Errorf("of the answer came %d octets, other ones: %v", n, err)
	}
	if err := <-arrived; err != nil {
		t.Error("the request: ", err)
	}
	if got := answer.Header.Get("Content-Type"); got != contentType {
		t.Errorf("the information system got the Content-Type %q", got)
	}
	if grown > maxGrowth {
		t.Errorf("the heap grew by %d octets", grown)
	}
	t.Logf("the heap grew by %d MiB", grown>>20)
	if calls := f.taken(); len(calls) > 0 {
		t.Error(calls[0].err)
	}
}
