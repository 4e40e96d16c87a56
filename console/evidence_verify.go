// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
	"github.com/caddy-fairway/fairway/evidence"
)

func evidenceVerifyCommand() *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:   "verify [--configuration DIR | --trust FILE] [--dir DIR]",
		Short: "Proves that no record was changed or removed",
		Long: `Reads all the evidence of a security server and proves that it is whole. Every record names the one before it by
its digest, so that one that was changed, added, moved or removed is noticed; what was kept of the messages is
compared with the digests of its record; and time-stamps cover all of that, so that it cannot be made anew later. It
also says what cannot be noticed: without a time-stamp, that the newest records were removed.

Whose time-stamps count, the X-Road instance says: --configuration names a folder of global configuration as a
security server keeps it, --trust the shared parameters of the instance. Without either, time-stamps are compared
with the records they are over, and not judged.

Exits with 0 when the evidence is whole, 1 when it is not, 2 when it was asked wrongly.`,
		Example: examples("evidence verify", "evidence verify --dir /var/lib/fairway/evidence --configuration /etc/xroad/globalconf",
			"evidence verify --trust shared-params.xml --json"),
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("evidence verify takes no %q; containers are for \"%s xroad verify\"", args[0], binary())
			}
			return o.verify(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	o.whose.flags(cmd)
	o.trusted.flags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a security server")
	return cmd
}

type storeOptions struct {
	whose
	trusted
	json bool
}

// verify prints what is whole in the evidence of each security server.
func (o *storeOptions) verify(ctx context.Context, w, warnings io.Writer) error {
	if o.configuration != "" && o.trust != "" {
		return usagef("--configuration DIR or --trust FILE says whose time-stamps count, and not both")
	}
	var judge evidence.VerifyToken
	if o.configuration != "" || o.trust != "" {
		t, err := o.trusted.open(warnings)
		if err != nil {
			return err
		}
		judge = (&verifier{trust: t}).token
	}
	all, wrong := 0, 0
	err := o.folders(func(in folder) error {
		f, err := in.verify(ctx, judge)
		if err != nil {
			return err
		}
		if all++; !f.Whole {
			wrong++
		}
		if o.json {
			return json.NewEncoder(w).Encode(f)
		}
		return f.text(w)
	})
	if err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("the evidence of %d of %d security servers is not whole", wrong, all)
	}
	return nil
}

// token judges a time-stamp of evidence: it must be one of the security server's own instance.
func (v *verifier) token(token, imprint []byte) (time.Time, error) {
	t, err := tsp.ParseToken(token)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.VerifySum(crypto.SHA512, imprint, v.authorities(v.trust.Instance()), era(t))
	return t.GenTime, err
}

// storeFinding is what is whole in the evidence of one security server. Times are in UTC.
type storeFinding struct {
	Dir    string `json:"dir"`
	Whole  bool   `json:"whole"`
	Reason string `json:"reason,omitempty"`

	Records uint64      `json:"records"` // those that the store makes for itself included
	First   uint64      `json:"first"`
	Removed uint64      `json:"removed_up_to,omitempty"` // because of their age
	Newest  *linkRecord `json:"newest,omitempty"`        // of those that are whole

	Signed    int         `json:"signed"`
	Unstamped int         `json:"unstamped"`
	Oldest    *time.Time  `json:"unstamped_since,omitempty"`
	Stamped   *time.Time  `json:"last_stamped_at,omitempty"`
	Stamps    int         `json:"time_stamps"`
	Judged    bool        `json:"time_stamps_judged"`
	Refused   []string    `json:"time_stamps_refused,omitempty"`
	Covered   *linkRecord `json:"covered,omitempty"` // a time-stamp covers the links up to this record
	CoveredAt *time.Time  `json:"covered_at,omitempty"`

	Notices   []string `json:"notices,omitempty"`
	Unnoticed string   `json:"cannot_be_noticed,omitempty"`
	NotProved []string `json:"not_proved,omitempty"`

	status evidence.Status
}

// linkRecord is a record as the next one names it.
type linkRecord struct {
	Number uint64 `json:"number"`
	SHA256 string `json:"sha256"`
}

