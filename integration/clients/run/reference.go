// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The reference client and service judge the wire strictly where a stack's own
// two sides would forgive each other.

// A reference is the reference service. It notes how each request was written.
type reference struct {
	sizes []string

	mu     sync.Mutex
	client string            // who is asking now
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
			name, contentType, body, err := ref.answer(r)
			if err == nil {
				err = ref.keep(name, r, r.Context().Value(key{}).(*recorder).sent())
			}
			if err != nil {
				contentType, body = "text/xml; charset=UTF-8", fault(err)
				w.WriteHeader(http.StatusInternalServerError)
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
func (ref *reference) watch(client, folder string) {
	ref.mu.Lock()
	defer ref.mu.Unlock()
	ref.client, ref.folder = client, folder
}

// keep notes the shape of a request that was answered and, for later use as test data, its octets.
func (ref *reference) keep(name string, r *http.Request, raw []byte) error {
	ref.mu.Lock()
	defer ref.mu.Unlock()
	ref.shapes[ref.client+" "+name] = shape(r.TransferEncoding, r.Header.Get("Content-Type"))
	if ref.folder == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(ref.folder, ref.client+"-"+name+".http"), raw, 0o644)
}

// answer reads a question, whose id is "id-" and the name of the case, and writes its answer.
func (ref *reference) answer(r *http.Request) (name, contentType string, body []byte, err error) {
	m, err := readMessage(r.Header.Get("Content-Type"), r.Body)
	if err != nil {
		return "", "", nil, err
	}
	q := m.envelope.Body.Question
	if q == nil {
		return "", "", nil, fmt.Errorf("a body without echo")
	}
	name = strings.TrimPrefix(m.envelope.Header.ID, "id-")
	form, _, _ := strings.Cut(name, "-")
	out, _ := specs(ref.sizes, name)
	files, err := m.files(form, q.Files, len(out))
	if err != nil {
		return "", "", nil, err
	}
	made, err := makeFiles(q.Make)
	if err != nil {
		return "", "", nil, err
	}
	contentType, body = writeMessage(q.Reply, m.envelope.Header, func(w *bytes.Buffer) {
		writeElement(w, "e:text", q.Text)
		for _, sum := range sums(files) {
			writeElement(w, "e:sum", sum)
		}
	}, "echoResponse", made)
	return name, contentType, body, nil
}

func fault(err error) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<s:Envelope xmlns:s=%q><s:Body><s:Fault><faultcode>s:Client</faultcode>`, soapNS)
	writeElement(&b, "faultstring", err.Error())
	b.WriteString(`</s:Fault></s:Body></s:Envelope>`)
	return b.Bytes()
}

// ask is the reference client: it sends the case to url and returns the shape
// of the answer, or what is wrong with it.
func ask(url, client, service string, sizes []string, name string, hashed bool) (string, error) {
	form, _, _ := strings.Cut(name, "-")
	out, in := specs(sizes, name)
	files, err := makeFiles(out)
	if err != nil {
		return "", err
	}
	wanted, err := makeFiles(in)
	if err != nil {
		return "", err
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
	contentType, body := writeMessage(form, head, func(w *bytes.Buffer) {
		writeElement(w, "e:text", text)
		writeElement(w, "e:reply", reply)
		for _, spec := range in {
			writeElement(w, "e:make", spec)
		}
	}, "echo", files)

	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("SOAPAction", `""`)
	hc := http.Client{Timeout: time.Minute}
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	sent, err := readMessage(contentType, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	m, err := readMessage(resp.Header.Get("Content-Type"), resp.Body)
	if err != nil {
		return "", err
	}
	return shape(resp.TransferEncoding, resp.Header.Get("Content-Type")), judge(sent, m, text, sums(files), form, wanted, hashed)
}

// judge compares an answer with its question: the header blocks, the request
// hash where security servers stand between, the text, the files both ways.
func judge(sent, m *message, text string, received []string, form string, wanted [][]byte, hashed bool) error {
	if f := m.envelope.Body.Fault; f != nil {
		return fmt.Errorf("fault %s: %s", f.Code, f.String)
	}
	a := m.envelope.Body.Answer
	if a == nil {
		return fmt.Errorf("a body without echoResponse")
	}
	got, want := m.envelope.Header, sent.envelope.Header
	if hashed {
		sum := sha512.Sum512(sent.xml)
		want.RequestHash = base64.StdEncoding.EncodeToString(sum[:])
	}
	if got != want {
		return fmt.Errorf("header blocks %+v, want %+v", got, want)
	}
	if a.Text != text {
		return fmt.Errorf("text %q, want %q", a.Text, text)
	}
	if !slices.Equal(a.Sums, received) {
		return fmt.Errorf("the service received %v, want %v", a.Sums, received)
	}
	files, err := m.files(form, a.Files, len(wanted))
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

// recording and recorder keep what each connection sent.
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

func (c *recorder) sent() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data
}
