// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/internal/testbed"
	"github.com/caddy-fairway/fairway/soap"
)

// counted counts how often a service is called.
type counted struct {
	http.Handler
	calls atomic.Int32
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.calls.Add(1)
	c.Handler.ServeHTTP(w, r)
}

const relatedType = `multipart/related; type="text/xml"; start="<root>"; boundary=b`

func changed(change func(h *soap.Header)) []byte {
	h := header()
	change(h)
	return testbed.Envelope(h, "echo", "")
}

// TestRefusedRequests sends bad requests: each gets its fault, no service is called and nothing stays in the spools.
func TestRefusedRequests(t *testing.T) {
	good := testbed.Envelope(header(), "echo", "")
	replaced := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	disabled := "until Monday"
	service := exchange.Service{}
	other := func(code string, allow ...exchange.Subject) exchange.Service {
		id := header().Service
		id.Code = code
		return exchange.Service{ID: id, Allow: allow}
	}
	closed, off := other("echoClosed"), other("echoOff", exchange.Subject{Client: header().Client})
	off.Disabled = &disabled
	parentOnly := other("echoParent", exchange.Subject{Client: header().Client.MemberOf()})
	small := other("echoSmall", exchange.Subject{Client: header().Client})
	small.Limit = 1000
	tests := []struct {
		name, contentType string
		body              []byte
		want              string
	}{
		{"not XML", "text/xml", []byte("hello"), "client.invalid_soap"},
		{"empty", "text/xml", nil, "client.invalid_soap"},
		{"DOCTYPE", "text/xml", replaced("<soap:Envelope", `<!DOCTYPE x [<!ENTITY e "x">]><soap:Envelope`), "client.invalid_soap"},
		{"undefined entity", "text/xml", replaced(">id-1<", ">&e;<"), "client.invalid_soap"},
		{"SOAP 1.2", "text/xml", replaced("http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"), "client.invalid_soap"},
		{"two ids", "text/xml", replaced("<xroad:id>", "<xroad:id>0</xroad:id><xroad:id>"), "client.duplicate_header_field"},
		{"bytes after the root", "text/xml", append(good[:len(good):len(good)], "<x/>"...), "client.invalid_soap"},
		{"cut envelope", "text/xml", good[:len(good)-20], "client.invalid_soap"},
		{"two body children", "text/xml", replaced("</soap:Body>", "<x/></soap:Body>"), "client.invalid_body"},
		{"a fault", "text/xml", (&soap.Fault{Code: "Server.X", String: "y"}).Bytes(), "client.server.x"},
		{"wrong content type", "text/html", good, "client.invalid_content_type"},
		{"wrong boundary", "multipart/related; boundary=c", related(good), "client.missing_soap"},
		{"no closing delimiter", relatedType, bytes.TrimSuffix(related(good, []byte("x")), []byte("--\r\n")), "client.mime_parsing_failed"},
		{"cut in an attachment", relatedType, related(good, []byte(strings.Repeat("x", 1000)))[:len(good)+500], "client.mime_parsing_failed"},
		{"attachment without type", relatedType, bytes.Replace(related(good, []byte("x")), []byte("Content-Type: application/octet-stream"), []byte("X-Type: y"), 1), "client.invalid_content_type"},
		{"unknown client", "text/xml", changed(func(h *soap.Header) { h.Client.Subsystem = "nobody" }), "server.clientproxy.unknown_member"},
		{"unknown provider", "text/xml", changed(func(h *soap.Header) { h.Service.Member = "9999" }), "server.clientproxy.unknown_member"},
		{"unknown security server", "text/xml", changed(func(h *soap.Header) {
			h.SecurityServer = &ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: "ss9"}
		}), "server.clientproxy.invalid_security_server"},
		{"security server of another", "text/xml", changed(func(h *soap.Header) {
			h.SecurityServer = &ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}
		}), "server.clientproxy.invalid_security_server"},
		{"unknown service", "text/xml", testbed.Envelope(with("nowhere"), "nowhere", ""), "server.serverproxy.unknown_service"},
		{"unknown version", "text/xml", changed(func(h *soap.Header) { h.Service.Version = "v2" }), "server.serverproxy.unknown_service"},
		{"no right", "text/xml", testbed.Envelope(with("echoClosed"), "echoClosed", ""), "server.serverproxy.access_denied"},
		{"the right of its member", "text/xml", testbed.Envelope(with("echoParent"), "echoParent", ""), "server.serverproxy.access_denied"},
		{"disabled", "text/xml", testbed.Envelope(with("echoOff"), "echoOff", ""), "server.serverproxy.service_disabled"},
		{"beyond the limit", relatedType, related(testbed.Envelope(with("echoSmall"), "echoSmall", ""), bytes.Repeat([]byte("x"), 100_000)), "server.serverproxy.invalid_request"},
		{"a metaservice with attachments, which needs no right", relatedType, related(testbed.Envelope(with("listMethods"), "listMethods", ""), bytes.Repeat([]byte("x"), 2<<20)), "server.serverproxy.invalid_request"},
		{"wrong body name", "text/xml", testbed.Envelope(header(), "other", ""), "client.inconsistent_headers"},
	}
	route := &counted{Handler: testbed.Echo{}}
	bed := testbed.New(t, testbed.Options{Route: route, Service: service, More: []exchange.Service{closed, off, parentOnly, small}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contentType, answer := post(t, bed, tt.contentType, bytes.NewReader(tt.body))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			if contentType != "text/xml;charset=utf-8" {
				t.Errorf("Content-Type %q", contentType)
			}
			bed.CheckClean()
		})
	}
	if n := route.calls.Load(); n != 0 {
		t.Errorf("services were called %d times", n)
	}
}

