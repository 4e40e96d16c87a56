// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

// Start prepares the server for its first exchange and begins to keep the OCSP responses of its certificates fresh.
// The fields must be set. ctx bounds the start only.
func (s *SecurityServer) Start(ctx context.Context) error {
	auth := s.Keys.Auth()
	if auth == nil || auth.Leaf == nil {
		return errors.New("the security server has no authentication key")
	}
	if server, err := s.Trust.ServerOf(auth.Leaf); err != nil {
		return fmt.Errorf("our authentication certificate: %w", err)
	} else if server != s.ID {
		return fmt.Errorf("our authentication certificate is that of security server %s, not of %s", server, s.ID)
	}
	if err := s.openShelves(); err != nil {
		return err
	}
	s.admissions = newAdmissions(s.Admission)
	s.statuses = newStatuses(s.Trust, s.Clock, s.Report)
	s.signers = newSigners(s)
	s.backends = newBackends(s.Services)
	s.replays = newReplays()
	s.statuses.keep(auth.Leaf)
	for _, member := range s.Local.members() {
		if key := s.Keys.Sign(member); key != nil {
			s.statuses.keep(key.Certificate)
		}
	}
	return nil
}

// Close ends background work, closes connections and closes Trust, Spool and Evidence.
func (s *SecurityServer) Close() error {
	if s.statuses != nil {
		s.statuses.close()
	}
	if s.backends != nil {
		s.backends.close()
	}
	if s.Peers != nil {
		s.Peers.Close()
	}
	s.closeShelves()
	return errors.Join(s.Trust.Close(), s.Spool.Close(), s.Evidence.Close())
}

// ServeOCSP answers peers that ask for the OCSP responses of our authentication certificates (port 5577).
func (s *SecurityServer) ServeOCSP(w http.ResponseWriter, r *http.Request) {
	ocsp.ServePeer(w, r, func(sum [20]byte) ([]byte, error) {
		for _, cert := range s.authChain() {
			if ocspKey(cert) == sum {
				return s.statuses.response(r.Context(), cert)
			}
		}
		return nil, errors.New("this is no certificate of this security server")
	})
}

// tell reports what went wrong where no answer can say it.
func (s *SecurityServer) tell(err error) {
	if s.Report != nil {
		s.Report(err)
	}
}

// members returns the members that sign here: those of our clients and of our services.
func (l *Local) members() []ident.Client {
	seen := make(map[ident.Client]bool)
	for client := range l.Clients {
		seen[client.MemberOf()] = true
	}
	for service := range l.Services {
		seen[service.Client.MemberOf()] = true
	}
	members := make([]ident.Client, 0, len(seen))
	for member := range seen {
		members = append(members, member)
	}
	return members
}
