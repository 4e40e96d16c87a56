// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"go.uber.org/zap"
)

func init() {
	caddy.RegisterModule(App{})
	httpcaddyfile.RegisterGlobalOption("xroad", parseOption)
}

// App runs X-Road security servers.
//
// Placeholders, set when an exchange has its outcome; the role and the service also while routes are the service:
//
// Placeholder | Description
// ------------|---------------
// `{http.xroad.role}` | `send` or `receive`
// `{http.xroad.client}` | The client of the message
// `{http.xroad.service}` | Its service
// `{http.xroad.id}` | Its id, from the X-Road header
// `{http.xroad.peer}` | The other security server
// `{http.xroad.fault}` | The fault code, empty where the exchange went well
type App struct {
	// The security servers of this process, by name. Handlers without a name use the one named "". Default: none.
	Servers map[string]*Server `json:"servers,omitempty"`

	logger *zap.Logger
	held   []*usage
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "xroad",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision loads the guests of every server and opens nothing.
func (app *App) Provision(ctx caddy.Context) error {
	app.logger = ctx.Logger()
	for _, name := range app.names() {
		if app.Servers[name] == nil {
			app.Servers[name] = new(Server)
		}
		if err := app.Servers[name].provision(ctx, app, name); err != nil {
			return fmt.Errorf("%s: %w", app.Servers[name], err)
		}
	}
	return nil
}

// Validate checks every server, and that no two stand in each other's way.
func (app *App) Validate() error {
	owners := make(map[string]*Server)
	for _, name := range app.names() {
		s := app.Servers[name]
		if err := s.validate(); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		claims := []string{"the identifier " + s.id.String()}
		if disk, ok := s.evidence.(*DiskEvidence); ok {
			claims = append(claims, "the evidence folder "+disk.folder(s.name))
		}
		for _, claim := range claims {
			if other := owners[claim]; other != nil {
				return fmt.Errorf("%s and %s both have %s: give each its own", other, s, claim)
			}
			owners[claim] = s
		}
	}
	return nil
}

// Start opens the servers and holds them until Stop.
func (app *App) Start() error {
	for _, name := range app.names() {
		s := app.Servers[name]
		for _, what := range s.development() {
			app.logger.Warn("for development only: anyone who reads the storage of this process can sign as any member",
				zap.String("server", s.String()), zap.String("module", what))
		}
		u, err := s.use()
		if err != nil {
			_ = app.Stop()
			return err
		}
		app.held = append(app.held, u)
	}
	return nil
}

// Stop lets the servers go. They close when their last exchange has ended.
func (app *App) Stop() error {
	for _, u := range app.held {
		u.release()
	}
	app.held = nil
	return nil
}

// server returns the server of that name.
func (app *App) server(name string) (*Server, error) {
	if s, ok := app.Servers[name]; ok {
		return s, nil
	}
	called := func(name string) string {
		if name == "" {
			return "without a name"
		}
		return strconv.Quote(name)
	}
	var all []string
	for _, n := range app.names() {
		all = append(all, called(n))
	}
	return nil, fmt.Errorf("there is no security server %s; there is one %s", called(name), strings.Join(all, ", one "))
}

func (app *App) names() []string { return slices.Sorted(maps.Keys(app.Servers)) }

// Interface guards
var (
	_ caddy.App         = (*App)(nil)
	_ caddy.Provisioner = (*App)(nil)
	_ caddy.Validator   = (*App)(nil)
)
