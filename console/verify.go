// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-fairway/fairway/crypto/asice"
	"github.com/caddy-fairway/fairway/trust"
)

func verifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify FILE... --configuration DIR | --trust FILE",
		Short: "Proves what is in evidence containers, and says who signed it and when",
		Long: `Proves what is in evidence containers (.asice) of any security server: which message it is, which member
signed it with which certificate, which octets were signed, whether the certificate was good, and when. Each FILE is
a container, or a folder with containers.

Whom to trust, the X-Road instance says: --configuration names a folder of global configuration as a security
server keeps it, or the unpacked verificationconf.zip; --trust names the shared parameters of one instance.

What holds, holds for the time of the time-stamp. A container without one needs --at, and then proves what it
proves for somebody who knows that time from elsewhere.

A signature document is proved with --message. Hash chain files that belong to it lie beside it, by the names
that they have in containers. Attachments that were not kept are given by --attachment.

Exits with 0 when everything is proved, 1 when something is not, 2 when it was asked wrongly.`,
		Example: examples("verify message.asice --configuration /etc/xroad/globalconf",
			"verify message.asice --trust shared-params.xml --at 2026-03-01T12:00:00Z",
			"verify message.asice --trust shared-params.xml --attachment 1=scan.pdf --json",
			"verify signatures.xml --message message.xml --configuration verificationconf"),
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			files, err := o.files(args)
			if err != nil {
				return err
			}
			v, err := o.verifier(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.verify(ctx, cmd.OutOrStdout(), v, files)
		}),
	}
	o.flags(cmd)
	cmd.Flags().Var(&o.at, "at", "judge certificates as of this `time`")
	cmd.Flags().StringVar(&o.message, "message", "", "`file` with the message of a signature document")
	cmd.Flags().Var(&o.attachments, "attachment", "`N=FILE`: the octets of attachment N, where they were not kept")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a file")
	return cmd
}

type verifyOptions struct {
	trusted
	at          moment
	message     string
	attachments attached
	json        bool
}

// trusted is who says whose certificates count.
type trusted struct{ configuration, trust string }

func (t *trusted) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.configuration, "configuration", "", "`folder` of global configuration")
	cmd.Flags().StringVar(&t.trust, "trust", "", "`file` with the shared parameters of the instance")
}

func (t *trusted) open(warnings io.Writer) (*trust.Verification, error) {
	if t.trust != "" {
		return trust.OpenVerificationFile(t.trust)
	}
	return trust.OpenVerification(t.configuration, func(err error) { fmt.Fprintf(warnings, "warning: %v\n", err) })
}

// files are what is to be verified, folders replaced by the containers in them.
func (o *verifyOptions) files(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, usagef("want the file of a container")
	}
	if (o.configuration == "") == (o.trust == "") {
		return nil, usagef("want --configuration DIR or --trust FILE, one of them: it says whose certificates count")
	}
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		inside, err := containersIn(arg)
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	if len(files) > 1 && (o.message != "" || len(o.attachments) > 0) {
		return nil, usagef("--message and --attachment are about one file, and these are %d", len(files))
	}
	return files, nil
}

// containersIn returns the containers of a folder and of those in it, as "evidence export" fills them, one for each
// security server. A folder without any has not been what was meant.
func containersIn(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.EqualFold(filepath.Ext(path), ".asice") {
			files = append(files, path)
		}
		return err
	})
	if err == nil && files == nil {
		err = fmt.Errorf("no file in %s is called *.asice", dir)
	}
	return files, err
}

func (o *verifyOptions) verifier(warnings io.Writer) (*verifier, error) {
	v, err := o.trusted.open(warnings)
	return &verifier{trust: v, at: o.at.Time}, err
}

// verify prints what each file proves.
func (o *verifyOptions) verify(ctx context.Context, w io.Writer, v *verifier, files []string) error {
	wrong := 0
	for _, file := range files {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		f, err := o.verifyFile(v, file)
		if err != nil {
			return err
		}
		if !f.Proved {
			wrong++
		}
		write := f.text
		if o.json {
			write = f.json
		}
		if err := write(w); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d not proved", wrong, len(files))
	}
	return nil
}

