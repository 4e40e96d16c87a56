// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
)

func init() {
	caddy.RegisterModule(Echo{})
	httpcaddyfile.RegisterHandlerDirective("xroad_echo", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		e := new(Echo)
		return e, e.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("xroad_echo", httpcaddyfile.Before, "reverse_proxy")
}

const (
	// echoLimit is how much of an envelope the echo service looks at: what it is asked must stand there.
	echoLimit = 1 << 20

	xop = "application/xop+xml"
	// echoRoot is the Content-ID of the envelope in a multipart answer.
	echoRoot = "<envelope@xroad-echo>"
)

// Echo is a SOAP service for examples and tests. It answers `<codeResponse>` with the X-Road header of the request, in
// the form of the request: plain, SwA or MTOM.
//
// The answer lists the length and the SHA-256 of the request's envelope and of every attachment. Where the body of the
// request says `<returnAttachments>true</returnAttachments>`, the attachments come back instead, each while it is
// read. Where it says `<fault>text</fault>`, a SOAP fault with that text does. It reads UTF-8 and keeps no attachment.
type Echo struct{}

// CaddyModule returns the Caddy module information.
func (Echo) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.xroad_echo",
		New: func() caddy.Module { return new(Echo) },
	}
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (Echo) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	if r.Method != http.MethodPost {
		return caddyhttp.Error(http.StatusMethodNotAllowed, fmt.Errorf("a SOAP service takes POST, not %s", r.Method))
	}
	// Attachments go back while others are still coming. Where that cannot be said, nothing needs to be.
	_ = http.NewResponseController(w).EnableFullDuplex()

	form, err := multipart.ParseContentType(r.Header.Get("Content-Type"))
	if err != nil {
		return echoFault(w, "Client", err.Error())
	}
	e := echo{form: form}
	envelope := r.Body.(io.Reader)
	charset, _ := form.Param("charset")
	if form.Type == "multipart/related" {
		boundary, _ := form.Param("boundary")
		e.parts = multipart.NewReader(r.Body, boundary, multipart.Limits{})
		root, err := e.parts.Next()
		if err != nil {
			return echoFault(w, "Client", "reading the envelope: "+err.Error())
		}
		rootType, err := multipart.ParseContentType(root.Header.Get("Content-Type"))
		if err != nil {
			return echoFault(w, "Client", err.Error())
		}
		envelope = root
		charset, _ = rootType.Param("charset")
	}
	if err := e.read(envelope, charset); err != nil {
		return echoFault(w, "Client", err.Error())
	}
	if e.call.ReturnAttachments && e.call.Fault == nil {
		return e.sendBack(w)
	}
	if err := e.listAttachments(); err != nil {
		return echoFault(w, "Client", err.Error())
	}
	if e.call.Fault != nil {
		return echoFault(w, "Server", *e.call.Fault)
	}
	return e.answer(w)
}

// echo is one call of the echo service.
type echo struct {
	form  multipart.ContentType
	parts *multipart.Reader // nil: a plain request

	name   string // of the Body's child
	space  string // its namespace
	prefix string // of the envelope's elements, with ":" where there is one
	header []byte // the request's octets up to the end of the Header
	call   struct {
		ReturnAttachments bool    `xml:"returnAttachments"`
		Fault             *string `xml:"fault"`
	}

	content bytes.Buffer // of the answer's Body's child
}

// read reads the envelope and what is asked.
func (e *echo) read(r io.Reader, charset string) error {
	envelope, err := soap.Open(r, charset, soap.Limits{})
	if err != nil {
		return err
	}
	e.name = envelope.Body
	sum := sha256.New()
	head, err := io.ReadAll(io.LimitReader(io.TeeReader(envelope, sum), echoLimit))
	if err != nil {
		return err
	}
	rest, err := io.Copy(sum, envelope)
	if err != nil {
		return err
	}
	e.list("request", "", int64(len(head))+rest, sum)
	return e.understand(head, rest > 0)
}

// understand finds the parts of the envelope that the answer is made of. cut says that the envelope goes on.
func (e *echo) understand(head []byte, cut bool) error {
	d := xml.NewDecoder(bytes.NewReader(head))
	var body bool
	for depth := 0; ; {
		before := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			return fmt.Errorf("reading the envelope: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			depth++
			switch depth {
			case 1:
				tag := string(head[before+1 : d.InputOffset()])
				tag = tag[:strings.IndexAny(tag, " \t\r\n/>")]
				e.prefix = tag[:strings.LastIndex(tag, ":")+1]
			case 2:
				body = t.Name.Local == "Body"
			case 3:
				if !body {
					continue
				}
				e.space = t.Name.Space
				if err := d.DecodeElement(&e.call, &t); err != nil && !cut {
					return fmt.Errorf("reading the call: %w", err)
				}
				return nil
			}
		case xml.EndElement:
			if depth == 2 && t.Name.Local == "Header" {
				e.header = head[:d.InputOffset()]
			}
			depth--
		}
	}
}

