// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
)

func demoCommand(example string) *cobra.Command {
	var large string
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo [--size SIZE] [--keep]",
		Short: "Runs two security servers and sends messages through them",
		Long: `Starts two security servers in this process, on free ports of the loopback interface, and a service behind
one of them. Sends SOAP messages of every form through both, with signatures and mutual TLS as over the
internet, checks every octet of the answers, and reads the evidence that both servers kept. One message is
changed on its way, and must be refused. At the end, all is time-stamped, and every signed message is exported
as a container and verified, as "xroad verify" does it.

Keys, temporary files and evidence are in a temporary folder that is removed at the end. The largest attachment
passes through it twice: it needs room for twice --size.`,
		Example: examples("demo", "demo --size 4GiB", "demo --keep"),
		Args:    cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("the demo takes no %q", args[0])
			}
			n, err := humanize.ParseBytes(large)
			if err != nil || n > 1<<50 {
				return usagef("%q is not a size such as 256MiB or 4GiB", large)
			}
			return demo(ctx, cmd, example, int64(n), keep)
		}),
	}
	cmd.Flags().StringVar(&large, "size", "256MiB", "`size` of the largest attachment")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the servers running, and say how to use them")
	return cmd
}

// demo runs everything and prints what came of it. Its last line counts.
func demo(ctx context.Context, cmd *cobra.Command, example string, large int64, keep bool) (err error) {
	out, progress := cmd.OutOrStdout(), cmd.ErrOrStderr()
	p, err := openPair(example)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	fmt.Fprintf(out, "Two security servers: ss1 sends (information systems: %s), ss2 receives (%s).\n\n", p.consumers, p.peers)

	exchanges := script(large)
	for _, x := range exchanges {
		begun := time.Now()
		x.err = x.do(ctx, p, x, progress)
		x.time = time.Since(begun)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	for _, x := range exchanges {
		if err := x.checkEvidence(ctx, p); err != nil {
			x.err = errors.Join(x.err, err)
		}
	}
	proof, err := p.proof(ctx)
	if err != nil {
		return err
	}
	for _, x := range exchanges {
		if err := x.exportAndVerify(ctx, p, proof); err != nil {
			x.err = errors.Join(x.err, err)
		}
	}
	printExchanges(out, exchanges)
	fmt.Fprintf(out, "\nevidence: %d records of ss1 and ss2 were read again, signature by signature\n", p.records)
	printContainers(out, p, proof, exchanges, keep)

	if keep {
		if err := p.explain(out); err != nil {
			return err
		}
	}
	wrong := 0
	for _, x := range exchanges {
		if x.err != nil {
			wrong++
			fmt.Fprintf(out, "wrong: %s: %v\n", x.form, x.err)
		}
	}
	fmt.Fprintf(out, "demo: %d exchanges, %d as expected, %d wrong\n", len(exchanges), len(exchanges)-wrong, wrong)
	if keep {
		<-ctx.Done()
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d exchanges went wrong; see above", wrong, len(exchanges))
	}
	return nil
}

func printExchanges(w io.Writer, exchanges []*exchange) {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "FORM\tPARTS\tBYTES\tTIME\tSIGNATURE\tVERIFIED BY\tRESULT")
	for _, x := range exchanges {
		result := "as expected"
		switch {
		case x.err != nil:
			result = "WRONG"
		case x.fault != "":
			result = "as expected: " + x.fault
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", x.form, x.parts, humanize.Comma(x.size),
			x.time.Round(time.Millisecond), x.signature, x.verified, result)
	}
	table.Flush()
}
