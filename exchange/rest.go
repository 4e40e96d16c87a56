// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-fairway/fairway/wire"
)

// isREST reports whether a request is none of SOAP's (message-and-transport 2.1).
func isREST(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/r1/") }

// refuseREST answers a REST consumer, whose messages are not carried, as it can read it: by the status, the header and the
// format that it accepts (message-and-transport 8.6).
func (s *SecurityServer) refuseREST(w http.ResponseWriter, r *http.Request) {
	line := newLine(w, r)
	outcome := Outcome{Role: "send", RequestID: wire.NewRequestID()}
	outcome.Err = wire.At(wire.AtSender, wire.Errorf("service_type", "messages of type REST are not carried"))
	fault := wire.Fault(outcome.Err, outcome.RequestID)
	outcome.Fault = fault.Code
	kind, body := restError(r.Header["Accept"], fault.Code, fault.String, fault.Detail)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("X-Road-Error", fault.Code)
	line.answer(http.StatusInternalServerError)
	if r.Method != http.MethodHead {
		w.Write(body) // if the consumer is gone there is nobody to tell
	}
	outcome.report(r.Context())
	line.linger(s.admissions.lingering, hostOf(r.RemoteAddr))
}

// restError is an error in the first format that is accepted, or in JSON.
func restError(accept []string, code, message, detail string) (kind string, body []byte) {
	for accepted := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		accepted, _, _ = strings.Cut(accepted, ";")
		switch accepted = strings.ToLower(strings.TrimSpace(accepted)); accepted {
		case "text/*":
			accepted = "text/xml"
		case "text/xml", "application/xml":
		default:
			continue
		}
		var b bytes.Buffer
		b.WriteString(xmlDeclaration + "<error>")
		named(&b, "type", code)
		named(&b, "message", message)
		named(&b, "detail", detail)
		b.WriteString("</error>")
		return accepted + ";charset=utf-8", b.Bytes()
	}
	body, _ = json.Marshal(struct { // strings always have a form
		Type    string `json:"type"`
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}{code, message, detail})
	return "application/json", body
}
