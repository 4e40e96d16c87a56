// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/ident"
)

func evidenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evidence <command>",
		Short: "Reads what security servers have signed and verified",
		Long: `Reads the evidence that security servers keep of every message they signed or verified. It may be read
while the servers run. Without --dir, the default folders of this user's servers are read.`,
		Example: examples("evidence list", "evidence show --id 4711", "evidence export --id 4711 --out case", "evidence verify"),
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = run(func(_ context.Context, cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("there is no command %q", args[0])
		}
		return cmd.Help()
	})
	cmd.AddCommand(evidenceListCommand(), evidenceShowCommand(), evidenceExportCommand(), evidenceVerifyCommand())
	return cmd
}

func evidenceListCommand() *cobra.Command {
	var o evidenceOptions
	cmd := &cobra.Command{
		Use:   "list [--id ID] [--request ID] [--member ID] [--service ID] [--from TIME] [--to TIME] [--dir DIR]",
		Short: "Lists records, one a line",
		Long: `Lists records, one a line, to standard output. To standard error it says how far time-stamping is: how many of
all the signed records of each security server have a time-stamp, and since when others wait for theirs. Times
are in UTC.`,
		Example: examples("evidence list", "evidence list --id 4711", "evidence list --dir /var/lib/fairway/evidence",
			"evidence list --member DEV/GOV/1111 --from 2026-03-01 --to 2026-04-01"),
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("evidence list takes no %q", args[0])
			}
			return listEvidence(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), o)
		}),
	}
	o.flags(cmd)
	return cmd
}

func evidenceShowCommand() *cobra.Command {
	var o evidenceOptions
	cmd := &cobra.Command{
		Use:   "show [NUMBER] [--id ID] [--request ID] [--member ID] [--service ID] [--from TIME] [--to TIME] [--dir DIR]",
		Short: "Shows records whole, and verifies their signatures",
		Long: `Shows the records of a message or an exchange whole: parts with their digests, the signature and its
signer, and whether the signature is one over these parts now. Where parts were kept, their octets are hashed
again. Whether the signer's certificate was trusted is what the security server decided at the time.

Exits with 1 when there is no such record, or when one does not verify.`,
		Example: examples("evidence show --id 4711", "evidence show 12 --dir /var/lib/fairway/evidence"),
		Args:    cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := o.one(args); err != nil {
				return err
			}
			return showEvidence(ctx, cmd.OutOrStdout(), o)
		}),
	}
	o.flags(cmd)
	return cmd
}

// evidenceOptions say which records are asked for.
type evidenceOptions struct {
	whose
	number          uint64 // 0: all
	id, request     string
	member, service string
	from, to        moment
}

// whose says which security servers' evidence is read: that in the folder, or all in the default place.
type whose struct{ dir string }

func (o *whose) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dir, "dir", "", "evidence `folder` of one security server")
}

func (o *evidenceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.id, "id", "", "`id` of the message, as in its X-Road header")
	cmd.Flags().StringVar(&o.request, "request", "", "`id` of the exchange, as both security servers call it")
	cmd.Flags().StringVar(&o.member, "member", "", "`id` of a member or subsystem that asked or answered")
	cmd.Flags().StringVar(&o.service, "service", "", "`id` of a service, of all its versions where it names none")
	cmd.Flags().Var(&o.from, "from", "the first `time`")
	cmd.Flags().Var(&o.to, "to", "the `time` before which it was")
	o.whose.flags(cmd)
}

// one reads the number that the arguments may have; something must be asked for.
func (o *evidenceOptions) one(args []string) error {
	if len(args) > 1 || len(args) == 0 && o.asked() == "" {
		return usagef("want the number of a record, or a flag that says which: --id, for example")
	}
	if len(args) == 1 {
		n, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil || n == 0 {
			return usagef("%q is not the number of a record", args[0])
		}
		o.number = n
	}
	return nil
}

// asked says in words what is asked for; "" is everything.
func (o *evidenceOptions) asked() string {
	var words []string
	if o.number != 0 {
		words = append(words, fmt.Sprintf("the number %d", o.number))
	}
	for _, w := range [][2]string{{"the message id", o.id}, {"the request id", o.request}, {"the member", o.member}, {"the service", o.service}} {
		if w[1] != "" {
			words = append(words, fmt.Sprintf("%s %q", w[0], w[1]))
		}
	}
	if !o.from.IsZero() {
		words = append(words, "a time from "+o.from.String())
	}
	if !o.to.IsZero() {
		words = append(words, "a time before "+o.to.String())
	}
	return strings.Join(words, ", and ")
}

// none is the error where nothing was found.
func (o *evidenceOptions) none() error {
	where := o.dir
	if where == "" {
		where = defaultEvidence()
	}
	return fmt.Errorf("no record in %s has %s", where, o.asked())
}