func linked(l evidence.Link) *linkRecord {
	if l.Number == 0 {
		return nil
	}
	return &linkRecord{l.Number, hex.EncodeToString(l.Digest)}
}

// inUTC is a time for JSON; nil: there is none.
func inUTC(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// verify reads all. Its error is that this was not possible.
func (in folder) verify(ctx context.Context, judge evidence.VerifyToken) (*storeFinding, error) {
	r, err := in.Check(ctx, judge)
	broken, isBroken := errors.AsType[*evidence.BreakError](err)
	if err != nil && !isBroken {
		return nil, err
	}
	st, err := in.Status()
	if err != nil && !isBroken {
		return nil, err
	}
	f := &storeFinding{
		Dir: in.dir, Whole: !isBroken && len(r.Refused) == 0,
		Records: r.Records, First: r.First, Removed: r.Removed, Newest: linked(r.Head),
		Signed: st.Signed, Unstamped: st.Unstamped, Oldest: inUTC(st.Oldest), Stamped: inUTC(st.Stamped),
		Stamps: r.Timestamps, Judged: judge != nil, Covered: linked(r.Covered), CoveredAt: inUTC(r.CoveredAt),
		status: st,
	}
	for _, err := range r.Refused {
		f.Refused = append(f.Refused, plain(err))
	}
	if isBroken { // what follows has not been read, time-stamps neither
		f.Reason = plain(broken)
		return f, nil
	}
	if !f.Whole {
		f.Reason = "there are time-stamps that are refused"
	}
	if r.Torn > 0 {
		f.Notices = append(f.Notices, fmt.Sprintf("%d octets follow the last record and are none: of one that is being written, "+
			"that a crash has left unfinished, or that was damaged or cut", r.Torn))
	}
	for _, name := range r.Indexes {
		f.Notices = append(f.Notices, fmt.Sprintf("the index %s does not fit its records, so that a search might have missed some", name))
	}
	if !f.Judged && f.Stamps > 0 {
		f.NotProved = append(f.NotProved, "that the time-stamps are genuine: --configuration DIR or --trust FILE says whose count")
	}
	f.Unnoticed = r.Unnoticed()
	f.NotProved = append(f.NotProved, `who signed what, and when: "evidence show" verifies the signatures, and "verify" proves what "evidence export" takes out`)
	return f, nil
}

// plain is an error of the evidence without the name of its package.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "evidence: ") }

// text prints the finding in words.
func (f *storeFinding) text(w io.Writer) error {
	var b strings.Builder
	line := liner(&b)
	if f.Whole {
		fmt.Fprintf(&b, "%s: WHOLE\n", printable(f.Dir))
	} else {
		fmt.Fprintf(&b, "%s: NOT WHOLE\n", printable(f.Dir))
		line("reason", "%s", f.Reason)
	}
	if f.Removed > 0 {
		line("removed", "the records up to number %d, because of their age, as a record says", f.Removed)
	}
	if n := f.Newest; n == nil {
		line("records", "none")
	} else {
		line("records", "%d, from number %d to %d, each of which names the one before it by its digest: none was changed, moved, added or removed by itself", f.Records, f.First, n.Number)
		line("newest", "number %d with the SHA-256 digest %s, which stands for all before it", n.Number, n.SHA256)
	}
	line("messages", "%s", backlog(f.status))
	switch {
	case f.Unnoticed == "": // they have not all been read
	case f.Stamps == 0:
		line("time-stamps", "none")
	case !f.Judged:
		line("time-stamps", "%d, over these records", f.Stamps)
	case f.Refused == nil:
		line("time-stamps", "%d, over these records, each by an authority that counts", f.Stamps)
	default:
		line("time-stamps", "%d, over these records, and not all by an authority that counts", f.Stamps)
	}
	for _, r := range f.Refused {
		line("refused", "%s", r)
	}
	for _, n := range f.Notices {
		line("notice", "%s", n)
	}
	if f.Unnoticed != "" {
		line("not noticed", "%s", f.Unnoticed)
	}
	for _, n := range f.NotProved {
		line("not proved", "%s", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
