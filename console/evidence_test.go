// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// keep writes the evidence of security server ss1 into Caddy's data folder: a request and a response of the message
// "good", and of the message "bad" a record whose signature is over another attachment. It returns the folder.
func keep(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	t.Setenv("XDG_DATA_HOME", data)
	dir := filepath.Join(data, "caddy", "xroad", "ss1", "evidence")
	store, err := evidence.OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string, response bool, text, attachment, signed string) {
		r := &evidence.Record{
			Time: time.Now(), Role: "send", Response: response, RequestID: "exchange of " + id, MessageID: id,
			Client: demoClient, Service: demoService,
			Parts: []evidence.Part{
				{
					Name: crypto.Message, ContentType: "text/xml", Digest: crypto.SHA512, Sum: crypto.SHA512.Sum([]byte(text)),
					Size: int64(len(text)), Content: strings.NewReader(text),
				},
				{
					Name: crypto.Attachment(1), ContentType: "image/png", Digest: crypto.SHA512,
					Sum: crypto.SHA512.Sum([]byte(attachment)), Size: int64(len(attachment)),
				},
			},
		}
		r.Signature = sign(t, text, signed)
		wait, err := store.Put(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	put("good", false, "<request/>", "picture", "picture")
	put("good", true, "<response/>", "other picture", "other picture")
	put("bad", false, "<request/>", "picture", "forged picture")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sign signs a message of two parts.
func sign(t *testing.T, text, attachment string) crypto.Signature {
	t.Helper()
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	authority, err := dev.Open(t.Context(), storage, demoSender.Instance, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	store, err := authority.Trust(t.Context(), []dev.Server{{ID: demoSender}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
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
	s, err := signer.Sign(t.Context(), []crypto.Part{
		{Name: crypto.Message, Digest: crypto.SHA512, Sum: crypto.SHA512.Sum([]byte(text))},
		{Name: crypto.Attachment(1), Digest: crypto.SHA512, Sum: crypto.SHA512.Sum([]byte(attachment))},
	}, crypto.Direct)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

func TestEvidenceList(t *testing.T) {
	dir := keep(t)
	for _, c := range []struct {
		name string
		args []string
		rows int
	}{
		{"all", nil, 3},
		{"of a folder", []string{"--dir", dir}, 3},
		{"of a message", []string{"--id", "good"}, 2},
		{"of an exchange", []string{"--request", "exchange of bad"}, 1},
		{"of a member", []string{"--member", "DEV/GOV/1111"}, 3},
		{"of another member", []string{"--member", "DEV/GOV/2222"}, 0},
		{"of a service", []string{"--service", "DEV/GOV/0000/registry/echo/v1"}, 3},
		{"of all versions of a service", []string{"--service", "DEV/GOV/0000/registry/echo", "--member", "DEV/GOV/1111/app"}, 3},
		{"of another version", []string{"--service", "DEV/GOV/0000/registry/echo/v2"}, 0},
		{"since a time", []string{"--from", "2026-01-01", "--to", "2100-01-01T00:00:00Z"}, 3},
		{"until a time", []string{"--to", "2026-01-01 12:00"}, 0},
		{"of nothing", []string{"--id", "unknown"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fairway(t.Context(), "", append([]string{"evidence", "list"}, c.args...)...)
			if r.err != nil {
				t.Fatalf("%v\n%s", r.err, r.stderr)
			}
			if !strings.HasPrefix(r.stderr, "ss1: signed records 3, not time-stamped 3 (oldest of 20") || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("want a line on time-stamping to standard error: %q", r.stderr)
			}
			lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
			if len(lines) != 1+c.rows || !strings.HasPrefix(lines[0], "SERVER  NUMBER  TIME") {
				t.Errorf("want a head and %d rows:\n%s", c.rows, r.stdout)
			}
			for _, line := range lines[1:] {
				if !regexp.MustCompile(`^ss1 +\d+ +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ `).MatchString(line) {
					t.Errorf("the time is not in UTC: %q", line)
				}
				if !strings.HasPrefix(line, "ss1 ") || !strings.Contains(line, "DEV/GOV/0000/registry/echo/v1") {
					t.Errorf("a row is %q", line)
				}
			}
		})
	}
}

func TestEvidenceShow(t *testing.T) {
	dir := keep(t)
	for _, c := range []struct {
		name    string
		args    []string
		want    []string
		wantErr string
	}{
		{
			"a message", []string{"--id", "good"},
			[]string{
				"ss1 record 1: request, role send", "ss1 record 2: response, role send",
				"direct form, verifies", "/message.xml", "whole", "/attachment1", `"image/png"`, "CN=1111", "stamped    not time-stamped",
			}, "",
		},
		{"by number", []string{"2", "--dir", dir}, []string{"record 2: response"}, ""},
		{"a wrong one", []string{"--request", "exchange of bad"}, []string{"DOES NOT VERIFY"}, "1 of 1 records do not verify"},
		{"none", []string{"--id", "unknown"}, nil, `has the message id "unknown"`},
		{"no such number", []string{"7", "--dir", dir}, nil, "no record in " + dir + " has the number 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := fairway(t.Context(), "", append([]string{"evidence", "show"}, c.args...)...)
			for _, want := range c.want {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("stdout does not say %q:\n%s", want, r.stdout)
				}
			}
			if (r.err == nil) != (c.wantErr == "") || !strings.Contains(r.stderr, c.wantErr) {
				t.Errorf("error %v, stderr %q; want %q", r.err, r.stderr, c.wantErr)
			}
		})
	}
}

func TestEvidenceNowhere(t *testing.T) {
	if r := fairway(t.Context(), "", "evidence", "list", "--dir", "nonexistent"); r.err == nil || r.stdout != "" {
		t.Errorf("a folder that is not there: %v, %q", r.err, r.stdout)
	}
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	r := fairway(t.Context(), "", "evidence", "list")
	if r.err == nil || !strings.Contains(r.stderr, "--dir") {
		t.Errorf("error %v, stderr %q: want a hint at --dir", r.err, r.stderr)
	}
}
