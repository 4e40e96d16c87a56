// SPDX-License-Identifier: Apache-2.0

// Package console is the command line, "fairway xroad …", one file a command.
//
// Commands write configurations, speak to running servers and read what these left on the disk; none reaches into a
// server, but for the demo that runs its own. Answers go to standard output, everything said about them to standard error. A command exits with 0 when it
// did what was asked, 1 when it could not, and 2 when it was asked wrongly.
package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

const short = "Exchanges signed SOAP messages as an X-Road security server"

// Register adds the commands to Caddy's. example is the Caddyfile of two security servers on one machine.
// It must be called once, by an init function.
func Register(example string) {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:      "xroad",
		Usage:     "<command>",
		Short:     short,
		CobraFunc: func(cmd *cobra.Command) { build(cmd, example) },
	})
}

// build makes cmd the root of the commands.
func build(cmd *cobra.Command, example string) {
	cmd.Long = `Tools around the X-Road security servers of this binary. The servers themselves are configured
in a Caddyfile and started with "` + binary() + ` run"; the first thing to try is "` + binary() + ` xroad demo".`
	cmd.Example = examples("demo", "init", "send http://127.0.0.1:8080 request.xml --attach scan.pdf", "transfers list --watch",
		"evidence list", "verify message.asice --configuration /etc/xroad/globalconf")
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = run(func(_ context.Context, cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("there is no command %q", args[0])
		}
		return cmd.Help()
	})
	cmd.AddCommand(demoCommand(example), initCommand(example), sendCommand(), evidenceCommand(), verifyCommand(),
		transfersCommand())
	speakForOurselves(cmd)
}

// speakForOurselves makes run the only one who prints errors of cmd and of the commands below it.
func speakForOurselves(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return run(func(context.Context, *cobra.Command, []string) error { return usageError{err} })(c, nil)
	})
	for _, c := range cmd.Commands() {
		speakForOurselves(c)
	}
}

// binary is the name that the user called: a binary that xcaddy built is called caddy.
func binary() string {
	if caddy.CustomBinaryName != "" {
		return caddy.CustomBinaryName
	}
	return "caddy"
}

// examples are the lines of a command's example.
func examples(lines ...string) string {
	return "  " + binary() + " xroad " + strings.Join(lines, "\n  "+binary()+" xroad ")
}

// usageError is the caller's mistake.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run makes a command of f: its context ends with an interrupt, its error is printed, and it decides the exit code.
func run(f func(context.Context, *cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		err := f(ctx, cmd, args)
		if err == nil {
			return nil
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
		if _, ok := errors.AsType[usageError](err); ok {
			fmt.Fprintf(cmd.ErrOrStderr(), "Try %q.\n", cmd.CommandPath()+" --help")
			return exit2(cmd)
		}
		return err
	}
}

// exit2 returns an error for which Caddy's main function exits with 2.
func exit2(cmd *cobra.Command) error {
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return 2, nil })(cmd, nil)
}
