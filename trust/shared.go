// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/ident"
)

// sharedLimits are ten times what the largest instances have.
var sharedLimits = c14n.Limits{Size: maxShared, Depth: 16, Attributes: 16, Nodes: 2_000_000}

// maxShared is the size of the largest shared parameters that are read, in octets.
const maxShared = 64 << 20

const (
	confSpace = "http://x-road.eu/xsd/xroad.xsd"
	idSpace   = "http://x-road.eu/xsd/identifiers"
)

// ParseShared reads shared parameters of version 6 (signature-and-evidence 13.5); versions 3 to 5 read alike. Elements
// must come in the order of the schema; unknown ones may stand after all others of their parent, and are ignored.
// Cause: malformed_global_conf.
func ParseShared(doc []byte) (Parameters, error) {
	root, err := c14n.Parse(doc, sharedLimits)
	if err != nil {
		return Parameters{}, refuse("malformed_global_conf", "%w", err)
	}
	r := &sharedReader{ids: make(map[string]ident.Client)}
	if !root.Is(confSpace, "conf") {
		r.fail(root, "the root element is not conf in %s", confSpace)
	} else {
		r.conf(root)
	}
	if r.err != nil {
		return Parameters{}, refuse("malformed_global_conf", "%w", r.err)
	}
	return r.p, nil
}

// sharedReader turns elements into parameters, and keeps the first error.
type sharedReader struct {
	p   Parameters
	ids map[string]ident.Client // members and subsystems by the id attribute
	err error
}

func (r *sharedReader) fail(at *c14n.Element, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: "+format, append([]any{at.Local}, args...)...)
	}
}

func (r *sharedReader) conf(e *c14n.Element) {
	c := r.children(e, "")
	r.p.Instance = r.identifier(c.one("instanceIdentifier"))
	c.some("source")
	for _, ca := range c.some("approvedCA") {
		r.approvedCA(ca)
	}
	c.some("approvedTSA")
	for _, m := range c.some("member") {
		r.member(m)
	}
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
		hash := r.base64(h)
		if len(hash) != sha256.Size {
			r.fail(h, "it has %d octets; SHA-256 has %d", len(hash), sha256.Size)
			return
		}
		s.AuthCertHashes = append(s.AuthCertHashes, [sha256.Size]byte(hash))
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

// client reads an identifier of type MEMBER or SUBSYSTEM.
func (r *sharedReader) client(e *c14n.Element) ident.Client {
	kind := ""
	for _, a := range e.Attrs {
		if a.Space == idSpace && a.Local == "objectType" {
			kind = a.Value
		}
	}
	c := r.children(e, idSpace)
	id := ident.Client{
		Instance: r.identifier(c.one("xRoadInstance")),
		Class:    r.identifier(c.one("memberClass")),
		Member:   r.identifier(c.one("memberCode")),
	}
	switch kind {
	case "MEMBER":
	case "SUBSYSTEM":
		id.Subsystem = r.identifier(c.one("subsystemCode"))
	default:
		r.fail(e, "its objectType is %q, neither MEMBER nor SUBSYSTEM", kind)
	}
	if len(c.rest) > 0 {
		r.fail(e, "it has %s, which does not belong to a %s", c.rest[0].Local, kind)
	}
	return id
}

// words returns text without the white space around it.
func (r *sharedReader) words(e *c14n.Element) string {
	if len(e.Children()) > 0 {
		r.fail(e, "it has elements inside instead of text")
	}
	return strings.TrimSpace(e.Text())
}

// identifier returns text that is compared exactly: white space around it is refused, for it would be part of it.
func (r *sharedReader) identifier(e *c14n.Element) string {
	text := r.words(e)
	if text == "" || text != e.Text() {
		r.fail(e, "%q is empty or has white space around it", e.Text())
	}
	return text
}

func (r *sharedReader) boolean(e *c14n.Element) bool {
	switch text := r.words(e); text {
	case "true", "1":
		return true
	case "false", "0":
	default:
		r.fail(e, "%q is neither true nor false", text)
	}
	return false
}

func (r *sharedReader) seconds(e *c14n.Element) time.Duration {
	n, err := strconv.ParseInt(r.words(e), 10, 32)
	if err != nil || n <= 0 {
		r.fail(e, "%q is no number of seconds", r.words(e))
	}
	return time.Duration(n) * time.Second
}

func (r *sharedReader) base64(e *c14n.Element) []byte {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(r.words(e)), ""))
	if err != nil {
		r.fail(e, "it is not base64: %w", err)
	}
	return data
}

// certificate reads base64 of DER or of PEM text. In case of an error it returns an empty certificate.
func (r *sharedReader) certificate(e *c14n.Element) *x509.Certificate {
	data := r.base64(e)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		block, _ := pem.Decode(data)
		if block == nil || block.Type != "CERTIFICATE" {
			r.fail(e, "its PEM text holds no certificate")
			return new(x509.Certificate)
		}
		data = block.Bytes
	}
	cert, err := x509.ParseCertificate(data)
	if err != nil {
		r.fail(e, "reading a certificate: %w", err)
		return new(x509.Certificate)
	}
	return cert
}

// sequence goes through the children of an element in the order of the schema.
type sequence struct {
	r     *sharedReader
	of    *c14n.Element
	space string
	rest  []*c14n.Element
	known []string
}

func (r *sharedReader) children(of *c14n.Element, space string) *sequence {
	if strings.TrimSpace(of.Text()) != "" {
		r.fail(of, "it has text between its elements")
	}
	return &sequence{r: r, of: of, space: space, rest: of.Children()}
}

// some returns the elements of that name that come next.
func (s *sequence) some(name string) []*c14n.Element {
	s.known = append(s.known, name)
	n := 0
	for n < len(s.rest) && s.rest[n].Is(s.space, name) {
		n++
	}
	found := s.rest[:n]
	s.rest = s.rest[n:]
	return found
}

// maybe returns the element of that name if it comes next, or nil.
func (s *sequence) maybe(name string) *c14n.Element {
	found := s.some(name)
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		s.r.fail(s.of, "it has %d elements %s", len(found), name)
	}
	return found[0]
}

// one returns the element of that name, which must come next. In case of an error it returns an empty element.
func (s *sequence) one(name string) *c14n.Element {
	found := s.maybe(name)
	if found == nil {
		instead := "nothing more"
		if len(s.rest) > 0 {
			instead = s.rest[0].Local
		}
		s.r.fail(s.of, "it should have %s and has %s there", name, instead)
		return new(c14n.Element)
	}
	return found
}

// end refuses known elements that stand in the wrong place; unknown ones are ignored.
func (s *sequence) end() {
	for _, e := range s.rest {
		if e.Space == s.space && slices.Contains(s.known, e.Local) {
			s.r.fail(s.of, "its %s does not stand where it belongs", e.Local)
		}
	}
}
