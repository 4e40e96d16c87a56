// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// The reference client and service judge the wire strictly where a stack's own
// two sides would forgive each other.

// A reference is the reference service. It notes how each request was written.
type reference struct {
	mu     sync.Mutex
	client stack             // who is asking now
	sizes  []string          // of the files that it sends
	shapes map[string]string // "client case" to the request's framing and Content-Type
	folder string            // where raw requests are kept, if not empty
}

// serve listens on the port until the process ends.
func (ref *reference) serve(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	type key struct{}
	server := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, key{}, c)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			contentType, body, err := ref.answer(r)
			// A request that is not understood is kept whole, too, but may be shorter than it says.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(2 * time.Second))
			io.Copy(io.Discard, r.Body)
			if err := errors.Join(err, ref.keep(r, r.Context().Value(key{}).(*recorder).octets())); err != nil {
				w.Header().Set("Content-Type", plainType)
				w.WriteHeader(http.StatusInternalServerError)
				w.Write(fault(err))
				return
			}
			w.Header().Set("Content-Type", contentType)
			w.Write(body) // a client that has gone is its own loss
		}),
	}
	server.SetKeepAlivesEnabled(false) // one request a connection, so that what a connection sent is that request
	go server.Serve(recording{l})
	return nil
}

// watch says whose requests come next and where to keep them, if anywhere.
func (ref *reference) watch(client stack, sizes []string, folder string) {
	ref.mu.Lock()
	defer ref.mu.Unlock()
	ref.client, ref.sizes, ref.folder = client, sizes, folder
}

// messageID finds the case in the octets of a message, of whatever form: its id is "id-" and the name of the case.
var messageID = regexp.MustCompile(`>id-([a-z-]+)<`)

// keep notes the shape of a request and, for later use as test data, its octets.
func (ref *reference) keep(r *http.Request, raw []byte) error {
	ref.mu.Lock()
	defer ref.mu.Unlock()
	name := cases[0] // the only one that is sent compressed
	if m := messageID.FindSubmatch(raw); m != nil {
		name = string(m[1])
	}
	if r.Method != http.MethodPost {
		name = strings.ToLower(r.Method) // what a client asks before its first message
	}
	ref.shapes[ref.client.name+" "+name] = shape(r.TransferEncoding, r.ContentLength, r.Header)
	if strings.HasSuffix(name, "-response") && !strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "multipart") {
		return nil // the same as plain
	}
	return capture(ref.folder, ref.client.name+"."+name+".request", raw)
}

// capture writes a file, unless the folder is empty or the other cases say it all.
func capture(folder, name string, octets []byte) error {
	if folder == "" || strings.Contains(name, "-both.") {
		return nil
	}
	return os.WriteFile(filepath.Join(folder, name), octets, 0o644)
}

// answer reads a question and writes its answer.
func (ref *reference) answer(r *http.Request) (contentType string, body []byte, err error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" {
		return "", nil, fmt.Errorf("a body in %s", encoding)
	}
	m, err := readMessage(r.Header.Get("Content-Type"), r.Body)
	if err != nil {
		return "", nil, err
	}
	q := m.envelope.Body.Question
	if q == nil {
		return "", nil, fmt.Errorf("a body without echo")
	}
	name := strings.TrimPrefix(m.envelope.Header.ID, "id-")
	form, _, _ := strings.Cut(name, "-")
	ref.mu.Lock()
	sizes, inline := ref.sizes, ref.client.option != nil && ref.client.option.inline
	ref.mu.Unlock()
	out, _ := specs(sizes, name)
	files, err := m.files(form, q.Files, len(out), inline)
	if err != nil {
		return "", nil, err
	}
	made, err := makeFiles(q.Make)
	if err != nil {
		return "", nil, err
	}
	contentType, body = writeMessage(q.Reply, m.envelope.Header, func(w *bytes.Buffer) {
		writeElement(w, "e:text", q.Text)
		for _, sum := range sums(files) {
			writeElement(w, "e:sum", sum)
		}
	}, "echoResponse", made).pack()
	return contentType, body, nil
}

