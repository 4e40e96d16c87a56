// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/wire"
)

const vectors = "../../shared/vectors/xroad-messages"

type hashedPart struct {
	Length int64
	SHA512 string
}

type vectorUse struct {
	Role        string
	ContentType string `json:"content_type"`
	Expected    string
	Hashed      *struct {
		SOAP        hashedPart
		Attachments []hashedPart
	}
}

type vectorCase struct {
	File string
	Uses []vectorUse
}

func vectorCases(t *testing.T) []vectorCase {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(vectors, "cases.json"))
	if err != nil {
		t.Skip("vectors are not beside the repository")
	}
	var cases struct{ Cases []vectorCase }
	if err := json.Unmarshal(list, &cases); err != nil {
		t.Fatal(err)
	}
	return cases.Cases
}

func vector(t *testing.T, file string) []byte {
	t.Helper()
	octets, err := os.ReadFile(filepath.Join(vectors, file))
	if err != nil {
		t.Fatal(err)
	}
	return octets
}

// special has what a row's exchange needs besides a service that answers.
var special = map[string]func(o *testbed.Options){
	"soap-requests/notAllowed.query":              func(o *testbed.Options) { o.Service.Allow = []exchange.Subject{} },
	"soap-requests/missing-org.query":             func(o *testbed.Options) { o.Client.Member = "consumer" },
	"soap-requests/invalid-service-address.query": func(o *testbed.Options) { o.Service.To = "http://address.invalid/" },
	"soap-requests/signing-error-request.query": func(o *testbed.Options) {
		o.Sender = func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} }
	},
	"soap-requests/signing-error-response.query": func(o *testbed.Options) {
		o.Receive = func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} }
	},
	"monitoring/unknown_service.query": func(o *testbed.Options) { o.Service.ID.Code = "another" },
}

// expected returns the code of a row, "" for accept.
func expected(use vectorUse, file string) string {
	code, _, _ := strings.Cut(use.Expected, " ")
	code = strings.TrimRight(code, ",;:") // "accept; answered as …"
	if file == "soap-requests/invalid-service-address.query" {
		return "server.serverproxy.service_failed.unknown_host"
	}
	if code == "accept" {
		return map[string]string{"monitoring/unknown_service.query": "server.serverproxy.unknown_service"}[file]
	}
	return code
}

// bedFor starts two security servers for the client and the service that a message names.
func bedFor(t *testing.T, file string, header *soap.Header, o testbed.Options) *testbed.Bed {
	if header != nil {
		o.Client, o.Service.ID = header.Client, header.Service
		if header.SecurityServer != nil {
			o.ServerCode = header.SecurityServer.Code
		}
	}
	if change, ok := special[file]; ok {
		change(&o)
	}
	return testbed.New(t, o)
}

// headerOf reads the X-Road header of a message, or nil.
func headerOf(contentType string, body []byte) *soap.Header {
	o, err := wire.Open(contentType, bytes.NewReader(body))
	if err != nil || o.Envelope.Fault {
		return nil
	}
	return &o.Envelope.Header
}

// TestRequestVectors posts every request of the vectors (role Q) to the sending security server.
func TestRequestVectors(t *testing.T) {
	n := 0
	for _, c := range vectorCases(t) {
		for _, use := range c.Uses {
			if use.Role != "Q" {
				continue
			}
			n++
			t.Run(c.File+" "+use.ContentType, func(t *testing.T) {
				body := vector(t, c.File)
				header := headerOf(use.ContentType, body)
				received := make(chan []byte, 1)
				bed := bedFor(t, c.File, header, testbed.Options{Route: recording{testbed.Echo{}, received}})
				_, answer := post(t, bed, use.ContentType, bytes.NewReader(body))
				want := expected(use, c.File)
				if got := faultOf(t, answer); got != want {
					t.Fatalf("got %q, want %q\n%s", got, want, answer)
				}
				bed.CheckClean()
				if want != "" {
					return
				}
				compareHashed(t, bed, use)
				if !strings.HasPrefix(strings.ToLower(use.ContentType), "multipart/") && len(received) > 0 {
					if got := <-received; !bytes.Equal(got, body) {
						t.Error("the service got other octets than were sent")
					}
				}
			})
		}
	}
	if n != 57 {
		t.Errorf("%d uses of role Q, want 57", n)
	}
}

