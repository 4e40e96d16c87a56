// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"slices"
	"strings"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// oldASiCSpace is the namespace of the root in signatures of 2014.
const oldASiCSpace = "http://uri.etsi.org/02918/v1.1.1#"

// limits bounds signature documents. Those of X-Road have some 10 KB and 200 nodes, and 1 KB and 20 nodes for each
// certificate and attachment.
var limits = c14n.Limits{Size: 2 << 20, Depth: 32, Attributes: 32, Nodes: 50000}

// maxExtra is how many certificates may come along between the signer's and its root. Honest ones are one or two.
const maxExtra = 16

// maxCertificate is how many octets a certificate may have. Honest ones have one or two thousand; reading one costs forty
// times its size.
const maxCertificate = 16 << 10

// document is a signature document that has the structure of section 3 and 7.5. Nothing in it has been verified.
type document struct {
	signedInfo *c14n.Element
	form       transform
	method     method
	references []reference
	value      []byte

	certificate []byte // DER

	properties   *c14n.Element // xades:SignedProperties
	propertiesID string
	time         string
	signedCerts  []certDigest // SigningCertificate and SigningCertificateV2

	extra  []extraCertificate
	ocsp   [][]byte
	stamps [][]byte // time-stamp tokens, DER
}

// transform is a canonicalisation.
type transform struct {
	algorithm string
	prefixes  []string
}

// reference is a ds:Reference.
type reference struct {
	uri, typ  string
	transform *transform
	digest    crypto.Digest
	sum       []byte
	part      *crypto.Part // that the URI names, once covers has found it
}

// certDigest is the digest of a certificate.
type certDigest struct {
	digest crypto.Digest
	sum    []byte
}

// extraCertificate is a certificate of CertificateValues with its reference from CertRefs.
type extraCertificate struct {
	id  string
	der []byte
	ref *certDigest
}

// reader reads a document.
type reader struct {
	c14n.Structure
	document
}

// read parses a signature document and checks its structure.
func read(xml []byte) (*document, error) {
	root, err := c14n.Parse(xml, limits)
	if err != nil {
		return nil, &Error{invalidXML, err}
	}
	var r reader
	r.unique(root)
	r.signature(r.find(root))
	if err := r.Err(); err != nil {
		return nil, &Error{malformed, err}
	}
	return &r.document, nil
}

// unique checks that Ids are unique in the whole document, and that elements that are looked up or verified occur once,
// wherever they stand (section 7.5 rules 2 and 3).
func (r *reader) unique(root *c14n.Element) {
	seen := make(map[string]bool)
	once := func(key string) {
		if seen[key] {
			r.Failf("%.64q twice", key)
		}
		seen[key] = true
	}
	var walk func(e *c14n.Element)
	walk = func(e *c14n.Element) {
		for _, a := range e.Attrs {
			if a.Local == "Id" || a.Local == "id" || a.Local == "ID" {
				once("#" + a.Value)
			}
		}
		switch e.Local {
		case "Signature", "SignedInfo", "SignatureValue", "KeyInfo", "Object", "QualifyingProperties", "SignedProperties":
			once(e.Local)
		}
		for _, child := range e.Children() {
			walk(child)
		}
	}
	walk(root)
}

// find returns the ds:Signature, which is the root or all that the root holds.
func (r *reader) find(root *c14n.Element) *c14n.Element {
	if root.Is(dsSpace, "Signature") {
		return root
	}
	if !root.Is(asicSpace, "XAdESSignatures") && !root.Is(oldASiCSpace, "XAdESSignatures") {
		r.Failf("%.64q is not a signature", root.Local)
	}
	children := r.Open(root)
	signature := children.One(dsSpace, "Signature")
	children.End()
	return signature
}

func (r *reader) signature(e *c14n.Element) {
	id := r.Attribute(e, "Id")
	children := r.Open(e, "Id")
	r.info(children.One(dsSpace, "SignedInfo"))
	r.value = r.Base64(children.One(dsSpace, "SignatureValue"), "Id")
	r.keyInfo(children.One(dsSpace, "KeyInfo"))
	object := r.Open(children.One(dsSpace, "Object"), "Id")
	children.End()
	r.qualifying(object.One(xadesSpace, "QualifyingProperties"), id)
	object.End()
}

