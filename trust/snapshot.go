// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

// snapshot is what a folder of global configuration told at one moment. It is never changed.
//
// Each instance stands for itself: only its own CAs, OCSP responders, time-stamping authorities, security servers and
// profiles speak for its members (signature-and-evidence 8.3 and 14.3, attack 33). How old OCSP responses may be, the
// own instance says for all.
type snapshot struct {
	own       *instance
	instances map[string]*instance // all, by name
	names     []string             // of all, the own one first
}

func newSnapshot(f *folder) *snapshot {
	s := &snapshot{instances: make(map[string]*instance)}
	own := f.parts[f.own]
	for name, p := range f.parts {
		if p.shared == nil {
			continue
		}
		i := *p.shared // as it is seen from the own instance
		i.client = f.client
		i.p.Freshness, i.p.SkipNextUpdate, i.p.StampInterval = own.shared.p.Freshness, own.skipNextUpdate, own.interval
		if f.past {
			i.era = past
		} else {
			i.expiries = p.expiries
		}
		s.instances[name] = &i
	}
	s.own = s.instances[f.own]
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(s.instances)), func(name string) bool { return name == f.own })
	s.names = append([]string{f.own}, others...)
	return s
}

// of returns an instance; "" is the own one. One that is not known, or federated and expired, is refused.
func (s *snapshot) of(name string, at time.Time) (*instance, error) {
	if name == "" || name == s.own.p.Instance {
		return s.own, nil
	}
	i := s.instances[name]
	if i == nil {
		return nil, s.own.own(name)
	}
	if err := i.Valid(at); err != nil {
		return nil, refuse("internal_error", "nothing is known of instance %q any more: %v", name, err)
	}
	return i, nil
}

func (s *snapshot) endpoints(provider ident.Client, server *ident.Server, at time.Time) ([]Endpoint, error) {
	i, err := s.of(provider.Instance, at)
	if err != nil {
		return nil, refuse("unknown_member", "looking for a security server that serves %s: %v", provider, err)
	}
	return i.Endpoints(provider, server)
}

func (s *snapshot) serverOf(cert *x509.Certificate, at time.Time) (ident.Server, error) {
	expired := ""
	for _, name := range s.names {
		i, err := s.of(name, at)
		if err != nil {
			expired += "; instance " + name + " has expired"
			continue
		}
		if server, err := i.ServerOf(cert); err == nil {
			return server, nil
		}
	}
	return ident.Server{}, refuse(authFailed, "certificate %s is not registered for any security server of %d instances%s",
		ocsp.Name(cert), len(s.names), expired)
}

func (s *snapshot) verifyAuth(chain []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	i, err := s.of(client.Instance, at)
	if err != nil {
		return refuse(authFailed, "judging a security server of %s: %w", client, err)
	}
	return i.VerifyAuth(chain, responses, client, at)
}

func (s *snapshot) verifySign(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	i, err := s.of(client.Instance, at)
	if err != nil {
		return err
	}
	return i.VerifySign(cert, extra, responses, client, at)
}

func (s *snapshot) members(instance string, at time.Time) ([]Member, error) {
	i, err := s.of(instance, at)
	if err != nil {
		return nil, err
	}
	return i.Members("")
}

func (s *snapshot) authorities(instance string, at time.Time) []TSA {
	i, err := s.of(instance, at)
	if err != nil {
		return nil
	}
	return i.Authorities("")
}
