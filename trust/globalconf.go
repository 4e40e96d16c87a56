// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// How a folder is followed. Every so often all is read again, whatever the file system says of changes: X-Road does so
// every minute.
const (
	pollEvery  = 3 * time.Second
	rereadEach = 20 // polls
)

// OpenGlobalConf returns a Store of all instances in a folder of global configuration, as X-Road's configuration client
// leaves it (signature-and-evidence 13.3 to 13.6). The Store follows changes of the folder within seconds, until it is
// closed. What cannot be read of a change does not count: all that can, and the rest as it was before. The own instance
// must be there from the start. The clock tells when federated instances expire; when the own one does, Valid tells.
//
// report, which may be nil, is called with what cannot be taken of the folder and why, once each time that begins: before
// OpenGlobalConf returns, and later by one goroutine. Cause: malformed_global_conf.
func OpenGlobalConf(dir string, clock func() time.Time, report func(error)) (Store, error) {
	g, err := openGlobalConf(dir, clock, report)
	if err != nil {
		return nil, err
	}
	go g.follow(time.NewTicker(pollEvery))
	return g, nil
}

func openGlobalConf(dir string, clock func() time.Time, report func(error)) (*globalConf, error) {
	client := newClient()
	g := &globalConf{
		folder: folder{dir: dir, client: client},
		client: client,
		clock:  clock,
		report: report,
		ended:  make(chan struct{}),
	}
	g.open, g.stop = context.WithCancel(context.Background())
	if err := g.read(true); err != nil {
		return nil, err
	}
	return g, nil
}

// globalConf is a Store of a folder of global configuration.
type globalConf struct {
	folder folder // of the goroutine that follows it
	told   map[string]bool
	report func(error)

	client *http.Client
	clock  func() time.Time
	now    atomic.Pointer[snapshot]

	open  context.Context
	stop  context.CancelFunc
	ended chan struct{} // closed when nobody follows the folder any more
}

// read takes over what the folder tells now.
func (g *globalConf) read(all bool) error {
	s, problems := g.folder.read(all)
	if s == nil && g.now.Load() == nil {
		return malformed("opening global configuration %q: %w", g.folder.dir, errors.Join(problems...))
	}
	if s != nil {
		g.now.Store(s)
	}
	told := make(map[string]bool, len(problems))
	for _, p := range problems {
		text := p.Error()
		if told[text] = true; !g.told[text] && g.report != nil {
			g.report(fmt.Errorf("reading global configuration %q: %w", g.folder.dir, p))
		}
	}
	g.told = told
	return nil
}

// follow reads the folder at every tick until the Store is closed.
func (g *globalConf) follow(ticker *time.Ticker) {
	defer close(g.ended)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-g.open.Done():
			return
		case <-ticker.C:
			_ = g.read(n%rereadEach == 0) // there is a snapshot, so there is no error
		}
	}
}

// Close implements Store.
func (g *globalConf) Close() error {
	g.stop()
	<-g.ended
	g.client.CloseIdleConnections()
	return nil
}

// own is the own instance, which answers for what is ours.
func (g *globalConf) own() *instance { return g.now.Load().own }

// Instance implements Store.
func (g *globalConf) Instance() string { return g.own().Instance() }

// Valid implements Store.
func (g *globalConf) Valid(at time.Time) error { return g.own().Valid(at) }

// Freshness implements Store.
func (g *globalConf) Freshness() time.Duration { return g.own().Freshness() }

// StampInterval implements Store.
func (g *globalConf) StampInterval() time.Duration { return g.own().StampInterval() }

// InGroup implements Store.
func (g *globalConf) InGroup(code string, client ident.Client) bool {
	return g.own().InGroup(code, client)
}

// SignMember implements Store.
func (g *globalConf) SignMember(cert *x509.Certificate) (ident.Client, error) {
	return g.own().SignMember(cert)
}

// Extra implements Store.
func (g *globalConf) Extra(cert *x509.Certificate) []*x509.Certificate { return g.own().Extra(cert) }

// Status implements Store.
func (g *globalConf) Status(ctx context.Context, cert *x509.Certificate) ([]byte, error) {
	return g.own().Status(ctx, cert)
}

// Endpoints implements Store.
func (g *globalConf) Endpoints(provider ident.Client, server *ident.Server) ([]Endpoint, error) {
	return g.now.Load().endpoints(provider, server, g.clock())
}

// ServerOf implements Store.
func (g *globalConf) ServerOf(cert *x509.Certificate) (ident.Server, error) {
	return g.now.Load().serverOf(cert, g.clock())
}

// VerifyAuth implements Store.
func (g *globalConf) VerifyAuth(chain []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	return g.now.Load().verifyAuth(chain, responses, client, at)
}

// VerifySign implements Store.
func (g *globalConf) VerifySign(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	return g.now.Load().verifySign(cert, extra, responses, client, at)
}

// Members implements Store.
func (g *globalConf) Members(instance string) ([]Member, error) {
	return g.now.Load().members(instance, g.clock())
}

// Authorities implements Store.
func (g *globalConf) Authorities(instance string) []TSA {
	return g.now.Load().authorities(instance, g.clock())
}
