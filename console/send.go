// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

// maxFault is how much of an answer is looked at when it is a fault.
const maxFault = 1 << 20

func sendCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send URL FILE [--attach FILE…] [--mtom] [--soapaction ACTION] [--out DIR]",
		Short: "Posts a SOAP file with attachments to a sending security server",
		Long: `Posts the SOAP message in FILE ("-" is standard input) to a sending security server, as an information
system does, and prints the answer. The envelope goes to standard output, attachments go into the folder
of --out as attachment1, attachment2, …; without it they are only counted. No file is overwritten: a folder that
has such files already is refused.

FILE and attachments are streamed, and may be of any size. With --mtom the message is sent as MTOM, and the
envelope refers to an attachment by the name of its file, as in <xop:Include href="cid:scan.pdf"/>.

Exits with 1 when the answer is a SOAP fault, and prints its code and text.`,
		Example: examples(
			"send http://127.0.0.1:8080 request.xml",
			"send http://127.0.0.1:8080 request.xml --attach scan.pdf --attach photo.jpg --out answer"),
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want the address of a sending security server and a file")
			}
			return send(ctx, cmd, args[0], args[1], o)
		}),
	}
	cmd.Flags().StringArrayVar(&o.attach, "attach", nil, "`file` to attach; may be given more than once")
	cmd.Flags().BoolVar(&o.mtom, "mtom", false, "send as MTOM (application/xop+xml)")
	cmd.Flags().StringVar(&o.action, "soapaction", "", "SOAPAction of the request; quoted if you do not")
	cmd.Flags().StringVar(&o.out, "out", "", "`folder` for the attachments of the answer")
	return cmd
}

type sendOptions struct {
	attach []string
	mtom   bool
	action string
	out    string
}

func send(ctx context.Context, cmd *cobra.Command, address, file string, o sendOptions) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usagef("%q is not an http or https address", address)
	}
	envelope, err := fileSource(file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	var attachments []source
	for _, name := range o.attach {
		a, err := fileSource(name, nil)
		if err != nil {
			return err
		}
		attachments = append(attachments, a)
	}
	if o.out != "" {
		if err := outFolder(o.out); err != nil {
			return err
		}
	}

	m := newMessage(envelope, o.mtom, attachments...)
	resp, err := post(ctx, cmd.ErrOrStderr(), address, m, quoted(o.action))
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%w: is this the address of a sending security server, and does it run?", err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return printAnswer(cmd.OutOrStdout(), cmd.ErrOrStderr(), resp, o.out)
}

// outFolder makes the folder for the attachments of an answer. How many will come nobody knows, so it must have none.
func outFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), attachmentName)
		if _, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			return usagef("%s is there already; nothing was sent: --out wants a folder without attachments", filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// attachmentName is how the files of attachments are called, with a number behind it.
const attachmentName = "attachment"

// post sends the message and shows how far it is on w.
func post(ctx context.Context, w io.Writer, address string, m *message, action string) (*http.Response, error) {
	p := newProgress(w, m.size())
	defer p.Close()
	body := m.body(p)
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = m.length()
	req.Header.Set("Content-Type", m.contentType())
	req.Header.Set("SOAPAction", action)
	return client.Do(req)
}

// client posts messages: what a message takes is up to the servers, so there is no time limit, and a redirect is an
// answer like any other.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// quoted is a SOAPAction as SOAP 1.1 writes it.
func quoted(action string) string {
	if strings.HasPrefix(action, `"`) {
		return action
	}
	return `"` + action + `"`
}

// fileSource is a file; its name becomes the Content-ID.
func fileSource(name string, stdin io.Reader) (source, error) {
	if name == "-" && stdin != nil {
		return source{open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return source{}, err
	}
	if info.IsDir() {
		return source{}, fmt.Errorf("%s is a folder", name)
	}
	contentType := mime.TypeByExtension(filepath.Ext(name))
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	return source{
		id:          strings.Map(idRune, filepath.Base(name)),
		contentType: contentType,
		size:        info.Size(),
		exact:       info.Mode().IsRegular(),
		open:        func() (io.ReadCloser, error) { return os.Open(name) },
	}, nil
}

// idRune keeps what may stand in a Content-ID and in a cid: address alike.
func idRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
		return r
	}
	return '_'
}

// printAnswer copies the envelope to stdout, saves the attachments, and returns an error that tells the fault, if the
// answer is one.
func printAnswer(stdout, stderr io.Writer, resp *http.Response, dir string) error {
	a, err := readAnswer(resp)
	if err != nil {
		return err
	}
	fault, err := copyEnvelope(stdout, a.envelope)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		part, err := a.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading attachment %d: %w", n, err)
		}
		if err := saveAttachment(stderr, part, dir, n); err != nil {
			return err
		}
	}
	if fault != nil {
		return fmt.Errorf("fault %s: %s", fault.Code, fault.String)
	}
	return nil
}

// copyEnvelope copies an envelope as it is and returns the fault in it, or nil.
func copyEnvelope(w io.Writer, r io.Reader) (*soap.Fault, error) {
	var kept bytes.Buffer
	r = io.TeeReader(r, w)
	env, err := soap.Open(r, "", soap.DefaultLimits)
	if err != nil {
		io.Copy(io.Discard, r) // the rest, for whoever wants to see what came
		return nil, fmt.Errorf("the answer is not a SOAP message of X-Road: %w", err)
	}
	if env.Fault {
		if _, err := io.Copy(&kept, io.LimitReader(env, maxFault)); err != nil {
			return nil, fmt.Errorf("reading the fault: %w", err)
		}
	}
	if _, err := io.Copy(io.Discard, env); err != nil {
		return nil, fmt.Errorf("reading the answer's envelope: %w", err)
	}
	fmt.Fprintln(w)
	if !env.Fault {
		return nil, nil
	}
	return soap.ParseFault(kept.Bytes())
}

// saveAttachment writes a part to a file of ours: what the sender calls it is told, and is never a file name.
func saveAttachment(stderr io.Writer, part *multipart.Part, dir string, n int) (err error) {
	where, w := "not kept; --out DIR keeps it", io.Discard
	if dir != "" {
		where = filepath.Join(dir, fmt.Sprintf("%s%d", attachmentName, n))
		f, err := os.OpenFile(where, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	written, err := io.Copy(w, part)
	if err != nil {
		return fmt.Errorf("reading attachment %d: %w", n, err)
	}
	_, err = fmt.Fprintf(stderr, "attachment %d: %q, %q, %s (%s)\n", n,
		part.Header.Get("Content-Type"), part.Header.Get("Content-ID"), size(written), where)
	return err
}