// recording keeps what a service got.
type recording struct {
	http.Handler
	got chan []byte
}

func (r recording) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.got <- body
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.Handler.ServeHTTP(w, req)
}

// faultOf is faultCode for answers in a multipart as well.
func faultOf(t *testing.T, answer []byte) string {
	t.Helper()
	if i := bytes.Index(answer, []byte("\r\n\r\n")); i > 0 && bytes.HasPrefix(answer, []byte("--")) {
		return "" // faults are never in a multipart
	}
	return faultCode(t, answer)
}

// nested has the requests whose attachments X-Road takes out of a nested multipart. We send the container on closed
// (message-and-transport 4.3, Advice), so that the service gets what was sent.
var nested = regexp.MustCompile(`(?i)^content-type:\s*multipart/`)

// compareHashed compares the digests in the receiver's evidence with those that the reference server computes.
func compareHashed(t *testing.T, bed *testbed.Bed, use vectorUse) {
	t.Helper()
	if use.Hashed == nil {
		t.Error("the list does not say what is hashed")
		return
	}
	for record, err := range bed.Receiver.Evidence.Find(t.Context(), evidence.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if record.Response {
			continue
		}
		want := append([]hashedPart{use.Hashed.SOAP}, use.Hashed.Attachments...)
		if len(record.Parts) != len(want) {
			t.Errorf("%d parts were signed, want %d", len(record.Parts), len(want))
			return
		}
		for i, p := range record.Parts {
			if nested.MatchString("content-type: " + p.ContentType) {
				continue
			}
			if sum := base64.StdEncoding.EncodeToString(p.Sum); p.Digest != crypto.SHA512 || sum != want[i].SHA512 || p.Size != want[i].Length {
				t.Errorf("%s has %d octets of digest %s, want %d of %s", p.Name, p.Size, sum, want[i].Length, want[i].SHA512)
			}
		}
		return
	}
	t.Error("the receiver has no evidence of the request")
}

// requestOf has the request that an answer of the vectors belongs to.
func requestOf(file string) (request, contentType string) {
	switch base := strings.TrimSuffix(path.Base(file), path.Ext(file)); base {
	case "simple", "simple-comment":
		return "soap-requests/simple.query", "text/xml; charset=UTF-8"
	case "getstate-subsystem":
		return "soap-requests/getstate-subsystem.query", "text/xml; charset=UTF-8"
	case "attachm", "attachm2":
		return "multipart/attachm.query", "multipart/related; charset=UTF-8; boundary=jetty771207119h3h10dty"
	case "attachm-mtom":
		return "multipart/attachm-mtom.query", `Multipart/Related; start-info="application/soap+xml"; type="application/xop+xml"; boundary="jetty771207119h3h10dty"`
	case "smallAttachment":
		return "multipart/smallAttachment.query", "multipart/related; charset=UTF-8; boundary=jetty771207119h3h10dty"
	}
	return "soap-requests/getstate.query", "text/xml; charset=UTF-8"
}

var idBlock = regexp.MustCompile(`<xroad:id>[^<]*</xroad:id>`)

// paired gives a request and its answer the same id, as the reference tests do.
func paired(message []byte) []byte {
	return idBlock.ReplaceAll(message, []byte("<xroad:id>0123456789abcdef</xroad:id>"))
}

