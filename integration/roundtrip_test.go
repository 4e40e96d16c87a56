// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/internal/freeport"
	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

// example is Caddyfile.example on ports that are free.
type example struct {
	config  string
	send    string // URL for information systems
	receive string // address for other security servers
}

// freePorts replaces the ports of the example.
func freePorts(t *testing.T, config string) example {
	t.Helper()
	names := []string{"8080", "5500", "5577", "9000", "8081", "5501", "5578"}
	ports, err := freeport.Find(len(names))
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	free := make(map[string]string)
	for i, name := range names {
		pairs = append(pairs, ":"+name, fmt.Sprintf(":%d", ports[i]))
		free[name] = fmt.Sprintf("127.0.0.1:%d", ports[i])
	}
	config = strings.NewReplacer(pairs...).Replace(config)
	config = strings.Replace(config, "\n{\n", "\n{\n\tadmin off\n\tpersist_config off\n", 1)
	return example{config, "http://" + free["8080"] + "/", free["5500"]}
}

// run runs a Caddyfile, in place of one that runs.
func run(t *testing.T, config string) {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(adapted, true); err != nil {
		t.Fatal(err)
	}
}

func readExample(t *testing.T) string {
	t.Helper()
	config, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	return string(config)
}

// envelope returns a request of DEV/GOV/1111/app.
func envelope(service, content string) string {
	return `<?xml version="1.0" encoding="UTF-8"?>
<env:Envelope xmlns:env="http://schemas.xmlsoap.org/soap/envelope/" xmlns:x="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers"><env:Header>
<x:client id:objectType="SUBSYSTEM"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>1111</id:memberCode><id:subsystemCode>app</id:subsystemCode></x:client>
<x:service id:objectType="SERVICE"><id:xRoadInstance>DEV</id:xRoadInstance><id:memberClass>GOV</id:memberClass><id:memberCode>0000</id:memberCode><id:subsystemCode>registry</id:subsystemCode><id:serviceCode>` + service + `</id:serviceCode><id:serviceVersion>v1</id:serviceVersion></x:service>
<x:id>e-1</x:id><x:protocolVersion>4.0</x:protocolVersion>
</env:Header><env:Body><e:` + service + ` xmlns:e="urn:example">` + content + `</e:` + service + `></env:Body></env:Envelope>`
}

const (
	swa  = `multipart/related; type="text/xml"; start="<root>"; boundary="boundary"`
	mtom = `multipart/related; type="application/xop+xml"; start="<root>"; start-info="text/xml"; boundary="boundary"`
)