// query is what is asked for, as far as stores know it; the rest is for wants.
func (o *evidenceOptions) query() (q evidence.Query, wants func(*evidence.Record) bool, err error) {
	q = evidence.Query{MessageID: o.id, RequestID: o.request, From: o.from.Time, To: o.to.Time}
	if o.member != "" {
		if q.Member, err = ident.ParseClient(o.member); err != nil {
			return q, nil, usagef("--member: %w", err)
		}
	}
	var service ident.Service
	if o.service != "" {
		if service, err = ident.ParseService(o.service); err != nil {
			return q, nil, usagef("--service: %w", err)
		}
		if q.Member.IsZero() {
			q.Member = service.Client
		}
	}
	return q, func(r *evidence.Record) bool {
		of := r.Service
		if service.Version == "" {
			of.Version = ""
		}
		return (o.number == 0 || r.Number == o.number) && (o.service == "" || of == service)
	}, nil
}

// defaultEvidence is where this user's servers keep evidence when their configuration says nothing else.
func defaultEvidence() string { return filepath.Join(caddy.AppDataDir(), "xroad", "*", "evidence") }

// folder is the evidence of one security server.
type folder struct {
	evidence.Store
	dir    string
	server string // its name in the configuration, as its folder tells
}

// folders calls f with the evidence of each security server, which is closed when it returns.
func (o *whose) folders(f func(folder) error) error {
	dirs := []string{o.dir}
	if o.dir == "" {
		var err error
		if dirs, err = filepath.Glob(defaultEvidence()); err != nil {
			return err
		}
		if len(dirs) == 0 {
			return fmt.Errorf("no security server has kept evidence in %s; --dir names another folder", defaultEvidence())
		}
	}
	for _, dir := range dirs {
		store, err := evidence.OpenRead(dir)
		if err != nil {
			return err
		}
		err = f(folder{store, dir, filepath.Base(filepath.Dir(filepath.Clean(dir)))})
		if err := errors.Join(err, store.Close()); err != nil {
			return err
		}
	}
	return nil
}

// found is a record that was asked for. It may be used until the function that got it returns.
type found struct {
	*evidence.Record
	folder
}

// each calls f with every record that is asked for.
func (o *evidenceOptions) each(ctx context.Context, f func(found) error) error {
	return o.folders(func(in folder) error { return o.eachIn(ctx, in, f) })
}

func (o *evidenceOptions) eachIn(ctx context.Context, in folder, f func(found) error) error {
	query, wants, err := o.query()
	if err != nil {
		return err
	}
	for r, err := range in.Find(ctx, query) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", in.dir, err)
		}
		if !wants(r) {
			continue
		}
		if err := f(found{r, in}); err != nil {
			return err
		}
	}
	return nil
}

// listEvidence prints the records to w, and how far time-stamping is to remarks.
func listEvidence(ctx context.Context, w, remarks io.Writer, o evidenceOptions) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := sync.OnceFunc(func() {
		fmt.Fprintln(table, "SERVER\tNUMBER\tTIME\tROLE\tMESSAGE\tCLIENT\tSERVICE\tPARTS\tSIZE\tSIGNATURE\tID\tREQUEST")
	})
	var stamped strings.Builder
	err := o.folders(func(in folder) error {
		err := o.eachIn(ctx, in, func(r found) error {
			head()
			_, err := fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%q\t%q\n", r.server, r.Number,
				zulu(r.Time), r.Role, kind(r.Record), r.Client, r.Service, len(r.Parts), size(recordSize(r.Record)),
				signatureOf(r.Record), r.MessageID, r.RequestID)
			return err
		})
		if err != nil {
			return err
		}
		st, err := in.Status()
		fmt.Fprintf(&stamped, "%s: %s\n", in.server, backlog(st))
		return err
	})
	if err == nil {
		head()
	}
	if err := errors.Join(err, table.Flush()); err != nil {
		return err
	}
	_, err = io.WriteString(remarks, stamped.String())
	return err
}

// backlog says how far time-stamping is.
func backlog(st evidence.Status) string {
	text := fmt.Sprintf("signed records %d", st.Signed)
	switch {
	case st.Unstamped == st.Signed && st.Stamped.IsZero(): // whether a time-stamper will come is not known here
		text += fmt.Sprintf(", not time-stamped %d", st.Unstamped)
	case st.Stamped.IsZero():
		text += fmt.Sprintf(", time-stamped %d, not yet %d", st.Signed-st.Unstamped, st.Unstamped)
	default:
		text += fmt.Sprintf(", time-stamped %d (last at %s), not yet %d", st.Signed-st.Unstamped, utc(st.Stamped), st.Unstamped)
	}
	if !st.Oldest.IsZero() {
		text += fmt.Sprintf(" (oldest of %s)", utc(st.Oldest))
	}
	return text
}

