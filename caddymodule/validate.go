// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/shelf"
)

const (
	// unnamed is the folder of the server without a name.
	unnamed = "default"
	// everyone stands for all peers that are not named.
	everyone = "*"

	defaultPeerPort = 5500
	defaultOCSPPort = 5577
)

// serverName is what a server may be called: its folders are.
var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// validate checks the server and makes of it what the library works with. It reads certificate files and nothing else.
// Whatever is wrong is found here, whichever way the configuration was written.
func (s *Server) validate() (err error) {
	if s.name == unnamed || s.name != "" && !serverName.MatchString(s.name) {
		return fmt.Errorf("a security server cannot be called %q: use letters, digits, - and _, and not %q", s.name, unnamed)
	}
	if s.ID == "" {
		return errors.New("the server's identifier is missing: write server INSTANCE/CLASS/MEMBER/CODE")
	}
	if s.id, err = ident.ParseServer(s.ID); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if s.signer == nil {
		return errors.New("the signer is missing: write signer files DIR, or signer dev while developing")
	}
	if s.trust == nil {
		return errors.New("the trust store is missing: write trust globalconf DIR or static FILE, or trust dev while developing")
	}
	if _, none := s.evidence.(*NoEvidence); none {
		if _, none := s.timestamper.(*NoTimestamper); !none {
			return errors.New("evidence none leaves nothing to time-stamp: leave the timestamper out")
		}
	}
	if s.Ports, err = s.Ports.validate(); err != nil {
		return fmt.Errorf("ports: %w", err)
	}
	if s.admission, err = s.Exchanges.validate(); err != nil {
		return fmt.Errorf("exchanges: %w", err)
	}
	if s.local.Peers, err = s.peers(); err != nil {
		return err
	}
	if s.local.Clients, err = s.clients(); err != nil {
		return err
	}
	for _, code := range slices.Sorted(maps.Keys(s.LocalGroups)) {
		if _, err := s.group(code); err != nil {
			return err
		}
	}
	if s.local.Services, err = s.services(); err != nil {
		return err
	}
	s.local.Batch, err = s.batch()
	return err
}

// batch returns the modes by member. Which members the server has is known by then.
func (s *Server) batch() (map[ident.Client]batch.Mode, error) {
	modes := make(map[ident.Client]batch.Mode, len(s.Batch))
	for _, text := range slices.Sorted(maps.Keys(s.Batch)) {
		var member ident.Client
		if text != everyone {
			var err error
			if member, err = ident.ParseClient(text); err != nil {
				return nil, fmt.Errorf("batch: %w", err)
			}
			if !slices.Contains(s.members(), member) {
				return nil, fmt.Errorf("batch: %s is no member with clients or services on this server", text)
			}
		}
		mode, ok := batch.ModeByName(s.Batch[text])
		if !ok {
			return nil, fmt.Errorf("batch %q is unknown: use auto, off or on", s.Batch[text])
		}
		modes[member] = mode
	}
	return modes, nil
}

// validate returns the ports with their defaults.
func (p Ports) validate() (Ports, error) {
	for _, port := range []struct {
		number   *int
		fallback int
	}{{&p.Peer, defaultPeerPort}, {&p.OCSP, defaultOCSPPort}} {
		if *port.number == 0 {
			*port.number = port.fallback
		}
		if *port.number < 1 || *port.number > 65535 {
			return p, fmt.Errorf("%d is no port: use 1 to 65535", *port.number)
		}
	}
	return p, nil
}

// validate returns what the library works with.
func (e Exchanges) validate() (exchange.Admission, error) {
	if e.All < 0 || e.Peer < 0 {
		return exchange.Admission{}, fmt.Errorf("%d is no number of exchanges: write 1 or more", min(e.All, e.Peer))
	}
	if e.Wait < 0 {
		return exchange.Admission{}, fmt.Errorf("%s is no time to wait: write for example 2s", time.Duration(e.Wait))
	}
	a := exchange.Admission{All: e.All, Peer: e.Peer, Wait: time.Duration(e.Wait)}.WithDefaults()
	if a.Peer > a.All {
		return a, fmt.Errorf("one peer cannot have %d of %d: write a smaller peer, or more exchanges", a.Peer, a.All)
	}
	return a, nil
}

func (s *Server) peers() (map[ident.Server]exchange.PeerRule, error) {
	rules := make(map[ident.Server]exchange.PeerRule, len(s.Peers))
	for _, text := range slices.Sorted(maps.Keys(s.Peers)) {
		var id ident.Server
		if text != everyone {
			var err error
			if id, err = ident.ParseServer(text); err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
		}
		rule, err := s.Peers[text].rule()
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", text, err)
		}
		rules[id] = rule
	}
	return rules, nil
}

