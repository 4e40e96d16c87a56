// SPDX-License-Identifier: Apache-2.0

package xades

import (
	"bytes"
	"context"
	stdcrypto "crypto"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/c14n"
)

// declarations are the namespaces of the root, in the order in which the canonical form has them.
const declarations = ` xmlns:asic="` + asicSpace + `" xmlns:ds="` + dsSpace + `" xmlns:xades="` + xadesSpace + `" xmlns:xsi="` + xsiSpace + `"`

// policy is the signature policy that every signature of the profile names.
const policy = `<xades:SignaturePolicyIdentifier><xades:SignaturePolicyId><xades:SigPolicyId>` +
	`<xades:Identifier Qualifier="OIDAsURN">urn:oid:1.3.6.1.4.1.3516.16.2</xades:Identifier>` +
	`<xades:Description>Profile for High Performance Digital Signatures (version 1.2)</xades:Description></xades:SigPolicyId>` +
	`<xades:SigPolicyHash><ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"/>` +
	`<ds:DigestValue>BuO0EDNfkxSVlUbxCzmQPzX1AUF1/xx9ytWHk3/6SAOePxQiniEfDYk+90QeYb3lWpV3Izhuz9fKaYyE+lTcXw==</ds:DigestValue></xades:SigPolicyHash>` +
	`<xades:SigPolicyQualifiers><xades:SigPolicyQualifier><xades:SPURI>https://repo.cyber.ee/dsig-profile-1.2.pdf</xades:SPURI>` +
	`</xades:SigPolicyQualifier></xades:SigPolicyQualifiers></xades:SignaturePolicyId></xades:SignaturePolicyIdentifier>`

// document writes and signs a signature document with a direct reference to each of the data (section 3).
func (s *Signer) document(ctx context.Context, data []crypto.Part, mimeType string) ([]byte, error) {
	s.once.Do(s.prepare)
	if s.fixed.err != nil {
		return nil, s.fixed.err
	}
	unsigned, err := s.unsignedProperties(ctx)
	if err != nil {
		return nil, err
	}
	// A single reference to data stands before that to the signed properties, several stand behind it (section 2).
	offset := 1
	if len(data) == 1 {
		offset = 0
	}
	signed := s.signedProperties(data, offset, mimeType)
	info := s.signedInfo(data, offset, crypto.SHA512.Sum(canonical(signed)))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := sign(s.Key, crypto.SHA512.Sum(canonical(info)))
	if err != nil {
		return nil, err
	}

	b := make([]byte, 0, len(info)+len(s.fixed.keyInfo)+len(signed)+len(unsigned)+2*len(value)+1024)
	b = append(b, `<?xml version="1.0" encoding="UTF-8" standalone="no"?><asic:XAdESSignatures`+declarations+">"...)
	b = append(b, "<ds:Signature Id=\"signature\">\n"...)
	b = append(b, info...)
	b = append(b, "\n<ds:SignatureValue Id=\"signature-value\">\n"...)
	b = base64.StdEncoding.AppendEncode(b, value)
	b = append(b, "\n</ds:SignatureValue>\n"...)
	b = append(b, s.fixed.keyInfo...)
	b = append(b, `<ds:Object><xades:QualifyingProperties Target="#signature">`...)
	b = append(b, signed...)
	b = append(b, unsigned...)
	return append(b, "</xades:QualifyingProperties></ds:Object>\n</ds:Signature></asic:XAdESSignatures>"...), nil
}

// fixed is what all documents of a Signer have in common, or why it makes none.
type fixed struct {
	certificate string // its identity, as signed properties have it
	keyInfo     string
	err         error
}

func (s *Signer) prepare() {
	if s.fixed.err = s.check(); s.fixed.err != nil {
		return
	}
	s.fixed.certificate, s.fixed.err = certificateID(s.Certificate)
	s.fixed.keyInfo = "<ds:KeyInfo>\n<ds:X509Data>\n<ds:X509Certificate>\n" + encode(s.Certificate.Raw) +
		"\n</ds:X509Certificate>\n</ds:X509Data>\n</ds:KeyInfo>\n"
}

// check refuses to sign with what no receiver accepts.
func (s *Signer) check() error {
	if s.Key == nil || s.Certificate == nil || s.OCSP == nil || s.Clock == nil {
		return errors.New("incomplete signer")
	}
	if err := checkKey(s.Certificate.PublicKey); err != nil {
		return err
	}
	public, ok := s.Key.Public().(interface {
		Equal(stdcrypto.PublicKey) bool
	})
	if !ok || !public.Equal(s.Certificate.PublicKey) {
		return errors.New("the certificate is of another key")
	}
	return checkUsage(s.Certificate)
}

func (s *Signer) signedInfo(data []crypto.Part, offset int, properties []byte) string {
	var b strings.Builder
	b.Grow(512 + 512*(len(data)+1))
	b.WriteString("<ds:SignedInfo>\n<ds:CanonicalizationMethod Algorithm=\"" + c14n.Inclusive + "\"/>\n")
	b.WriteString("<ds:SignatureMethod Algorithm=\"" + signatureMethod(s.Certificate.PublicKey) + "\"/>\n")
	if offset == 0 {
		writeReference(&b, 0, "", data[0])
	}
	writeReference(&b, 1-offset, ` Type="`+propertiesType+`"`, crypto.Part{Name: "#signed-properties", Digest: crypto.SHA512, Sum: properties})
	if offset == 1 {
		for i, p := range data {
			writeReference(&b, i+offset, "", p)
		}
	}
	b.WriteString("</ds:SignedInfo>")
	return b.String()
}

