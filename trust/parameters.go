// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/sha1" // names certificates in version 2
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

// Parameters are the shared parameters of one instance as plain data (signature-and-evidence 13.5).
type Parameters struct {
	Instance       string
	CAs            []CA
	TSAs           []TSA
	Members        []Member // each followed by its subsystems
	Servers        []Server
	Groups         map[string][]ident.Client // global groups by their code
	Freshness      time.Duration             // how old an OCSP response may be
	SkipNextUpdate bool                      // do not ask whether the next OCSP response was due
	StampInterval  time.Duration             // how often to time-stamp evidence; 0: DefaultStampInterval
}

// CA is an approved certification service: one top CA and those below it that are approved with it.
type CA struct {
	Name               string
	AuthenticationOnly bool
	Profile            string      // class name, see profile.go
	Authorities        []Authority // the top CA and the intermediate CAs, each a trust anchor
}

// Authority is the certificate of a CA and who answers for its revocations.
type Authority struct {
	Certificate *x509.Certificate
	Responders  []Responder
}

// Responder is an OCSP responder of a CA.
type Responder struct {
	URL         string            // may be empty
	Certificate *x509.Certificate // nil: it must be authorised by the CA
}

// TSA is an approved time-stamping authority.
type TSA struct {
	Name        string
	URL         string // http or https; empty: it is not asked, but its tokens count
	Certificate *x509.Certificate
}

// DefaultStampInterval is how often to time-stamp evidence where nothing says otherwise.
const DefaultStampInterval = time.Minute

// Server is a registered security server.
type Server struct {
	ID             ident.Server
	Address        string              // host or host:port; empty: it cannot be reached
	OCSPAddress    string              // see Endpoint
	AuthCertHashes [][sha256.Size]byte // of the DER of its authentication certificates
	AuthCertSHA1   [][sha1.Size]byte   // the same, in parameters of version 2
	Clients        []ident.Client      // besides its owner
	Maintenance    *string             // see Endpoint
}

// Ask returns a fresh OCSP response for a certificate of that issuer.
type Ask func(ctx context.Context, cert, issuer *x509.Certificate) ([]byte, error)

// New returns a Store of these parameters, which nobody may change from then on. They are valid for ever. Its Status
// asks by ask, or where that is nil the responders over HTTP.
func New(p Parameters, ask Ask) (Store, error) {
	s, err := newInstance(p)
	if err != nil {
		return nil, err
	}
	if s.ask = ask; ask == nil {
		s.client = newClient()
	}
	return s, nil
}

// newInstance looks up the parameters, but has nobody to ask yet.
func newInstance(p Parameters) (*instance, error) {
	if p.Instance == "" {
		return nil, errors.New("shared parameters without an instance")
	}
	if p.Freshness <= 0 {
		return nil, fmt.Errorf("shared parameters of instance %s: OCSP responses may be %v old; that must be more than nothing", p.Instance, p.Freshness)
	}
	s := &instance{
		p:           p,
		era:         messages,
		proved:      new(crypto.Facts),
		authorities: make(map[string][]*authority),
		servers:     make(map[ident.Server]*Server),
		serving:     make(map[ident.Client][]*Server),
		byHash:      make(map[[sha256.Size]byte][]*Server),
		bySHA1:      make(map[[sha1.Size]byte][]*Server),
		groups:      make(map[string]map[ident.Client]bool),
	}
	for i := range p.CAs {
		s.addCA(&p.CAs[i])
	}
	for i := range p.Servers {
		if err := s.addServer(&p.Servers[i]); err != nil {
			return nil, err
		}
	}
	for code, members := range p.Groups {
		s.groups[code] = make(map[ident.Client]bool, len(members))
		for _, m := range members {
			s.groups[code][m] = true
		}
	}
	return s, nil
}

// instance is a Store of one instance: its parameters, looked up by what messages bring.
type instance struct {
	p        Parameters
	ask      Ask
	client   *http.Client // nil where ask is not
	era      era          // of what is judged
	expiries []expiry
	proved   *crypto.Facts

	authorities map[string][]*authority // by subject name, DER, in the order of the parameters
	servers     map[ident.Server]*Server
	serving     map[ident.Client][]*Server // of which the client is the owner or a client
	byHash      map[[sha256.Size]byte][]*Server
	bySHA1      map[[sha1.Size]byte][]*Server
	groups      map[string]map[ident.Client]bool
}

// authority is an approved CA certificate with what is configured for it.
type authority struct {
	*x509.Certificate
	*CA
	responders []*x509.Certificate
	urls       []string
}

func (s *instance) addCA(ca *CA) {
	for _, a := range ca.Authorities {
		added := &authority{Certificate: a.Certificate, CA: ca}
		for _, r := range a.Responders {
			if r.Certificate != nil {
				added.responders = append(added.responders, r.Certificate)
			}
			if r.URL != "" {
				added.urls = append(added.urls, r.URL)
			}
		}
		name := string(a.Certificate.RawSubject)
		s.authorities[name] = append(s.authorities[name], added)
	}
}

func (s *instance) addServer(server *Server) error {
	if server.ID.Instance != s.p.Instance {
		return fmt.Errorf("security server %s is not of instance %s", server.ID, s.p.Instance)
	}
	if s.servers[server.ID] != nil {
		return fmt.Errorf("security server %s is registered twice", server.ID)
	}
	s.servers[server.ID] = server
	for _, hash := range server.AuthCertHashes {
		s.byHash[hash] = with(s.byHash[hash], server)
	}
	for _, hash := range server.AuthCertSHA1 {
		s.bySHA1[hash] = with(s.bySHA1[hash], server)
	}
	owner := server.ID.Owner()
	s.serving[owner] = with(s.serving[owner], server)
	for _, c := range server.Clients {
		if c.Instance != s.p.Instance {
			return fmt.Errorf("client %s of security server %s is not of instance %s", c, server.ID, s.p.Instance)
		}
		s.serving[c] = with(s.serving[c], server)
	}
	return nil
}

// with returns servers with the one that is being added, which could only be the last of them already.
func with(servers []*Server, added *Server) []*Server {
	if n := len(servers); n > 0 && servers[n-1] == added {
		return servers
	}
	return append(servers, added)
}

// registered returns the servers that use the authentication certificate.
func (s *instance) registered(cert *x509.Certificate) []*Server {
	servers := s.byHash[sha256.Sum256(cert.Raw)]
	if len(s.bySHA1) > 0 {
		servers = append(slices.Clip(servers), s.bySHA1[sha1.Sum(cert.Raw)]...)
	}
	return servers
}

// serves reports whether the client is the server's owner or registered on it.
func (server *Server) serves(client ident.Client, s *instance) bool {
	for _, one := range s.serving[client] {
		if one == server {
			return true
		}
	}
	return false
}

// policy says which OCSP responses are acceptable for certificates of that issuer.
func (s *instance) policy(issuer *x509.Certificate, e era) ocsp.Policy {
	p := ocsp.Policy{Freshness: s.p.Freshness, SkipNextUpdate: s.p.SkipNextUpdate, Ahead: e.ahead, SHA1: e.sha1}
	for _, a := range s.authorities[string(issuer.RawSubject)] {
		if a.Certificate.Equal(issuer) {
			p.Responders = append(p.Responders, a.responders...)
		}
	}
	return p
}
