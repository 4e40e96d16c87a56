// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

//go:embed starter/sender.caddyfile
var senderCaddyfile string

//go:embed starter/receiver.caddyfile
var receiverCaddyfile string

func initCommand(example string) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "init [DIR] [--role sender|receiver|both]",
		Short: "Writes a Caddyfile to start from",
		Long: `Writes a Caddyfile to start from into DIR (default: here) and says what to do next. A file that is there
already is never touched.

  both      two security servers on this machine with keys for development: runs at once
  sender    one that sends, for a registered security server with its own keys
  receiver  one that receives, likewise`,
		Example: examples("init", "init sender --role sender"),
		Args:    cobra.ArbitraryArgs,
		RunE: run(func(_ context.Context, cmd *cobra.Command, args []string) error {
			dir := "."
			switch len(args) {
			case 0:
			case 1:
				dir = args[0]
			default:
				return usagef("want one folder, not %d", len(args))
			}
			text, next, err := starter(role, example, cd(dir)+binary())
			if err != nil {
				return err
			}
			file, err := writeNew(dir, text)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Wrote %s.\n\n%s", file, next)
			return err
		}),
	}
	cmd.Flags().StringVar(&role, "role", "both", "`role` of the security server: sender, receiver or both")
	return cmd
}

// starter returns the Caddyfile for a role and what to do next; start is the command that goes to its folder and starts
// the binary.
func starter(role, example, start string) (text, next string, err error) {
	bin := binary()
	switch role {
	case "both":
		return example, `Next:
  1. Start both security servers:
       ` + start + ` run
     Their keys are made on the first start. They are for development, and for this machine only.
  2. Write a SOAP message with an X-Road header into request.xml, and post it to the one that sends:
       ` + bin + ` xroad send http://127.0.0.1:8080 request.xml
     "` + bin + ` xroad demo --keep" writes such a message, and shows more ways to send it.
  3. See what was signed:
       ` + bin + ` xroad evidence list
`, nil
	case "sender":
		return senderCaddyfile, `Next:
  1. Replace the identifiers in the Caddyfile by those of your registration.
  2. Put the signing key and the authentication key, with their certificates, into the folder keys beside that file,
     as .pem or .p12 files that only you may read, and the shared parameters of your instance, as
     shared-params.xml, beside it too. "` + bin + ` run" looks for both in the folder that it is started in.
  3. Check it, then start:
       ` + start + ` validate
       ` + bin + ` run
  4. Post a message:
       ` + bin + ` xroad send http://127.0.0.1:8080 request.xml
`, nil
	case "receiver":
		return receiverCaddyfile, `Next:
  1. Replace the identifiers in the Caddyfile by those of your registration, and "to" by the address of your service.
  2. Put the signing key and the authentication key, with their certificates, into the folder keys beside that file,
     as .pem or .p12 files that only you may read, and the shared parameters of your instance, as
     shared-params.xml, beside it too. "` + bin + ` run" looks for both in the folder that it is started in.
  3. Let other security servers reach ports 5500 and 5577 of this machine.
  4. Check it, then start:
       ` + start + ` validate
       ` + bin + ` run
`, nil
	}
	return "", "", usagef("%q is not a role; roles are sender, receiver and both", role)
}

// cd is the command that goes to a folder, with what joins it to the next one.
func cd(dir string) string {
	if filepath.Clean(dir) == "." {
		return ""
	}
	return "cd " + dir + " && "
}

// writeNew writes a new Caddyfile, making the folder for it.
func writeNew(dir, text string) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "Caddyfile")
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s is there already, and was left as it is", file)
	}
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	return file, errors.Join(err, f.Close())
}
