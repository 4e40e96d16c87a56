// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd

package exchange_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/spool"
)

// manifest is what a service reads.
type manifest struct {
	MessageID   string `json:"message_id"`
	RequestID   string `json:"request_id"`
	Client      string `json:"client"`
	Service     string `json:"service"`
	Attachments []struct {
		Name        string `json:"name"`
		ContentID   string `json:"content_id"`
		ContentType string `json:"content_type"`
		Encoding    string `json:"content_transfer_encoding"`
		Path        string `json:"path"`
		Length      int64  `json:"length"`
		Digest      string `json:"digest"`
		Sum         string `json:"sum"`
	} `json:"attachments"`
}

// files is a service that takes attachments as files, and what it got last.
type files struct {
	t   *testing.T
	dir string
	bed *testbed.Bed

	mu       sync.Mutex
	calls    int
	header   http.Header
	length   int64
	envelope []byte
	manifest manifest
	octets   [][]byte // of the attachments

	during func(manifest string)             // before it answers
	answer func(http.ResponseWriter, []byte) // nil: an ordinary one
}

// newFiles starts the service, and two security servers in front of it.
func newFiles(t *testing.T, o testbed.Options) *files {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &files{t: t, dir: dir}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	o.Service.To, o.Service.Delivery, o.Service.Files.Dir = server.URL+"/", exchange.ByFile, dir
	f.bed = testbed.New(t, o)
	return f
}

// ServeHTTP takes what the manifest says, and sees that it is so.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	envelope, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	f.calls++
	f.header, f.length, f.envelope, f.octets, f.manifest = r.Header, r.ContentLength, envelope, nil, manifest{}
	if path := r.Header.Get(exchange.HeaderAttachments); path != "" {
		f.take(path)
	}
	f.mu.Unlock()
	if f.during != nil {
		f.during(r.Header.Get(exchange.HeaderAttachments))
	}
	answer := testbed.Envelope(headerOf(r.Header.Get("Content-Type"), envelope), "echoResponse", "")
	w.Header().Set("Content-Type", "text/xml")
	if f.answer != nil {
		f.answer(w, answer)
		return
	}
	w.Write(answer)
}

func (f *files) take(path string) {
	t := f.t
	text, err := os.ReadFile(path)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&f.manifest)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, text)
		return
	}
	folder := filepath.Dir(path)
	if filepath.Base(path) != "manifest.json" || filepath.Dir(folder) != f.dir {
		t.Errorf("the manifest is %s", path)
	}
	modes := map[string]os.FileMode{folder: 0o750, path: 0o440}
	for n, a := range f.manifest.Attachments {
		octets, err := os.ReadFile(a.Path)
		if err != nil {
			t.Error(err)
		}
		f.octets = append(f.octets, octets)
		var sum []byte
		switch a.Digest {
		case "SHA-512":
			s := sha512.Sum512(octets)
			sum = s[:]
		case "SHA-256":
			s := sha256.Sum256(octets)
			sum = s[:]
		}
		if a.Length != int64(len(octets)) || a.Sum != hex.EncodeToString(sum) {
			t.Errorf("%s: %d octets of %d, %s %s", a.Name, len(octets), a.Length, a.Digest, a.Sum)
		}
		if a.Name != fmt.Sprintf("/attachment%d", n+1) || a.Path != filepath.Join(folder, fmt.Sprintf("attachment-%d", n+1)) {
			t.Errorf("%d is %s in %s", n, a.Name, a.Path)
		}
		modes[a.Path] = 0o440
	}
	for path, want := range modes {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", path, info.Mode(), err, want)
		}
	}
	if entries, _ := os.ReadDir(folder); len(entries) != len(modes) { // the lock is the folder's, so to speak
		t.Errorf("%d files in the folder, want %d", len(entries), len(modes))
	}
}

// clean waits until nothing is left.
func (f *files) clean() {
	f.t.Helper()
	f.bed.CheckClean()
	for deadline := time.Now().Add(5 * time.Second); len(f.left()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("left: %v", f.left())
		}
	}
}

