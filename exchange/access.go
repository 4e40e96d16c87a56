// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"crypto/tls"
	"net"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/wire"
)

// authenticate decides whether an information system that came in this way may speak for the client
// (message-and-transport 2.5).
func (l *Local) authenticate(client ident.Client, remote string, state *tls.ConnectionState) error {
	caller, ok := l.Clients[client]
	if !ok {
		return wire.Errorf("unknown_member", "client %s is not a client of this security server", client)
	}
	switch {
	case caller.Any:
		return nil
	case len(caller.Certificates) > 0:
		if state == nil || len(state.PeerCertificates) == 0 {
			return wire.Errorf("ssl_authentication_failed", "client %s must come over HTTPS with its certificate", client)
		}
		for _, known := range caller.Certificates {
			if bytes.Equal(known.Raw, state.PeerCertificates[0].Raw) {
				return nil
			}
		}
		return wire.Errorf("ssl_authentication_failed", "the certificate shown is none of those of client %s", client)
	case caller.TLS:
		if state == nil {
			return wire.Errorf("ssl_authentication_failed", "client %s must come over HTTPS", client)
		}
		return nil
	}
	if host, _, err := net.SplitHostPort(remote); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
			return nil
		}
	}
	return wire.Errorf("ssl_authentication_failed", "client %s is served over loopback only, for it has no caller setting", client)
}

// provides reports whether the client is one whose services may be here: a provider or another client of ours.
func (l *Local) provides(client ident.Client) bool {
	if _, ok := l.Clients[client]; ok {
		return true
	}
	for id := range l.Services {
		if id.Client == client {
			return true
		}
	}
	return false
}

// longest returns how many octets a request may have at most, whatever it calls; 0 where nothing bounds them all.
func (l *Local) longest() int64 {
	most := int64(metaserviceLimit)
	for _, service := range l.Services {
		if service.Limit == 0 {
			return 0
		}
		most = max(most, service.Limit)
	}
	return most
}

// groups answers whether a client is in a global group.
type groups interface {
	InGroup(code string, client ident.Client) bool
}

// permit returns the service if the client may call it now (message-and-transport 5.9 step 5).
func (l *Local) permit(id ident.Service, client ident.Client, g groups) (*Service, error) {
	service, ok := l.Services[id]
	if !ok {
		return nil, wire.Errorf("unknown_service", "service %s is not provided here", id)
	}
	if !service.allows(client, g) {
		return nil, wire.Errorf("access_denied", "client %s may not call service %s", client, id)
	}
	if service.Disabled != nil {
		return nil, wire.Errorf("service_disabled", "service %s is disabled: %s", id, *service.Disabled)
	}
	return service, nil
}

func (s *Service) allows(client ident.Client, g groups) bool {
	for _, subject := range s.Allow {
		switch {
		case !subject.Client.IsZero():
			if subject.Client == client {
				return true
			}
		case subject.GlobalGroup != "":
			if g.InGroup(subject.GlobalGroup, client) {
				return true
			}
		default:
			for _, member := range subject.Members {
				if member == client {
					return true
				}
			}
		}
	}
	return false
}