// related returns the body of a multipart request.
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
		part(a, "Content-Type", "application/octet-stream", "Content-ID", fmt.Sprintf("<%d>", i))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func post(t *testing.T, url, contentType string, body io.Reader) *http.Response {
	t.Helper()
	response, err := http.Post(url, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// parts returns the envelope and the attachments of an answer.
func parts(t *testing.T, response *http.Response) (all []string) {
	t.Helper()
	form, err := multipart.ParseContentType(response.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if form.Type != "multipart/related" {
		octets, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return []string{string(octets)}
	}
	boundary, _ := form.Param("boundary")
	for r := multipart.NewReader(response.Body, boundary, multipart.Limits{}); ; {
		part, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		octets, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(octets))
	}
}

func digested(octets string) string {
	return fmt.Sprintf("<length>%d</length><sha256>%x</sha256>", len(octets), sha256.Sum256([]byte(octets)))
}

// TestRoundTrip sends messages through both security servers of the example to a service with "to" and to one that is
// reached by routes.
func TestRoundTrip(t *testing.T) {
	e := freePorts(t, strings.Replace(readExample(t), "\txroad_send ss1\n",
		"\theader {\n\t\tdefer\n\t\tX-Peer {http.xroad.peer}\n\t\tX-Client {http.xroad.client}\n\t}\n\txroad_send ss1\n", 1))
	run(t, e.config)
	t.Cleanup(func() { caddy.Stop() })

	attachments := []string{"first", "", strings.Repeat("0123456789abcdef", 1<<16)}
	exchanges := 0
	for _, service := range []string{"echo", "other"} {
		for _, test := range []struct {
			name, contentType, root, content string
			attachments, returned            []string
		}{
			{"plain", "text/xml; charset=UTF-8", "", "hello", nil, nil},
			{"long", "text/xml", "", strings.Repeat("lorem ipsum ", 1<<17), nil, nil},
			{"SwA", swa, "text/xml; charset=UTF-8", "", attachments, nil},
			{"SwA returned", swa, "text/xml; charset=UTF-8", "<returnAttachments>true</returnAttachments>", attachments, attachments},
			{"MTOM", mtom, `application/xop+xml; charset=UTF-8; type="text/xml"`, "", attachments, nil},
			{"MTOM returned", mtom, `application/xop+xml; charset=UTF-8; type="text/xml"`, "<returnAttachments>true</returnAttachments>", attachments, attachments},
		} {
			exchanges++
			t.Run(service+" "+test.name, func(t *testing.T) {
				asked := envelope(service, test.content)
				body := asked
				if test.root != "" {
					body = related(t, asked, test.root, test.attachments...)
				}
				response := post(t, e.send, test.contentType, strings.NewReader(body))
				got := parts(t, response)
				if !strings.Contains(got[0], service+"Response") || !strings.Contains(got[0], digested(asked)) {
					t.Fatalf("got %.2000s", got[0])
				}
				if len(got)-1 != len(test.returned) {
					t.Fatalf("%d attachments came back", len(got)-1)
				}
				for i, want := range test.returned {
					if got[i+1] != want {
						t.Errorf("attachment %d came back with %d octets, not as it was", i, len(got[i+1]))
					}
				}
				for i, a := range test.attachments {
					if test.returned == nil && !strings.Contains(got[0], digested(a)) {
						t.Errorf("attachment %d did not arrive", i)
					}
				}
				if peer, client := response.Header.Get("X-Peer"), response.Header.Get("X-Client"); peer != "DEV/GOV/0000/ss2" || client != "DEV/GOV/1111/app" {
					t.Errorf("placeholders: peer %q, client %q", peer, client)
				}
			})
		}
	}

	for _, test := range []struct{ name, envelope, code string }{
		{"unknown service", envelope("missing", ""), "server.serverproxy.unknown_service"},
		{"unknown client", strings.Replace(envelope("echo", ""), "1111", "2222", 1), "server.clientproxy.unknown_member"},
		{"no SOAP", "hello", "client.invalid_soap"},
		{"fault of the service", envelope("echo", "<fault>as asked</fault>"), "Server"},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := post(t, e.send, "text/xml", strings.NewReader(test.envelope))
			octets, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			fault, err := soap.ParseFault(octets)
			if err != nil {
				t.Fatalf("%v: %s", err, octets)
			}
			if fault.Code != test.code {
				t.Errorf("got %+v", fault)
			}
		})
	}

	// Each server of each exchange kept the request and the response.
	caddy.Stop()
	for _, name := range []string{"ss1", "ss2"} {
		store, err := evidence.OpenRead(filepath.Join(caddy.AppDataDir(), "xroad", name, "evidence"))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		signed := 0
		for record, err := range store.Find(context.Background(), evidence.Query{MessageID: "e-1"}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(record.Signature.XML) > 0 {
				signed++
			}
		}
		if signed < 2*exchanges {
			t.Errorf("%s kept %d signed messages of %d exchanges", name, signed, exchanges)
		}
	}
}