func (p Peer) rule() (exchange.PeerRule, error) {
	rule := exchange.PeerRule{DirectLimit: p.DirectLimit, Timeout: time.Duration(p.Timeout), Rate: p.Rate}
	switch form := crypto.Direct; p.Signature {
	case "":
	case crypto.Chain.String():
		form = crypto.Chain
		fallthrough
	case crypto.Direct.String():
		rule.Form = &form
	default:
		return rule, fmt.Errorf("signature %q is unknown: use direct or chain", p.Signature)
	}
	if p.DirectLimit < 0 {
		return rule, errors.New("direct_limit is negative")
	}
	if p.Timeout < 0 || p.Rate < 0 {
		return rule, errors.New("timeout or rate is negative")
	}
	return rule, nil
}

func (s *Server) clients() (map[ident.Client]exchange.Caller, error) {
	callers := make(map[ident.Client]exchange.Caller, len(s.Clients))
	for _, text := range slices.Sorted(maps.Keys(s.Clients)) {
		id, err := ident.ParseClient(text)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		if err := s.own(id); err != nil {
			return nil, fmt.Errorf("client %s: %w", text, err)
		}
		if callers[id], err = s.caller(s.Clients[text]); err != nil {
			return nil, fmt.Errorf("client %s: %w", text, err)
		}
	}
	return callers, nil
}

func (s *Server) caller(c Client) (caller exchange.Caller, err error) {
	if caller.KeepAlive = time.Duration(c.KeepAlive); c.KeepAlive < 0 {
		return caller, errors.New("keepalive is negative")
	}
	switch c.Delivery {
	case "", "strict":
	case "gated":
		caller.Delivery = exchange.Gated
	default:
		return caller, fmt.Errorf("delivery %q is unknown: use strict or gated", c.Delivery)
	}
	switch c.Caller {
	case "":
	case "any":
		caller.Any = true
	case "tls":
		caller.TLS = true
	case "certificate":
		if len(c.Certificates) == 0 {
			return caller, errors.New("caller certificate names no file: write caller certificate FILE")
		}
		caller.Certificates, err = s.readCertificates(c.Certificates)
		return caller, err
	default:
		return caller, fmt.Errorf("caller %q is unknown: use certificate, tls or any", c.Caller)
	}
	if len(c.Certificates) > 0 {
		return caller, fmt.Errorf("certificates have no meaning for caller %q: use caller certificate", c.Caller)
	}
	return caller, nil
}

func (s *Server) services() (map[ident.Service]*exchange.Service, error) {
	services := make(map[ident.Service]*exchange.Service, len(s.Services))
	rights := make(map[ident.Service]string) // of a code, by the service without its version: the version decided on
	for _, text := range slices.Sorted(maps.Keys(s.Services)) {
		id, err := ident.ParseService(text)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		if err := s.own(id.Client); err != nil {
			return nil, fmt.Errorf("service %s: %w", text, err)
		}
		if services[id], err = s.service(id, s.Services[text]); err != nil {
			return nil, fmt.Errorf("service %s: %w", text, err)
		}
		code := id
		code.Version = ""
		if other, ok := rights[code]; ok && !sameSubjects(s.Services[other].Allow, s.Services[text].Allow) {
			return nil, fmt.Errorf("services %s and %s allow different callers: rights hold for all versions of a service, "+
				"so write the same allow lines in both", other, text)
		}
		rights[code] = text
	}
	return services, nil
}

func (s *Server) service(id ident.Service, c Service) (*exchange.Service, error) {
	service := &exchange.Service{ID: id, Timeout: time.Duration(c.Timeout), Limit: c.Limit, Disabled: c.Disabled}
	if err := c.delivery(service); err != nil {
		return nil, err
	}
	if c.Timeout < 0 || c.Limit < 0 {
		return nil, errors.New("timeout or limit is negative")
	}
	for i, a := range c.Allow {
		subject, err := s.subject(a)
		if err != nil {
			return nil, fmt.Errorf("allow: %w", err)
		}
		if slices.Contains(c.Allow[:i], a) {
			return nil, fmt.Errorf("allow: %s stands twice", a)
		}
		service.Allow = append(service.Allow, subject)
	}
	if c.To != nil {
		if err := s.to(service, *c.To); err != nil {
			return nil, fmt.Errorf("to: %w", err)
		}
	}
	return service, nil
}