// zulu is a time in UTC, in one word that --from, --to and --at take.
func zulu(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// kind is a record's place in its exchange.
func kind(r *evidence.Record) string {
	switch {
	case r.Fault != "":
		return "fault"
	case r.Response:
		return "response"
	}
	return "request"
}

func recordSize(r *evidence.Record) (n int64) {
	for _, p := range r.Parts {
		n += p.Size
	}
	return n
}

func signatureOf(r *evidence.Record) string {
	if len(r.Signature.XML) == 0 {
		return "none"
	}
	return r.Signature.Form().String()
}

func showEvidence(ctx context.Context, w io.Writer, o evidenceOptions) error {
	shown, wrong := 0, 0
	err := o.each(ctx, func(r found) error {
		shown++
		if err := r.show(ctx, w); err != nil {
			wrong++
			fmt.Fprintf(w, "  DOES NOT VERIFY: %v\n", err)
		}
		_, err := fmt.Fprintln(w)
		return err
	})
	switch {
	case err != nil:
		return err
	case shown == 0:
		return o.none()
	case wrong > 0:
		return fmt.Errorf("%d of %d records do not verify", wrong, shown)
	}
	return nil
}

// show prints a record and returns an error where its signature does not verify.
func (r found) show(ctx context.Context, w io.Writer) error {
	fmt.Fprintf(w, "%s record %d: %s, role %s\n", r.server, r.Number, kind(r.Record), r.Role)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"time", zulu(r.Time)},
		{"message id", strconv.Quote(r.MessageID)},
		{"request id", strconv.Quote(r.RequestID)},
		{"client", r.Client.String()},
		{"service", r.Service.String()},
		{"peer", r.Peer},
		{"fault", r.Fault},
	} {
		if line[1] != "" {
			fmt.Fprintf(table, "  %s\t%s\n", line[0], line[1])
		}
	}
	table.Flush()

	fmt.Fprintln(table, "  PART\tSIZE\tTYPE\tKEPT\tDIGEST")
	var changed error
	for _, p := range r.Parts {
		kept, err := rehash(p)
		if err != nil {
			changed = errors.Join(changed, err)
		}
		fmt.Fprintf(table, "  %s\t%d\t%q\t%s\t%s %s\n", p.Name, p.Size, p.ContentType, kept, p.Digest, hex.EncodeToString(p.Sum))
	}
	table.Flush()

	if len(r.Signature.XML) == 0 {
		fmt.Fprintln(w, "  nothing was signed")
		return changed
	}
	v, err := verifyRecord(r.Record)
	if err := errors.Join(changed, err); err != nil {
		return err
	}
	fmt.Fprintf(w, "  signature  %s form, verifies\n", v.Form)
	fmt.Fprintf(w, "  signer     %s, serial %s, issued by %s\n", v.Certificate.Subject, v.Certificate.SerialNumber.Text(16), v.Certificate.Issuer)
	if !v.SigningTime.IsZero() {
		fmt.Fprintf(w, "  signed     %s (as the signer says)\n", zulu(v.SigningTime))
	}
	stamped, err := r.Get(ctx, r.Number)
	if err != nil {
		return err
	}
	if stamped.Timestamp == nil {
		return r.unstamped(w)
	}
	token, err := tsp.ParseToken(stamped.Timestamp.Token)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  stamped    %s (as the time-stamp says; \"verify\" judges it in the exported container)\n", zulu(token.GenTime))
	return nil
}

// unstamped says that the record has no time-stamp: "not yet" where others of its store have one.
func (r found) unstamped(w io.Writer) error {
	st, err := r.Status()
	if err != nil {
		return err
	}
	text := "not yet"
	if st.Stamped.IsZero() {
		text = "not time-stamped"
	}
	_, err = fmt.Fprintf(w, "  stamped    %s\n", text)
	return err
}

// verifyRecord checks a record's signature over its parts.
func verifyRecord(r *evidence.Record) (*xades.Verified, error) {
	parts := make([]crypto.Part, len(r.Parts))
	for i, p := range r.Parts {
		parts[i] = crypto.Part{Name: p.Name, Digest: p.Digest, Sum: p.Sum}
	}
	return xades.Verify(&r.Signature, parts)
}

// rehash hashes what was kept of a part, and says so.
func rehash(p evidence.Part) (string, error) {
	if p.Content == nil {
		return "digest", nil
	}
	h := p.Digest.New()
	if _, err := io.Copy(h, p.Content); err != nil {
		return "damaged", fmt.Errorf("reading %s: %w", p.Name, err)
	}
	if !bytes.Equal(h.Sum(nil), p.Sum) {
		return "changed", fmt.Errorf("what was kept of %s is not what was signed", p.Name)
	}
	return "whole", nil
}
