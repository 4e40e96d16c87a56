// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/crypto/softkey"
	"github.com/caddy-fairway/fairway/ident"
)

// VerifyAuth implements Store.
func (s *instance) VerifyAuth(chain []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	if err := s.verifyAuth(chain, responses, client, at); err != nil {
		return refuse(authFailed, "judging a security server of %s: %w", client, err)
	}
	return nil
}

func (s *instance) verifyAuth(chain []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	if len(chain) == 0 {
		return errors.New("it showed no certificate")
	}
	leaf := chain[0]
	if err := s.own(client.Instance); err != nil {
		return err
	}
	if err := modest(leaf); err != nil {
		return err
	}
	if !softkey.CanAuthenticate(leaf) {
		return fmt.Errorf("certificate %s is not for authentication (keyUsage, extended key usage)", ocsp.Name(leaf))
	}
	if err := s.servedBy(leaf, client); err != nil {
		return err
	}
	issuers, err := s.issuers(leaf, s.era)
	if err != nil {
		return refuse("cannot_create_cert_path", "%w", err)
	}
	return first(issuers, func(a *authority) error {
		_, err := s.good(leaf, chain[1:], responses, a, at, s.era)
		return err
	})
}

// servedBy tells whether a security server that uses the authentication certificate has the client.
func (s *instance) servedBy(cert *x509.Certificate, client ident.Client) error {
	servers := s.registered(cert)
	for _, one := range servers {
		if one.serves(client, s) {
			return nil
		}
	}
	if len(servers) == 0 {
		return fmt.Errorf("certificate %s is not registered for any security server", ocsp.Name(cert))
	}
	return fmt.Errorf("certificate %s is that of security server %s, which does not serve %s", ocsp.Name(cert), servers[0].ID, client)
}

// VerifySign implements Store.
func (s *instance) VerifySign(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	return s.verifySign(cert, extra, responses, client, at, s.era)
}

func (s *instance) verifySign(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time, e era) error {
	_, err := s.judgeSign(cert, extra, responses, client, at, e)
	return err
}

// judgeSign is verifySign, with the grounds.
func (s *instance) judgeSign(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time, e era) (*Grounds, error) {
	if err := s.own(client.Instance); err != nil {
		return nil, err
	}
	if err := modest(cert); err != nil {
		return nil, err
	}
	if !softkey.CanSign(cert) {
		return nil, refuse("malformed_signature", "certificate %s is not for signing (keyUsage nonRepudiation)", ocsp.Name(cert))
	}
	issuers, err := s.issuers(cert, e)
	if err != nil {
		return nil, err
	}
	var grounds *Grounds
	err = first(issuers, func(a *authority) error {
		member, err := a.member(cert, client.Instance)
		if err != nil {
			return err
		}
		if member != client.MemberOf() {
			return refuse("incorrect_certificate", "certificate %s is that of member %s, and the message is from %s", ocsp.Name(cert), member, client)
		}
		if a.AuthenticationOnly {
			return refuse(invalidPath, "certificate %s is issued by CA %q, which is approved for authentication only", ocsp.Name(cert), a.Name)
		}
		grounds, err = s.good(cert, extra, responses, a, at, e)
		return err
	})
	return grounds, err
}

// SignMember implements Store.
func (s *instance) SignMember(cert *x509.Certificate) (ident.Client, error) {
	issuers, err := s.issuers(cert, era{sha1: true})
	if err != nil {
		return ident.Client{}, err
	}
	var member ident.Client
	err = first(issuers, func(a *authority) (err error) {
		member, err = a.member(cert, s.p.Instance)
		return err
	})
	return member, err
}

// first returns nil if an issuer is the right one, else why the first is not.
func first(issuers []*authority, judge func(*authority) error) error {
	var why error
	for _, a := range issuers {
		err := judge(a)
		if err == nil {
			return nil
		}
		if why == nil {
			why = err
		}
	}
	return why
}

// Grounds are what a good certificate was found to be good by.
type Grounds struct {
	CA     string              // name of the approved certification service
	Anchor *x509.Certificate   // of that service
	Path   []*x509.Certificate // from the one that was judged to the one that Anchor issued
	Status []*ocsp.Verdict     // of those of Path, in their order
}

// good tells whether there is a path from the certificate to the anchor, with a good OCSP response for every
// certificate but the anchor (signature-and-evidence 8.1 to 8.3).
func (s *instance) good(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, a *authority, at time.Time, e era) (*Grounds, error) {
	path, err := s.path(cert, extra, a.Certificate, at, e)
	if err != nil {
		return nil, err
	}
	g := &Grounds{CA: a.Name, Anchor: a.Certificate, Path: path}
	for i, c := range path {
		issuer := a.Certificate
		if i+1 < len(path) {
			issuer = path[i+1]
		}
		verdict, err := s.notRevoked(c, issuer, responses, at, e)
		if err != nil {
			return nil, refuse(invalidPath, "%w", err)
		}
		g.Status = append(g.Status, verdict)
	}
	return g, nil
}

func (s *instance) notRevoked(cert, issuer *x509.Certificate, responses [][]byte, at time.Time, e era) (*ocsp.Verdict, error) {
	policy := s.policy(issuer, e)
	verdict, err := s.authenticate(responses, cert, issuer, policy)
	if err != nil {
		return nil, err
	}
	return verdict, verdict.Judge(policy, at)
}

// authenticate is ocsp.Authenticate of the response that is about the certificate, done once.
func (s *instance) authenticate(responses [][]byte, cert, issuer *x509.Certificate, policy ocsp.Policy) (*ocsp.Verdict, error) {
	what := "response"
	if policy.SHA1 {
		what = "response of the past"
	}
	verdict, err := s.proved.Get(func() (any, error) {
		response := ocsp.For(responses, cert, issuer)
		if response == nil {
			return nil, refuse("cert_validation", "there is no OCSP response for certificate %s among %d", ocsp.Name(cert), len(responses))
		}
		return ocsp.Authenticate(response, cert, issuer, policy)
	}, append([][]byte{[]byte(what), cert.Raw, issuer.Raw}, responses...)...)
	if err != nil {
		return nil, err
	}
	return verdict.(*ocsp.Verdict), nil
}
