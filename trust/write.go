// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// XML returns the parameters as shared parameters (version 6; signature-and-evidence 13.5), which ParseShared reads. They
// cannot say everything: left out are Server.OCSPAddress and AuthCertSHA1, SkipNextUpdate, StampInterval, and fractions
// of a second of Freshness. Parameters that could not be read again are an error.
func (p Parameters) XML() ([]byte, error) {
	w := &sharedWriter{ids: make(map[ident.Client]string)}
	w.printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ns:conf xmlns:ns=%q xmlns:id=%q>\n", confSpace, idSpace)
	w.text("instanceIdentifier", p.Instance)
	for i := range p.CAs {
		w.approvedCA(&p.CAs[i])
	}
	for _, t := range p.TSAs {
		w.in("approvedTSA", func() {
			w.text("name", t.Name)
			w.text("url", t.URL)
			w.certificate(t.Certificate)
		})
	}
	w.members(p.Members)
	for i := range p.Servers {
		w.securityServer(&p.Servers[i])
	}
	for _, code := range slices.Sorted(maps.Keys(p.Groups)) {
		w.in("globalGroup", func() {
			w.text("groupCode", code)
			w.text("description", "")
			for _, m := range p.Groups[code] {
				w.groupMember(m)
			}
		})
	}
	w.in("globalSettings", func() { w.text("ocspFreshnessSeconds", fmt.Sprint(int64(p.Freshness/time.Second))) })
	w.printf("</ns:conf>\n")
	if _, err := ParseShared(w.Bytes()); err != nil {
		return nil, fmt.Errorf("writing shared parameters of instance %q: %w", p.Instance, err)
	}
	return w.Bytes(), nil
}

// sharedWriter writes elements.
type sharedWriter struct {
	bytes.Buffer
	ids map[ident.Client]string // of members and subsystems
}

func (w *sharedWriter) printf(format string, args ...any) { fmt.Fprintf(&w.Buffer, format, args...) }

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\r", "&#13;")

func (w *sharedWriter) text(name, text string) {
	w.printf("<%s>%s</%[1]s>\n", name, escaper.Replace(text))
}

// in writes an element with others inside; attributes follow the name.
func (w *sharedWriter) in(start string, inside func()) {
	name, _, _ := strings.Cut(start, " ")
	w.printf("<%s>\n", start)
	inside()
	w.printf("</%s>\n", name)
}

func (w *sharedWriter) certificate(c *x509.Certificate) {
	w.text("cert", base64.StdEncoding.EncodeToString(c.Raw))
}

func (w *sharedWriter) approvedCA(ca *CA) {
	w.in("approvedCA", func() {
		w.text("name", ca.Name)
		w.text("authenticationOnly", fmt.Sprint(ca.AuthenticationOnly))
		for i, a := range ca.Authorities {
			name := "topCA"
			if i > 0 {
				name = "intermediateCA"
			}
			w.in(name, func() { w.authority(a) })
		}
		w.text("certificateProfileInfo", ca.Profile)
	})
}

func (w *sharedWriter) authority(a Authority) {
	w.certificate(a.Certificate)
	for _, r := range a.Responders {
		w.in("ocsp", func() {
			w.text("url", r.URL)
			if r.Certificate != nil {
				w.certificate(r.Certificate)
			}
		})
	}
}

// members writes each member with the subsystems that follow it.
func (w *sharedWriter) members(all []Member) {
	for len(all) > 0 {
		m, n := all[0], 1
		for n < len(all) && all[n].ID.Subsystem != "" && all[n].ID.MemberOf() == m.ID {
			n++
		}
		w.in(w.identified("member", m.ID), func() {
			w.in("memberClass", func() { w.text("code", m.ID.Class); w.text("description", "") })
			w.text("memberCode", m.ID.Member)
			w.text("name", m.Name)
			for _, sub := range all[1:n] {
				w.in(w.identified("subsystem", sub.ID), func() {
					w.text("subsystemCode", sub.ID.Subsystem)
					if sub.Sub != "" {
						w.text("subsystemName", sub.Sub)
					}
				})
			}
		})
		all = all[n:]
	}
}

// identified gives the element of a client an id.
func (w *sharedWriter) identified(name string, c ident.Client) string {
	w.ids[c] = fmt.Sprintf("id%d", len(w.ids))
	return fmt.Sprintf("%s id=%q", name, w.ids[c])
}

func (w *sharedWriter) securityServer(s *Server) {
	w.in("securityServer", func() {
		w.text("owner", w.ids[s.ID.Owner()])
		w.text("serverCode", s.ID.Code)
		if s.Address != "" {
			w.text("address", s.Address)
		}
		for _, hash := range s.AuthCertHashes {
			w.text("authCertHash", base64.StdEncoding.EncodeToString(hash[:]))
		}
		for _, c := range s.Clients {
			w.text("client", w.ids[c])
		}
		if s.Maintenance != nil {
			w.in("inMaintenanceMode", func() { w.text("message", *s.Maintenance) })
		}
	})
}

func (w *sharedWriter) groupMember(c ident.Client) {
	kind := "MEMBER"
	if c.Subsystem != "" {
		kind = "SUBSYSTEM"
	}
	w.in(fmt.Sprintf("groupMember id:objectType=%q", kind), func() {
		w.text("id:xRoadInstance", c.Instance)
		w.text("id:memberClass", c.Class)
		w.text("id:memberCode", c.Member)
		if c.Subsystem != "" {
			w.text("id:subsystemCode", c.Subsystem)
		}
	})
}
