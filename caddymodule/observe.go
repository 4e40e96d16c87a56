// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
)

// observed returns the request with an observer that writes down how its exchange ended: into the access log, the
// placeholders and, where it is a fault, the log with the reason. service is why the next handlers failed; it may be nil.
func observed(r *http.Request, service *error) *http.Request {
	return r.WithContext(exchange.WithObserver(r.Context(), &exchange.Observer{
		Done: func(o exchange.Outcome) { note(r, o, service) },
	}))
}

// note writes the outcome down. It runs on the goroutine of the request.
func note(r *http.Request, o exchange.Outcome, service *error) {
	fields := []zap.Field{
		zap.String("xroad_role", o.Role),
		zap.String("xroad_client", brief(clientText(o.Client))),
		zap.String("xroad_service", brief(serviceText(o.Service))),
		zap.String("xroad_id", brief(o.MessageID)),
		zap.String("xroad_request_id", o.RequestID),
		zap.String("xroad_peer", brief(o.Peer)),
		zap.String("xroad_fault", brief(o.Fault)),
	}
	extra, _ := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	placeholders, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	for _, f := range fields {
		if extra != nil && f.String != "" {
			extra.Set(f)
		}
		if placeholders != nil {
			placeholders.Set("http.xroad."+strings.TrimPrefix(f.Key, "xroad_"), f.String)
		}
	}
	if o.Fault == "" && o.Err == nil {
		return
	}
	// The log of the configuration that took the request may be closed by now.
	entry := caddy.Log().Named("xroad").Check(severity(o.Fault), "exchange failed")
	if entry == nil {
		return
	}
	fields = append(fields, zap.String("remote", r.RemoteAddr))
	if ip, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok {
		fields = append(fields, zap.String("client_ip", ip)) // that in front of the proxies whom this site trusts
	}
	if o.Err != nil {
		fields = append(fields, zap.String("error", brief(o.Err.Error())))
	}
	if service != nil {
		fields = append(fields, zap.NamedError("service_error", *service))
	}
	entry.Write(fields...)
}

// brief cuts what strangers have written.
func brief(text string) string {
	const most = 512 // octets
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// ours are the causes of faults that need the operator of this security server.
var ours = []string{
	"internal_error", "database_error", "logging_failed", "cannot_create_signature", "signer", "hsm_non_operational",
	"global_conf_outdated", "malformed_global_conf", "malformed_server_conf",
}

func severity(fault string) zapcore.Level {
	for segment := range strings.SplitSeq(fault, ".") {
		for _, cause := range ours {
			if segment == cause {
				return zapcore.ErrorLevel
			}
		}
	}
	return zapcore.WarnLevel
}

func clientText(c ident.Client) string {
	if c.IsZero() {
		return ""
	}
	return c.String()
}

func serviceText(s ident.Service) string {
	if s == (ident.Service{}) {
		return ""
	}
	return s.String()
}