// left lists the folders.
func (f *files) left() (names []string) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.t.Error(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// piece is an attachment with its header.
type piece struct{ header, octets string }

func relatedTo(envelope []byte, pieces []piece) []byte {
	var b bytes.Buffer
	b.WriteString("--b\r\nContent-Type: text/xml; charset=UTF-8; odd=\"yes\"\r\nContent-ID: <root>\r\n\r\n")
	b.Write(envelope)
	for _, p := range pieces {
		b.WriteString("\r\n--b\r\n" + p.header + "\r\n" + p.octets)
	}
	b.WriteString("\r\n--b--\r\n")
	return b.Bytes()
}

// TestFiles has attachments of all kinds reach a service as files.
func TestFiles(t *testing.T) {
	const octet = "Content-Type: application/octet-stream\r\n"
	many := make([]piece, 1000)
	for n := range many {
		many[n] = piece{octet + fmt.Sprintf("Content-ID: <%d@test>\r\n", n), strings.Repeat("x", n)}
	}
	large := strings.Repeat("0123456789abcdef", 1<<18)
	for _, tt := range []struct {
		name   string
		pieces []piece
		ids    []string // nil: not looked at
	}{
		{"one", []piece{{octet + "Content-ID: <a@test>\r\n", "octets"}}, []string{"a@test"}},
		{"empty", []piece{{octet, ""}, {octet, "x"}}, []string{"", ""}},
		{"large and small", []piece{{octet, "first"}, {octet, large}, {octet, "last\r\n"}}, nil},
		{"1,000", many, nil},
		{"the same id", []piece{{octet + "Content-ID: <a>\r\n", "1"}, {octet + "Content-ID: <a>\r\n", "2"}}, []string{"a", "a"}},
		{"two ids", []piece{{octet + "Content-ID: <a>\r\nContent-ID: <b>\r\n", "1"}}, []string{"a"}},
		{"no id", []piece{{octet, "1"}, {octet + "Content-ID:\r\n", "2"}, {octet + "Content-ID: <>\r\n", "3"}}, []string{"", "", ""}},
		{"hostile ids", []piece{
			{octet + "Content-ID: <../../../../etc/passwd>\r\n", "1"},
			{octet + "Content-ID: /etc/passwd\r\n", "2"},
			{octet + "Content-ID: <manifest.json>\r\n", "3"},
			{octet + "Content-ID: <a\",\"path\":\"/etc/passwd\">\r\n", "4"},
			{octet + "Content-ID: <\xff\x01'$(id)>\r\n", "5"},
			{octet + "Content-ID: <" + strings.Repeat("x", 4000) + ">\r\n", "6"},
		}, []string{"../../../../etc/passwd", "/etc/passwd", "manifest.json", `a","path":"/etc/passwd"`, "\ufffd\x01'$(id)", strings.Repeat("x", 4000)}},
		{"encoded", []piece{{octet + "Content-Transfer-Encoding: base64\r\n", "AAAA\r\n"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFiles(t, testbed.Options{})
			envelope := testbed.Envelope(header(), "echo", "<a> </a>")
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.bed.URL, bytes.NewReader(relatedTo(envelope, tt.pieces)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", relatedType)
			req.Header.Set("SOAPAction", `"urn:do"`)
			response, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answer, err := io.ReadAll(response.Body)
			if err != nil || faultCode(t, answer) != "" || !bytes.Contains(answer, []byte("requestHash")) {
				t.Fatalf("%v\n%s", err, answer)
			}
			if !bytes.Equal(f.envelope, envelope) || f.length != int64(len(envelope)) {
				t.Errorf("the service got an envelope of %d octets, announced as %d:\n%s", len(f.envelope), f.length, f.envelope)
			}
			if got := f.header.Get("Content-Type"); got != `text/xml; charset=UTF-8; odd="yes"` || f.header.Get("SOAPAction") != `"urn:do"` {
				t.Errorf("the service got %v", f.header)
			}
			if len(f.octets) != len(tt.pieces) {
				t.Fatalf("%d attachments, want %d", len(f.octets), len(tt.pieces))
			}
			for n, p := range tt.pieces {
				a := f.manifest.Attachments[n]
				if string(f.octets[n]) != p.octets || a.ContentType != "application/octet-stream" {
					t.Errorf("%+v, %d octets, want %d", a, len(f.octets[n]), len(p.octets))
				}
				if tt.ids != nil && a.ContentID != tt.ids[n] {
					t.Errorf("Content-ID %q, want %q", a.ContentID, tt.ids[n])
				}
				if want := strings.Contains(p.header, "base64"); (a.Encoding == "base64") != want {
					t.Errorf("encoding %q", a.Encoding)
				}
			}
			m := f.manifest
			if m.MessageID != "id-1" || m.RequestID == "" || m.Client != "DEV/GOV/1111/app" || m.Service != "DEV/GOV/0000/registry/echo/v1" {
				t.Errorf("the manifest begins with %q, %q, %q, %q", m.MessageID, m.RequestID, m.Client, m.Service)
			}
			f.clean()
		})
	}
}

// TestNoFiles has requests without attachments come as they always do.
func TestNoFiles(t *testing.T) {
	envelope := testbed.Envelope(header(), "echo", "")
	for name, request := range map[string]struct {
		contentType string
		body        []byte
	}{
		"plain":     {"text/xml", envelope},
		"multipart": {relatedType, related(envelope)},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t, testbed.Options{})
			f.answer = func(w http.ResponseWriter, _ []byte) {
				w.Header().Set("X-Road-Attachments", "keep") // there is nothing to keep
				if left := f.left(); len(left) != 0 {
					t.Errorf("there is a folder: %v", left)
				}
				w.Write(testbed.Envelope(header(), "echoResponse", ""))
			}
			if _, answer := post(t, f.bed, request.contentType, bytes.NewReader(request.body)); faultCode(t, answer) != "" {
				t.Errorf("%s", answer)
			}
			if f.calls != 1 || len(f.header["X-Road-Attachments"]) != 0 || !bytes.Equal(f.envelope, request.body) {
				t.Errorf("%d calls, %v\n%s", f.calls, f.header, f.envelope)
			}
			f.clean()
		})
	}
}

