// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// exchangesPath is where the admin endpoint of a running server has the exchanges in progress.
const exchangesPath = "/xroad/exchanges"

// maxTransfers is how much of the list of transfers is read.
const maxTransfers = 64 << 20

// watchEvery is how often a list that is watched is asked for.
const watchEvery = time.Second

func transfersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transfers list|cancel",
		Short: "Lists and cancels message exchanges in progress",
		Long: `Shows how far the message exchanges of a running server are, and ends them. The server is asked at its admin
endpoint, as "` + binary() + ` reload" does.`,
		Example: examples("transfers list --watch", "transfers cancel f47ac10b-58cc-4372-a567-0e02b2c3d479-send"),
		Args:    cobra.ArbitraryArgs,
		RunE: run(func(_ context.Context, cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q: want list or cancel", args[0])
			}
			return cmd.Help()
		}),
	}
	cmd.AddCommand(transfersListCommand(), transfersCancelCommand())
	return cmd
}

func transfersListCommand() *cobra.Command {
	var a adminOptions
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "list [--server SERVER] [--json] [--watch] [--address ADMIN | --config FILE]",
		Short: "Lists the exchanges in progress: who, how far, how fast, and how long still",
		Long: `Lists the exchanges in progress, the oldest first, those of an earlier configuration too.

SIZE is how much has passed of what the phase moves, the request or the answer, and of how much where that is
known. RATE is that of the last seconds; LEFT is what is left of the phase at that rate.

The phases of an exchange are, where a message is sent: reading envelope, connecting, uploading, waiting for
answer, receiving answer, delivering; where it is received: receiving, verifying, forwarding, waiting for
service, answering. In each, "waiting for its turn" says that there are as many exchanges as may be at once.`,
		Example: examples("transfers list", "transfers list --watch", "transfers list --server ss1 --json", "transfers list --address unix//run/caddy/admin.socket"),
		Args:    cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("list takes no arguments")
			}
			admin, err := a.open()
			if err != nil {
				return err
			}
			if watch {
				return watchTransfers(ctx, cmd.OutOrStdout(), admin, asJSON)
			}
			return listTransfers(ctx, cmd.OutOrStdout(), admin, asJSON)
		}),
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON as the admin endpoint gives it; with --watch, one line a second")
	cmd.Flags().BoolVar(&watch, "watch", false, "list again every second, until interrupted")
	return cmd
}

func transfersCancelCommand() *cobra.Command {
	var a adminOptions
	cmd := &cobra.Command{
		Use:   "cancel ID… [--server SERVER] [--address ADMIN | --config FILE]",
		Short: "Ends exchanges in progress with a fault that says so",
		Long: `Ends exchanges in progress. Whoever waits for the answer gets a fault that says that the operator of this security
server has cancelled the transfer, or, where the answer has been begun, sees it broken off. The other security
server learns it, too; nothing of the message is delivered that has not been, and what waits in the spool is gone.

Prints the ids of those that were cancelled. Exits with 1 if any of them was not in progress.`,
		Example: examples("transfers cancel f47ac10b-58cc-4372-a567-0e02b2c3d479-send"),
		Args:    cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("want the id of an exchange, as %q shows it", binary()+" xroad transfers list")
			}
			admin, err := a.open()
			if err != nil {
				return err
			}
			var failed []error
			for _, id := range args {
				if err := admin.cancel(ctx, id); err != nil {
					failed = append(failed, err)
					continue
				}
				fmt.Fprintln(cmd.OutOrStdout(), printable(id))
			}
			return errors.Join(failed...)
		}),
	}
	a.flags(cmd)
	return cmd
}

// adminOptions say which running server is asked.
type adminOptions struct{ address, config, adapter, server string }

func (o *adminOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.address, "address", "", "`address` of the admin endpoint (default: that of --config, or "+caddy.DefaultAdminListen+")")
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "configuration `file` that names the admin endpoint")
	cmd.Flags().StringVarP(&o.adapter, "adapter", "a", "", "`name` of the adapter of that file")
	cmd.Flags().StringVar(&o.server, "server", "", "only of this security `server`: its name in the configuration, or its identifier")
}

// open finds the admin endpoint and asks it nothing.
func (o *adminOptions) open() (*adminEndpoint, error) {
	if o.address != "" && o.config != "" {
		return nil, usagef("want --address or --config, not both")
	}
	var config []byte
	if o.config != "" {
		var err error
		if config, _, _, err = caddycmd.LoadConfig(o.config, o.adapter); err != nil {
			return nil, err
		}
		var says struct {
			Admin struct {
				Disabled bool `json:"disabled"`
			} `json:"admin"`
		}
		if err := json.Unmarshal(config, &says); err != nil {
			return nil, fmt.Errorf("%s: %w", o.config, err)
		}
		if says.Admin.Disabled {
			return nil, fmt.Errorf("%s switches the admin endpoint off (admin off), so nobody can ask its servers", o.config)
		}
	}
	address, err := caddycmd.DetermineAdminAPIAddress(o.address, config, o.config, o.adapter)
	if err != nil {
		return nil, err
	}
	return &adminEndpoint{address, o.server}, nil
}

