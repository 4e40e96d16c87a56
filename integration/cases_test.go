// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/soap"
)

// The cases_*_test.go send situations of the field through both security servers, between a client and a service that
// write and read octets.

// field is both security servers of the example before a service that is in the test's hands.
type field struct {
	*octetService
	example
	address string // for information systems

	mu      sync.Mutex
	n       int
	sent    map[string][]map[crypto.Digest]string // of the parts of delivered requests, by message id
	refused map[string]bool                       // message ids of requests that were the information system's mistake
}

// newField starts the servers. At the end of the test nothing may lie in their spools, and the evidence of both must
// name the same parts of everything that was delivered.
func newField(t *testing.T) *field {
	t.Helper()
	f := &field{octetService: newOctetService(t), sent: make(map[string][]map[crypto.Digest]string), refused: make(map[string]bool)}
	config := strings.ReplaceAll(readExample(t), "to http://127.0.0.1:9000", "to http://"+f.octetService.address())
	config = strings.ReplaceAll(config, "reverse_proxy 127.0.0.1:9000", "reverse_proxy "+f.octetService.address())
	e := freePorts(t, config)
	f.example, f.address = e, strings.TrimSuffix(strings.TrimPrefix(e.send, "http://"), "/")
	run(t, e.config)
	t.Cleanup(func() {
		clean(t)
		caddy.Stop()
		f.checkEvidence(t)
	})
	return f
}

// clean waits until nothing lies in the spools, for half a minute at most.
func clean(t *testing.T) {
	t.Helper()
	var left []string
	for range 6000 {
		left, _ = filepath.Glob(filepath.Join(caddy.AppDataDir(), "xroad", "ss?", "spool", "*", "*"))
		if len(left) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("left in the spools: %q", left)
}

// checkEvidence compares what both servers keep of the requests with what was sent.
func (f *field) checkEvidence(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ss1", "ss2"} {
		store, err := evidence.OpenRead(filepath.Join(caddy.AppDataDir(), "xroad", name, "evidence"))
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bool)
		for record, err := range store.Find(context.Background(), evidence.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if f.refused[record.MessageID] {
				t.Errorf("%s keeps message %s, which was refused", name, record.MessageID)
			}
			want, ok := f.sent[record.MessageID]
			if !ok || record.Response {
				continue
			}
			found[record.MessageID] = true
			same := len(record.Parts) == len(want) && len(record.Signature.XML) > 0
			for i := 0; same && i < len(want); i++ {
				name := crypto.Message
				if i > 0 {
					name = crypto.Attachment(i)
				}
				same = record.Parts[i].Name == name && string(record.Parts[i].Sum) == want[i][record.Parts[i].Digest]
			}
			if !same {
				t.Errorf("%s keeps %d parts of message %s, which are not the %d that were sent", name, len(record.Parts), record.MessageID, len(want))
			}
		}
		if len(found) != len(f.sent) {
			t.Errorf("%s keeps %d of %d delivered requests", name, len(found), len(f.sent))
		}
		store.Close()
	}
}

// id returns a new message id.
func (f *field) id() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return fmt.Sprintf("field-%d-%d", time.Now().UnixNano(), f.n)
}

// delivered notes a request for checkEvidence.
func (f *field) delivered(id string, parts ...string) {
	sums := make([]map[crypto.Digest]string, len(parts))
	for i, p := range parts {
		sums[i] = make(map[crypto.Digest]string)
		for _, d := range []crypto.Digest{crypto.SHA256, crypto.SHA512} {
			sums[i][d] = string(d.Sum([]byte(p)))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent[id] = sums
}

// octetRequest is what a service was sent.
type octetRequest struct {
	head string // to the empty line
	body string
	err  error // of reading it
}

// line returns the header line of that name, spelt so, without its name and line end; and whether there is exactly one.
func (r octetRequest) line(name string) (value string, ok bool) {
	return headerLine(r.head, name)
}

func headerLine(head, name string) (value string, ok bool) {
	for line := range strings.SplitSeq(head, "\r\n") {
		if v, found := strings.CutPrefix(line, name+":"); found {
			if ok {
				return "", false
			}
			value, ok = strings.TrimPrefix(v, " "), true
		}
	}
	return value, ok
}

// octetService keeps what it is sent and answers with octets. Each connection is for one request.
type octetService struct {
	listener net.Listener

	mu     sync.Mutex
	asked  []octetRequest
	answer func(octetRequest) string       // the whole HTTP answer
	stream func(io.Reader, net.Conn) error // in place of keeping and answering
}

func newOctetService(t *testing.T) *octetService {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &octetService{listener: listener}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				s.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return s
}

func (s *octetService) address() string { return s.listener.Addr().String() }

func (s *octetService) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	var r octetRequest
	for !strings.HasSuffix(r.head, "\r\n\r\n") {
		line, err := in.ReadString('\n')
		if err != nil {
			return // the pool's connection that nobody used
		}
		r.head += line
	}
	var body io.Reader = httputil.NewChunkedReader(in)
	if length, ok := r.line("Content-Length"); ok {
		n, err := strconv.ParseInt(length, 10, 64)
		r.err = err
		body = io.LimitReader(in, n)
	}
	s.mu.Lock()
	stream, answer := s.stream, s.answer
	s.mu.Unlock()
	if stream != nil {
		if err := stream(body, conn); err != nil {
			s.keep(octetRequest{head: r.head, err: err})
		}
		return
	}
	octets, err := io.ReadAll(body)
	if r.err == nil {
		r.err = err
	}
	r.body = string(octets)
	s.keep(r)
	if answer != nil {
		io.WriteString(conn, answer(r))
	}
}

func (s *octetService) keep(r octetRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
}

// answers sets what the service answers from now on.
func (s *octetService) answers(answer func(octetRequest) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.stream = answer, nil
}

// streams has the service read its requests piece by piece from now on.
func (s *octetService) streams(stream func(io.Reader, net.Conn) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = stream
}

// taken returns what was asked since the last call.
func (s *octetService) taken() []octetRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// httpAnswer writes an answer with a Content-Length.
func httpAnswer(status, contentType, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, contentType, len(body), body)
}

