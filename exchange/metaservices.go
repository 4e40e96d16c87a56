// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/wire"
)

// Service codes that the receiving security server answers itself (message-and-transport 9.2).
const (
	listMethods    = "listMethods"
	allowedMethods = "allowedMethods"
)

// isMetaservice reports whether the code is one of ours; the version does not matter.
func isMetaservice(id ident.Service) bool { return id.Code == listMethods || id.Code == allowedMethods }

// metaservice answers listMethods and allowedMethods of a provider.
func (s *SecurityServer) metaservice(request *soap.Header) answer {
	var b bytes.Buffer
	b.WriteString(xmlDeclaration + "<soap:Envelope " + soap.Namespaces + "><soap:Header>")
	soap.WriteHeader(&b, request) // a bytes.Buffer takes everything
	b.WriteString("</soap:Header><soap:Body><xroad:" + request.Service.Code + "Response>")
	for _, service := range s.Local.services(request.Service.Client) {
		if request.Service.Code == listMethods || service.allows(request.Client, s.Trust) {
			b.WriteString(soap.ServiceElement("xroad:service", service.ID))
		}
	}
	b.WriteString("</xroad:" + request.Service.Code + "Response></soap:Body></soap:Envelope>")
	return answer{http.StatusOK, http.Header{"Content-Type": {wire.PlainContentType}}, &b}
}

const xmlDeclaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// services returns the services of a provider in order.
func (l *Local) services(provider ident.Client) []*Service {
	var services []*Service
	for id, service := range l.Services {
		if id.Client == provider {
			services = append(services, service)
		}
	}
	slices.SortFunc(services, func(a, b *Service) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return services
}

// listClients answers GET /listClients from the global configuration (message-and-transport 9.1).
func (s *SecurityServer) listClients(w http.ResponseWriter, r *http.Request) {
	who := hostOf(r.RemoteAddr)
	err := s.admissions.asking.take(r.Context(), who, new(atomic.Bool))
	var members []trust.Member
	if err == nil {
		defer s.admissions.asking.leave(who)
		members, err = s.Trust.Members(r.URL.Query().Get("xRoadInstance"))
	}
	if err != nil {
		retryAfter(w.Header(), err)
		fault := wire.Fault(wire.At(wire.AtSender, err), wire.NewRequestID()).Bytes()
		w.Header().Set("Content-Type", wire.FaultContentType)
		w.Write(fault) // if the client is gone there is nobody to tell
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		json.NewEncoder(w).Encode(jsonClients(members))
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Write(xmlClients(members))
}

func xmlClients(members []trust.Member) []byte {
	var b bytes.Buffer
	b.WriteString(xmlDeclaration + "<xroad:clientList " + soap.Namespaces + ">")
	for _, m := range members {
		b.WriteString("<xroad:member>" + soap.ClientElement("xroad:id", m.ID))
		named(&b, "xroad:name", m.Name)
		if m.ID.Subsystem != "" && m.Sub != "" {
			named(&b, "xroad:subsystemName", m.Sub)
		}
		b.WriteString("</xroad:member>")
	}
	b.WriteString("</xroad:clientList>")
	return b.Bytes()
}

func named(b *bytes.Buffer, element, name string) {
	b.WriteString("<" + element + ">")
	xml.EscapeText(b, []byte(name)) // a bytes.Buffer takes everything
	b.WriteString("</" + element + ">")
}

type jsonID struct {
	Class     string `json:"member_class"`
	Member    string `json:"member_code"`
	Type      string `json:"object_type"`
	Subsystem string `json:"subsystem_code,omitempty"`
	Instance  string `json:"xroad_instance"`
}

type jsonMember struct {
	ID   jsonID `json:"id"`
	Name string `json:"name"`
	Sub  string `json:"subsystem_name,omitempty"`
}

func jsonClients(members []trust.Member) any {
	list := make([]jsonMember, len(members))
	for i, m := range members {
		id := jsonID{m.ID.Class, m.ID.Member, "MEMBER", m.ID.Subsystem, m.ID.Instance}
		if id.Subsystem != "" {
			id.Type = "SUBSYSTEM"
		}
		list[i] = jsonMember{id, m.Name, m.Sub}
	}
	return map[string]any{"member": list}
}