func with(code string) *soap.Header {
	h := header()
	h.Service.Code = code
	return h
}

// TestTampered changes one octet of a message between the security servers.
func TestTampered(t *testing.T) {
	tests := []struct {
		name, find, replace string
		response            bool
		want                string
	}{
		{"envelope of the request", "userId>EE3", "userId>EE4", false, "server.serverproxy.signature_verification.invalid_signature_value"},
		{"attachment of the request", "secret", "sekret", false, "server.serverproxy.signature_verification.invalid_signature_value"},
		{"signature of the request", "<ds:SignatureValue", "<ds:Signaturevalue", false, "server.serverproxy.signature_verification.invalid_xml"},
		{"client of the request", "subsystemCode>app<", "subsystemCode>apq<", false, "server.serverproxy.service_failed.ssl_authentication_failed"},
		{"envelope of the response", "echoResponse xmlns", "echoResponsf xmlns", true, "server.clientproxy.service_failed.invalid_soap"},
		{"body of the response", "<t:sha256>", "<t:sha255>", true, "server.clientproxy.service_failed.invalid_soap"},
		{"user of the response", "userId>EE3", "userId>EE4", true, "server.clientproxy.signature_verification.invalid_signature_value"},
		{"attachment of the response", "secret", "sekret", true, "server.clientproxy.signature_verification.invalid_signature_value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			route := &counted{Handler: testbed.Echo{Attach: true}}
			bed := testbed.New(t, testbed.Options{Route: route, Middle: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if tt.response {
						next.ServeHTTP(&replacing{ResponseWriter: w, old: tt.find, new: tt.replace}, r)
						return
					}
					body, _ := io.ReadAll(r.Body)
					if !bytes.Contains(body, []byte(tt.find)) {
						t.Errorf("the message does not hold %q", tt.find)
					}
					r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(tt.find), []byte(tt.replace))))
					next.ServeHTTP(w, r)
				})
			}})
			_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), []byte("a secret"))))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			if n := route.calls.Load(); n != 0 && !tt.response {
				t.Errorf("the service was called %d times", n)
			}
			bed.CheckClean()
		})
	}
}

// replacing changes what is written, as long as it comes in one piece.
type replacing struct {
	http.ResponseWriter
	old, new string
}

func (r *replacing) Write(b []byte) (int, error) {
	_, err := r.ResponseWriter.Write(bytes.ReplaceAll(b, []byte(r.old), []byte(r.new)))
	return len(b), err
}

