// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/asice"
	"github.com/caddy-fairway/fairway/crypto/xades"
)

func evidenceExportCommand() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [NUMBER] [--id ID] [--request ID] [--member ID] [--service ID] [--from TIME] [--to TIME] [--dir DIR] --out DIR|-",
		Short: "Takes records out as containers that others can verify",
		Long: `Writes each record as an ASiC-E container (.asice): the message, the attachments that were kept, the signature
and the time-stamp, in a file that "` + binary() + ` xroad verify" proves. It is built to be read by X-Road's own tools,
too, and has not been tried with them yet. What is written has been verified against its signature before.

With --out DIR, each record becomes a file; without --dir, those of each security server go to a folder named after
it. No file is overwritten. With --out -, the container of one record goes to standard output.

A record whose attachments were not kept needs the files: --attachment N=FILE completes the container of one record.
Where the signature is over a hash chain, the container has digests of the attachments; those that were kept become
files beside it.`,
		Example: examples("evidence export --id 4711 --out case", "evidence export 12 --dir /var/lib/fairway/evidence --out - >message.asice",
			"evidence export --member DEV/GOV/1111 --from 2026-03-01 --to 2026-04-01 --out march",
			"evidence export 12 --dir /var/lib/fairway/evidence --attachment 1=scan.pdf --out case"),
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if err := o.one(args); err != nil {
				return err
			}
			if o.out == "" {
				return usagef("want --out DIR, or --out - for standard output")
			}
			return o.export(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "`folder` for the containers; - is standard output")
	cmd.Flags().Var(&o.attachments, "attachment", "`N=FILE`: the octets of attachment N, where they were not kept")
	return cmd
}

type exportOptions struct {
	evidenceOptions
	out         string
	attachments attached
}

// export writes the containers, and prints the name of each. What is to be said of them goes to remarks.
func (o *exportOptions) export(ctx context.Context, w, remarks io.Writer) error {
	if o.out == "-" || len(o.attachments) > 0 {
		if err := o.onlyOne(ctx); err != nil {
			return err
		}
	}
	seen, refused := 0, 0
	var u unstamped
	err := o.each(ctx, func(r found) error {
		seen++
		err := o.exportOne(ctx, w, remarks, &u, r)
		unfit, ok := errors.AsType[*unfitError](err)
		if ok {
			refused++
			fmt.Fprintf(remarks, "%s record %d: not exported: %v\n", r.server, r.Number, unfit)
			return nil
		}
		return err
	})
	u.tell(remarks)
	switch {
	case err != nil:
		return err
	case seen == 0:
		return o.none()
	case refused > 0:
		return fmt.Errorf("%d of %d records were not exported", refused, seen)
	}
	return nil
}

var errEnough = errors.New("enough records")

