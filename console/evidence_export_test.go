// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// archive is evidence of security server ss1, with what is needed to judge it.
type archive struct {
	dir         string
	trust       string // file
	certificate string // file, PEM
	at          string // the time of all of it
	before      string // half an hour before that
	message     string
}

// newArchive fills an archive with records of these numbers, all of the message id "4711": 1, direct, all is kept; 2,
// direct, the attachment is not kept; 3, hash chain, all is kept; 4, only digests are kept; 5, a fault; 6, what was kept
// was changed.
func newArchive(t *testing.T) *archive {
	t.Helper()
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	a := &archive{
		dir: filepath.Join(data, "caddy", "xroad", "ss1", "evidence"), trust: filepath.Join(data, "trust.xml"),
		certificate: filepath.Join(data, "certificate.pem"), message: string(envelope(demoService, "4711", "")),
	}
	now := time.Now()
	a.at = now.UTC().Format(time.RFC3339)
	a.before = now.UTC().Add(-30 * time.Minute).Format(time.RFC3339)
	authority, err := dev.Open(t.Context(), &certmagic.FileStorage{Path: data}, demoSender.Instance, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	parameters, err := authority.Parameters(t.Context(), demoServers)
	if err != nil {
		t.Fatal(err)
	}
	text, err := parameters.XML()
	if err != nil {
		t.Fatal(err)
	}
	store, err := authority.Trust(t.Context(), demoServers)
	if err != nil {
		t.Fatal(err)
	}
	key, err := authority.SignKey(t.Context(), demoClient.MemberOf(), demoSender)
	if err != nil {
		t.Fatal(err)
	}
	signer := &xades.Signer{
		Key: key.Private, Certificate: key.Chain[0], Clock: time.Now,
		OCSP: func(ctx context.Context) ([][]byte, error) {
			der, err := store.Status(ctx, key.Chain[0])
			return [][]byte{der}, err
		},
	}
	for file, octets := range map[string][]byte{
		a.trust:       text,
		a.certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: key.Chain[0].Raw}),
	} {
		if err := os.WriteFile(file, octets, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	disk, err := evidence.OpenDisk(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		form          crypto.Form
		kept, changed string // parts that are
		fault         string
	}{
		{crypto.Direct, "message attachment", "", ""},
		{crypto.Direct, "message", "", ""},
		{crypto.Chain, "message attachment", "", ""},
		{crypto.Direct, "", "", ""},
		{crypto.Direct, "message", "", "server.serverproxy.access_denied"},
		{crypto.Direct, "message attachment", "attachment", ""},
	} {
		record := &evidence.Record{Time: now, Role: "send", MessageID: "4711", Client: demoClient, Service: demoService, Fault: r.fault}
		var signed []crypto.Part
		for name, text := range map[string]string{"message": a.message, "attachment": "picture"} {
			sum := crypto.SHA512.Sum([]byte(text))
			if strings.Contains(r.changed, name) {
				text = strings.ToUpper(text)
			}
			p := evidence.Part{Name: crypto.Message, Digest: crypto.SHA512, Sum: crypto.SHA512.Sum([]byte(text)), Size: int64(len(text))}
			if strings.Contains(r.kept, name) {
				p.Content = strings.NewReader(text)
			}
			s := crypto.Part{Name: crypto.Message, Digest: crypto.SHA512, Sum: sum}
			if name == "message" {
				record.Parts, signed = append([]evidence.Part{p}, record.Parts...), append([]crypto.Part{s}, signed...)
				continue
			}
			p.Name, s.Name = crypto.Attachment(1), crypto.Attachment(1)
			record.Parts, signed = append(record.Parts, p), append(signed, s)
		}
		if r.fault == "" {
			s, err := signer.Sign(t.Context(), signed, r.form)
			if err != nil {
				t.Fatal(err)
			}
			record.Signature = *s
		}
		wait, err := disk.Put(t.Context(), record)
		if err != nil {
			t.Fatal(err)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestEvidenceExport(t *testing.T) {
	a := newArchive(t)
	picture := filepath.Join(t.TempDir(), "picture")
	other := picture + "2"
	for file, text := range map[string]string{picture: "picture", other: "another picture"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, number string
		attachment   string // for export
		wantErr      string // of export
		remark       string
		verify       []string // further arguments
		code         string   // of verify
		proved       []string // words
	}{
		{name: "whole", number: "1", remark: "has no time-stamp", proved: []string{"/attachment1, 7 octets", "no time-stamp: the time is the one that you gave"}},
		{name: "it needs the files", number: "2", remark: "needs the file of /attachment1", code: "invalid_reference"},
		{name: "it needs the files, and verify gets them", number: "2", remark: "needs the file", verify: []string{"--attachment", "1=" + picture}, proved: []string{"/attachment1, 7 octets"}},
		{name: "it needs the files, and verify gets others", number: "2", remark: "needs the file", verify: []string{"--attachment", "1=" + other}, code: "invalid_signature_value"},
		{name: "completed", number: "2", attachment: "1=" + picture, proved: []string{"/attachment1, 7 octets"}},
		{name: "completed by another file", number: "2", attachment: "1=" + other, wantErr: "1 of 1 records were not exported", remark: "not what was signed"},
		{name: "a file that is not needed", number: "1", attachment: "1=" + picture, wantErr: "attachment 1 is there"},
		{name: "a file that is not there", number: "2", attachment: "1=" + picture + "3", wantErr: "no such file"},
		{name: "a hash chain", number: "3", remark: "lie beside it", proved: []string{"digest only  /attachment1 with SHA-512"}},
		{name: "a hash chain, with the file", number: "3", verify: []string{"--attachment", "1=" + picture}, proved: []string{"/attachment1, 7 octets"}},
		{name: "a hash chain, with another file", number: "3", verify: []string{"--attachment", "1=" + other}, code: "malformed_signature.invalid_hash_chain_ref"},
		{name: "digests", number: "4", wantErr: "1 of 1 records", remark: "the message was not kept"},
		{name: "a fault", number: "5", wantErr: "1 of 1 records", remark: "nothing was signed"},
		{name: "what was changed", number: "6", wantErr: "1 of 1 records", remark: "what was kept is not what was signed"},
		{name: "nothing", number: "77", wantErr: "has the number 77"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			args := []string{"evidence", "export", c.number, "--dir", a.dir, "--out", out}
			if c.attachment != "" {
				args = append(args, "--attachment", c.attachment)
			}
			r := fairway(t.Context(), "", args...)
			if (r.err == nil) != (c.wantErr == "") || !strings.Contains(r.stderr, c.wantErr) || !strings.Contains(r.stderr, c.remark) {
				t.Fatalf("%v\n%s", r.err, r.stderr)
			}
			files, _ := filepath.Glob(filepath.Join(out, "*.asice"))
			if r.err != nil {
				if len(files) > 0 {
					t.Errorf("it has left %q", files)
				}
				return
			}
			if want := filepath.Join(out, fmt.Sprintf("4711-request-%s.asice", c.number)); len(files) != 1 || strings.TrimSpace(r.stdout) != want {
				t.Fatalf("it says %q and has written %q; want %q", r.stdout, files, want)
			}
			v := fairway(t.Context(), "", append([]string{"verify", files[0], "--trust", a.trust, "--at", a.at}, c.verify...)...)
			if (v.err == nil) != (c.code == "") || c.code != "" && !strings.Contains(v.stdout, "\n  code         "+c.code+"\n") {
				t.Errorf("verify: %v\n%s%s", v.err, v.stdout, v.stderr)
			}
			for _, want := range append(c.proved, c.code) {
				if !strings.Contains(v.stdout, want) {
					t.Errorf("verify does not say %q:\n%s", want, v.stdout)
				}
			}
		})
	}
}

// TestEvidenceExportMany takes out what there is: what cannot be is said, and stops nobody.
func TestEvidenceExportMany(t *testing.T) {
	a := newArchive(t)
	out := t.TempDir()
	args := []string{"evidence", "export", "--member", "DEV/GOV/1111", "--service", "DEV/GOV/0000/registry/echo", "--from", "2026-01-01", "--out", out}
	r := fairway(t.Context(), "", args...)
	if r.err == nil || !strings.Contains(r.stderr, "3 of 6 records were not exported") || strings.Count(r.stdout, "\n") != 3 {
		t.Errorf("%v\n%s%s", r.err, r.stdout, r.stderr)
	}
	if strings.Count(r.stderr, "no time-stamp") != 1 || !strings.Contains(r.stderr, "3 containers have no time-stamp; \"verify\" proves one with --at TIME") {
		t.Errorf("want one line on time-stamps:\n%s", r.stderr)
	}
	if kept, err := os.ReadFile(filepath.Join(out, "ss1", "4711-request-3.attachment1")); err != nil || string(kept) != "picture" {
		t.Errorf("beside the hash chain lies %q (%v)", kept, err)
	}
	v := fairway(t.Context(), "", "verify", out, "--trust", a.trust, "--at", a.at)
	if v.err == nil || strings.Count(v.stdout, ": PROVED\n") != 2 || !strings.Contains(v.stderr, "1 of 3 not proved") {
		t.Errorf("%v\n%s%s", v.err, v.stdout, v.stderr)
	}
	if r = fairway(t.Context(), "", args...); r.err == nil || !strings.Contains(r.stderr, "is there already") {
		t.Errorf("once more: %v\n%s", r.err, r.stderr)
	}
	if r = fairway(t.Context(), "", "evidence", "export", "--id", "4711", "--out", "-"); r.err == nil || r.stdout != "" || !strings.Contains(r.stderr, "number 1 of ss1") {
		t.Errorf("several to a pipe: %v\n%s", r.err, r.stderr)
	}
}

// TestNeedsTheFiles says that all but the files is proved where that is so, and nowhere else.
func TestNeedsTheFiles(t *testing.T) {
	a := newArchive(t)
	_, other := authorityOf(t, t.TempDir())
	out := t.TempDir()
	if r := fairway(t.Context(), "", "evidence", "export", "2", "--dir", a.dir, "--out", out); r.err != nil {
		t.Fatal(r.err, r.stderr)
	}
	for _, c := range []struct {
		name string
		args []string
		code string
	}{
		{"all but the files is proved", []string{"--trust", a.trust, "--at", a.at}, "invalid_reference"},
		{"nobody knows when", []string{"--trust", a.trust}, "malformed_signature"},
		{"the signer is not trusted", []string{"--trust", other, "--at", a.at}, "cannot_create_cert_path"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fairway(t.Context(), "", append([]string{"verify", out}, c.args...)...)
			if r.err == nil || !strings.Contains(r.stdout, "\n  code         "+c.code+"\n") {
				t.Errorf("%v, want %s\n%s", r.err, c.code, r.stdout)
			}
			only := c.code == "invalid_reference"
			if strings.Contains(r.stdout, "Everything else is proved.") != only || strings.Contains(r.stdout, "  needs        /attachment1 with SHA-512 ") != only {
				t.Errorf("%s", r.stdout)
			}
		})
	}
}

// TestExportedForOthers shows an exported container to the tools of others.
func TestExportedForOthers(t *testing.T) {
	a := newArchive(t)
	r := fairway(t.Context(), "", "evidence", "export", "1", "--dir", a.dir, "--out", "-")
	if r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.stderr)
	}
	file := filepath.Join(t.TempDir(), "message.asice")
	if err := os.WriteFile(file, []byte(r.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := unpack(t, file)
	for _, args := range [][]string{
		{"unzip", "-tq", file},
		{"python3", "-c", "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); sys.exit(z.testzip() is not None or z.read('attachment1') != b'picture')", file},
		{
			"xmlsec1", "--verify", "--id-attr:Id", "http://uri.etsi.org/01903/v1.3.2#:SignedProperties",
			"--pubkey-cert-pem", a.certificate, "--enabled-key-data", "key-name",
			"--url-map:/message.xml", filepath.Join(dir, "message.xml"), "--url-map:/attachment1", filepath.Join(dir, "attachment1"),
			filepath.Join(dir, "META-INF/signatures.xml"),
		},
	} {
		t.Run(args[0], func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skip(args[0] + " is not installed")
			}
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestVerifyRefuses asks for what the trust data or the time do not give.
func TestVerifyRefuses(t *testing.T) {
	a := newArchive(t)
	out := t.TempDir()
	if r := fairway(t.Context(), "", "evidence", "export", "1", "--dir", a.dir, "--out", out); r.err != nil {
		t.Fatalf("%v\n%s", r.err, r.stderr)
	}
	file := filepath.Join(out, "4711-request-1.asice")
	stranger := newArchive(t)
	for _, c := range []struct {
		name  string
		args  []string
		words string
	}{
		{"no time-stamp", []string{file, "--trust", a.trust}, "NOT PROVED\n  reason       there is no time-stamp"},
		{"another CA of the same name", []string{file, "--trust", stranger.trust, "--at", a.at}, "\n  code         cannot_create_cert_path\n"},
		{"the OCSP response is too old", []string{file, "--trust", a.trust, "--at", "2100-01-01"}, "\n  code         invalid_cert_path\n"},
		{"before the certificate", []string{file, "--trust", a.trust, "--at", "2000-01-01"}, "\n  code         invalid_cert_path\n"},
		{"too early, but the certificate was there", []string{file, "--trust", a.trust, "--at", a.before}, "the time of judgement is earlier"},
		{"a folder without containers", []string{t.TempDir(), "--trust", a.trust}, ""},
		{"nothing there", []string{file + "x", "--trust", a.trust}, ""},
		{"no trust data", []string{file, "--trust", file}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fairway(t.Context(), "", append([]string{"verify"}, c.args...)...)
			if (r.err == nil) != strings.Contains(r.stdout, ": PROVED") || !strings.Contains(r.stdout, c.words) || r.err != nil && (r.stderr == "" || r.err.Error() == "exiting with status 2") {
				t.Errorf("%v\n%s%s", r.err, r.stdout, r.stderr)
			}
		})
	}
}
