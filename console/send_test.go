// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

// got is what a sending security server saw.
type got struct {
	contentType, action string
	length              int64
	parts               []string // octets of each, the envelope first
	types, ids          []string
}

// stub is a sending security server that takes any message and answers with it, or with a fault.
func stub(t *testing.T, fault []byte) (string, *got) {
	t.Helper()
	seen := new(got)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		seen.length = r.ContentLength
		if r.ContentLength >= 0 && r.ContentLength != int64(len(body)) {
			t.Errorf("the request has %d octets and says %d", len(body), r.ContentLength)
		}
		seen.contentType, seen.action = r.Header.Get("Content-Type"), r.Header.Get("SOAPAction")
		seen.read(t, string(body))
		if fault != nil {
			w.Header().Set("Content-Type", "text/xml;charset=utf-8")
			w.Write(fault)
			return
		}
		w.Header().Set("Content-Type", seen.contentType)
		w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

func (g *got) read(t *testing.T, body string) {
	t.Helper()
	ct, err := multipart.ParseContentType(g.contentType)
	if err != nil {
		t.Error(err)
		return
	}
	boundary, ok := ct.Param("boundary")
	if !ok {
		g.parts = append(g.parts, body)
		return
	}
	for r := multipart.NewReader(strings.NewReader(body), boundary, multipart.DefaultLimits); ; {
		p, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		octets, err := io.ReadAll(p)
		if err != nil {
			t.Error(err)
		}
		g.parts = append(g.parts, string(octets))
		g.types = append(g.types, p.Header.Get("Content-Type"))
		g.ids = append(g.ids, p.Header.Get("Content-ID"))
	}
}

// files writes files and returns their folder.
func files(t *testing.T, nameContent ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(nameContent); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, nameContent[i]), []byte(nameContent[i+1]), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSendPlain(t *testing.T) {
	url, seen := stub(t, nil)
	request := string(envelope(demoService, "4711", "<text>Hello</text>"))
	dir := files(t, "request.xml", request)
	r := fairway(t.Context(), "", "send", url, filepath.Join(dir, "request.xml"), "--soapaction", "urn:hello")
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.stderr)
	}
	if seen.contentType != "text/xml; charset=UTF-8" || seen.action != `"urn:hello"` || seen.parts[0] != request {
		t.Errorf("the server got %+v", *seen)
	}
	if seen.length != int64(len(request)) {
		t.Errorf("the request says that it has %d octets; it has %d", seen.length, len(request))
	}
	if r.stdout != request+"\n" || r.stderr != "" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
}

