// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// capturedRefusals are the fault codes of captured requests that are no messages.
var capturedRefusals = map[string]string{
	"cxf-gzip.plain":          "client.invalid_content_type",
	"cxf-soap12.plain":        "client.invalid_content_type",
	"cxf-soap12.mtom-request": "client.invalid_soap",
	"gsoap-dime.mtom-request": "client.invalid_content_type",
	"cxf-http2.options":       "client.invalid_http_method",
	"nodesoap-gzip.plain":     "client.invalid_content_type",
	"curl-form.swa-request":   "client.invalid_content_type",
	"curl-form.mtom-request":  "client.invalid_content_type",
	"curl-data.plain":         "client.invalid_content_type",
}

// TestClients sends what other people's SOAP stacks sent, as testdata/clients has it, through both servers again.
func TestClients(t *testing.T) {
	s := newOctetService(t)
	config := strings.ReplaceAll(readExample(t), "to http://127.0.0.1:9000", "to http://"+s.address())
	const example = "\t\tservice DEV/GOV/0000/registry/echo/v1 {\n\t\t\tallow DEV/GOV/1111/app\n\t\t\tto http://"
	from := strings.Index(config, example)
	to := from + strings.Index(config[from:], "\t\t}\n") + len("\t\t}\n")
	for _, name := range capturedServices(t) {
		block := strings.Replace(config[from:to], "registry/echo", name+"/echo", 1)
		config = config[:to] + block + config[to:]
	}
	e := freePorts(t, config)
	run(t, e.config)
	t.Cleanup(func() {
		clean(t)
		caddy.Stop()
	})
	f := &field{octetService: s, address: strings.TrimSuffix(strings.TrimPrefix(e.send, "http://"), "/")}

	requests := captured(t, "*.request")
	for _, file := range slices.Sorted(maps.Keys(requests)) {
		name := strings.TrimSuffix(file, ".request")
		t.Run("request of "+name, func(t *testing.T) { f.sendsCaptured(t, name, requests[file]) })
	}
	for name := range capturedRefusals {
		if requests[name+".request"] == "" {
			t.Errorf("no captured request is %s", name)
		}
	}
	answers := captured(t, "*.answer")
	for _, file := range slices.Sorted(maps.Keys(answers)) {
		name := strings.TrimSuffix(file, ".answer")
		t.Run("answer of "+name, func(t *testing.T) { f.answersCaptured(t, name, answers[file]) })
	}
}

// captured returns the files of testdata/clients whose names are like the pattern.
func captured(t *testing.T, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "clients", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	files := make(map[string]string)
	for _, path := range paths {
		octets, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(octets)
	}
	return files
}

// capturedServices returns the subsystems of the services that were asked or answered.
func capturedServices(t *testing.T) []string {
	names := []string{"reference"}
	for file := range captured(t, "*.answer") {
		if name, _, _ := strings.Cut(file, "."); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// capturedMessage returns the message of a case to the service of a subsystem.
func capturedMessage(subsystem, name string) string {
	return strings.NewReplacer("registry", subsystem, "<x:id>e-1", "<x:userId>EE1234567890</x:userId><x:id>id-"+name).Replace(envelope("echo", ""))
}

func (f *field) sendsCaptured(t *testing.T, name, raw string) {
	_, which, _ := strings.Cut(name, ".")
	f.answers(func(octetRequest) string {
		return httpAnswer("200 OK", "text/xml; charset=utf-8", response(capturedMessage("reference", which)))
	})
	f.taken()
	got := f.system(t).asks(raw)
	calls := f.taken()
	if want := capturedRefusals[name]; got.code() != want || got.status != http.StatusOK {
		t.Fatalf("HTTP status %d, fault code %q, want %q: %.1000s", got.status, got.code(), want, got.body)
	} else if want != "" {
		if len(calls) != 0 {
			t.Error("the service was called")
		}
		return
	}
	if !strings.Contains(got.body, "echoResponse") {
		t.Errorf("the answer is %.1000s", got.body)
	}
	if len(calls) != 1 || calls[0].err != nil {
		t.Fatalf("the service was called %d times: %v", len(calls), calls)
	}
	sent, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(sent.Body)
	if err != nil {
		t.Fatal(err)
	}
	contentType, want := carried(sent.Header, string(body))
	if calls[0].body != want {
		t.Errorf("the service got %s", difference(calls[0].body, want))
	}
	if got, _ := calls[0].line("Content-Type"); got != contentType {
		t.Errorf("the service got the Content-Type %q, want %q", got, contentType)
	}
}

// requestHash is what the receiving server adds to an answer.
var requestHash = regexp.MustCompile(`\s*<([\w.-]+):requestHash [^>]*>[^<]*</([\w.-]+):requestHash>`)

func (f *field) answersCaptured(t *testing.T, name, raw string) {
	subsystem, which, _ := strings.Cut(name, ".")
	f.answers(func(octetRequest) string { return raw })
	got := f.system(t).asks(posted(capturedMessage(subsystem, which), "Content-Type: text/xml"))
	if got.code() != "" || got.status != http.StatusOK {
		t.Fatalf("HTTP status %d, fault code %q: %.1000s", got.status, got.code(), got.body)
	}
	answered, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answered.Body)
	if err != nil {
		t.Fatal(err)
	}
	hashes := requestHash.FindAllStringIndex(got.body, -1)
	if len(hashes) != 1 {
		t.Fatalf("the answer has %d request hashes: %.1000s", len(hashes), got.body)
	}
	unhashed := got.body[:hashes[0][0]] + got.body[hashes[0][1]:]
	contentType, want := carried(answered.Header, string(body))
	if unhashed != want {
		t.Errorf("the information system got %s", difference(unhashed, want))
	}
	if got, _ := headerLine(got.head, "Content-Type"); got != contentType {
		t.Errorf("the information system got the Content-Type %q, want %q", got, contentType)
	}
}

// carried returns what of a message gets to the other side. That is all of it, but the Content-Type of a message without
// attachments is ours, and so are line ends before the first delimiter and behind the last.
func carried(h http.Header, body string) (string, string) {
	contentType := h.Get("Content-Type")
	if !strings.HasPrefix(strings.ToLower(contentType), "multipart/related") {
		return "text/xml; charset=UTF-8", body
	}
	if strings.HasPrefix(body, handTyped) {
		body = typed.Replace(strings.TrimPrefix(body, handTyped))
	}
	return contentType, strings.TrimSuffix(strings.TrimPrefix(body, "\r\n"), "\r\n") + "\r\n"
}

// handTyped is what stands before the first delimiter of curl-lf's bodies.
const handTyped = "A message of ours.\n"

// typed writes their delimiters and header blocks as they should be.
var typed = strings.NewReplacer(
	"--simple\nContent-Type: text/xml\n\n", "--simple\r\nContent-Type: text/xml\r\n\r\n",
	"\n--simple\nContent-Type: application/octet-stream\n\n", "\r\n--simple\r\nContent-Type: application/octet-stream\r\n\r\n",
	"\n--simple--", "\r\n--simple--",
)