func writeReference(b *strings.Builder, n int, typ string, p crypto.Part) {
	b.WriteString(`<ds:Reference Id="signature-reference-` + strconv.Itoa(n) + `"` + typ + ` URI="` + p.Name + "\">\n" +
		`<ds:DigestMethod Algorithm="` + p.Digest.URI() + "\"/>\n<ds:DigestValue>" + encode(p.Sum) + "</ds:DigestValue>\n</ds:Reference>\n")
}

func (s *Signer) signedProperties(data []crypto.Part, offset int, mimeType string) string {
	var b strings.Builder
	b.Grow(512 + len(s.fixed.certificate) + len(policy) + 256*len(data))
	b.WriteString(`<xades:SignedProperties Id="signed-properties"><xades:SignedSignatureProperties><xades:SigningTime>`)
	b.WriteString(signingTime(s.Clock()))
	b.WriteString(`</xades:SigningTime><xades:SigningCertificate><xades:Cert>` + s.fixed.certificate + `</xades:Cert></xades:SigningCertificate>` +
		policy + `</xades:SignedSignatureProperties><xades:SignedDataObjectProperties>`)
	for i := range data {
		b.WriteString(`<xades:DataObjectFormat ObjectReference="#signature-reference-` + strconv.Itoa(i+offset) + `"><xades:MimeType>` +
			mimeType + `</xades:MimeType></xades:DataObjectFormat>`)
	}
	b.WriteString(`</xades:SignedDataObjectProperties></xades:SignedProperties>`)
	return b.String()
}

// signingTime writes milliseconds only where they are not zero.
func signingTime(t time.Time) string {
	t = t.UTC().Truncate(time.Millisecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05Z")
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

func (s *Signer) unsignedProperties(ctx context.Context) (string, error) {
	responses, err := s.OCSP(ctx)
	if err != nil {
		return "", fmt.Errorf("getting OCSP responses: %w", err)
	}
	if last := s.last.Load(); last != nil && slices.EqualFunc(last.responses, responses, bytes.Equal) {
		return last.properties, nil
	}
	if len(responses) != 1+len(s.Extra) {
		return "", fmt.Errorf("%d OCSP responses for %d certificates", len(responses), 1+len(s.Extra))
	}
	var refs, values, ocsp strings.Builder
	for i, cert := range s.Extra {
		id, err := certificateID(cert)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&refs, `<xades:Cert URI="#encapsulated-cert-%d">%s</xades:Cert>`, i+1, id)
		fmt.Fprintf(&values, `<xades:EncapsulatedX509Certificate Id="encapsulated-cert-%d">%s</xades:EncapsulatedX509Certificate>`,
			i+1, encode(cert.Raw))
	}
	for i, response := range responses {
		if len(response) == 0 {
			return "", fmt.Errorf("OCSP response %d is empty", i+1)
		}
		fmt.Fprintf(&ocsp, `<xades:EncapsulatedOCSPValue Id="ocsp-response-%d">%s</xades:EncapsulatedOCSPValue>`, i+1, encode(response))
	}
	var b strings.Builder
	b.WriteString(`<xades:UnsignedProperties><xades:UnsignedSignatureProperties>`)
	if len(s.Extra) > 0 {
		b.WriteString(`<xades:CompleteCertificateRefs Id="complete-certificate-refs"><xades:CertRefs>` + refs.String() +
			`</xades:CertRefs></xades:CompleteCertificateRefs><xades:CertificateValues>` + values.String() + `</xades:CertificateValues>`)
	}
	b.WriteString(`<xades:RevocationValues><xades:OCSPValues>` + ocsp.String() + `</xades:OCSPValues></xades:RevocationValues>` +
		`</xades:UnsignedSignatureProperties></xades:UnsignedProperties>`)
	made := &unsigned{b.String(), make([][]byte, len(responses))}
	for i, response := range responses {
		made.responses[i] = bytes.Clone(response)
	}
	s.last.Store(made)
	return made.properties, nil
}

// unsigned is the unsigned properties with these OCSP responses.
type unsigned struct {
	properties string
	responses  [][]byte
}

// certificateID is what stands inside xades:Cert.
func certificateID(cert *x509.Certificate) (string, error) {
	issuer, err := distinguishedName(cert.RawIssuer)
	if err != nil {
		return "", err
	}
	return `<xades:CertDigest><ds:DigestMethod Algorithm="` + crypto.SHA512.URI() + `"/><ds:DigestValue>` + encode(crypto.SHA512.Sum(cert.Raw)) +
		`</ds:DigestValue></xades:CertDigest><xades:IssuerSerial><ds:X509IssuerName>` + escapeText(issuer) +
		`</ds:X509IssuerName><ds:X509SerialNumber>` + cert.SerialNumber.String() + `</ds:X509SerialNumber></xades:IssuerSerial>`, nil
}

func encode(octets []byte) string { return base64.StdEncoding.EncodeToString(octets) }

// escapeText writes text as the canonical form has it.
var escapeText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// canonical returns the inclusive canonical form of an element of the template: the root's declarations come to it, and
// empty elements get end tags. In all else the template is canonical as it stands.
func canonical(element string) []byte {
	name := strings.IndexAny(element, " >")
	b := make([]byte, 0, len(element)+len(declarations)+1024)
	b = append(append(b, element[:name]...), declarations...)
	rest := element[name:]
	for {
		end := strings.Index(rest, "/>")
		if end < 0 {
			return append(b, rest...)
		}
		tag := rest[strings.LastIndexByte(rest[:end], '<')+1 : end]
		tag, _, _ = strings.Cut(tag, " ")
		b = append(b, rest[:end]...)
		b = append(append(append(b, "></"...), tag...), '>')
		rest = rest[end+len("/>"):]
	}
}