func (r *replacing) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// TestServices answers verified requests badly.
func TestServices(t *testing.T) {
	const failed = "server.serverproxy.service_failed."
	answering := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if contentType != "" {
				w.Header().Set("Content-Type", contentType)
			} else {
				w.Header()["Content-Type"] = nil
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	good := string(testbed.Envelope(header(), "echoResponse", ""))
	other := header()
	other.ID = "another"
	fault := `<?xml version="1.0"?><e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:f="urn:f"><e:Body><e:Fault><faultcode>f:Own</faultcode><faultstring>no</faultstring><detail><f:deep><f:er/></f:deep></detail></e:Fault></e:Body></e:Envelope>`
	tests := []struct {
		name    string
		service http.HandlerFunc
		want    string
		same    bool // the fault document comes unchanged
	}{
		{"404", answering(404, "text/html", "<html>not here</html>"), failed + "http_error", false},
		{"202", answering(202, "", ""), failed + "http_error", false},
		{"204", answering(204, "", ""), failed + "http_error", false},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, failed + "http_error", false},
		{"HTML", answering(200, "text/html", "<html/>"), failed + "invalid_content_type", false},
		{"nothing as SOAP", answering(200, "text/xml", ""), failed + "invalid_soap", false},
		{"no Content-Type", answering(200, "", good), failed + "invalid_content_type", false},
		{"empty multipart", answering(200, "multipart/related; boundary=b", ""), failed + "invalid_message", false},
		{"multipart with another boundary", answering(200, "multipart/related; boundary=c", string(related([]byte(good)))), failed + "invalid_message", false},
		{"multipart that ends early", answering(200, relatedType, string(related([]byte(good), []byte("x"))[:len(good)+150])), failed + "mime_parsing_failed", false},
		{"no header", answering(200, "text/xml", strings.Replace(good, "<soap:Header>", "<soap:Header><!--", 1)), failed + "invalid_soap", false},
		{"two bodies", answering(200, "text/xml", strings.Replace(good, "</soap:Envelope>", "<soap:Body/></soap:Envelope>", 1)), failed + "invalid_body", false},
		{"another id", answering(200, "text/xml", string(testbed.Envelope(other, "echoResponse", ""))), "server.clientproxy.service_failed.inconsistent_response", false},
		{"500 with a message is a success", answering(500, "text/xml", good), "", false},
		{"fault", answering(500, "text/xml", fault), "f:Own", true},
		{"fault with status 200", answering(200, "text/xml", fault), "f:Own", true},
		{"fault in a multipart", answering(500, relatedType, string(related([]byte(fault), []byte("dropped")))), "f:Own", true},
		{"message in ISO-8859-1", answering(200, "text/xml; charset=iso-8859-1", latin1(strings.Replace(good, ">EE3", ">EE\xe43", 1))), "server.clientproxy.service_failed.inconsistent_response", false},
		{"fault in ISO-8859-1", answering(500, "text/xml; charset=iso-8859-1", latin1(strings.Replace(fault, "f:Own", "f:\xd5wn", 1))), "f:Õwn", false},
		{"fault in ISO-8859-1 in a multipart", answering(500, relatedType, strings.Replace(string(related([]byte(latin1(strings.Replace(fault, "f:Own", "f:\xd5wn", 1))))), "UTF-8\r\n", "ISO-8859-1\r\n", 1)), "f:Õwn", false},
		{"broken off", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/xml")
			io.WriteString(w, good[:len(good)/2])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, failed + "io_error", false},
		{"closes at once", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, failed + "io_error", false},
		{"hangs", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, failed + "io_error", false},
		{"hangs in its answer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/xml")
			io.WriteString(w, good[:len(good)/2])
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, failed + "io_error", false},
	}
	for _, way := range []string{"to", "route"} {
		for _, tt := range tests {
			if way == "route" && strings.Contains(tt.name, "hangs") {
				continue // how long a route may take is its own business
			}
			t.Run(way+"/"+tt.name, func(t *testing.T) {
				o := testbed.Options{Route: tt.service}
				if way == "to" {
					server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						tt.service(w, r)
					}))
					defer server.Close()
					o.Service = exchange.Service{To: server.URL + "/soap"}
					if strings.Contains(tt.name, "hangs") {
						o.Service.Timeout = 300 * time.Millisecond
					}
				}
				bed := testbed.New(t, o)
				_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
				if got := faultCode(t, answer); got != tt.want {
					t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
				}
				if tt.same && string(answer) != fault {
					t.Errorf("the fault came as\n%s", answer)
				}
				if tt.name == "HTML" && !bytes.Contains(answer, []byte("the answer of service "+header().Service.String()+" (HTTP status 200): ")) {
					t.Errorf("the fault does not say whose answer it is\n%s", answer)
				}
				bed.CheckClean()
			})
		}
	}
}

// latin1 declares a document to be in ISO-8859-1.
func latin1(document string) string {
	_, root, _ := strings.Cut(document, "?>")
	return `<?xml version="1.0" encoding="ISO-8859-1"?>` + root
}

func TestServiceOutOfReach(t *testing.T) {
	for name, tt := range map[string]struct{ to, want string }{
		"refused":      {"http://127.0.0.1:1/", "network_error"},
		"unknown host": {"http://service.invalid/", "unknown_host"},
	} {
		t.Run(name, func(t *testing.T) {
			bed := testbed.New(t, testbed.Options{Service: exchange.Service{To: tt.to}})
			_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), []byte("x"))))
			if got := faultCode(t, answer); got != "server.serverproxy.service_failed."+tt.want {
				t.Errorf("got %q\n%s", got, answer)
			}
			bed.CheckClean()
		})
	}
}

