// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// sites are the addresses on which sites of a security server listen, known when all is provisioned.
type sites struct {
	receive, ocsp []caddy.NetworkAddress
}

// with returns the addresses in order, the new ones among them. Caddy provisions sites in any order.
func with(addresses, more []caddy.NetworkAddress) []caddy.NetworkAddress {
	all := slices.Concat(addresses, more)
	slices.SortFunc(all, func(a, b caddy.NetworkAddress) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// find returns the security server of that name.
func find(ctx caddy.Context, name string) (*Server, error) {
	app, err := ctx.AppIfConfigured("xroad")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("no security server is configured: write the global option xroad")
	}
	if err != nil {
		return nil, err
	}
	return app.(*App).server(name)
}

// attach returns the security server of that name for a handler, and the addresses on which the handler's site listens.
// Guests that are for development only are refused on a site that others can reach.
func attach(ctx caddy.Context, name string) (*Server, []caddy.NetworkAddress, error) {
	s, err := find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	var listen []caddy.NetworkAddress
	site, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if site != nil {
		for _, text := range site.Listen {
			address, err := caddy.ParseNetworkAddress(text)
			if err != nil {
				return nil, nil, err
			}
			listen = append(listen, address)
		}
	}
	for _, guest := range s.guests() {
		if d, ok := guest.(developer); ok && !d.anywhere() {
			if err := onlyLoopback(listen); err != nil {
				id := caddy.ModuleID(caddy.GetModuleID(guest))
				return nil, nil, fmt.Errorf("%s has %s, which is for development: %w: bind it to 127.0.0.1, or write %s anywhere",
					s, id, err, id.Name())
			}
		}
	}
	return s, listen, nil
}

func onlyLoopback(listen []caddy.NetworkAddress) error {
	if len(listen) == 0 {
		return fmt.Errorf("nobody can tell where its site listens")
	}
	for _, a := range listen {
		if !a.IsUnixNetwork() && a.Host != "localhost" && !net.ParseIP(a.Host).IsLoopback() {
			return fmt.Errorf("its site listens on %s, beyond loopback", a)
		}
	}
	return nil
}

// registered returns the servers that share the development instance of this one, this one too, with their addresses
// as this process sees them. It is empty for a server that has no part in it.
func (s *Server) registered() (all []dev.Server) {
	if _, ok := s.trust.(*DevTrust); !ok {
		return nil
	}
	for _, n := range s.neighbours() {
		if _, ok := n.trust.(*DevTrust); ok && n.id.Instance == s.id.Instance {
			all = append(all, dev.Server{
				ID:          n.id,
				Address:     cmp.Or(reach(n.sites.receive), loopback),
				OCSPAddress: reach(n.sites.ocsp),
				Clients:     n.clientsAndProviders(),
			})
		}
	}
	return all
}

// clientsAndProviders returns all who have clients or services on this server, in order.
func (s *Server) clientsAndProviders() (all []ident.Client) {
	for id := range s.local.Clients {
		all = append(all, id)
	}
	for id := range s.local.Services {
		all = append(all, id.Client)
	}
	slices.SortFunc(all, compareClients)
	return slices.Compact(all)
}

func compareClients(a, b ident.Client) int { return strings.Compare(a.String(), b.String()) }

// loopback is where this process finds itself.
const loopback = "127.0.0.1"

// reach returns how this process reaches the first of the addresses that has a port, or "".
func reach(listen []caddy.NetworkAddress) string {
	for _, a := range listen {
		if a.IsUnixNetwork() || a.StartPort == 0 {
			continue
		}
		host := a.Host
		if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
			host = loopback
		}
		return net.JoinHostPort(host, strconv.Itoa(int(a.StartPort)))
	}
	return ""
}