func (r *reader) info(e *c14n.Element) {
	r.signedInfo = e
	children := r.Open(e, "Id")
	r.form = r.canonicalization(children.One(dsSpace, "CanonicalizationMethod"))
	r.method = r.signatureMethod(children.One(dsSpace, "SignatureMethod"))
	for _, ref := range children.Many(dsSpace, "Reference") {
		r.references = append(r.references, r.reference(ref))
	}
	children.End()
}

// canonicalization reads an element that names one of the canonical forms.
func (r *reader) canonicalization(e *c14n.Element) transform {
	t := transform{algorithm: r.Attribute(e, "Algorithm")}
	children := r.Open(e, "Algorithm")
	switch t.algorithm {
	case c14n.Inclusive:
	case c14n.Exclusive:
		if list := children.Maybe(c14n.Exclusive, "InclusiveNamespaces"); list != nil {
			t.prefixes = strings.Fields(r.Attribute(list, "PrefixList"))
			r.Open(list, "PrefixList").End()
		}
	default:
		r.Failf("canonicalisation or transform %.128q", t.algorithm)
	}
	children.End()
	return t
}

func (r *reader) signatureMethod(e *c14n.Element) method {
	uri := r.Attribute(e, "Algorithm")
	r.Open(e, "Algorithm").End()
	m, ok := methods[uri]
	if !ok {
		r.Failf("signature method %.128q", uri)
	}
	return m
}

func (r *reader) reference(e *c14n.Element) reference {
	ref := reference{uri: r.Attribute(e, "URI")}
	ref.typ, _ = e.Attr("Type")
	children := r.Open(e, "Id", "Type", "URI")
	if transforms := children.Maybe(dsSpace, "Transforms"); transforms != nil {
		only := r.Open(transforms)
		t := r.canonicalization(only.One(dsSpace, "Transform"))
		ref.transform = &t
		only.End()
	}
	d := r.digest(&children)
	ref.digest, ref.sum = d.digest, d.sum
	children.End()
	return ref
}

// digest reads a DigestMethod and the DigestValue behind it.
func (r *reader) digest(children *c14n.Children) certDigest {
	e := children.One(dsSpace, "DigestMethod")
	uri := r.Attribute(e, "Algorithm")
	r.Open(e, "Algorithm").End()
	d := certDigest{crypto.DigestByURI(uri), r.Base64(children.One(dsSpace, "DigestValue"))}
	if d.digest == 0 {
		r.Failf("digest method %.128q", uri)
	}
	return d
}

// keyInfo takes the first certificate, as X-Road does (section 3.2); what follows it is not signed and not read.
func (r *reader) keyInfo(e *c14n.Element) {
	info := r.Open(e, "Id")
	data := r.Open(info.One(dsSpace, "X509Data"))
	info.End()
	for i, e := range data.Many(dsSpace, "X509Certificate") {
		if der := r.x509(e); i == 0 {
			r.certificate = der
		}
	}
	data.End()
}

// x509 reads a certificate, which nobody has parsed.
func (r *reader) x509(e *c14n.Element, attrs ...string) []byte {
	der := r.Base64(e, attrs...)
	if len(der) > maxCertificate {
		r.Failf("a certificate of more than %d octets", maxCertificate)
	}
	return der
}

func (r *reader) qualifying(e *c14n.Element, signatureID string) {
	if target := r.Attribute(e, "Target"); signatureID == "" || target != "#"+signatureID {
		r.Failf("the properties are of %.64q, not of the signature", target)
	}
	children := r.Open(e, "Id", "Target")
	r.signedProperties(children.One(xadesSpace, "SignedProperties"))
	unsigned := r.Open(children.One(xadesSpace, "UnsignedProperties"), "Id")
	r.unsigned(unsigned.One(xadesSpace, "UnsignedSignatureProperties"))
	unsigned.End()
	children.End()
}