func fault(err error) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<s:Envelope xmlns:s=%q><s:Body><s:Fault><faultcode>s:Client</faultcode>`, soapNS)
	writeElement(&b, "faultstring", err.Error())
	b.WriteString(`</s:Fault></s:Body></s:Envelope>`)
	return b.Bytes()
}

// A sender puts a message on the wire and reads what is answered.
type sender func(url string, out outgoing) (*answered, error)

// What was answered, and the octets of it where they were recorded.
type answered struct {
	shape, contentType string
	body, raw          []byte
}

// byHTTP is the reference's own sender.
func byHTTP(url string, out outgoing) (*answered, error) {
	contentType, body := out.pack()
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("SOAPAction", `""`)
	var recorded *recorder
	// A connection of its own, so that what comes on it is this answer; it may stay open, or answers come unchunked.
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			recorded = &recorder{Conn: c}
			return recorded, nil
		},
	}
	defer transport.CloseIdleConnections()
	hc := http.Client{Timeout: time.Minute, Transport: transport}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &answered{shape(resp.TransferEncoding, resp.ContentLength, resp.Header), resp.Header.Get("Content-Type"), text, recorded.octets()}, nil
}

// ask is the reference client: it sends the case to url and returns the
// answer, and what is wrong with it.
func ask(send sender, url, client, service string, sizes []string, name string, hashed bool) (*answered, error) {
	form, _, _ := strings.Cut(name, "-")
	out, in := specs(sizes, name)
	files, err := makeFiles(out)
	if err != nil {
		return nil, err
	}
	wanted, err := makeFiles(in)
	if err != nil {
		return nil, err
	}
	reply := "plain"
	if len(in) > 0 {
		reply = form
	}
	head := header{
		Client: parseIdentifier("SUBSYSTEM", client), Service: parseIdentifier("SERVICE", service),
		UserID: "EE1234567890", ID: "id-" + name, ProtocolVersion: "4.0",
	}
	text := "väylä & <tee> " + name
	sent := writeMessage(form, head, func(w *bytes.Buffer) {
		writeElement(w, "e:text", text)
		writeElement(w, "e:reply", reply)
		for _, spec := range in {
			writeElement(w, "e:make", spec)
		}
	}, "echo", files)
	got, err := send(url, sent)
	if err != nil {
		return nil, err
	}
	m, err := readMessage(got.contentType, bytes.NewReader(got.body))
	if err != nil {
		return got, err
	}
	if hashed {
		sum := sha512.Sum512(sent.envelope)
		head.RequestHash = base64.StdEncoding.EncodeToString(sum[:])
	}
	return got, judge(head, m, text, sums(files), form, wanted)
}

// judge compares an answer with what it should be: the header blocks, with
// the request hash where security servers stand between, the text, the files
// both ways.
func judge(want header, m *message, text string, received []string, form string, wanted [][]byte) error {
	if f := m.envelope.Body.Fault; f != nil {
		return fmt.Errorf("fault %s: %s", f.Code, f.String)
	}
	a := m.envelope.Body.Answer
	if a == nil {
		return fmt.Errorf("a body without echoResponse")
	}
	if got := m.envelope.Header; got != want {
		return fmt.Errorf("header blocks %+v, want %+v", got, want)
	}
	if a.Text != text {
		return fmt.Errorf("text %q, want %q", a.Text, text)
	}
	if !slices.Equal(a.Sums, received) {
		return fmt.Errorf("the service received %v, want %v", a.Sums, received)
	}
	files, err := m.files(form, a.Files, len(wanted), false)
	if err != nil {
		return err
	}
	if !slices.Equal(sums(files), sums(wanted)) {
		return fmt.Errorf("the answer has %v, want %v", sums(files), sums(wanted))
	}
	return nil
}

func parseIdentifier(kind, path string) identifier {
	s := append(strings.Split(path, "/"), "", "", "", "", "", "")
	return identifier{kind, s[0], s[1], s[2], s[3], s[4], s[5]}
}

// recording and recorder keep what came on each connection.
type recording struct{ net.Listener }

func (l recording) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recorder{Conn: c}, nil
}

type recorder struct {
	net.Conn
	mu   sync.Mutex
	data []byte
}

func (c *recorder) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.data = append(c.data, p[:n]...)
	return n, err
}

func (c *recorder) octets() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.data)
}