// TestFilesAreKept has the service say how its files end.
func TestFilesAreKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, []byte)
		fault  string
		kept   bool
	}{
		{"no word", func(w http.ResponseWriter, answer []byte) { w.Write(answer) }, "", false},
		{"keep", func(w http.ResponseWriter, answer []byte) {
			w.Header().Set("X-Road-Attachments", "Keep")
			w.Write(answer)
		}, "", true},
		{"another word", func(w http.ResponseWriter, answer []byte) {
			w.Header().Set("X-Road-Attachments", "release")
			w.Write(answer)
		}, "", false},
		{"keep, and a fault", func(w http.ResponseWriter, _ []byte) {
			w.Header().Set("X-Road-Attachments", "keep")
			w.WriteHeader(http.StatusInternalServerError)
			w.Write((&soap.Fault{Code: "soap:Server", String: "later"}).Bytes())
		}, "soap:Server", true},
		{"a fault", func(w http.ResponseWriter, _ []byte) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write((&soap.Fault{Code: "soap:Server", String: "no"}).Bytes())
		}, "soap:Server", false},
		{"another status", func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) },
			"server.serverproxy.service_failed.http_error", false},
		{"keep, then broken off", func(w http.ResponseWriter, answer []byte) {
			w.Header().Set("X-Road-Attachments", "keep")
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
			w.Write(answer[:len(answer)-1])
		}, "server.serverproxy.service_failed.io_error", true}, // the envelope was on its way
		{"broken off", func(w http.ResponseWriter, _ []byte) { hangUp(w) }, "server.serverproxy.service_failed.io_error", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFiles(t, testbed.Options{})
			f.answer = tt.answer
			_, answer := post(t, f.bed, relatedType, bytes.NewReader(message()))
			if got := faultCode(t, answer); got != tt.fault {
				t.Errorf("got %q, want %q\n%s", got, tt.fault, answer)
			}
			if !tt.kept {
				f.clean()
				return
			}
			f.bed.CheckClean()
			f.take(f.header.Get(exchange.HeaderAttachments)) // all still there
			if left := f.left(); len(left) != 1 || !strings.HasPrefix(left[0], "fairway-86400s-") {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestFilesFail has nothing left of what could not be delivered.
func TestFilesFail(t *testing.T) {
	const failed = "server.serverproxy.service_failed."
	for _, tt := range []struct {
		name  string
		o     testbed.Options
		spoil func(f *files)
		want  string
		calls int
	}{
		{"a bad signature", testbed.Options{Middle: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = io.NopCloser(&spoiling{r: r.Body})
				next.ServeHTTP(w, r)
			})
		}}, nil, "server.serverproxy.signature_verification.invalid_signature_value", 0},
		{"no signature", testbed.Options{Sender: func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} }},
			nil, "server.clientproxy.cannot_create_signature", 0},
		{"service down", testbed.Options{Receive: func(s *exchange.SecurityServer) {
			for _, service := range s.Local.Services {
				service.To = "http://127.0.0.1:1/"
			}
		}}, nil, failed + "network_error", 0},
		{"no such address", testbed.Options{Receive: func(s *exchange.SecurityServer) {
			for _, service := range s.Local.Services {
				service.To = "http://127.0.0.1:a/"
			}
		}}, nil, "server.serverproxy.service_malformed_url", 0},
		{"silent service", testbed.Options{Service: exchange.Service{Timeout: 100 * time.Millisecond}}, func(f *files) {
			f.answer = func(w http.ResponseWriter, _ []byte) {
				http.NewResponseController(w).EnableFullDuplex()
				<-f.t.Context().Done()
			}
		}, failed + "io_error", 1},
		{"the spool breaks", testbed.Options{Receive: func(s *exchange.SecurityServer) {
			s.Keep, s.Spool = exchange.Keep{}, breaking{s.Spool} // evidence does not read it
		}}, nil, "server.serverproxy.io_error", 0},
		{"no folder", testbed.Options{}, func(f *files) {
			if err := os.Remove(f.dir); err != nil {
				f.t.Fatal(err)
			}
			f.t.Cleanup(func() { os.Mkdir(f.dir, 0o750) })
		}, "server.serverproxy.io_error", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFiles(t, tt.o)
			if tt.spoil != nil {
				tt.spoil(f)
			}
			request := related(testbed.Envelope(header(), "echo", ""), append(bytes.Repeat([]byte("0123456789abcde\n"), 2<<16), lastOctet))
			_, answer := post(t, f.bed, relatedType, bytes.NewReader(request))
			if got := faultCode(t, answer); got != tt.want || bytes.Contains(answer, []byte(f.dir)) {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			f.mu.Lock()
			calls := f.calls
			f.mu.Unlock()
			if calls != tt.calls {
				t.Errorf("the service was called %d times, want %d", calls, tt.calls)
			}
			if _, err := os.Stat(f.dir); err == nil {
				f.clean()
			}
		})
	}
}