// TestReload changes both security servers while a transfer is under way, which must end well under the old ones.
func TestReload(t *testing.T) {
	e := freePorts(t, readExample(t))
	run(t, e.config)
	t.Cleanup(func() { caddy.Stop() })

	asked := envelope("echo", "")
	attachment := strings.Repeat("0123456789abcdef", 1<<16)
	body := related(t, asked, "text/xml", attachment)
	half := len(body) / 2
	r, w := io.Pipe()
	go io.WriteString(w, body[:half])
	type result struct {
		response *http.Response
		err      error
	}
	answered := make(chan result, 1)
	go func() {
		response, err := http.Post(e.send, swa, r)
		answered <- result{response, err}
	}()
	// A request that has not arrived when its listener's server is replaced is lost, in every HTTP server.
	for spool := filepath.Join(caddy.AppDataDir(), "xroad", "ss2", "spool", "*", "*"); ; time.Sleep(time.Millisecond) {
		if files, err := filepath.Glob(spool); len(files) > 0 || err != nil {
			break
		}
	}

	changed := strings.NewReplacer(
		"client DEV/GOV/1111/app\n", "client DEV/GOV/1111/app\n\t\tclient DEV/GOV/1111/another\n",
		"server DEV/GOV/0000/ss2\n", "server DEV/GOV/0000/ss2\n\t\tspool memory 64MiB\n",
	).Replace(e.config)
	if changed == e.config {
		t.Fatal("nothing is changed")
	}
	run(t, changed)
	t.Run("a new exchange while the old one goes on", func(t *testing.T) {
		// A connection that reaches the old listener in the moment in which it closes is reset, here or between the
		// security servers. What comes after that moment must pass.
		var last string
		for range 1500 {
			response, err := http.Post(e.send, "text/xml", strings.NewReader(asked))
			if err != nil {
				last = err.Error()
			} else if last = parts(t, response)[0]; strings.Contains(last, digested(asked)) {
				response.Body.Close()
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Error(last)
	})

	io.WriteString(w, body[half:])
	w.Close()
	old := <-answered
	if old.err != nil {
		t.Fatal(old.err)
	}
	defer old.response.Body.Close()
	if got := parts(t, old.response); !strings.Contains(got[0], digested(attachment)) {
		t.Errorf("the transfer did not survive the reload: %s", got[0])
	}
}

// TestBothWays has both servers receive, each with its own key, though Caddy knows no difference between their sites.
func TestBothWays(t *testing.T) {
	e := freePorts(t, strings.NewReplacer(
		"\tservers 127.0.0.1:5500 {", "\tservers 127.0.0.1:5501 {\n\t\tstrict_sni_host insecure_off\n\t}\n\tservers 127.0.0.1:5500 {",
		"client DEV/GOV/1111/app\n", `client DEV/GOV/1111/app
		service DEV/GOV/1111/app/back/v1 {
			allow DEV/GOV/0000/registry
			to http://127.0.0.1:9000
		}
`, "\t\tservice DEV/GOV/0000/registry/echo", "\t\tclient DEV/GOV/0000/registry\n\t\tservice DEV/GOV/0000/registry/echo",
	).Replace(readExample(t))+`
http://:8081 {
	xroad_send ss2
}
https://:5501 {
	tls {
		get_certificate xroad ss1
		client_auth {
			mode require
			verifier xroad ss1
		}
		alpn http/1.1
	}
	xroad_receive ss1
}
http://:5578 {
	xroad_ocsp ss1
}
`)
	run(t, e.config)
	t.Cleanup(func() { caddy.Stop() })
	back := strings.NewReplacer("1111", "0000", "0000", "1111", ">app<", ">registry<", ">registry<", ">app<").Replace(envelope("back", ""))
	ports := regexp.MustCompile(`http://:([0-9]+) \{\n\txroad_send ss2`).FindStringSubmatch(e.config)
	if ports == nil {
		t.Fatal("the second sender is not in the example")
	}
	for i := range 4 {
		for url, asked := range map[string]string{e.send: envelope("echo", ""), "http://127.0.0.1:" + ports[1] + "/": back} {
			if got := parts(t, post(t, url, "text/xml", strings.NewReader(asked))); !strings.Contains(got[0], digested(asked)) {
				t.Errorf("exchange %d over %s: got %s", i, url, got[0])
			}
		}
	}
}

// TestOwnKeyBesideOtherCertificates has Caddy manage a certificate for the very address at which a server receives.
func TestOwnKeyBesideOtherCertificates(t *testing.T) {
	for name, config := range map[string]string{
		"with the manager":    readExample(t),
		"without the manager": strings.Replace(readExample(t), "\t\tget_certificate xroad ss2\n", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			config = strings.Replace(config, "\tmetrics\n", "\tskip_install_trust\n", 1)
			e := freePorts(t, config+`
https://127.0.0.1:8081 {
	tls internal
	xroad_send ss1
}
`)
			run(t, e.config)
			t.Cleanup(func() { caddy.Stop() })
			asked := envelope("echo", "")
			if got := parts(t, post(t, e.send, "text/xml", strings.NewReader(asked))); !strings.Contains(got[0], digested(asked)) {
				t.Errorf("got %s", got[0])
			}
		})
	}
}

// TestStrangers knocks where other security servers come in.
func TestStrangers(t *testing.T) {
	e := freePorts(t, readExample(t))
	run(t, e.config)
	t.Cleanup(func() { caddy.Stop() })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		certs []tls.Certificate
	}{
		{"no certificate", nil},
		{"a certificate of nobody", []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	} {
		for _, name := range []string{"", "localhost", "fairway.example"} {
			t.Run(test.name+", asking for "+strconv.Quote(name), func(t *testing.T) {
				conn, err := tls.Dial("tcp", e.receive, &tls.Config{
					ServerName: name, InsecureSkipVerify: true, Certificates: test.certs,
				})
				if err == nil {
					defer conn.Close()
					_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 the refusal comes after our handshake
				}
				if err == nil || err == io.EOF || !strings.Contains(err.Error(), "remote error: tls") {
					t.Errorf("not refused: %v", err)
				}
			})
		}
	}
}
