// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// TestParametersXML reads what was written, and finds the same in it.
func TestParametersXML(t *testing.T) {
	ca := issue(t, named("CA"), nil, certifying)
	docs := map[string][]byte{"made up": []byte(document(base64.StdEncoding.EncodeToString(ca.Raw), base64.StdEncoding.EncodeToString(make([]byte, 32))))}
	files, err := filepath.Glob(filepath.Join(vectors, "globalconf/*/*/shared-params.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs[file] = doc
	}
	for name, doc := range docs {
		want, err := ParseShared(doc)
		if err != nil {
			continue // of version 2, or wrong on purpose
		}
		text, err := want.XML()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := ParseShared(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, got, want)
		}
	}
}

// TestParametersXMLRefused: what could not be read again is not written.
func TestParametersXMLRefused(t *testing.T) {
	member := ident.Client{Instance: "DEV", Class: "GOV", Member: "1"}
	for name, p := range map[string]Parameters{
		"no instance":             {Freshness: time.Hour},
		"no freshness":            {Instance: "DEV"},
		"a control character":     {Instance: "DEV", Freshness: time.Hour, Members: []Member{{ID: member, Name: "\x01"}}},
		"white space in a code":   {Instance: "DEV", Freshness: time.Hour, Members: []Member{{ID: ident.Client{Instance: "DEV", Class: "GOV", Member: " 1"}}}},
		"an owner who is not one": {Instance: "DEV", Freshness: time.Hour, Servers: []Server{{ID: ss1}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.XML()
			check(t, err, "malformed_global_conf", "writing shared parameters")
		})
	}
}

// TestVerificationFile judges by a file as by a folder, and says on what grounds.
func TestVerificationFile(t *testing.T) {
	f := newFederation(t)
	file := filepath.Join(f.dir, "DEV", "shared-params.xml")
	v, err := OpenVerificationFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g, err := v.Judge(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.app, now)
	if err != nil {
		t.Fatal(err)
	}
	if g.Anchor == nil || len(g.Path) != 1 || len(g.Status) != 1 || g.Status[0].ProducedAt.IsZero() || !g.Anchor.Equal(g.Status[0].Responder) {
		t.Errorf("the grounds are %+v", g)
	}
	_, err = v.Judge(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.ee.app, now)
	check(t, err, "internal_error", "nothing is known of instance")
	check(t, v.VerifySign(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.app, now.AddDate(0, 1, 0)), "invalid_cert_path.incorrect_validation_info", "")
	if m, err := v.Members(""); err != nil || len(m) != 3 || v.Instance() != "DEV" || len(v.Authorities("DEV")) != 2 || v.Authorities("EE") != nil {
		t.Errorf("%v, %v", m, err)
	}
	if _, err = OpenVerificationFile(file + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
