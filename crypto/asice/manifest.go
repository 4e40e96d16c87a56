// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"encoding/base64"
	"strings"

	"github.com/caddy-fairway/fairway/crypto"
)

// manifestOf writes META-INF/manifest.xml, in X-Road's order (section 10.1).
func (c *Container) manifestOf() []byte {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
		"<manifest:manifest xmlns:manifest=\"urn:oasis:names:tc:opendocument:xmlns:manifest:1.0\" manifest:version=\"1.2\">\n")
	entry := func(mediaType, path string) {
		b.WriteString(`    <manifest:file-entry manifest:media-type="` + mediaType + `" manifest:full-path="` + path + "\"/>\n")
	}
	text := func(there []byte, name string) {
		if there != nil {
			entry("text/xml", name)
		}
	}
	entry(MediaType, "/")
	text(c.Signature.HashChain, sigChainName)
	entry("text/xml", messageName)
	text(c.Stamp.HashChainResult, tsResultName)
	text(c.Signature.HashChainResult, sigResultName)
	text(c.Stamp.HashChain, tsChainName)
	for _, n := range c.numbers() {
		entry("application/octet-stream", attachmentName(n))
	}
	b.WriteString("</manifest:manifest>\n")
	return []byte(b.String())
}

// asicManifestOf writes META-INF/ASiCManifest.xml of a batch time-stamp, octet for octet as X-Road does.
func (c *Container) asicManifestOf() []byte {
	return []byte("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" +
		"<asic:ASiCManifest xmlns:asic=\"http://uri.etsi.org/2918/v1.2.1#\" xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\">\n" +
		"<asic:SigReference URI=\"" + tokenName + "\" MimeType=\"vnd.etsi.timestamp-token\"/>\n" +
		"<asic:DataObjectReference URI=\"" + tsResultName + "\" MimeType=\"text/xml\">\n" +
		"<ds:DigestMethod Algorithm=\"" + crypto.SHA512.URI() + "\" />\n" +
		"<ds:DigestValue>" + base64.StdEncoding.EncodeToString(crypto.SHA512.Sum(c.Stamp.HashChainResult)) + "</ds:DigestValue>\n" +
		"</asic:DataObjectReference>\n" +
		"</asic:ASiCManifest>")
}