// verifyFile returns what one file proves. Its error is that the question cannot be asked.
func (o *verifyOptions) verifyFile(v *verifier, file string) (*finding, error) {
	c, done, err := o.open(file)
	if err != nil {
		if pathError, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, pathError
		}
		return &finding{File: file, Code: causes(err), Reason: err.Error()}, nil
	}
	defer done()
	if err := o.attachments.to(c); err != nil {
		return nil, err
	}
	f := v.verify(c)
	f.File = file
	return f, nil
}

func (o *verifyOptions) open(file string) (*asice.Container, func() error, error) {
	if o.message != "" {
		c, err := loose(file, o.message)
		return c, func() error { return nil }, err
	}
	return openContainer(file)
}

// openContainer opens a container; it may be read until the function that comes with it is called.
func openContainer(file string) (*asice.Container, func() error, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	c, err := asice.Open(f, info.Size())
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return c, f.Close, nil
}

// loose puts together what lies about: a signature document, the message, and beside the document, or in the folder of an
// unpacked container, what else there is.
func loose(signature, message string) (*asice.Container, error) {
	if _, err := os.Stat(message); err != nil {
		return nil, err
	}
	c := &asice.Container{Message: opener(message)}
	inside := filepath.Dir(signature)
	beside := inside
	if filepath.Base(inside) == "META-INF" {
		beside = filepath.Dir(inside)
	}
	for _, f := range []struct {
		octets *[]byte
		path   string
		must   bool
	}{
		{&c.Signature.XML, signature, true},
		{&c.Signature.HashChainResult, filepath.Join(beside, "sig-hashchainresult.xml"), false},
		{&c.Signature.HashChain, filepath.Join(beside, "sig-hashchain.xml"), false},
		{&c.Stamp.HashChainResult, filepath.Join(beside, "ts-hashchainresult.xml"), false},
		{&c.Stamp.HashChain, filepath.Join(beside, "ts-hashchain.xml"), false},
		{&c.Stamp.Token, filepath.Join(inside, "timestamp.tst"), false},
	} {
		octets, err := readDocument(f.path)
		if errors.Is(err, fs.ErrNotExist) && !f.must {
			continue
		}
		if err != nil {
			return nil, err
		}
		*f.octets = octets
	}
	return c, nil
}

// maxDocument is how long a file beside a message may be, as in containers.
const maxDocument = 8 << 20

func readDocument(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	octets, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(octets) > maxDocument {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d octets", maxDocument)}
	}
	return octets, err
}

// opener opens a file whenever it is asked to.
func opener(path string) asice.Opener { return func() (io.ReadCloser, error) { return os.Open(path) } }

// attached are files that stand for attachments, by number. It is a flag.
type attached map[int]string

func (a *attached) String() string { return "" }
func (a *attached) Type() string   { return "N=FILE" }

func (a *attached) Set(text string) error {
	number, file, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(number)
	switch {
	case !ok || err != nil || n < 1 || file == "":
		return errors.New("want N=FILE, N counted from 1")
	case (*a)[n] != "":
		return fmt.Errorf("attachment %d is there twice", n)
	}
	if *a == nil {
		*a = attached{}
	}
	(*a)[n] = file
	return nil
}

// to puts the files into a container.
func (a attached) to(c *asice.Container) error {
	for n, file := range a {
		if info, err := os.Stat(file); err != nil {
			return err
		} else if !info.Mode().IsRegular() {
			return usagef("%s is no file", file)
		}
		if err := c.Attach(n, opener(file)); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// moment is a time as a flag.
type moment struct{ time.Time }

// timeLayouts are how a time may be written; where it says no zone, it is that of this machine.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", time.DateOnly}

func (m *moment) Type() string { return "time" }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

func (m *moment) Set(text string) error {
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			m.Time = t
			return nil
		}
	}
	return fmt.Errorf("want a time such as %s, %q or %s", time.RFC3339[:len("2006-01-02T15:04:05")]+"Z", time.DateTime, time.DateOnly)
}

// causes joins X-Road's causes of an error, outermost first.
func causes(err error) string {
	var all []string
	for ; err != nil; err = errors.Unwrap(err) {
		if c, ok := err.(interface{ Cause() string }); ok && (all == nil || all[len(all)-1] != c.Cause()) {
			all = append(all, c.Cause())
		}
	}
	if all == nil {
		return "internal_error"
	}
	return strings.Join(all, ".")
}