// signedProperties reads what signers say about themselves. They are verified as a whole; only the digest of the
// certificate is used, so the rest is taken in its order but not looked into.
func (r *reader) signedProperties(e *c14n.Element) {
	r.properties = e
	r.propertiesID = r.Attribute(e, "Id")
	children := r.Open(e, "Id")
	about := r.Open(children.One(xadesSpace, "SignedSignatureProperties"), "Id")
	children.Maybe(xadesSpace, "SignedDataObjectProperties")
	children.End()

	if t := about.Maybe(xadesSpace, "SigningTime"); t != nil {
		r.time = strings.TrimSpace(t.Text())
	}
	for _, v := range []struct{ name, issuer string }{
		{"SigningCertificate", "IssuerSerial"}, {"SigningCertificateV2", "IssuerSerialV2"},
	} {
		if list := about.Maybe(xadesSpace, v.name); list != nil {
			only := r.Open(list)
			r.signedCerts = append(r.signedCerts, r.certID(only.One(xadesSpace, "Cert"), v.issuer))
			only.End()
		}
	}
	for _, name := range []string{
		"SignaturePolicyIdentifier", "SignatureProductionPlace", "SignatureProductionPlaceV2", "SignerRole", "SignerRoleV2",
	} {
		about.Maybe(xadesSpace, name)
	}
	about.End()
}

// certID reads a xades:Cert.
func (r *reader) certID(e *c14n.Element, issuer string) certDigest {
	children := r.Open(e, "URI")
	digest := r.Open(children.One(xadesSpace, "CertDigest"))
	d := r.digest(&digest)
	digest.End()
	children.Maybe(xadesSpace, issuer)
	children.End()
	return d
}

// unsigned reads certificates and OCSP responses. Time-stamps are not judged here.
func (r *reader) unsigned(e *c14n.Element) {
	children := r.Open(e, "Id")
	var refs, values, revocation *c14n.Element
	for child := children.Next(); child != nil; child = children.Next() {
		var place **c14n.Element
		switch {
		case child.Is(xadesSpace, "CompleteCertificateRefs"):
			place = &refs
		case child.Is(xadesSpace, "CertificateValues"):
			place = &values
		case child.Is(xadesSpace, "RevocationValues"):
			place = &revocation
		case child.Is(xadesSpace, "SignatureTimeStamp"):
			r.stamps = append(r.stamps, r.timestamp(child))
			continue
		default:
			r.Failf("unexpected %.64q among the unsigned properties", child.Local)
			return
		}
		if *place != nil {
			r.Failf("%s twice", child.Local)
		}
		*place = child
	}
	if refs != nil || values != nil {
		r.extraCertificates(values, refs)
	}
	r.revocation(revocation)
}

// extraCertificates reads certificates with their references: one each, or they are refused.
func (r *reader) extraCertificates(values, refs *c14n.Element) {
	children := r.Open(values, "Id")
	for _, e := range children.Many(xadesSpace, "EncapsulatedX509Certificate") {
		r.extra = append(r.extra, extraCertificate{id: r.Attribute(e, "Id"), der: r.x509(e, "Id", "Encoding")})
	}
	children.End()
	if len(r.extra) > maxExtra {
		r.Failf("more than %d extra certificates", maxExtra)
		return
	}

	complete := r.Open(refs, "Id")
	list := r.Open(complete.One(xadesSpace, "CertRefs"))
	complete.End()
	for _, e := range list.Many(xadesSpace, "Cert") {
		uri := r.Attribute(e, "URI")
		d := r.certID(e, "IssuerSerial")
		i := slices.IndexFunc(r.extra, func(x extraCertificate) bool { return "#"+x.id == uri })
		if i < 0 || r.extra[i].ref != nil {
			r.Failf("no certificate for the reference %.64q", uri)
			return
		}
		r.extra[i].ref = &d
	}
	list.End()
	for _, x := range r.extra {
		if x.ref == nil {
			r.Failf("no reference to the certificate %.64q", x.id)
		}
	}
}

func (r *reader) revocation(e *c14n.Element) {
	children := r.Open(e, "Id")
	values := r.Open(children.One(xadesSpace, "OCSPValues"), "Id")
	children.End()
	for _, e := range values.Many(xadesSpace, "EncapsulatedOCSPValue") {
		r.ocsp = append(r.ocsp, r.Base64(e, "Id", "Encoding"))
	}
	values.End()
	if len(r.ocsp) > 1+maxExtra {
		r.Failf("more than %d OCSP responses", 1+maxExtra)
	}
}

// canonicalDigest returns the digest of the canonical form of an element; without transform it is the inclusive one.
func canonicalDigest(e *c14n.Element, t *transform, digest crypto.Digest) ([]byte, error) {
	if t == nil {
		t = &transform{algorithm: c14n.Inclusive}
	}
	h := digest.New()
	if err := e.Canonicalize(h, t.algorithm, t.prefixes...); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