// TestFilesOfWhoHangsUp has the information system go away while its service works.
func TestFilesOfWhoHangsUp(t *testing.T) {
	f := newFiles(t, testbed.Options{})
	called, gone := make(chan struct{}), make(chan struct{})
	f.during = func(manifest string) {
		close(called)
		<-gone
	}
	conn := dial(t, f.bed.URL)
	body := message()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", relatedType, len(body), body)
	<-called
	if left := f.left(); len(left) != 1 {
		t.Errorf("the folders are %v", left)
	}
	conn.Close()
	f.clean() // at once: the service has not answered
	close(gone)
	if o := waitOutcome(t, f.bed, "receive"); o.Err == nil {
		t.Error("nobody was told")
	}
}

// TestFilesOfMany has many services work at a time, each with its own files.
func TestFilesOfMany(t *testing.T) {
	f := newFiles(t, testbed.Options{})
	const systems, messages = 8, 8
	var work sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[string]bool)
	f.during = func(manifest string) {
		octets, err := os.ReadFile(filepath.Join(filepath.Dir(manifest), "attachment-2"))
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[string(octets)] {
			t.Errorf("%q came twice", octets)
		}
		seen[string(octets)] = true
	}
	for system := range systems {
		work.Go(func() {
			for n := range messages {
				own := fmt.Sprintf("%d of %d", n, system)
				request := related(testbed.Envelope(header(), "echo", ""), bytes.Repeat([]byte(own), 9000), []byte(own))
				response, err := http.Post(f.bed.URL, relatedType, bytes.NewReader(request))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || !bytes.Contains(answer, []byte("echoResponse")) {
					t.Errorf("%v\n%s", err, answer)
				}
			}
		})
	}
	work.Wait()
	if len(seen) != systems*messages {
		t.Errorf("%d requests came", len(seen))
	}
	f.clean()
}

// breaking is a spool whose entries can be read to half of a mebibyte.
type breaking struct{ spool.Store }

func (b breaking) Create(ctx context.Context) (spool.Entry, error) {
	e, err := b.Store.Create(ctx)
	return breakingEntry{e}, err
}

type breakingEntry struct{ spool.Entry }

func (b breakingEntry) Open() (io.ReadSeekCloser, error) {
	r, err := b.Entry.Open()
	return breakingReader{r}, err
}

type breakingReader struct{ io.ReadSeekCloser }

func (b breakingReader) Read(p []byte) (int, error) {
	if at, err := b.Seek(0, io.SeekCurrent); err != nil || at > 512<<10 {
		return 0, errors.New("the disk is broken")
	}
	return b.ReadSeekCloser.Read(p)
}