// listAttachments reads the attachments and writes down what they were.
func (e *echo) listAttachments() error {
	for e.parts != nil {
		part, err := e.parts.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := part.WriteTo(sum)
		if err != nil {
			return err
		}
		e.list("attachment", part.Header.Get("Content-ID"), n, sum)
	}
	return nil
}

func (e *echo) list(what, contentID string, length int64, sum hash.Hash) {
	fmt.Fprintf(&e.content, `<%s xmlns="">`, what)
	if contentID != "" {
		e.content.WriteString("<contentId>")
		_ = xml.EscapeText(&e.content, []byte(contentID))
		e.content.WriteString("</contentId>")
	}
	fmt.Fprintf(&e.content, "<length>%d</length><sha256>%s</sha256></%s>", length, hex.EncodeToString(sum.Sum(nil)), what)
}

// writeEnvelope writes the answer's envelope: the request's octets up to the end of the Header, and a Body of our own.
func (e *echo) writeEnvelope(w io.Writer) error {
	var space bytes.Buffer
	_ = xml.EscapeText(&space, []byte(e.space))
	name := "e:" + e.name + "Response"
	open := fmt.Sprintf(`<%s xmlns:e="%s">`, name, space.String())
	if e.space == "" {
		name = e.name + "Response"
		open = fmt.Sprintf(`<%s xmlns="">`, name)
	}
	_, err := fmt.Fprintf(w, "%s<%sBody>%s%s</%s></%sBody></%sEnvelope>",
		e.header, e.prefix, open, e.content.Bytes(), name, e.prefix, e.prefix)
	return err
}

// answer writes the answer in the form of the request.
func (e *echo) answer(w http.ResponseWriter) error {
	if e.parts == nil {
		w.Header().Set("Content-Type", "text/xml; charset=UTF-8")
		return e.writeEnvelope(w)
	}
	mw, err := e.begin(w)
	if err != nil {
		return err
	}
	return mw.Close()
}

// sendBack writes the answer with the attachments of the request. An answer that cannot be finished is broken off.
func (e *echo) sendBack(w http.ResponseWriter) error {
	if e.parts == nil {
		return e.answer(w)
	}
	mw, err := e.begin(w)
	for err == nil {
		var part *multipart.Part
		if part, err = e.parts.Next(); err != nil {
			break
		}
		var pw io.Writer
		if pw, err = mw.Part(part.Header); err == nil {
			_, err = part.WriteTo(pw)
		}
	}
	if errors.Is(err, io.EOF) {
		err = mw.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// begin writes a multipart answer up to its envelope.
func (e *echo) begin(w http.ResponseWriter) (*multipart.Writer, error) {
	boundary := multipart.Letters(40)
	root := "text/xml; charset=UTF-8"
	related := `multipart/related; type="text/xml"`
	if t, _ := e.form.Param("type"); strings.EqualFold(t, xop) {
		root = xop + `; charset=UTF-8; type="text/xml"`
		related = `multipart/related; type="` + xop + `"; start-info="text/xml"`
	}
	w.Header().Set("Content-Type", fmt.Sprintf(`%s; start="%s"; boundary="%s"`, related, echoRoot, boundary))
	mw := multipart.NewWriter(w, boundary)
	pw, err := mw.Part(multipart.NewHeader("Content-Type", root, "Content-ID", echoRoot))
	if err != nil {
		return nil, err
	}
	return mw, e.writeEnvelope(pw)
}

// echoFault answers with a SOAP fault.
func echoFault(w http.ResponseWriter, code, text string) error {
	w.Header().Set("Content-Type", "text/xml; charset=UTF-8")
	w.WriteHeader(http.StatusInternalServerError)
	_, err := w.Write((&soap.Fault{Code: code, String: text}).Bytes())
	return err
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	xroad_echo [<matcher>]
func (Echo) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the directive
	return lineEnds(d)
}

// Interface guards
var (
	_ caddyhttp.MiddlewareHandler = (*Echo)(nil)
	_ caddyfile.Unmarshaler       = (*Echo)(nil)
)
