// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

// request returns the envelope of a call, with the given content of its Body's child.
func request(content string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<env:Envelope xmlns:env="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers">
	<env:Header>
		<x:client id:objectType="SUBSYSTEM"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>1111</id:memberCode><id:subsystemCode>app</id:subsystemCode></x:client>
		<x:service id:objectType="SERVICE"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>0000</id:memberCode><id:subsystemCode>registry</id:subsystemCode><id:serviceCode>echo</id:serviceCode><id:serviceVersion>v1</id:serviceVersion></x:service>
		<x:id>e-1</x:id>
		<x:userId>EE 1</x:userId>
		<x:protocolVersion>4.0</x:protocolVersion>
		<extension xmlns="urn:example">kept</extension>
	</env:Header>
	<env:Body><e:echo xmlns:e="urn:example:echo">` + content + `</e:echo></env:Body>
</env:Envelope>`
}

// ask sends a request to the echo service over HTTP.
func ask(t *testing.T, method, contentType string, body io.Reader) *http.Response {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := (Echo{}).ServeHTTP(w, r, nil); err != nil {
			w.WriteHeader(err.(caddyhttp.HandlerError).StatusCode)
		}
	}))
	t.Cleanup(server.Close)
	req, err := http.NewRequest(method, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// answered reads an answer's envelope, and that it answers the request.
func answered(t *testing.T, r io.Reader, envelope string) string {
	t.Helper()
	asked, err := soap.Open(strings.NewReader(envelope), "", soap.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := soap.Open(r, "", soap.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := soap.Consistent(&asked.Header, &answer.Header); err != nil {
		t.Error(err)
	}
	if answer.Body != "echoResponse" {
		t.Errorf("the answer is a %s", answer.Body)
	}
	octets, err := io.ReadAll(answer)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(octets, []byte(`<extension xmlns="urn:example">kept</extension>`)) {
		t.Error("a header block is lost")
	}
	return string(octets)
}

func listed(what, id string, octets string) string {
	if id != "" {
		id = "<contentId>" + id + "</contentId>"
	}
	return fmt.Sprintf(`<%s xmlns="">%s<length>%d</length><sha256>%x</sha256></%[1]s>`, what, id, len(octets), sha256.Sum256([]byte(octets)))
}

func TestEchoPlain(t *testing.T) {
	long := request("<text>" + strings.Repeat("lorem ipsum ", 2*echoLimit/12) + "</text>")
	for name, envelope := range map[string]string{
		"short":                        request("<text>hello</text>"),
		"longer than what is read":     long,
		"byte order mark":              "\xef\xbb\xbf" + request(""),
		"would return attachments":     request("<returnAttachments>true</returnAttachments>"),
		"default namespace":            strings.NewReplacer("env:", "", "xmlns:env=", "xmlns=").Replace(request("")),
		"a name inside another prefix": strings.NewReplacer("env:", "Envelope:", "xmlns:env=", "xmlns:Envelope=").Replace(request("")),
	} {
		t.Run(name, func(t *testing.T) {
			response := ask(t, "POST", "text/xml; charset=UTF-8", strings.NewReader(envelope))
			if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/xml; charset=UTF-8" {
				t.Fatalf("got %s, %s", response.Status, response.Header.Get("Content-Type"))
			}
			octets := answered(t, response.Body, envelope)
			if want := `:echoResponse xmlns:e="urn:example:echo">` + listed("request", "", envelope); !strings.Contains(octets, want) {
				t.Errorf("got %s\nwithout %s", octets, want)
			}
		})
	}
}

// related returns a multipart request with attachments.
func related(t *testing.T, envelope, rootType string, attachments ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b, "boundary")
	part := func(content string, header ...string) {
		pw, err := w.Part(multipart.NewHeader(header...))
		if err == nil {
			_, err = io.WriteString(pw, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	part(envelope, "Content-Type", rootType, "Content-ID", "<root>")
	for i, a := range attachments {
		part(a, "X-First", "kept", "Content-Type", "application/octet-stream", "Content-ID", fmt.Sprintf("<%d&>", i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEchoMultipart(t *testing.T) {
	const swa, mtom = `multipart/related; type="text/xml"; boundary="boundary"`,
		`multipart/related; type="application/xop+xml"; start-info="text/xml"; boundary="boundary"`
	attachments := []string{"first", "", strings.Repeat("\r\n--bound", 100000)}
	for _, test := range []struct {
		name, form, root string
		content          string
		wantType         string
		wantRoot         string
		wantParts        []string
	}{
		{"SwA listed", swa, "text/xml; charset=UTF-8", "", "text/xml", "text/xml; charset=UTF-8", nil},
		{"SwA returned", swa, "text/xml; charset=UTF-8", "<returnAttachments>true</returnAttachments>", "text/xml", "text/xml; charset=UTF-8", attachments},
		{"SwA not returned", swa, "text/xml; charset=UTF-8", "<returnAttachments>false</returnAttachments>", "text/xml", "text/xml; charset=UTF-8", nil},
		{"MTOM listed", mtom, xop, "", xop, xop + `; charset=UTF-8; type="text/xml"`, nil},
		{"MTOM returned", mtom, xop, "<returnAttachments>1</returnAttachments>", xop, xop + `; charset=UTF-8; type="text/xml"`, attachments},
	} {
		t.Run(test.name, func(t *testing.T) {
			envelope := request(test.content)
			response := ask(t, "POST", test.form, strings.NewReader(related(t, envelope, test.root, attachments...)))
			form, err := multipart.ParseContentType(response.Header.Get("Content-Type"))
			if err != nil {
				t.Fatal(err)
			}
			if kind, _ := form.Param("type"); form.Type != "multipart/related" || kind != test.wantType {
				t.Fatalf("got %s", form.Value)
			}
			boundary, _ := form.Param("boundary")
			parts := multipart.NewReader(response.Body, boundary, multipart.Limits{})
			root, err := parts.Next()
			if err != nil {
				t.Fatal(err)
			}
			if got := root.Header.Get("Content-Type"); got != test.wantRoot {
				t.Errorf("root part: got %s, want %s", got, test.wantRoot)
			}
			octets := answered(t, root, envelope)
			if strings.Contains(octets, "<attachment ") != (test.wantParts == nil) {
				t.Errorf("attachments are both listed and returned, or neither")
			}
			for i, a := range attachments {
				if want := listed("attachment", fmt.Sprintf("&lt;%d&amp;&gt;", i), a); test.wantParts == nil && !strings.Contains(octets, want) {
					t.Errorf("attachment %d is not listed as %s", i, want)
				}
			}
			for i, want := range test.wantParts {
				part, err := parts.Next()
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(part)
				if err != nil || string(got) != want || len(part.Header) != 3 || part.Header[0].Name != "X-First" {
					t.Errorf("attachment %d: %d octets, header %v, error %v", i, len(got), part.Header, err)
				}
			}
			if _, err := parts.Next(); err != io.EOF {
				t.Errorf("after the last part: %v", err)
			}
		})
	}
}

func TestEchoFault(t *testing.T) {
	for _, test := range []struct {
		name, contentType, body, code, text string
	}{
		{"asked for", "text/xml", request("<fault>as &lt;asked&gt;</fault>"), "Server", "as <asked>"},
		{"asked for, empty", "text/xml", request("<fault/>"), "Server", ""},
		{"asked for with attachments", `multipart/related; type="text/xml"; boundary="boundary"`,
			related(t, request("<returnAttachments>true</returnAttachments><fault>no</fault>"), "text/xml", "a"), "Server", "no"},
		{"no XML", "text/xml", "hello", "Client", ""},
		{"no content type", "", request(""), "Client", ""},
		{"no boundary", "multipart/related", request(""), "Client", ""},
		{"cut in the envelope", `multipart/related; type="text/xml"; boundary="boundary"`,
			related(t, request(""), "text/xml")[:600], "Client", ""},
		{"cut in an attachment", `multipart/related; type="text/xml"; boundary="boundary"`,
			strings.TrimSuffix(related(t, request(""), "text/xml", "attachment"), "--boundary--\r\n"), "Client", ""},
		{"badly asked", "text/xml", request("<returnAttachments>maybe</returnAttachments>"), "Client", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := ask(t, "POST", test.contentType, strings.NewReader(test.body))
			octets, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			fault, err := soap.ParseFault(octets)
			if err != nil {
				t.Fatalf("%v: %s", err, octets)
			}
			if response.StatusCode != 500 || fault.Code != test.code || test.text != "" && fault.String != test.text {
				t.Errorf("got %s, %+v", response.Status, fault)
			}
		})
	}
	t.Run("not POST", func(t *testing.T) {
		if response := ask(t, "GET", "", nil); response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("got %s", response.Status)
		}
	})
	t.Run("cut while attachments are returned", func(t *testing.T) {
		body := related(t, request("<returnAttachments>true</returnAttachments>"), "text/xml", strings.Repeat("attachment", 100000))
		response := ask(t, "POST", `multipart/related; type="text/xml"; boundary="boundary"`, strings.NewReader(strings.TrimSuffix(body, "--boundary--\r\n")))
		if _, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Error("a cut request has a whole answer")
		}
	})
}

// TestEchoReturnsWhileReading sends an attachment whose second half is not sent before the first has come back.
func TestEchoReturnsWhileReading(t *testing.T) {
	body := related(t, request("<returnAttachments>true</returnAttachments>"), "text/xml", strings.Repeat("a", 1<<20))
	r, w := io.Pipe()
	go func() { io.WriteString(w, body[:len(body)-1000]) }()
	response := ask(t, "POST", `multipart/related; type="text/xml"; boundary="boundary"`, r)
	if _, err := io.CopyN(io.Discard, response.Body, 1<<19); err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(w, body[len(body)-1000:])
		w.Close()
	}()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
}
