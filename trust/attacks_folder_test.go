// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Attacks 31, 32 and 35 of signature-and-evidence 14.3 are on the download of the configuration, which X-Road's own client
// does. What that leaves in the folder is read here, and what it must not have left is not.

// TestAttack31And35SignedDirectories: a directory as it is downloaded, signed or not, is no parameters.
func TestAttack31And35SignedDirectories(t *testing.T) {
	for _, name := range []string{"test-conf-simple.txt", "test-conf-invalid-signature.txt", "test-conf-missing-date.txt", "test-conf-malformed.txt",
		"conf1.txt", "server/V3/internalconf", "server/V5/internalconf", "server/V5/externalconf", "server/V6/internalconf", "server/V6/externalconf",
		"rotated/V4/internalconf", "rotated/V6/externalconf"} {
		directory := string(vector(t, "globalconf-download/"+name))
		f := newFederation(t)
		store := f.open(t)
		lay(t, f.dir, map[string]string{"DEV/shared-params.xml": directory, "EE/shared-params.xml": directory})
		if err := store.read(true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if told := f.reports(); len(told) != 2 || !strings.Contains(told[0], "stays as it was") || !strings.Contains(told[1], "stays as it was") {
			t.Errorf("%s: reported %q", name, told)
		}
		check(t, store.VerifySign(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.member, now), "", "")
		_, err := openGlobalConf(f.dir, f.clock, f.report)
		check(t, err, "malformed_global_conf", "reading XML")
	}
}

// TestAttack31Outdated: a configuration that is replayed is outdated after its time, and so is that of the vectors.
func TestAttack31Outdated(t *testing.T) {
	vector(t, "INDEX.md")
	store, err := OpenGlobalConf(filepath.Join(vectors, "globalconf-download/large-v2"), time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	end := time.Date(2014, 11, 12, 13, 58, 7, 0, time.UTC)
	check(t, store.Valid(end), "", "")
	check(t, store.Valid(end.Add(time.Second)), "global_conf_outdated", "expired")

	f := newFederation(t)
	g := f.open(t)
	later := f.dev.shared("127.0.0.1:6500", "127.0.0.2:6500")
	lay(t, f.dir, map[string]string{"DEV/shared-params.xml": later, "DEV/shared-params.xml.metadata": until(now.Add(-time.Second))})
	if err := g.read(false); err != nil {
		t.Fatal(err)
	}
	check(t, g.Valid(now), "global_conf_outdated", "expired")
}

// TestAttack32AlteredPart: a part that was altered so that it cannot be read, or tells of another instance, is not taken;
// the one before stays. The folder is not signed: whoever may write it may say what he likes.
func TestAttack32AlteredPart(t *testing.T) {
	f := newFederation(t)
	store := f.open(t)
	good := f.dev.shared()
	altered := map[string]string{
		"cut":                        good[:len(good)-10],
		"one octet":                  strings.Replace(good, "</memberCode>", "</memberCodd>", 1),
		"a member of another member": strings.Replace(good, "<owner>m1</owner>", "<owner>m9</owner>", 1),
		"of another instance":        f.ee.shared(),
		"with a DOCTYPE":             strings.Replace(good, "<c:conf ", "<!DOCTYPE x><c:conf ", 1),
		"two files in one":           good + good,
	}
	for name, doc := range altered {
		before := len(f.reports())
		lay(t, f.dir, map[string]string{"DEV/shared-params.xml": doc})
		if err := store.read(true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if told := f.reports()[before:]; len(told) != 1 || !strings.Contains(told[0], "instance DEV stays as it was") {
			t.Errorf("%s: reported %q", name, told)
		}
		check(t, store.VerifySign(f.dev.sign.Certificate, nil, f.dev.signed(t, f.dev.ca), f.dev.member, now), "", "")
	}
}
