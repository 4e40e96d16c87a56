// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

// Instance implements Store.
func (s *instance) Instance() string { return s.p.Instance }

// Valid implements Store.
func (s *instance) Valid(at time.Time) error {
	for _, e := range s.expiries {
		if at.After(e.at) {
			return refuse("global_conf_outdated", "%s of instance %s expired at %s; it is %s now", e.file, s.p.Instance, stamp(e.at), stamp(at))
		}
	}
	return nil
}

// expiry says until when a file is valid (signature-and-evidence 13.6).
type expiry struct {
	file string
	at   time.Time
}

// Freshness implements Store.
func (s *instance) Freshness() time.Duration { return s.p.Freshness }

// Close implements Store.
func (s *instance) Close() error {
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	return nil
}

// Endpoints implements Store.
func (s *instance) Endpoints(provider ident.Client, server *ident.Server) ([]Endpoint, error) {
	var endpoints []Endpoint
	for _, one := range s.serving[provider] {
		if one.Address != "" {
			endpoints = append(endpoints, endpoint(one))
		}
	}
	if endpoints == nil {
		return nil, refuse("unknown_member", "no security server with an address serves %s", provider)
	}
	if server != nil {
		return s.named(provider, *server)
	}
	return endpoints, nil
}

func (s *instance) named(provider ident.Client, id ident.Server) ([]Endpoint, error) {
	const cause = "invalid_security_server"
	switch one := s.servers[id]; {
	case one == nil:
		return nil, refuse(cause, "security server %s is not registered", id)
	case !one.serves(provider, s):
		return nil, refuse(cause, "security server %s does not serve %s", id, provider)
	case one.Address == "":
		return nil, refuse(cause, "security server %s has no address", id)
	default:
		return []Endpoint{endpoint(one)}, nil
	}
}

func endpoint(s *Server) Endpoint {
	return Endpoint{Server: s.ID, Address: s.Address, OCSPAddress: s.OCSPAddress, Maintenance: s.Maintenance}
}

// ServerOf implements Store. Where a certificate is registered for several servers, it is the first of them.
func (s *instance) ServerOf(cert *x509.Certificate) (ident.Server, error) {
	servers := s.registered(cert)
	if len(servers) == 0 {
		return ident.Server{}, refuse(authFailed, "certificate %s is not registered for any security server of instance %s",
			ocsp.Name(cert), s.p.Instance)
	}
	return servers[0].ID, nil
}

// Authorities implements Store.
func (s *instance) Authorities(instance string) []TSA {
	if instance != "" && instance != s.p.Instance {
		return nil
	}
	return slices.Clone(s.p.TSAs)
}

// StampInterval implements Store.
func (s *instance) StampInterval() time.Duration {
	if s.p.StampInterval == 0 {
		return DefaultStampInterval
	}
	return s.p.StampInterval
}

// Members implements Store.
func (s *instance) Members(instance string) ([]Member, error) {
	if err := s.own(instance); instance != "" && err != nil {
		return nil, err
	}
	return slices.Clone(s.p.Members), nil
}

// InGroup implements Store.
func (s *instance) InGroup(code string, client ident.Client) bool { return s.groups[code][client] }

// own refuses other instances, of which nothing is known.
func (s *instance) own(instance string) error {
	if instance != s.p.Instance {
		return refuse("internal_error", "nothing is known of instance %q; this is %s", instance, s.p.Instance)
	}
	return nil
}

const authFailed = "ssl_authentication_failed"

// refusal is an error with X-Road's cause.
type refusal struct {
	cause string
	err   error
}

// refuse makes a refusal; a wrapped error is one that the format wraps by %w.
func refuse(cause, format string, args ...any) error {
	return &refusal{cause, fmt.Errorf(format, args...)}
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Cause returns the last segments of X-Road's code (signature-and-evidence 7.1).
func (r *refusal) Cause() string { return r.cause }
