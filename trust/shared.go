// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha1" // names certificates in version 2
	"crypto/sha256"
	"net/url"

	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/ident"
)

// sharedLimits are ten times what the largest instances have.
var sharedLimits = c14n.Limits{Size: maxShared, Depth: 16, Attributes: 16, Nodes: 2_000_000}

// maxShared is the size of the largest shared parameters that are read, in octets.
const maxShared = 64 << 20

// ParseShared reads shared parameters of version 6 (signature-and-evidence 13.5); versions 3 to 5 read alike. Elements
// must come in the order of the schema; unknown ones may stand after all others of their parent, and are ignored.
// Cause: malformed_global_conf.
func ParseShared(doc []byte) (Parameters, error) { return parseShared(doc, lastVersion) }

// Versions of shared parameters. In the first, authentication certificates are known by SHA-1.
const (
	firstVersion = 2
	lastVersion  = 6
)

func parseShared(doc []byte, version int) (Parameters, error) {
	r := &sharedReader{version: version}
	if err := r.document(doc, sharedLimits, "conf", r.conf); err != nil {
		return Parameters{}, refuse("malformed_global_conf", "%w", err)
	}
	return r.p, nil
}

// sharedReader turns elements into parameters.
type sharedReader struct {
	reader
	version int
	p       Parameters
	ids     map[string]ident.Client // members and subsystems by the id attribute
}

func (r *sharedReader) conf(e *c14n.Element) {
	c := r.children(e, "")
	r.p.Instance = r.identifier(c.one("instanceIdentifier"))
	c.some("source")
	for _, ca := range c.some("approvedCA") {
		r.approvedCA(ca)
	}
	for _, tsa := range c.some("approvedTSA") {
		r.approvedTSA(tsa)
	}
	r.members(c.some("member"))
	for _, s := range c.some("securityServer") {
		r.securityServer(s)
	}
	r.p.Groups = make(map[string][]ident.Client)
	for _, g := range c.some("globalGroup") {
		r.globalGroup(g)
	}
	c.some("centralService")
	settings := r.children(c.one("globalSettings"), "")
	settings.some("memberClass")
	r.p.Freshness = r.seconds(settings.one("ocspFreshnessSeconds"))
	settings.end()
	c.end()
}

func (r *sharedReader) approvedCA(e *c14n.Element) {
	c := r.children(e, "")
	ca := CA{Name: r.words(c.one("name"))}
	if only := c.maybe("authenticationOnly"); only != nil {
		ca.AuthenticationOnly = r.boolean(only)
	}
	ca.Authorities = append(ca.Authorities, r.authority(c.one("topCA")))
	for _, intermediate := range c.some("intermediateCA") {
		ca.Authorities = append(ca.Authorities, r.authority(intermediate))
	}
	ca.Profile = r.words(c.one("certificateProfileInfo"))
	c.end()
	r.p.CAs = append(r.p.CAs, ca)
}

func (r *sharedReader) authority(e *c14n.Element) Authority {
	c := r.children(e, "")
	a := Authority{Certificate: r.certificate(c.one("cert"))}
	for _, o := range c.some("ocsp") {
		c := r.children(o, "")
		responder := Responder{URL: r.words(c.one("url"))}
		if cert := c.maybe("cert"); cert != nil {
			responder.Certificate = r.certificate(cert)
		}
		c.end()
		a.Responders = append(a.Responders, responder)
	}
	c.end()
	return a
}

func (r *sharedReader) approvedTSA(e *c14n.Element) {
	c := r.children(e, "")
	tsa := TSA{Name: r.words(c.one("name")), URL: r.words(c.one("url")), Certificate: r.certificate(c.one("cert"))}
	c.end()
	if !web(tsa.URL) {
		tsa.URL = ""
	}
	r.p.TSAs = append(r.p.TSAs, tsa)
}

// web reports whether an address may be asked (signature-and-evidence 14.3, attack 38).
func web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func (r *sharedReader) members(all []*c14n.Element) {
	n := 0 // members and subsystems; a member has three other elements
	for _, m := range all {
		n += max(1, len(m.Children())-2)
	}
	r.p.Members, r.ids = make([]Member, 0, n), make(map[string]ident.Client, n)
	for _, m := range all {
		r.member(m)
	}
}

func (r *sharedReader) member(e *c14n.Element) {
	c := r.children(e, "")
	class := r.children(c.one("memberClass"), "")
	id := ident.Client{Instance: r.p.Instance, Class: r.identifier(class.one("code")), Member: r.identifier(c.one("memberCode"))}
	name := r.words(c.one("name"))
	r.register(e, Member{ID: id, Name: name})
	for _, sub := range c.some("subsystem") {
		c := r.children(sub, "")
		id.Subsystem = r.identifier(c.one("subsystemCode"))
		m := Member{ID: id, Name: name}
		if n := c.maybe("subsystemName"); n != nil {
			m.Sub = r.words(n)
		}
		c.end()
		r.register(sub, m)
	}
	c.end()
}

func (r *sharedReader) register(e *c14n.Element, m Member) {
	id, _ := e.Attr("id")
	if _, taken := r.ids[id]; taken || id == "" {
		r.fail(e, "its id %q is empty or used twice", id)
		return
	}
	r.ids[id] = m.ID
	r.p.Members = append(r.p.Members, m)
}

func (r *sharedReader) reference(e *c14n.Element) ident.Client {
	id := r.identifier(e)
	client, known := r.ids[id]
	if !known {
		r.fail(e, "nothing has the id %q", id)
	}
	return client
}

func (r *sharedReader) securityServer(e *c14n.Element) {
	c := r.children(e, "")
	owner := r.reference(c.one("owner"))
	if owner.Subsystem != "" {
		r.fail(e, "its owner %s is not a member", owner)
	}
	s := Server{ID: ident.Server{Instance: owner.Instance, Class: owner.Class, Member: owner.Member, Code: r.identifier(c.one("serverCode"))}}
	if address := c.maybe("address"); address != nil {
		s.Address = r.words(address)
	}
	for _, h := range c.some("authCertHash") {
		r.authCertHash(h, &s)
	}
	for _, client := range c.some("client") {
		s.Clients = append(s.Clients, r.reference(client))
	}
	if maintenance := c.maybe("inMaintenanceMode"); maintenance != nil {
		s.Maintenance = new(string)
		c := r.children(maintenance, "")
		if message := c.maybe("message"); message != nil {
			*s.Maintenance = r.words(message)
		}
		c.end()
	}
	c.end()
	r.p.Servers = append(r.p.Servers, s)
}

// authCertHash reads the hash of a certificate: SHA-256, or in the first version SHA-1.
func (r *sharedReader) authCertHash(e *c14n.Element, s *Server) {
	switch hash := r.base64(e); {
	case len(hash) == sha256.Size:
		s.AuthCertHashes = append(s.AuthCertHashes, [sha256.Size]byte(hash))
	case len(hash) == sha1.Size && r.version == firstVersion:
		s.AuthCertSHA1 = append(s.AuthCertSHA1, [sha1.Size]byte(hash))
	default:
		r.fail(e, "it has %d octets; SHA-256 has %d", len(hash), sha256.Size)
	}
}

func (r *sharedReader) globalGroup(e *c14n.Element) {
	c := r.children(e, "")
	code := r.identifier(c.one("groupCode"))
	c.one("description")
	if _, twice := r.p.Groups[code]; twice {
		r.fail(e, "group %q stands there twice", code)
	}
	members := []ident.Client{}
	for _, m := range c.some("groupMember") {
		members = append(members, r.client(m))
	}
	c.end()
	r.p.Groups[code] = members
}
