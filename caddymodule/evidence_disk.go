// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
)

func init() {
	caddy.RegisterModule(DiskEvidence{})
}

// defaultKeepUpTo is the longest part that is kept where nothing is said.
const defaultKeepUpTo = 10 << 20

// DiskEvidence keeps the evidence of signed messages in a folder.
type DiskEvidence struct {
	// The folder. Default: `xroad/NAME/evidence` in Caddy's data folder, with `default` for the server without a name.
	Dir string `json:"dir,omitempty"`

	// What is kept besides digests and signatures: `all` (envelopes and attachments), `messages` (envelopes) or
	// `digests` (nothing). Default: `all`, up to 10 MiB.
	Keep string `json:"keep,omitempty"`

	// The longest part that is kept, in octets; of a longer one only the digest is. Default: no limit, where Keep is said.
	UpTo int64 `json:"up_to,omitempty"`

	// How long evidence is kept. What is to be time-stamped stays until it is. Default: for ever.
	For caddy.Duration `json:"for,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (DiskEvidence) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.evidence_stores.disk",
		New: func() caddy.Module { return new(DiskEvidence) },
	}
}

// Validate checks the configuration.
func (d *DiskEvidence) Validate() error {
	switch d.Keep {
	case "", "all", "messages", "digests":
	default:
		return fmt.Errorf("keep %q is unknown: use all, messages or digests", d.Keep)
	}
	if d.UpTo < 0 {
		return errors.New("up to is negative")
	}
	if d.UpTo > 0 && (d.Keep == "" || d.Keep == "digests") {
		return errors.New("up to needs parts that are kept: write keep all up to SIZE or keep messages up to SIZE")
	}
	if d.For < 0 {
		return errors.New("for is negative")
	}
	return nil
}

// OpenEvidence implements EvidenceStore.
func (d *DiskEvidence) OpenEvidence(_ context.Context, h Host) (evidence.Store, exchange.Keep, error) {
	store, err := evidence.Open(d.folder(h.Name), evidence.Options{
		Keep:        time.Duration(d.For),
		Timestamper: h.Stamper,
		Interval:    h.Trust.StampInterval(),
		Acceptable:  h.Acceptable,
		Report:      h.reportStamps,
		Clock:       h.Clock,
	})
	return store, d.keep(), err
}

func (d *DiskEvidence) keep() exchange.Keep {
	if d.Keep == "" {
		return exchange.Keep{Message: true, Attachments: true, UpTo: defaultKeepUpTo}
	}
	keep := exchange.Keep{Message: d.Keep != "digests", Attachments: d.Keep == "all", UpTo: d.UpTo}
	if keep.UpTo == 0 {
		keep.UpTo = math.MaxInt64
	}
	return keep
}

// folder returns where the evidence of the server of that name is.
func (d *DiskEvidence) folder(name string) string {
	if d.Dir == "" {
		return dataFolder(name, "evidence")
	}
	return absolute(d.Dir)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	evidence disk [DIR] {
//		keep all|messages|digests [up to SIZE]
//		for  DURATION
//	}
func (d *DiskEvidence) UnmarshalCaddyfile(disp *caddyfile.Dispenser) error {
	disp.Next() // consume the module's name
	if disp.NextArg() {
		d.Dir = disp.Val()
	}
	return parseBlock(disp, words{
		"keep": d.parseKeep,
		"for":  func(disp *caddyfile.Dispenser) error { return parseDuration(disp, &d.For) },
	}, nil)
}

func (d *DiskEvidence) parseKeep(disp *caddyfile.Dispenser) error {
	if !disp.Args(&d.Keep) {
		return disp.ArgErr()
	}
	if !disp.NextArg() {
		return nil
	}
	if disp.Val() != "up" || !disp.NextArg() || disp.Val() != "to" {
		return disp.SyntaxErr("up to SIZE")
	}
	return parseSize(disp, &d.UpTo)
}

// Interface guards
var (
	_ EvidenceStore         = (*DiskEvidence)(nil)
	_ caddy.Validator       = (*DiskEvidence)(nil)
	_ caddyfile.Unmarshaler = (*DiskEvidence)(nil)
)