func TestSendAttachments(t *testing.T) {
	for _, c := range []struct {
		name     string
		flags    []string
		outer    string
		rootType string
	}{
		{"SwA", nil, `type="text/xml"`, "text/xml; charset=UTF-8"},
		{"MTOM", []string{"--mtom"}, `type="application/xop+xml"`, `application/xop+xml; charset=UTF-8; type="text/xml"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, seen := stub(t, nil)
			request := string(envelope(demoService, "4711", ""))
			dir := files(t, "request.xml", request, "a b.txt", "one", "empty.bin", "")
			out := filepath.Join(t.TempDir(), "answer")
			args := append([]string{"send", url, filepath.Join(dir, "request.xml"), "--out", out,
				"--attach", filepath.Join(dir, "a b.txt"), "--attach", filepath.Join(dir, "empty.bin")}, c.flags...)
			r := fairway(t.Context(), "", args...)
			if r.err != nil {
				t.Fatalf("%v\n%s", r.err, r.stderr)
			}
			if !strings.Contains(seen.contentType, c.outer) || seen.types[0] != c.rootType {
				t.Errorf("the server got Content-Type %q with a first part of %q", seen.contentType, seen.types[0])
			}
			if fmt.Sprintf("%q", seen.parts) != fmt.Sprintf("%q", []string{request, "one", ""}) {
				t.Errorf("the server got the parts %q", seen.parts)
			}
			if seen.length < 0 {
				t.Error("the request does not say how long it is")
			}
			if seen.ids[1] != "<a_b.txt>" || seen.ids[2] != "<empty.bin>" {
				t.Errorf("the server got the ids %q", seen.ids)
			}
			if r.stdout != request+"\n" {
				t.Errorf("stdout %q, want the envelope", r.stdout)
			}
			for name, want := range map[string]string{"attachment1": "one", "attachment2": ""} {
				if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(b) != want {
					t.Errorf("%s holds %q, %v; want %q", name, b, err, want)
				}
			}
		})
	}
}

func TestSendFault(t *testing.T) {
	fault := &soap.Fault{Code: "server.clientproxy.unknown_member", String: "no such member", Detail: "d"}
	url, _ := stub(t, fault.Bytes())
	dir := files(t, "request.xml", string(envelope(demoService, "4711", "")))
	r := fairway(t.Context(), "", "send", url, filepath.Join(dir, "request.xml"))
	if r.err == nil || r.err.Error() == "exiting with status 2" {
		t.Errorf("error %v: want exit code 1", r.err)
	}
	if !strings.Contains(r.stderr, fault.Code) || !strings.Contains(r.stderr, fault.String) {
		t.Errorf("stderr %q does not tell code and text", r.stderr)
	}
	if !strings.Contains(r.stdout, "<faultcode>") {
		t.Errorf("stdout %q does not hold the fault document", r.stdout)
	}
}

func TestSendToSomethingElse(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	dir := files(t, "request.xml", string(envelope(demoService, "4711", "")))
	r := fairway(t.Context(), "", "send", s.URL, filepath.Join(dir, "request.xml"))
	if r.err == nil || !strings.Contains(r.stderr, "404") {
		t.Errorf("error %v, stderr %q", r.err, r.stderr)
	}
}

func TestSendToNobody(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	dir := files(t, "request.xml", string(envelope(demoService, "4711", "")))
	r := fairway(t.Context(), "", "send", s.URL, filepath.Join(dir, "request.xml"))
	if r.err == nil || !strings.Contains(r.stderr, "refused") || !strings.Contains(r.stderr, "does it run?") {
		t.Errorf("error %v, stderr %q", r.err, r.stderr)
	}
}

func TestSendMissingFile(t *testing.T) {
	r := fairway(t.Context(), "", "send", "http://127.0.0.1:1", filepath.Join(t.TempDir(), "request.xml"))
	if r.err == nil || !strings.Contains(r.stderr, "request.xml") {
		t.Errorf("error %v, stderr %q", r.err, r.stderr)
	}
}

// TestSendUnknownLength sends what is no regular file: nobody knows its length.
func TestSendUnknownLength(t *testing.T) {
	envelope := octets(envelope(demoService, "4711", ""))
	pipe := source{open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("one")), nil }}
	url, seen := stub(t, nil)
	resp, err := post(t.Context(), io.Discard, url, newMessage(envelope, false, pipe), `""`)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if seen.length != -1 || len(seen.parts) != 2 || seen.parts[1] != "one" {
		t.Errorf("the server got %d octets and the parts %q", seen.length, seen.parts)
	}
}

// TestSendOverwritesNothing refuses a folder with attachments before anything is sent.
func TestSendOverwritesNothing(t *testing.T) {
	for _, c := range []struct {
		name, there string
		refused     bool
	}{
		{"the first", "attachment1", true},
		{"a later one", "attachment12", true},
		{"another file", "attachment.txt", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, seen := stub(t, nil)
			dir := files(t, "request.xml", string(envelope(demoService, "4711", "")), "a.txt", "one")
			out := files(t, c.there, "mine")
			r := fairway(t.Context(), "", "send", url, filepath.Join(dir, "request.xml"), "--attach", filepath.Join(dir, "a.txt"), "--out", out)
			if b, err := os.ReadFile(filepath.Join(out, c.there)); err != nil || string(b) != "mine" {
				t.Errorf("the file now holds %q, %v", b, err)
			}
			if !c.refused {
				if r.err != nil {
					t.Errorf("%v\n%s", r.err, r.stderr)
				}
				return
			}
			if r.err == nil || r.err.Error() != "exiting with status 2" || !strings.Contains(r.stderr, filepath.Join(out, c.there)+" is there already") {
				t.Errorf("error %v, stderr %q: want exit code 2", r.err, r.stderr)
			}
			if seen.parts != nil {
				t.Error("the message was sent all the same")
			}
		})
	}
}