// TestAnswerVectors lets a service answer with every answer of the vectors (role P).
func TestAnswerVectors(t *testing.T) {
	n := 0
	for _, c := range vectorCases(t) {
		for _, use := range c.Uses {
			if use.Role != "P" {
				continue
			}
			n++
			for _, status := range []int{200, 500} {
				t.Run(c.File+" "+use.ContentType+" "+http.StatusText(status), func(t *testing.T) {
					file, requestType := requestOf(c.File)
					request := paired(vector(t, file))
					answer := paired(vector(t, c.File))
					bed := bedFor(t, "", headerOf(requestType, request), testbed.Options{Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Content-Type", use.ContentType)
						w.WriteHeader(status)
						w.Write(answer)
					})})
					contentType, got := post(t, bed, requestType, bytes.NewReader(request))
					want := expected(use, c.File)
					if code := faultOf(t, got); code != want {
						t.Fatalf("got %q, want %q\n%s", code, want, got)
					}
					bed.CheckClean()
					switch {
					case strings.Contains(use.Expected, "untouched") && !bytes.Equal(got, answer):
						t.Errorf("the fault came as\n%s", got)
					case want == "" && strings.HasPrefix(strings.ToLower(use.ContentType), "multipart/") && contentType != use.ContentType:
						t.Errorf("Content-Type %q", contentType)
					case want == "" && !bytes.Contains(got, []byte("requestHash")):
						t.Error("the answer has no requestHash")
					}
				})
			}
		}
	}
	if n != 23 {
		t.Errorf("%d uses of role P, want 23", n)
	}
}

// TestPeerVectors posts every transport body of the vectors that no signature is needed for (role T) to the receiving
// security server, and lets a peer answer with every one of role R. Those that only the decoder judges are tests of wire.
func TestPeerVectors(t *testing.T) {
	n := 0
	for _, c := range vectorCases(t) {
		for _, use := range c.Uses {
			if strings.Contains(use.Expected, "decoder") || !strings.HasPrefix(use.Expected, "server.") && use.Role != "R" {
				continue
			}
			switch use.Role {
			case "T":
				n++
				t.Run("T/"+c.File, func(t *testing.T) { postTransport(t, c.File, use) })
			case "R":
				n++
				t.Run("R/"+c.File+" "+use.ContentType, func(t *testing.T) { answerTransport(t, c.File, use) })
			}
		}
	}
	if n != 7 {
		t.Errorf("%d uses, want 7", n)
	}
}

func postTransport(t *testing.T, file string, use vectorUse) {
	header := &soap.Header{
		Client:  ident.Client{Instance: "EE", Class: "BUSINESS", Member: "consumer"},
		Service: ident.Service{Client: ident.Client{Instance: "EE", Class: "BUSINESS", Member: "producer"}, Code: "getState"},
	}
	if strings.HasPrefix(file, "multipart/") {
		header.Service.Code = "test"
	}
	bed := bedFor(t, "", header, testbed.Options{})
	ocsp, err := bed.Sender.Trust.Status(t.Context(), bed.Sender.Keys.Auth().Leaf)
	if err != nil {
		t.Fatal(err)
	}
	// The vectors have no OCSP part, for they were sent without TLS; a peer's message needs one.
	_, boundary, _ := strings.Cut(use.ContentType, "boundary=")
	boundary, _, _ = strings.Cut(boundary, ";")
	body := append([]byte("--"+boundary+"\r\nContent-Type: application/ocsp-response\r\n\r\n"+string(ocsp)+"\r\n"), vector(t, file)...)
	req, err := http.NewRequest(http.MethodPost, bed.PeerURL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", use.ContentType)
	req.Header.Set("X-Hash-Algorithm", "SHA-512")
	req.Header.Set("X-Original-Content-Type", "multipart/related; boundary=original")
	response, err := (&http.Client{Transport: bed.PeerTransport()}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := faultCode(t, answer); got != expected(use, file) {
		t.Errorf("got %q, want %q\n%s", got, expected(use, file), answer)
	}
	bed.CheckClean()
}

func answerTransport(t *testing.T, file string, use vectorUse) {
	request := vector(t, "soap-requests/getstate.query")
	bed := bedFor(t, "", headerOf("text/xml", request), testbed.Options{Peer: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", use.ContentType)
		w.Header().Set("X-Hash-Algorithm", "SHA-512")
		w.Header().Set("X-Original-Content-Type", "multipart/related; boundary=original")
		w.Write(vector(t, file))
	})})
	_, answer := post(t, bed, "text/xml", bytes.NewReader(request))
	if got := faultOf(t, answer); got != expected(use, file) {
		t.Errorf("got %q, want %q\n%s", got, expected(use, file), answer)
	}
	if strings.Contains(use.Expected, "untouched") && !bytes.Equal(answer, vector(t, file)) {
		t.Errorf("the fault came as\n%s", answer)
	}
	bed.CheckClean()
}
