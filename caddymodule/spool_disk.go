// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/spool"
)

func init() {
	caddy.RegisterModule(DiskSpool{})
}

// DiskSpool keeps messages that are not verified yet in files, small ones in memory.
type DiskSpool struct {
	// The folder. Default: `xroad/NAME/spool` in Caddy's data folder, with `default` for the server without a name.
	Dir string `json:"dir,omitempty"`

	// Octets that all messages together may take, those in memory included. The last sixteenth, at most 64 MiB, is for
	// messages up to 1 MiB. Default: no limit.
	Quota int64 `json:"quota,omitempty"`

	// Octets that must stay free on the disk. Default: 1 GiB or a twentieth of the disk, whichever is less.
	Free int64 `json:"free,omitempty"`

	// A message of up to this many octets stays in memory. Default: 64 KiB.
	Memory int64 `json:"memory,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (DiskSpool) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad.spools.disk",
		New: func() caddy.Module { return new(DiskSpool) },
	}
}

// Validate checks the configuration.
func (d *DiskSpool) Validate() error {
	if d.Quota < 0 || d.Free < 0 || d.Memory < 0 {
		return errors.New("quota, free or memory is negative")
	}
	return nil
}

// OpenSpool implements Spool.
func (d *DiskSpool) OpenSpool(_ context.Context, h Host) (spool.Store, error) {
	dir := absolute(d.Dir)
	if d.Dir == "" {
		dir = dataFolder(h.Name, "spool")
	}
	store, err := spool.OpenDisk(dir, spool.Options{Memory: d.Memory, Quota: d.Quota, Free: d.Free})
	if err != nil {
		return nil, err
	}
	if fileSystem := spool.OnMemory(dir); fileSystem != "" {
		caddy.Log().Named("xroad").Warn("the spool's folder lies in memory, and large messages will fill it: name one on a disk",
			zap.String("server", h.Name), zap.String("dir", dir), zap.String("file_system", fileSystem))
	}
	return store, nil
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	spool disk [DIR] {
//		quota  SIZE
//		free   SIZE
//		memory SIZE
//	}
func (d *DiskSpool) UnmarshalCaddyfile(disp *caddyfile.Dispenser) error {
	disp.Next() // consume the module's name
	if disp.NextArg() {
		d.Dir = disp.Val()
	}
	return parseBlock(disp, words{
		"quota":  func(disp *caddyfile.Dispenser) error { return parseSize(disp, &d.Quota) },
		"free":   func(disp *caddyfile.Dispenser) error { return parseSize(disp, &d.Free) },
		"memory": func(disp *caddyfile.Dispenser) error { return parseSize(disp, &d.Memory) },
	}, nil)
}

// Interface guards
var (
	_ Spool                 = (*DiskSpool)(nil)
	_ caddy.Validator       = (*DiskSpool)(nil)
	_ caddyfile.Unmarshaler = (*DiskSpool)(nil)
)