// system is an information system on one connection.
type system struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (f *field) system(t *testing.T) *system {
	t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute)) // a test that hangs says where
	return &system{t, conn, bufio.NewReader(conn)}
}

// reply is what an information system gets.
type reply struct {
	continued bool // a 100 came first
	head      string
	status    int
	body      string
	close     bool // the server announced that it closes the connection
}

// code returns the fault code, or "".
func (r reply) code() string {
	fault, err := soap.ParseFault([]byte(r.body))
	if err != nil {
		return ""
	}
	return fault.Code
}

// reads reads one answer.
func (s *system) reads() reply {
	s.t.Helper()
	r, err := s.read()
	if err != nil {
		s.t.Fatal("reading the answer: ", err)
	}
	return r
}

func (s *system) read() (r reply, err error) {
	for {
		r.head = ""
		for !strings.HasSuffix(r.head, "\r\n\r\n") {
			line, err := s.in.ReadString('\n')
			if err != nil {
				return r, err
			}
			r.head += line
		}
		if !strings.HasPrefix(r.head, "HTTP/1.1 100 ") {
			break
		}
		if r.continued {
			return r, fmt.Errorf("a second 100")
		}
		r.continued = true
	}
	response, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(r.head), s.in)), nil)
	if err != nil {
		return r, err
	}
	// A reader of ReadResponse reads ahead; nothing follows an answer before the next request.
	octets, err := io.ReadAll(response.Body)
	r.status, r.body, r.close = response.StatusCode, string(octets), response.Close
	return r, err
}

// asks sends a request, in another goroutine where it may be refused on its way, and reads the answer.
func (s *system) asks(request string) reply {
	s.t.Helper()
	go io.Copy(s.conn, struct{ io.Reader }{strings.NewReader(request)}) // piece by piece, without a copy of the whole
	return s.reads()
}

