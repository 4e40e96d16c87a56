// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/wire"
)

// Envelope returns a message with that header whose body has one child, holding content.
func Envelope(h *soap.Header, child, content string) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<soap:Envelope " + soap.Namespaces + "><soap:Header>")
	soap.WriteHeader(&b, h)
	b.WriteString(`</soap:Header><soap:Body><t:` + child + ` xmlns:t="urn:fairway:test">` + content + `</t:` + child + `></soap:Body></soap:Envelope>`)
	return b.Bytes()
}

// Echo is a SOAP service: it answers in the form of the request, with the digest of each attachment in the body and,
// if Attach is set, with the attachments themselves (held in memory).
type Echo struct{ Attach bool }

// ServeHTTP implements http.Handler.
func (e Echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o, err := wire.Open(r.Header.Get("Content-Type"), r.Body)
	if err == nil {
		_, err = io.Copy(io.Discard, o.Envelope)
	}
	var digests, parts bytes.Buffer
	out := multipart.NewWriter(&parts, "echo")
	root, _ := out.Part(multipart.NewHeader("Content-Type", "text/xml; charset=UTF-8", "Content-ID", "<root>"))
	var attachments bytes.Buffer
	nested := multipart.NewWriter(&attachments, "echo")
	for n := 1; err == nil; n++ {
		var p *multipart.Part
		if p, err = o.Next(); err != nil {
			break
		}
		hash := sha256.New()
		var into io.Writer = hash
		if e.Attach {
			part, _ := nested.Part(p.Header)
			into = io.MultiWriter(hash, part)
		}
		_, err = io.Copy(into, p)
		fmt.Fprintf(&digests, "<t:sha256>%x</t:sha256>", hash.Sum(nil))
	}
	if err != io.EOF {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	envelope := Envelope(&o.Envelope.Header, o.Envelope.Header.Service.Code+"Response", digests.String())
	if !o.Multipart() {
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		w.Write(envelope)
		return
	}
	root.Write(envelope)
	w.Header().Set("Content-Type", `multipart/related; type="text/xml"; start="<root>"; boundary=echo`)
	if attachments.Len() > 0 {
		nested.Close()
		parts.WriteString("\r\n")
		parts.Write(attachments.Bytes())
	} else {
		out.Close()
	}
	w.Write(parts.Bytes())
}
