// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

func init() {
	caddy.RegisterModule(NoTimestamper{})
	caddy.RegisterModule(DevTimestamper{})
	caddy.RegisterModule(TSPTimestamper{})
}

// NoTimestamper leaves evidence without time stamps.
type NoTimestamper struct{}

// CaddyModule returns the Caddy module information.
func (NoTimestamper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.timestampers.none",
		New: func() caddy.Module { return new(NoTimestamper) },
	}
}

// OpenTimestamper implements Timestamper.
func (NoTimestamper) OpenTimestamper(context.Context, Host) (evidence.Timestamper, time.Duration, error) {
	return nil, 0, nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	timestamper none
func (NoTimestamper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// DevTimestamper has the development instance stamp the evidence. It needs `trust dev`, for nobody else knows that authority.
type DevTimestamper struct{}

// CaddyModule returns the Caddy module information.
func (DevTimestamper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.timestampers.dev",
		New: func() caddy.Module { return new(DevTimestamper) },
	}
}

// OpenTimestamper implements Timestamper.
func (DevTimestamper) OpenTimestamper(ctx context.Context, h Host) (evidence.Timestamper, time.Duration, error) {
	authority, err := dev.Open(ctx, h.Storage, h.ID.Instance, h.Clock)
	return authority, 0, err
}

// anywhere implements developer: no site is opened by it.
func (DevTimestamper) anywhere() bool { return true }

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	timestamper dev
func (DevTimestamper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return lineEnds(d)
}

// TSPTimestamper has time-stamping authorities of the X-Road instance stamp the evidence (RFC 3161), in the background.
type TSPTimestamper struct {
	// The addresses of time-stamping services, in the order in which they are tried. What they answer counts only where
	// the instance has approved the authority. Default: those that the instance names.
	URLs []string `json:"urls,omitempty"`

	// How long time-stamping may have been failing before exchanges are refused. Default: 4h.
	Limit caddy.Duration `json:"limit,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (TSPTimestamper) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.timestampers.tsp",
		New: func() caddy.Module { return new(TSPTimestamper) },
	}
}

// Validate checks the addresses.
func (t *TSPTimestamper) Validate() error {
	for _, address := range t.URLs {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("timestamper: %q is no http or https address", address)
		}
	}
	if t.Limit < 0 {
		return errors.New("timestamper: the limit is negative")
	}
	return nil
}

// OpenTimestamper implements Timestamper.
func (t *TSPTimestamper) OpenTimestamper(_ context.Context, h Host) (evidence.Timestamper, time.Duration, error) {
	return &approved{h.Trust, h.Clock, t.URLs, tsp.NewClient()}, time.Duration(t.Limit), nil
}

// approved asks the authorities that the instance has approved, as they are at that time.
type approved struct {
	trust  trust.Store
	clock  func() time.Time
	urls   []string
	client *http.Client
}

// Stamp implements evidence.Timestamper. Nothing is stamped under an outdated configuration (signature-and-evidence 9.4).
func (a *approved) Stamp(ctx context.Context, imprint []byte) ([]byte, error) {
	if err := a.trust.Valid(a.clock()); err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	urls := a.urls
	for _, authority := range a.trust.Authorities("") {
		certs = append(certs, authority.Certificate)
		if len(a.urls) == 0 && authority.URL != "" {
			urls = append(urls, authority.URL)
		}
	}
	token, err := tsp.Fetch(ctx, a.client, urls, tsp.Request{Digest: crypto.SHA512, Sum: imprint}, certs)
	if err != nil {
		return nil, err
	}
	return token.Raw, nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	timestamper tsp {
//		url   URL…
//		limit DURATION
//	}
//
// The block may be left out.
func (t *TSPTimestamper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the module's name
	return parseBlock(d, words{
		"url": func(d *caddyfile.Dispenser) error {
			if t.URLs = d.RemainingArgs(); len(t.URLs) == 0 {
				return d.ArgErr()
			}
			return nil
		},
		"limit": func(d *caddyfile.Dispenser) error { return parseDuration(d, &t.Limit) },
	}, nil)
}

// Interface guards
var (
	_ Timestamper           = (*NoTimestamper)(nil)
	_ Timestamper           = (*DevTimestamper)(nil)
	_ Timestamper           = (*TSPTimestamper)(nil)
	_ developer             = (*DevTimestamper)(nil)
	_ caddy.Validator       = (*TSPTimestamper)(nil)
	_ caddyfile.Unmarshaler = (*NoTimestamper)(nil)
	_ caddyfile.Unmarshaler = (*DevTimestamper)(nil)
	_ caddyfile.Unmarshaler = (*TSPTimestamper)(nil)
)