// TestSigningFails breaks the key of each member: the late fault comes through.
func TestSigningFails(t *testing.T) {
	broken := func(s *exchange.SecurityServer) { s.Keys = testbed.Broken{Keys: s.Keys} }
	for name, tt := range map[string]struct {
		options testbed.Options
		want    string
	}{
		"sender":   {testbed.Options{Sender: broken}, "server.clientproxy.cannot_create_signature"},
		"receiver": {testbed.Options{Receive: broken}, "server.serverproxy.cannot_create_signature"},
	} {
		t.Run(name, func(t *testing.T) {
			route := &counted{Handler: testbed.Echo{}}
			tt.options.Route = route
			bed := testbed.New(t, tt.options)
			_, answer := post(t, bed, relatedType, bytes.NewReader(related(testbed.Envelope(header(), "echo", ""), []byte("x"))))
			if got := faultCode(t, answer); got != tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			if name == "sender" && route.calls.Load() != 0 {
				t.Error("the service was called for an unsigned message")
			}
			bed.CheckClean()
		})
	}
}

// TestUnsignedPeer posts transport bodies straight to the receiving security server.
func TestUnsignedPeer(t *testing.T) {
	route := &counted{Handler: testbed.Echo{}}
	bed := testbed.New(t, testbed.Options{Route: route})
	client := &http.Client{Transport: bed.PeerTransport()}
	const T = "multipart/mixed; boundary=T"
	soapPart := "--T\r\nContent-Type: text/xml\r\n\r\n" + string(testbed.Envelope(header(), "echo", "")) + "\r\n"
	tests := []struct {
		name, method, contentType, digest, body, want string
	}{
		{"GET", "GET", T, "SHA-512", "", "invalid_http_method"},
		{"bare SOAP", "POST", "text/xml", "SHA-512", string(testbed.Envelope(header(), "echo", "")), "service_failed.invalid_content_type"},
		{"no digest announced", "POST", T, "", soapPart + "--T--", "internal_error"},
		{"SHA-1 announced", "POST", T, "SHA-1", soapPart + "--T--", "internal_error"},
		{"no OCSP response", "POST", T, "SHA-512", soapPart + "--T--", "service_failed.ssl_authentication_failed"},
		{"nothing", "POST", T, "SHA-512", "", "missing_soap"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(context.Background(), tt.method, bed.PeerURL, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", tt.contentType)
			if tt.digest != "" {
				req.Header.Set("X-Hash-Algorithm", tt.digest)
			}
			response, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answer, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := faultCode(t, answer); got != "server.serverproxy."+tt.want {
				t.Errorf("got %q, want %q\n%s", got, tt.want, answer)
			}
			bed.CheckClean()
		})
	}
	if route.calls.Load() != 0 {
		t.Error("the service was called")
	}
}

// TestWordsOfOthers: outcomes, which are logged, hold the words of security servers and not those of services, and no
// information system chooses our fault codes freely.
func TestWordsOfOthers(t *testing.T) {
	fault := &soap.Fault{Code: "Server.ServerProxy.Own", String: "the diagnosis of Mari Maasikas"}
	bed := testbed.New(t, testbed.Options{Route: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(http.StatusInternalServerError)
		w.Write(fault.Bytes())
	})})
	_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(header(), "echo", "")))
	if got := faultCode(t, answer); got != fault.Code {
		t.Errorf("got %q", got)
	}
	post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(with("nowhere"), "nowhere", "")))
	for _, o := range bed.Outcomes() {
		if o.Err == nil || strings.Contains(o.Err.Error(), "Mari") {
			t.Errorf("%s: %v", o.Fault, o.Err)
		}
		if strings.HasSuffix(o.Fault, "unknown_service") && !strings.Contains(o.Err.Error(), "nowhere") {
			t.Errorf("%s: %v", o.Fault, o.Err)
		}
	}
	for _, code := range []string{"a\nb", "a b", strings.Repeat("x", 1000), ""} {
		_, answer := post(t, bed, "text/xml", bytes.NewReader((&soap.Fault{Code: code}).Bytes()))
		if got := faultCode(t, answer); got != "client.fault" {
			t.Errorf("code %.20q: got %.100q", code, got)
		}
	}
}