// adminEndpoint is that of a running server.
type adminEndpoint struct{ address, server string }

// ask sends a request, with the path's last element escaped, and returns what is answered.
func (e *adminEndpoint) ask(ctx context.Context, method, path string) ([]byte, error) {
	if e.server != "" {
		path += "?" + url.Values{"server": {e.server}}.Encode()
	}
	type answer struct {
		octets []byte
		err    error
	}
	answered := make(chan answer, 1)
	go func() { // Caddy's own request takes no context
		response, err := caddycmd.AdminAPIRequest(e.address, method, path, nil, nil)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		defer response.Body.Close()
		octets, err := io.ReadAll(io.LimitReader(response.Body, maxTransfers))
		answered <- answer{octets, err}
	}()
	select {
	case a := <-answered:
		return a.octets, e.explain(a.err)
	case <-ctx.Done():
		return nil, errors.New("interrupted")
	}
}

// explain says what an error of the admin endpoint means.
func (e *adminEndpoint) explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	_, said, answered := strings.Cut(text, "responded with error: HTTP ")
	switch {
	case !answered:
		return fmt.Errorf("no server answers at the admin endpoint %s: is one running on this machine, and is its admin endpoint there? (%w)", e.address, err)
	case strings.HasPrefix(said, "404") && !strings.Contains(said, `"error"`):
		return fmt.Errorf("the server at %s has no security servers of this kind: %w", e.address, err)
	}
	var told struct {
		Error string `json:"error"`
	}
	if _, body, ok := strings.Cut(said, ": "); ok && json.Unmarshal([]byte(body), &told) == nil && told.Error != "" {
		return errors.New(printable(told.Error))
	}
	return fmt.Errorf("asking %s: %w", e.address, err)
}

func (e *adminEndpoint) cancel(ctx context.Context, id string) error {
	_, err := e.ask(ctx, http.MethodDelete, exchangesPath+"/"+url.PathEscape(id))
	return err
}

// transfer is an exchange in progress as the admin endpoint tells it.
type transfer struct {
	Name        string    `json:"name"`
	Server      string    `json:"server"`
	ID          string    `json:"id"`
	Client      string    `json:"client"`
	Service     string    `json:"service"`
	Peer        string    `json:"peer"`
	MessageID   string    `json:"message_id"`
	Phase       string    `json:"phase"`
	Octets      int64     `json:"octets"`
	Total       *int64    `json:"total"`
	Rate        float64   `json:"rate"`
	SecondsLeft *float64  `json:"seconds_left"`
	Begun       time.Time `json:"begun"`
	Cancelled   bool      `json:"cancelled"`
}

// listTransfers prints what is in progress.
func listTransfers(ctx context.Context, w io.Writer, e *adminEndpoint, asJSON bool) error {
	octets, err := e.ask(ctx, http.MethodGet, exchangesPath)
	if err != nil {
		return err
	}
	if asJSON {
		_, err = w.Write(octets)
		return err
	}
	var all []transfer
	if err := json.Unmarshal(octets, &all); err != nil {
		return fmt.Errorf("the admin endpoint %s answered with something else: %w", e.address, err)
	}
	return printTransfers(w, all, time.Now())
}

// watchTransfers prints it again and again, on a terminal in the same place.
func watchTransfers(ctx context.Context, w io.Writer, e *adminEndpoint, asJSON bool) error {
	before := "\n"
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		before = "\x1b[H\x1b[2J"
	}
	if asJSON {
		before = ""
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var page strings.Builder
		err := listTransfers(ctx, &page, e, asJSON)
		if ctx.Err() != nil {
			return nil // an interrupt is how watching ends
		}
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, before+page.String()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func printTransfers(w io.Writer, all []transfer, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SERVER\tSINCE\tPHASE\tSIZE\tRATE\tLEFT\tCLIENT\tSERVICE\tPEER\tMESSAGE\tID")
	for _, t := range all {
		phase, passed, left := t.Phase, size(t.Octets), "-"
		if t.Cancelled {
			phase = "cancelled"
		}
		if t.Total != nil {
			passed += " of " + size(*t.Total)
		}
		if t.SecondsLeft != nil {
			left = seconds(*t.SecondsLeft)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s/s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			printable(cmp.Or(t.Name, t.Server)), seconds(now.Sub(t.Begun).Seconds()), printable(phase), passed,
			humanize.IBytes(uint64(max(t.Rate, 0))), left, unknown(t.Client), unknown(t.Service), unknown(t.Peer), unknown(t.MessageID), printable(t.ID))
	}
	return table.Flush()
}

// unknown is a word of others, or a dash where it has not come yet.
func unknown(text string) string { return cmp.Or(printable(text), "-") }

// seconds is a time for people, to the second.
func seconds(s float64) string {
	return (time.Duration(min(max(s, 0), 1e9)) * time.Second).String()
}
