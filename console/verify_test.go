// SPDX-License-Identifier: Apache-2.0

package console

import (
	"archive/zip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const vectors = "../../shared/vectors/xroad"

// TestVerifyVectors: X-Road's containers have the outcomes that its tests assert, and those that follow from the rules.
func TestVerifyVectors(t *testing.T) {
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	o := verifyOptions{trusted: trusted{configuration: filepath.Join(vectors, "globalconf/good2_v3")}}
	v, err := o.verifier(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	const client, server = "DEV/COM/4321", "DEV/COM/1234"
	for _, c := range []struct {
		file, code, member string
		octets, byDigest   int
		notice             string
	}{
		{file: "valid-signed-message", member: client, octets: 1},
		{file: "valid-signed-hashchain", member: client, octets: 1, byDigest: 1},
		{file: "valid-batch-ts", member: client, octets: 1},
		{file: "valid-non-batch-rest", member: server, octets: 2},
		{file: "wrong-message", code: "invalid_signature_value"},
		{file: "invalid-signed-hashchain", code: "malformed_signature.invalid_hash_chain_ref"},
		{file: "invalid-not-signed-hashchain", member: client, octets: 1, notice: "does not refer to"},
		{file: "invalid-incorrect-references", code: "malformed_signature"},
		{file: "attachments-legacy", code: "asic_message_not_found"},
		{file: "read/valid-signed-message-with-attachments", member: client, octets: 3},
		{file: "read/no-mimetype", code: "asic_mime_type_not_found"},
		{file: "read/no-message", code: "asic_message_not_found"},
		{file: "read/not-asic", code: "asic_mime_type_not_found"},
	} {
		t.Run(c.file, func(t *testing.T) {
			f, err := o.verifyFile(v, filepath.Join(vectors, "asic", c.file+".asice"))
			if err != nil {
				t.Fatal(err)
			}
			if f.Code != c.code || f.Proved != (c.code == "") {
				t.Fatalf("proved %v, code %q: %s", f.Proved, f.Code, f.Reason)
			}
			if !f.Proved {
				return
			}
			if f.Signer.Member.String() != c.member || len(f.Octets) != c.octets || len(f.ByDigest) != c.byDigest || f.Time.Stamped == nil {
				t.Errorf("it proves %+v", f)
			}
			if got := strings.Join(f.Notices, ""); (got == "") != (c.notice == "") || !strings.Contains(got, c.notice) {
				t.Errorf("its notices are %q, want one of %q", got, c.notice)
			}
		})
	}
}

// TestVerifyUnpacked proves a container that somebody has unpacked, by its signature document.
func TestVerifyUnpacked(t *testing.T) {
	if _, err := os.Stat(vectors); err != nil {
		t.Skip("vectors are not beside the repository")
	}
	for _, file := range []string{"valid-signed-message", "valid-signed-hashchain", "valid-batch-ts", "valid-non-batch-rest"} {
		t.Run(file, func(t *testing.T) {
			dir := unpack(t, filepath.Join(vectors, "asic", file+".asice"))
			args := []string{"verify", filepath.Join(dir, "META-INF/signatures.xml"), "--message", filepath.Join(dir, "message.xml"),
				"--configuration", filepath.Join(vectors, "globalconf/good2_v3"), "--json"}
			if file == "valid-non-batch-rest" {
				r := fairway(t.Context(), "", args...)
				if r.err == nil || !strings.Contains(r.stdout, `"needs":[{"name":"/attachment1"`) || !strings.Contains(r.stdout, "invalid_reference") {
					t.Errorf("without its attachment: %v\n%s", r.err, r.stdout)
				}
				args = append(args, "--attachment", "1="+filepath.Join(dir, "attachment1"))
			}
			r := fairway(t.Context(), "", args...)
			var f finding
			if err := json.Unmarshal([]byte(r.stdout), &f); r.err != nil || err != nil || !f.Proved || f.Time.Stamped == nil {
				t.Errorf("%v, %v\n%s", r.err, err, r.stdout)
			}
		})
	}
}

// unpack unpacks a container into a folder.
func unpack(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	z, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if err := os.CopyFS(dir, z); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestParseTold reads who says to have sent a message.
func TestParseTold(t *testing.T) {
	text := func(body, hash string) string {
		s := string(envelope(demoService, "4711", ""))
		s = strings.ReplaceAll(s, "demo:echo", "demo:"+body)
		return strings.Replace(s, "    <xroad:protocolVersion>", hash+"    <xroad:protocolVersion>", 1)
	}
	const hash = `    <xroad:requestHash algorithmId="http://www.w3.org/2001/04/xmlenc#sha512">AAAA</xroad:requestHash>` + "\n"
	const headers = "X-Road-Client:DEV/GOV/1111/app\r\nx-road-id:4711\r\n"
	for _, c := range []struct {
		name, message string
		want          string // kind, client, service, id; or the code
	}{
		{"a request", text("echo", ""), "SOAP false DEV/GOV/1111/app DEV/GOV/0000/registry/echo/v1 4711 false"},
		{"a response", text("echoResponse", hash), "SOAP true DEV/GOV/1111/app DEV/GOV/0000/registry/echo/v1 4711 false"},
		{"a response of another name", text("echo", hash), "SOAP true DEV/GOV/1111/app DEV/GOV/0000/registry/echo/v1 4711 false"},
		{"what may be either", text("echoResponse", ""), "SOAP true DEV/GOV/1111/app DEV/GOV/0000/registry/echo/v1 4711 true"},
		{"a REST request", "GET\r\n/r1/DEV/GOV/0000/registry/ec%2Fho/1/2?a=b\r\n" + headers, "REST false DEV/GOV/1111/app DEV/GOV/0000/registry/ec%2Fho 4711 false"},
		{"a REST response", "200\r\nOK\r\n" + headers + "x-road-service:DEV/GOV/0000/registry/echo\r\n", "REST true DEV/GOV/1111/app DEV/GOV/0000/registry/echo 4711 false"},
		{"a client twice", "GET\r\n/r1/DEV/GOV/0000/registry/echo\r\n" + headers + headers, "invalid_message"},
		{"no client", "GET\r\n/r1/DEV/GOV/0000/registry/echo\r\n", "invalid_message"},
		{"no service", "GET\r\n/r1/DEV\r\n" + headers, "invalid_message"},
		{"an empty code", "GET\r\n/r1/DEV/GOV/0000//echo\r\n" + headers, "invalid_message"},
		{"headers without end", "GET\r\n/r1\r\n" + strings.Repeat("a:b\r\n", maxREST), "invalid_message"},
		{"one line", "GET", "invalid_message"},
		{"nothing", "", "invalid_soap"},
		{"not SOAP", "<a/>", "invalid_soap"},
		{"SOAP and more", text("echo", "") + "<more/>", "invalid_soap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := parseTold(strings.NewReader(c.message))
			got := ""
			if err != nil {
				got = causes(err)
			} else {
				got = strings.Join([]string{m.Protocol, boolean(m.Response), m.Client.String(), m.Service.String(), m.ID, boolean(m.open)}, " ")
			}
			if got != c.want {
				t.Errorf("%s (%v), want %s", got, err, c.want)
			}
		})
	}
}

func boolean(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

func TestPrintable(t *testing.T) {
	if got, want := printable("V\u00e4yl\u00e4\x1b[2J\n\u202e\u009b"), `Väylä\x1b[2J\n\u202e\u009b`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestByNumber(t *testing.T) {
	names := []string{"/attachment10", "/attachment2", "/message.xml", "/attachment1"}
	slices.SortFunc(names, byNumber)
	if got := strings.Join(names, " "); got != "/message.xml /attachment1 /attachment2 /attachment10" {
		t.Error(got)
	}
}

func FuzzParseTold(f *testing.F) {
	f.Add([]byte("GET\r\n/r1/DEV/GOV/0000/registry/echo\r\nX-Road-Client:DEV/GOV/1111/app\r\n"))
	f.Add([]byte("200\r\nOK\r\nx-road-client:DEV/GOV/1111\r\nx-road-service:DEV/GOV/0000/registry/echo\r\n"))
	f.Add(envelope(demoService, "4711", ""))
	f.Fuzz(func(t *testing.T, message []byte) {
		m, err := parseTold(strings.NewReader(string(message)))
		if err == nil && (m.sender().Instance == "" || m.sender().Member == "") {
			t.Errorf("%+v has no sender", m)
		}
	})
}
