// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestAttack39OriginalContentType: the original Content-Type is not signed. A peer sends an honest message with another
// one, by which the service would cut the signed octets into other parts (signature-and-evidence 14.3).
func TestAttack39OriginalContentType(t *testing.T) {
	inside := "x\r\n--inside\r\nContent-Type: text/xml\r\nContent-ID: <a2>\r\n\r\n" + strings.ReplaceAll(envelope, "getThing", "getOther") + "\r\n--inside--\r\n"
	enc, out := encode(t, original, strings.NewReader(consumerBody(inside)), &crypto.Signature{XML: []byte("<s/>")})
	for name, tt := range map[string]struct{ contentType, want string }{
		"as it is":                             {original, ""},
		"boundary that is in an attachment":    {`multipart/related; type="text/xml"; start="<root>"; boundary=inside`, "invalid_content_type"},
		"that boundary, without start":         {`multipart/related; boundary=inside`, "invalid_content_type"},
		"that boundary in quotes":              {`multipart/related; boundary="in\side"`, "invalid_content_type"},
		"start names an attachment":            {`multipart/related; type="text/xml"; start="<a1>"; boundary=MIME_b1`, "invalid_content_type"},
		"start names an attachment by case":    {`multipart/related; type="text/xml"; start="<A1>"; boundary=MIME_b1`, "invalid_content_type"},
		"start names what is in an attachment": {`multipart/related; type="text/xml"; start="<a2>"; boundary=MIME_b1`, "invalid_content_type"},
		"type of an attachment":                {`multipart/related; type="application/octet-stream"; boundary=MIME_b1`, "invalid_content_type"},
		"two boundaries":                       {`multipart/related; boundary=MIME_b1; boundary=inside`, "invalid_content_type"},
		"no multipart":                         {`text/xml`, "invalid_content_type"},
		"another multipart":                    {`multipart/mixed; boundary=MIME_b1`, "invalid_content_type"},
		"boundary that is nowhere":             {`multipart/related; type="text/xml"; start="<root>"; boundary=nowhere`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := decode(t, enc.ContentType(), tt.contentType, strings.NewReader(out.String()))
			if err == nil {
				m.Discard()
			}
			want := ""
			if tt.want != "" {
				want = "server.serverproxy.service_failed." + tt.want
			}
			got := ""
			if err != nil {
				got = Code(err)
			}
			if got != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
		})
	}
}
