// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/asice"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/trust/dev"
)

func (p *pair) containers() string { return filepath.Join(p.dir, "containers") }
func (p *pair) trustFile() string  { return filepath.Join(p.dir, "trust.xml") }

// proof has both servers time-stamp everything now, which they would do within a minute, and returns how the containers
// of the demo are verified: by a file of the development instance.
func (p *pair) proof(ctx context.Context) (*verifyOptions, error) {
	for _, server := range pairServers {
		if err := evidence.Stamp(ctx, p.evidence(server)); err != nil {
			return nil, err
		}
	}
	authority, err := dev.Open(ctx, p.storage(), demoSender.Instance, time.Now)
	if err != nil {
		return nil, err
	}
	parameters, err := authority.Parameters(ctx, demoServers)
	if err != nil {
		return nil, err
	}
	text, err := parameters.XML()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.trustFile(), text, 0o666); err != nil {
		return nil, err
	}
	return &verifyOptions{trusted: trusted{trust: p.trustFile()}}, os.MkdirAll(p.containers(), 0o777)
}

// exportAndVerify takes the exchange out of the evidence, a container for each signed message, and proves each as the
// command verify does.
func (x *exchange) exportAndVerify(ctx context.Context, p *pair, o *verifyOptions) error {
	v, err := o.verifier(io.Discard)
	if err != nil {
		return err
	}
	server := "ss1"
	if !slices.Contains(x.kept.requests, server) {
		server = "ss2"
	}
	records := evidenceOptions{whose: whose{p.evidence(server)}, id: x.id}
	return records.each(ctx, func(r found) error {
		if len(r.Signature.XML) == 0 {
			return nil
		}
		c, err := r.container(ctx)
		if err != nil {
			return err
		}
		if r.Signature.Form() == crypto.Chain {
			c.Attachments = nil // the hash chain has their digests
		} else if err := x.complete(c); err != nil {
			return err
		}
		file := filepath.Join(p.containers(), asice.FileName(r.MessageID, r.Response, r.Number))
		if err := create(file, func(w io.Writer) error { return write(w, c) }); err != nil {
			return err
		}
		f, err := o.verifyFile(v, file)
		if err != nil {
			return err
		}
		if !f.Proved {
			return fmt.Errorf("the container of record %d is not proved: %s: %s", r.Number, f.Code, f.Reason)
		}
		x.containers = append(x.containers, f)
		return nil
	})
}

// complete gives a container the attachments that were too large to be kept, as "evidence export --attachment" does.
func (x *exchange) complete(c *asice.Container) error {
	for i, f := range x.files {
		if c.Attachments[i+1] != nil {
			continue
		}
		err := c.Attach(i+1, func() (io.ReadCloser, error) { return io.NopCloser(newGenerated(f.name, f.size)), nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// printContainers says where the containers are, what each proves, and how to see it again.
func printContainers(w io.Writer, p *pair, o *verifyOptions, exchanges []*exchange, keep bool) {
	fmt.Fprintf(w, "\nExported and verified, a container for each signed message:\n")
	for _, x := range exchanges {
		for _, f := range x.containers {
			fmt.Fprintf(w, "  %s: %s, signed by member %s, time-stamped %s\n", f.File, f.Message.kind(), f.Signer.Member, utc(*f.Time.Stamped))
		}
	}
	if keep {
		fmt.Fprintf(w, "The line that verifies them, as long as the servers run:\n")
	} else {
		fmt.Fprintf(w, "The folder is removed when the demo ends; --keep leaves it as long as the servers run. The line that verifies them then:\n")
	}
	fmt.Fprintf(w, "  %s xroad verify %s --trust %s\n", invocation(), p.containers(), o.trust)
}