// posted returns a request with a Content-Length. The header lines have no line ends.
func posted(body string, header ...string) string {
	lines := append([]string{"POST / HTTP/1.1", "Host: fairway.test"}, header...)
	lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// chunked returns a request in chunks that end at those offsets of the body, and at its end.
func chunked(body string, ends []int, header ...string) string {
	var b strings.Builder
	b.WriteString("POST / HTTP/1.1\r\nHost: fairway.test\r\n" + strings.Join(header, "\r\n") + "\r\nTransfer-Encoding: chunked\r\n\r\n")
	from := 0
	for _, end := range append(slices.Clone(ends), len(body)) {
		if end > from {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", end-from, body[from:end])
			from = end
		}
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

// env stands for the envelope in the bodies of cases.
const env = "{ENVELOPE}"

// octetsOf returns n octets that look random and are always the same.
func octetsOf(n int, seed uint64) string {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return string(b)
}

// form returns a multipart body. A part is its header block, an empty line and its octets.
func form(boundary string, parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\n" + p + "\r\n")
	}
	b.WriteString("--" + boundary + "--\r\n")
	return b.String()
}

const (
	rootPart = "Content-Type: text/xml; charset=UTF-8\r\nContent-ID: <root>\r\n\r\n" + env
	xopPart  = "Content-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\r\nContent-ID: <root>\r\n\r\n" + env
	filePart = "Content-Type: application/octet-stream\r\nContent-ID: <file>\r\n\r\n"
)

// request returns an envelope of DEV/GOV/1111/app with that id, to service echo.
func request(id string) string { return strings.Replace(envelope("echo", ""), "e-1", id, 1) }

// response returns the envelope that the service answers to it.
func response(asked string) string {
	return strings.NewReplacer("<e:echo ", "<e:echoResponse ", "</e:echo>", "</e:echoResponse>").Replace(asked)
}

// hashed returns a response as the receiving security server sends it on: with the hash of the request, behind the id and indented as the header is.
func hashed(response, asked string) string {
	sum := sha512.Sum512([]byte(asked))
	return strings.Replace(response, "</x:id>", "</x:id>\n"+`<x:requestHash algorithmId="http://www.w3.org/2001/04/xmlenc#sha512">`+
		base64.StdEncoding.EncodeToString(sum[:])+"</x:requestHash>", 1)
}

// fieldCase is a message and what becomes of it.
type fieldCase struct {
	number      string   // of the field case, and a letter where it has several
	about       string   // in a few words
	contentType string   // the Content-Type of the HTTP message
	body        string   // what is sent; the envelope is env
	attachments []string // octets of them, as evidence names them
	arrives     string   // the body that the service gets; "": the one that is sent
	code        string   // the fault code, where it is refused
	says        string   // what the fault string holds
}

func (f *field) run(t *testing.T, cases []fieldCase) {
	for _, c := range cases {
		t.Run(c.number+" "+c.about, func(t *testing.T) { f.send(t, c) })
	}
}

// send sends one case and judges what comes of it.
func (f *field) send(t *testing.T, c fieldCase) {
	t.Helper()
	f.exchange(t, c, func(envelope string) string { return envelope })
}

// exchange is send with an envelope that is changed.
func (f *field) exchange(t *testing.T, c fieldCase, change func(envelope string) string) {
	t.Helper()
	id := f.id()
	asked := change(request(id))
	f.answers(func(octetRequest) string {
		return httpAnswer("200 OK", "text/xml; charset=utf-8", response(request(id)))
	})
	f.taken()
	got := f.system(t).asks(posted(strings.Replace(c.body, env, asked, 1), "Content-Type: "+c.contentType))
	f.judge(t, c, id, asked, got)
}

// judge compares the outcome of a case, whose envelope was asked, and which the service answers by response(request(id)).
func (f *field) judge(t *testing.T, c fieldCase, id, asked string, got reply) {
	t.Helper()
	calls := f.taken()
	if got.status != http.StatusOK {
		t.Fatalf("HTTP status %d: %.300s", got.status, got.body)
	}
	if c.code != "" {
		if got.code() != c.code || !strings.Contains(got.body, c.says) {
			t.Errorf("got %q, want %q with %q: %.1000s", got.code(), c.code, c.says, got.body)
		}
		if len(calls) != 0 {
			t.Error("the service was called")
		}
		if strings.HasPrefix(c.code, "client.") {
			f.refused[id] = true
		}
		return
	}
	if want := hashed(response(request(id)), asked); got.body != want {
		t.Fatalf("the information system got %s", difference(got.body, want))
	}
	if len(calls) != 1 || calls[0].err != nil {
		t.Fatalf("the service was called %d times: %v", len(calls), calls)
	}
	arrives := c.arrives
	if arrives == "" {
		arrives = c.body
	}
	if arrives = strings.Replace(arrives, env, asked, 1); calls[0].body != arrives {
		t.Errorf("the service got %s", difference(calls[0].body, arrives))
	}
	if contentType, _ := calls[0].line("Content-Type"); contentType != c.contentType {
		t.Errorf("the service got the Content-Type %q", contentType)
	}
	f.delivered(id, append([]string{asked}, c.attachments...)...)
}

// difference says where two texts begin to differ.
func difference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%d octets in place of %d, the first other one at %d: %.200q in place of %.200q", len(got), len(want), i, got[i:], want[i:])
}

// endless sends a request in chunks: the body, and then octets until nobody takes any more.
func (s *system) endless(body string, header ...string) {
	s.filled(body, octetsOf(64<<10, 9), header...)
}

// filled is endless with what is sent again and again.
func (s *system) filled(body, filling string, header ...string) {
	go func() {
		if _, err := io.WriteString(s.conn, strings.TrimSuffix(chunked(body, nil, header...), "0\r\n\r\n")); err != nil {
			return
		}
		for {
			if _, err := fmt.Fprintf(s.conn, "%x\r\n%s\r\n", len(filling), filling); err != nil {
				return
			}
		}
	}()
}

// refusesEndless sends a case as a request without end and wants it refused, and the connection closed.
func (f *field) refusesEndless(t *testing.T, c fieldCase) {
	t.Helper()
	f.taken()
	s := f.system(t)
	s.endless(strings.Replace(c.body, env, request(f.id()), 1), "Content-Type: "+c.contentType)
	got := s.reads()
	if !got.close {
		t.Error("the connection is to be used again")
	}
	f.judge(t, c, "", "", got)
}
