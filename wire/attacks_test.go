// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// TestAttack39OriginalContentType: the original Content-Type is not signed. A peer sends an honest message with another
// one, by which the service would cut the signed octets into other parts (signature-and-evidence 14.3).
func TestAttack39OriginalContentType(t *testing.T) {
	inside := "x\r\n--inside\r\nContent-Type: text/xml\r\nContent-ID: <a2>\r\n\r\n" + strings.ReplaceAll(envelope, "getThing", "getOther") + "\r\n--inside--\r\n"
	inside = strings.Replace(inside, "Content-ID: <a2>", "X: y--mid\r\nContent-ID: <a2>", 1)
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
		"boundary of another parameter":        {`multipart/related; xboundary=inside; boundary=MIME_b1`, "invalid_content_type"},
		"boundary of a quoted value":           {`multipart/related; x="boundary=inside"; boundary=MIME_b1`, "invalid_content_type"},
		"boundary behind a quoted semicolon":   {`multipart/related; x="y; Boundary=inside"; boundary=MIME_b1`, "invalid_content_type"},
		"boundary that begins a mention":       {`multipart/related; xboundary=ins; boundary=MIME_b1`, "invalid_content_type"},
		"boundary in the middle of a line":     {`multipart/related; xboundary=mid; boundary=MIME_b1`, "invalid_content_type"},
		"boundary of another in no part":       {`multipart/related; xboundary=other; boundary=MIME_b1`, ""},
		"boundary that is found by searching":  {`multipart/related; Boundary="B C"`, "invalid_content_type"},
		"boundary in RFC 2231":                 {`multipart/related; boundary*=us-ascii''MIME_b1`, "invalid_content_type"},
		"boundary in EBCDIC":                   {`multipart/related; boundary*=cp037''KL`, "invalid_content_type"},
		"boundary of nothing":                  {`multipart/related; x="boundary="; boundary=MIME_b1`, "invalid_content_type"},
		"shorter boundary, start as the id":    {`multipart/related; start="<root>"; boundary=ins`, ""},
		"shorter boundary, start in brackets":  {`multipart/related; start=root; boundary=ins`, "invalid_content_type"},
		"start with cid:":                      {`multipart/related; start="<cid:root>"; boundary=MIME_b1`, "invalid_content_type"},
		"start in quotes":                      {`multipart/related; start="<\root>"; boundary=MIME_b1`, "invalid_content_type"},
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

// TestAttack39AtOpen: what a reader of the field would take for another message is refused before it is signed.
func TestAttack39AtOpen(t *testing.T) {
	root := func(id string) string {
		if id != "" {
			id = "Content-ID: " + id + "\r\n"
		}
		return "--b\r\nContent-Type: text/xml\r\n" + id + "\r\n" + envelope + "\r\n"
	}
	part := func(id, content string) string {
		return "--b\r\nContent-Type: a/b\r\nContent-ID: " + id + "\r\n\r\n" + content + "\r\n"
	}
	const refused = "client.invalid_content_type"
	for name, tt := range map[string]struct{ parameters, id, attachment, want string }{
		"start in brackets":                        {`start="<a>"`, "<a>", part("<b>", "x\r\n--bx"), ""},
		"start without":                            {`start=a`, "<a>", part("<b>", "x"), ""},
		"start in brackets, the id without":        {`start="<a>"`, "a", part("<b>", "x"), ""},
		"start, and no id":                         {`start="<a>"`, "", part("<b>", "x--b\r\ny"), ""},
		"start of Metro":                           {`start="<rootpart*1-2@x.y>"`, "<rootpart*1-2@x.y>", part("<>", ""), ""},
		"start of WCF":                             {`start="<http://tempuri.org/0>"`, "<http://tempuri.org/0>", part("<http://tempuri.org/0/1>", ""), ""},
		"empty start":                              {`start=`, "<a>", part("<b>", "x\r\n--bx"), ""},
		"start without, and a longer boundary":     {`start=a`, "<a>", part("<b>", "x\r\n--bx"), refused},
		"start, no id, and a longer boundary":      {`start="<a>"`, "", part("<b>", "x\r\n--bx"), refused},
		"start, no id, and a longer one at an end": {`start="<a>"`, "", part("<b>", "x\n--b_"), refused},
		"start of nothing":                         {`start="<>"`, "", part("<b>", "x"), refused},
		"start with cid:":                          {`start="<CID:a>"`, "<CID:a>", part("<b>", "x"), refused},
		"start as a word of RFC 2231":              {`start*=us-ascii''a`, "<a>", part("<b>", "x"), refused},
		"start in pieces":                          {`start*0=a`, "<a>", part("<b>", "x"), refused},
		"start twice, once escaped":                {`start=a; start="\a"`, "<a>", part("<b>", "x"), refused},
		"start with a semicolon":                   {`start="a;b"`, "<a;b>", part("<b>", "x"), refused},
		"start above ASCII":                        {"start=\xe4", "<\xe4>", part("<b>", "x"), refused},
		"half a bracket":                           {`start="<a"`, "<a>", part("<b>", "x"), refused},
		"half a bracket in the id":                 {`start="<a>"`, "<a", part("<b>", "x"), refused},
		"id with a comment":                        {`start="<a>"`, "<a> (x)", part("<b>", "x"), refused},
		"brackets around the id, reversed":         {`start=a`, "<a>", part(">a<", "x"), refused},
		"a comment in an attachment's id":          {`start=a`, "<a>", part("<(x)a>", "x"), refused},
		"a quoted attachment's id":                 {`start=a`, "<a>", part(`<"a">`, "x"), refused},
		"another boundary in no part":              {`xboundary=q`, "", part("<b>", "x--Q"), ""},
		"another boundary in a part":               {`xboundary=q`, "", part("<b>", "x--qx"), refused},
		"another boundary at the end of a part":    {`xboundary=q`, "", part("<b>", "x--q"), refused},
		"another boundary in a header field":       {`xboundary=q`, "", part("<--q>", "x"), refused},
	} {
		t.Run(name, func(t *testing.T) {
			err := passes("multipart/related; boundary=b; "+tt.parameters, root(tt.id)+tt.attachment+"--b--\r\n")
			got := ""
			if err != nil {
				got = Code(At(AtClient, err))
			}
			if got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

// passes sends a message on as the sending security server does.
func passes(contentType, body string) error {
	o, err := Open(contentType, strings.NewReader(body))
	if err != nil {
		return err
	}
	enc := NewEncoder(io.Discard, crypto.SHA256)
	enc.Watch(o)
	if err := enc.SOAP(o.Header, o.Envelope); err != nil {
		return err
	}
	for {
		part, err := o.Next()
		if err == io.EOF {
			return enc.Sign(&crypto.Signature{XML: []byte("<s/>")})
		}
		if err == nil {
			err = enc.Attachment(part.Header, part)
		}
		if err != nil {
			return err
		}
	}
}
