// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// firstSegment is the file that the first records are in.
const firstSegment = "00000001.evidence"

// authorityOf returns the development authority whose keys are in a folder, and a file with its parameters.
func authorityOf(t *testing.T, dir string) (*dev.Authority, string) {
	t.Helper()
	authority, err := dev.Open(t.Context(), &certmagic.FileStorage{Path: dir}, demoSender.Instance, time.Now)
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
	file := filepath.Join(dir, "trust.xml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return authority, file
}

// timestamp has all that was kept stamped.
func timestamp(t *testing.T, dir string, a *dev.Authority) {
	t.Helper()
	store, err := evidence.Open(dir, evidence.Options{Timestamper: a})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(evidence.Stamp(t.Context(), dir), store.Close()); err != nil {
		t.Fatal(err)
	}
}

// change changes a file.
func change(t *testing.T, file string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestEvidenceVerify looks at evidence as it was kept, and at evidence that somebody changed.
func TestEvidenceVerify(t *testing.T) {
	for _, c := range []struct {
		name  string
		stamp bool
		do    func(t *testing.T, dir string) // to the evidence
		trust string                         // "": none; "own"; "other"
		whole bool
		want  []string // lines, as regular expressions
	}{
		{
			name: "without time-stamps", trust: "own", whole: true,
			want: []string{
				`evidence: WHOLE$`,
				`  records      3, from number 1 to 3, each of which names the one before it by its digest: .*`,
				`  newest       number 3 with the SHA-256 digest [0-9a-f]{64}, .*`,
				`  messages     signed records 3, not time-stamped 3 \(oldest of 20\S+ \S+ UTC\)`,
				`  time-stamps  none`,
				`  not noticed  No time-stamp covers .*: that the newest were removed cannot be noticed, .*`,
				`  not proved   who signed what, and when: .*`,
			},
		},
		{
			name: "with a time-stamp", stamp: true, trust: "own", whole: true,
			want: []string{
				`  records      4, from number 1 to 4, .*`,
				`  messages     signed records 3, time-stamped 3 \(last at 20\S+ \S+ UTC\), not yet 0`,
				`  time-stamps  1, over these records, each by an authority that counts`,
				`  not noticed  A time-stamp covers .* up to number 3, on .* 20.*\. That records after it were removed cannot be noticed, .*`,
			},
		},
		{
			name: "with a time-stamp that nobody judges", stamp: true, whole: true,
			want: []string{
				`  time-stamps  1, over these records`,
				`  not noticed  A time-stamp covers .* up to number 3, at a time that was not judged\. .*`,
				`  not proved   that the time-stamps are genuine: --configuration DIR or --trust FILE says whose count`,
			},
		},
		{
			name: "with a time-stamp of somebody else", stamp: true, trust: "other",
			want: []string{
				`evidence: NOT WHOLE$`,
				`  reason       there are time-stamps that are refused`,
				`  time-stamps  1, over these records, and not all by an authority that counts`,
				`  refused      the time-stamp in record 4: .*`,
				`  not noticed  No time-stamp covers .*`,
			},
		},
		{
			name: "a record was changed", stamp: true, trust: "own",
			do: func(t *testing.T, dir string) {
				change(t, filepath.Join(dir, firstSegment), func(b []byte) []byte {
					i := bytes.LastIndex(b, []byte("exchange of good")) // of number 2
					return slices.Replace(b, i, i+1, 'E')
				})
			},
			want: []string{
				`evidence: NOT WHOLE$`,
				`  reason       the records are whole up to number 1 and not further: .*`,
				`  records      1, from number 1 to 1, .*`,
			},
		},
		{
			name: "what was kept of a message was changed", trust: "own",
			do: func(t *testing.T, dir string) {
				change(t, filepath.Join(dir, firstSegment), func(b []byte) []byte { return bytes.Replace(b, []byte("<response/>"), []byte("<responsE/>"), 1) })
			},
			want: []string{`  reason       the records are whole up to number 1 and not further: .*/message\.xml has another digest`},
		},
		{
			name: "the last record is torn", trust: "own", whole: true,
			do: func(t *testing.T, dir string) {
				change(t, filepath.Join(dir, firstSegment), func(b []byte) []byte { return b[:len(b)-1] })
			},
			want: []string{
				`  records      2, from number 1 to 2, .*`,
				`  notice       \d+ octets follow the last record and are none: .*`,
			},
		},
		{
			name: "nothing was kept", whole: true,
			do: func(t *testing.T, dir string) {
				if err := os.Remove(filepath.Join(dir, firstSegment)); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{`  records      none`, `  messages     signed records 0, not time-stamped 0`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := keep(t)
			authority, own := authorityOf(t, t.TempDir())
			_, other := authorityOf(t, t.TempDir())
			if c.stamp {
				timestamp(t, dir, authority)
			}
			if c.do != nil {
				c.do(t, dir)
			}
			args := []string{"evidence", "verify"}
			if c.trust != "" {
				args = append(args, "--trust", map[string]string{"own": own, "other": other}[c.trust])
			}
			r := fairway(t.Context(), "", args...)
			if (r.err == nil) != c.whole || c.whole != (r.stderr == "") {
				t.Errorf("%v, stderr %q", r.err, r.stderr)
			}
			if broken := strings.Contains(r.stdout, "and not further"); broken == strings.Contains(r.stdout, "  not noticed  ") {
				t.Error("it says what could not be noticed of records that it has not read, or does not say it of those that it has")
			}
			if r.err != nil && r.err.Error() != "the evidence of 1 of 1 security servers is not whole" {
				t.Errorf("%v: want exit code 1, for that reason", r.err)
			}
			for _, want := range c.want {
				if !regexp.MustCompile(`(?m)` + strings.TrimSuffix(want, "$") + `$`).MatchString(r.stdout) {
					t.Errorf("no line is like %s", want)
				}
			}
			if t.Failed() {
				t.Log(r.stdout)
			}
		})
	}
}

// TestEvidenceVerifyJSON looks at what programs read.
func TestEvidenceVerifyJSON(t *testing.T) {
	dir := keep(t)
	authority, trust := authorityOf(t, t.TempDir())
	_, other := authorityOf(t, t.TempDir())
	golden := func(name, want string, args ...string) {
		t.Helper()
		r := fairway(t.Context(), "", append([]string{"evidence", "verify", "--json", "--dir", dir}, args...)...)
		got := strings.ReplaceAll(r.stdout, dir, "DIR")
		got = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(got, "SHA256")
		got = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`).ReplaceAllString(got, "TIME")
		var all map[string]any
		if err := json.Unmarshal([]byte(got), &all); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, r.stdout)
		}
		for _, words := range []string{"cannot_be_noticed", "not_proved", "time_stamps_refused"} { // golden is the shape
			if all[words] != nil {
				all[words] = "WORDS"
			}
		}
		if b, err := json.Marshal(all); err != nil || string(b) != want {
			t.Errorf("%s: %v, %v\n%s\nwant\n%s", name, r.err, err, b, want)
		}
	}
	golden("without a time-stamp", `{"cannot_be_noticed":"WORDS","dir":"DIR","first":1,"newest":{"number":3,"sha256":"SHA256"},"not_proved":"WORDS",`+
		`"records":3,"signed":3,"time_stamps":0,"time_stamps_judged":false,"unstamped":3,"unstamped_since":"TIME","whole":true}`)
	timestamp(t, dir, authority)
	golden("with one", `{"cannot_be_noticed":"WORDS","covered":{"number":3,"sha256":"SHA256"},"covered_at":"TIME","dir":"DIR","first":1,`+
		`"last_stamped_at":"TIME","newest":{"number":4,"sha256":"SHA256"},"not_proved":"WORDS",`+
		`"records":4,"signed":3,"time_stamps":1,"time_stamps_judged":true,"unstamped":0,"whole":true}`, "--trust", trust)
	golden("with another's", `{"cannot_be_noticed":"WORDS","dir":"DIR","first":1,`+
		`"last_stamped_at":"TIME","newest":{"number":4,"sha256":"SHA256"},"not_proved":"WORDS","reason":"there are time-stamps that are refused",`+
		`"records":4,"signed":3,"time_stamps":1,"time_stamps_judged":true,"time_stamps_refused":"WORDS","unstamped":0,"whole":false}`, "--trust", other)
}

// TestEvidenceVerifyWhileWriting verifies what another writes to, and leaves it alone.
func TestEvidenceVerifyWhileWriting(t *testing.T) {
	dir := keep(t)
	before := map[string][]byte{}
	store, err := evidence.OpenDisk(dir) // as the security server has it
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			before[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := fairway(t.Context(), "", "evidence", "verify"); r.err != nil || !strings.Contains(r.stdout, "evidence: WHOLE\n") {
		t.Errorf("%v\n%s%s", r.err, r.stdout, r.stderr)
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(entries) {
		t.Errorf("%v: the folder has other files: %q, and had %q", err, after, entries)
	}
	for name, octets := range before {
		if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(now, octets) {
			t.Errorf("%s: %v: it was changed", name, err)
		}
	}
	if st, err := store.Status(); err != nil || st.Signed != 3 {
		t.Errorf("the store that was open: %+v, %v", st, err)
	}
}

// TestBacklog is the line that says how far time-stamping is.
func TestBacklog(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	for _, c := range []struct {
		name string
		of   evidence.Status
		want string
	}{
		{"nothing", evidence.Status{}, "signed records 0, not time-stamped 0"},
		{"none", evidence.Status{Signed: 2, Unstamped: 2, Oldest: at(1)}, "signed records 2, not time-stamped 2 (oldest of 2026-03-01 12:01:00 UTC)"},
		{
			"some", evidence.Status{Signed: 5, Unstamped: 2, Oldest: at(3), Stamped: at(2), Reason: errors.New("out")},
			"signed records 5, time-stamped 3 (last at 2026-03-01 12:02:00 UTC), not yet 2 (oldest of 2026-03-01 12:03:00 UTC)",
		},
		{"all", evidence.Status{Signed: 5, Stamped: at(2)}, "signed records 5, time-stamped 5 (last at 2026-03-01 12:02:00 UTC), not yet 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := backlog(c.of); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
