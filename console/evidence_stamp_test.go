// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/hashchain"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// stamped is an evidence store whose records have a time-stamp.
type stamped struct {
	evidence.Store
	stamp func(*evidence.Record) *evidence.Timestamp
}

func (s stamped) Get(ctx context.Context, number uint64) (*evidence.Record, error) {
	r, err := s.Store.Get(ctx, number)
	if err == nil {
		r.Timestamp = s.stamp(r)
	}
	return r, err
}

// TestStampedContainers takes out records with a time-stamp of their own and of a batch: they are proved without being
// told the time.
func TestStampedContainers(t *testing.T) {
	a := newArchive(t)
	authority, err := dev.Open(t.Context(), &certmagic.FileStorage{Path: os.Getenv("XDG_DATA_HOME")}, demoSender.Instance, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	token := func(data []byte) []byte {
		t.Helper()
		der, err := authority.Stamp(t.Context(), crypto.SHA512.Sum(data))
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	store, err := evidence.OpenRead(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for name, stamp := range map[string]func(*evidence.Record) *evidence.Timestamp{
		"single": func(r *evidence.Record) *evidence.Timestamp {
			value, err := xades.Value(r.Signature.XML)
			if err != nil {
				t.Fatal(err)
			}
			return &evidence.Timestamp{Token: token(value)}
		},
		"batch": func(r *evidence.Record) *evidence.Timestamp {
			sums := [][]byte{crypto.SHA512.Sum(r.Signature.XML), crypto.SHA512.Sum([]byte("another"))}
			result, chain, err := hashchain.BuildTimestamp(sums, crypto.SHA512)
			if err != nil {
				t.Fatal(err)
			}
			return &evidence.Timestamp{Token: token(result), HashChainResult: result, HashChain: chain(0)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			record, err := store.Get(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			container, err := found{record, folder{Store: stamped{store, stamp}}}.container(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "it.asice")
			f, err := os.Create(file)
			if err == nil {
				err = write(f, container)
			}
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			v := fairway(t.Context(), "", "verify", file, "--trust", a.trust)
			if v.err != nil || !strings.Contains(v.stdout, "development TSA") {
				t.Errorf("%v\n%s%s", v.err, v.stdout, v.stderr)
			}
		})
	}
}

// TestStampedRecords shows a record of which a time-stamp was put, and takes it out.
func TestStampedRecords(t *testing.T) {
	a := newArchive(t)
	authority, err := dev.Open(t.Context(), &certmagic.FileStorage{Path: os.Getenv("XDG_DATA_HOME")}, demoSender.Instance, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	timestamp(t, a.dir, authority)
	shown := fairway(t.Context(), "", "evidence", "show", "1")
	if shown.err != nil || !strings.Contains(shown.stdout, "\n  stamped    20") {
		t.Errorf("%v, %s\n%s", shown.err, shown.stderr, shown.stdout)
	}
	out := t.TempDir()
	if r := fairway(t.Context(), "", "evidence", "export", "1", "--out", out); r.err != nil || r.stderr != "" {
		t.Errorf("%v, %s: there is nothing to say of a record that is complete", r.err, r.stderr)
	}
	r := fairway(t.Context(), "", "verify", out, "--trust", a.trust)
	if r.err != nil || !strings.Contains(r.stdout, "development TSA") {
		t.Errorf("%v, %s\n%s", r.err, r.stderr, r.stdout)
	}
	if serial := regexp.MustCompile(`certificate .*, serial (\S+)\n`).FindStringSubmatch(r.stdout); serial == nil || !strings.Contains(shown.stdout, "serial "+serial[1]+", ") {
		t.Errorf("show and verify write the serial number %q in two ways:\n%s\n%s", serial, shown.stdout, r.stdout)
	}
}

// counted is an evidence store that counts what a test says.
type counted struct {
	evidence.Store
	st evidence.Status
}

func (c counted) Status() (evidence.Status, error) { return c.st, nil }

// TestUnstampedRecords says "not yet" only where others of the store have a time-stamp.
func TestUnstampedRecords(t *testing.T) {
	for want, last := range map[string]time.Time{"not time-stamped": {}, "not yet": time.Now()} {
		t.Run(want, func(t *testing.T) {
			var w strings.Builder
			r := found{folder: folder{Store: counted{st: evidence.Status{Stamped: last}}}}
			if err := r.unstamped(&w); err != nil || w.String() != "  stamped    "+want+"\n" {
				t.Errorf("it says %q, %v", w.String(), err)
			}
		})
	}
}