func (c Service) delivery(service *exchange.Service) error {
	switch c.Delivery {
	case "", "strict":
	case "gated":
		if c.To == nil {
			return errors.New("delivery gated needs a to: routes get whole requests")
		}
		service.Delivery = exchange.Gated
	case "file":
		switch {
		case c.To == nil:
			return errors.New("delivery file needs a to: the envelope goes there")
		case c.Files == nil:
			return errors.New("delivery file needs a folder: write delivery file DIR")
		case c.Files.Keep < 0:
			return errors.New("delivery file: keep is negative")
		}
		if err := shelf.CheckPath(c.Files.Dir); err != nil {
			return fmt.Errorf("delivery file %s: %w", c.Files.Dir, err)
		}
		service.Delivery = exchange.ByFile
		service.Files = exchange.Files{Dir: c.Files.Dir, Keep: time.Duration(c.Files.Keep)}
		return nil
	default:
		return fmt.Errorf("delivery %q is unknown: use strict, gated or file", c.Delivery)
	}
	if c.Files != nil {
		return errors.New("files have no meaning without delivery file")
	}
	return nil
}

func (s *Server) subject(a Subject) (exchange.Subject, error) {
	switch {
	case a.Client != "" && a.GlobalGroup == "" && a.LocalGroup == "":
		id, err := ident.ParseClient(a.Client)
		return exchange.Subject{Client: id}, err
	case a.GlobalGroup != "" && a.Client == "" && a.LocalGroup == "":
		return exchange.Subject{GlobalGroup: a.GlobalGroup}, nil
	case a.LocalGroup != "" && a.Client == "" && a.GlobalGroup == "":
		members, err := s.group(a.LocalGroup)
		return exchange.Subject{Members: members}, err
	}
	return exchange.Subject{}, errors.New("name a client, or a global group, or a local group")
}

func (s *Server) group(code string) ([]ident.Client, error) {
	texts, ok := s.LocalGroups[code]
	if !ok {
		return nil, fmt.Errorf("there is no local group %q: write localgroup %s with its members into the server", code, code)
	}
	members := make([]ident.Client, len(texts))
	for i, text := range texts {
		var err error
		if members[i], err = ident.ParseClient(text); err != nil {
			return nil, fmt.Errorf("localgroup %s: %w", code, err)
		}
		if slices.Contains(members[:i], members[i]) {
			return nil, fmt.Errorf("localgroup %s: %s stands twice", code, text)
		}
	}
	return members, nil
}

func (s *Server) to(service *exchange.Service, to To) (err error) {
	u, err := url.Parse(to.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q is not the address of a service: write http://HOST[:PORT][/PATH] or https://…", to.URL)
	}
	service.To, service.AnyCert = to.URL, to.InsecureAny
	switch named := len(to.Certificates) > 0; {
	case u.Scheme == "http" && (named || to.InsecureAny):
		return errors.New("certificate and insecure_any have no meaning over http: use https")
	case named && to.InsecureAny:
		return errors.New("certificate and insecure_any contradict each other: leave one out")
	}
	service.Trusted, err = s.readCertificates(to.Certificates)
	return err
}

// own returns an error for a client of another instance: such a one cannot be ours.
func (s *Server) own(c ident.Client) error {
	if c.Instance != s.id.Instance {
		return fmt.Errorf("it is of instance %s, the security server of %s: both must be of one instance",
			c.Instance, s.id.Instance)
	}
	return nil
}

// members returns the owner and then, in order of their names, the other members whose clients and services we have.
func (s *Server) members() []ident.Client {
	others := make(map[ident.Client]bool)
	for id := range s.local.Clients {
		others[id.MemberOf()] = true
	}
	for id := range s.local.Services {
		others[id.Client.MemberOf()] = true
	}
	delete(others, s.id.Owner())
	return append([]ident.Client{s.id.Owner()}, slices.SortedFunc(maps.Keys(others), compareClients)...)
}

// String returns the subject as the Caddyfile has it.
func (a Subject) String() string {
	switch {
	case a.GlobalGroup != "":
		return "globalgroup " + a.GlobalGroup
	case a.LocalGroup != "":
		return "localgroup " + a.LocalGroup
	}
	return a.Client
}

func sameSubjects(a, b []Subject) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s Subject) bool { return !slices.Contains(b, s) })
}

// readCertificates reads PEM files that hold certificates and nothing else, and adds them to the digest.
func (s *Server) readCertificates(files []string) (certs []*x509.Certificate, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		found := len(certs)
		for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				return nil, fmt.Errorf("%s: a %s stands among the certificates: keep them in a file of their own", file, block.Type)
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			s.digest.Write(cert.Raw)
			certs = append(certs, cert)
		}
		if len(certs) == found {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
		}
	}
	return certs, nil
}