// onlyOne sees that one record is asked for.
func (o *exportOptions) onlyOne(ctx context.Context) error {
	var all []string
	err := o.each(ctx, func(r found) error {
		all = append(all, fmt.Sprintf("number %d of %s, a %s", r.Number, r.server, kind(r.Record)))
		if len(all) > 9 {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return err
	}
	if len(all) > 1 {
		return usagef("--out - and --attachment are for one record, and there are several: %s; a number with --dir says which", strings.Join(all, "; "))
	}
	return nil
}

// unstamped are the containers without time-stamp. There may be many, so they are told of once.
type unstamped struct {
	n     int
	first string
}

func (u *unstamped) add(r found) {
	if u.n++; u.n == 1 {
		u.first = fmt.Sprintf("%s record %d: has no time-stamp; \"verify\" proves it with --at %s, when the signature was made or verified here",
			r.server, r.Number, zulu(r.Time))
	}
}

func (u *unstamped) tell(w io.Writer) {
	switch u.n {
	case 0:
	case 1:
		fmt.Fprintln(w, u.first)
	default:
		fmt.Fprintf(w, "%d containers have no time-stamp; \"verify\" proves one with --at TIME, when its signature was made or verified here, as \"evidence list\" tells\n", u.n)
	}
}

// unfitError says why there is no container of a record. Others may have one.
type unfitError struct{ error }

func (e *unfitError) Unwrap() error { return e.error }

func (o *exportOptions) exportOne(ctx context.Context, w, remarks io.Writer, u *unstamped, r found) error {
	c, err := r.container(ctx)
	if err != nil {
		return err
	}
	remark := func(format string, args ...any) {
		fmt.Fprintf(remarks, "%s record %d: %s\n", r.server, r.Number, fmt.Sprintf(format, args...))
	}
	if err := o.attachments.to(c); err != nil {
		return err
	}
	proof, err := c.Verify() // before anything is written
	if needs, ok := errors.AsType[*xades.NeedsFilesError](err); ok {
		for _, p := range needs.Parts {
			remark("needs the file of %s with %s %x; --attachment N=FILE completes the container", p.Name, p.Digest, p.Sum)
		}
	} else if err != nil {
		return &unfitError{fmt.Errorf("what was kept is not what was signed: %w", err)}
	}
	if _, _, err := proof.Stamp(); errors.Is(err, asice.ErrUnstamped) {
		u.add(r)
	}
	beside := o.beside(c)
	if o.out == "-" {
		if len(beside) > 0 {
			remark("%d attachments that were kept are in the container by their digests; --out DIR writes them beside it", len(beside))
		}
		return write(w, c)
	}

	dir := o.out
	if o.dir == "" {
		dir = filepath.Join(dir, r.server)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, asice.FileName(r.MessageID, r.Response, r.Number))
	for n, open := range beside {
		name := strings.TrimSuffix(file, ".asice") + "." + crypto.Attachment(n)[1:]
		if err := create(name, func(w io.Writer) error { return copyOf(w, open) }); err != nil {
			return err
		}
	}
	if len(beside) > 0 {
		remark("%d attachments are in the container by their digests, and lie beside it: %s.attachmentN", len(beside), strings.TrimSuffix(file, ".asice"))
	}
	if err := create(file, func(w io.Writer) error { return write(w, c) }); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, file)
	return err
}

// beside takes the attachments out of a container whose signature has their digests in a hash chain, and returns them.
func (o *exportOptions) beside(c *asice.Container) map[int]asice.Opener {
	if c.Signature.Form() != crypto.Chain {
		return nil
	}
	all := c.Attachments
	c.Attachments = nil
	for n := range o.attachments {
		delete(all, n) // whoever has the file needs no copy
	}
	return all
}

// container returns the container of a record, which reads what was kept of it as often as it is asked to.
func (r found) container(ctx context.Context) (*asice.Container, error) {
	if len(r.Signature.XML) == 0 {
		return nil, &unfitError{errors.New("nothing was signed")}
	}
	c := &asice.Container{Time: r.Time, Signature: r.Signature, Attachments: make(map[int]asice.Opener)}
	for i, p := range r.Parts {
		if p.Content == nil {
			continue
		}
		open := func() (io.ReadCloser, error) {
			again, err := r.Get(ctx, r.Number)
			if err != nil {
				return nil, err
			}
			return io.NopCloser(again.Parts[i].Content), nil
		}
		if p.Name == crypto.Message {
			c.Message = open
		} else {
			c.Attachments[i] = open // the message comes first
		}
	}
	if err := r.stamp(ctx, c); err != nil {
		return nil, err
	}
	if c.Message == nil {
		return nil, &unfitError{errors.New("the message was not kept, but only its digest; there is no container without message")}
	}
	return c, nil
}

// stamp puts the record's time-stamp into its container: beside the signature document, or inside where it is over that
// signature alone.
func (r found) stamp(ctx context.Context, c *asice.Container) error {
	stamped, err := r.Get(ctx, r.Number)
	if err != nil || stamped.Timestamp == nil {
		return err
	}
	t := stamped.Timestamp
	if t.HashChainResult != nil {
		c.Stamp = asice.Stamp{HashChainResult: t.HashChainResult, HashChain: t.HashChain, Token: t.Token}
		return nil
	}
	if c.Signature.XML, err = xades.AddTimestamp(r.Signature.XML, t.Token); err != nil {
		return &unfitError{fmt.Errorf("its time-stamp does not fit its signature: %w", err)}
	}
	return nil
}

func write(w io.Writer, c *asice.Container) error {
	b := bufio.NewWriterSize(w, 256<<10)
	if err := c.Write(b); err != nil {
		return err
	}
	return b.Flush()
}

func copyOf(w io.Writer, open asice.Opener) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// create makes a file whole or not at all. One that is there stays as it is.
func create(file string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s is there already", file), err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".export-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.Rename(f.Name(), file)
}
