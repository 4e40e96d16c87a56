// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/ident"
)

// Server is one security server: its identity, its guests, its clients and its services.
//
// Identifiers are written INSTANCE/CLASS/MEMBER/CODE for a security server, INSTANCE/CLASS/MEMBER[/SUBSYSTEM] for a
// client and INSTANCE/CLASS/MEMBER/SUBSYSTEM/CODE[/VERSION] for a service, whose provider has "-" for no subsystem.
type Server struct {
	// The identifier of this security server. Required.
	ID string `json:"id,omitempty"`

	// The ports of other security servers. Default: 5500 and 5577.
	Ports Ports `json:"ports,omitzero"`

	// Where the keys are: `dev` or `files`. Required.
	SignerRaw json.RawMessage `json:"signer,omitempty" caddy:"namespace=xroad.signers inline_key=module"`

	// When small messages share a signature, by the member that signs; "*" is for all others. `auto`: those that wait while
	// the key is busy, `off`: never, `on`: as `auto`, with one operation of the key at a time. Default: `auto`, which is `on`
	// for a key in a device.
	Batch map[string]string `json:"batch,omitempty"`

	// Who is who in the X-Road instance: `dev`, `static` or `globalconf`. Required.
	TrustRaw json.RawMessage `json:"trust,omitempty" caddy:"namespace=xroad.trust_stores inline_key=module"`

	// Where attachments wait until they are verified: `disk` or `memory`. Default: `disk`.
	SpoolRaw json.RawMessage `json:"spool,omitempty" caddy:"namespace=xroad.spools inline_key=module"`

	// Where signed messages are kept: `disk` or `none`. Default: `disk`.
	EvidenceRaw json.RawMessage `json:"evidence,omitempty" caddy:"namespace=xroad.evidence_stores inline_key=module"`

	// Who time-stamps the evidence: `none`, `dev` or `tsp`. Default: `none`.
	TimestamperRaw json.RawMessage `json:"timestamper,omitempty" caddy:"namespace=xroad.timestampers inline_key=module"`

	// How many message exchanges there may be at once. Default: 2048 in each direction, of these 512 with one peer, or fewer
	// where there is little memory.
	Exchanges Exchanges `json:"exchanges,omitzero"`

	// What is special about other security servers, by identifier; "*" is for all others. Default: nothing.
	Peers map[string]Peer `json:"peers,omitempty"`

	// Our clients, by identifier. Default: none.
	Clients map[string]Client `json:"clients,omitempty"`

	// Groups of clients that services may allow, by code, with the identifiers of their members. Default: none.
	LocalGroups map[string][]string `json:"local_groups,omitempty"`

	// Our services, by identifier. Default: none.
	Services map[string]Service `json:"services,omitempty"`

	name      string
	id        ident.Server
	local     exchange.Local
	admission exchange.Admission

	signer      Signer
	trust       TrustStore
	spool       Spool
	evidence    EvidenceStore
	timestamper Timestamper

	neighbours func() []*Server // of the same app, this one too
	storage    certmagic.Storage
	transports [2]*http.Transport // to peers, to services
	sites      sites

	digest hash.Hash // of all that makes this configuration another one
	key    func() (string, error)
}

// Ports are the ports that a sender dials where the address of a peer has none.
type Ports struct {
	// For messages. Default: 5500.
	Peer int `json:"peer,omitempty"`

	// For OCSP responses. Default: 5577.
	OCSP int `json:"ocsp,omitempty"`
}

// Exchanges bound the message exchanges in progress. Those that are sent and those that are received are counted apart. Who
// comes when there is no place waits for one, unless as many do already, and is refused in the end.
type Exchanges struct {
	// How many there may be in each direction. Default: 2048, or one for every 2.5 MiB of the memory limit of the process,
	// whichever is less, and at least 16.
	All int `json:"all,omitempty"`

	// How many of these with one other security server. Default: a quarter of all.
	Peer int `json:"peer,omitempty"`

	// How long one waits for a place. Default: 2s.
	Wait caddy.Duration `json:"wait,omitempty"`
}

// Peer is what is special about messages to another security server.
type Peer struct {
	// The form of signatures, `direct` or `chain`. Default: as each message asks.
	Signature string `json:"signature,omitempty"`

	// The longest attachment that is signed in the direct form, in octets. Default: 10 MiB.
	DirectLimit int64 `json:"direct_limit,omitempty"`

	// How long the peer may be silent when we wait for it: take nothing of a request, or send nothing of the answer. Its
	// service may need that long. Default: no limit.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// Octets a second to the peer, and as many from it, over all messages together. Default: no limit.
	Rate int64 `json:"rate,omitempty"`
}

// Client is a client of this security server.
type Client struct {
	// How an information system must come to speak for the client from beyond loopback: `certificate` (over HTTPS with
	// one of Certificates), `tls` (over HTTPS) or `any`. Default: not at all.
	Caller string `json:"caller,omitempty"`

	// PEM files of the certificates that information systems show, for the caller `certificate`. Default: none.
	Certificates []string `json:"certificates,omitempty"`

	// When information systems get their answers: `strict`, verified as a whole, or `gated`, as they arrive but for their
	// end. Default: `strict`.
	Delivery string `json:"delivery,omitempty"`

	// The time between interim answers (status 102) to an information system that waits for its answer, for those that
	// give up, or are cut off, after a while. Old SOAP clients may not understand them. Default: none.
	KeepAlive caddy.Duration `json:"keepalive,omitempty"`
}

// Service is a service that this security server provides.
type Service struct {
	// Who may call it. All versions of a service must allow the same. Default: nobody.
	Allow []Subject `json:"allow,omitempty"`

	// Where its requests go. Default: on to the next handlers of the site.
	To *To `json:"to,omitempty"`

	// How a request reaches the service: `strict`, verified as a whole, `gated`, as it arrives but for its end, or `file`,
	// verified, with its attachments as files. Default: `strict`.
	Delivery string `json:"delivery,omitempty"`

	// Where the files are, for the delivery `file`. Default: none.
	Files *Files `json:"files,omitempty"`

	// How long the service may be silent. Default: 60s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// The largest request, in octets. Default: no limit.
	Limit int64 `json:"limit,omitempty"`

	// A notice for callers that disables the service. Default: enabled.
	Disabled *string `json:"disabled,omitempty"`
}

// Files are the attachments of a service that takes them as files.
type Files struct {
	// The folder, by an absolute path without symbolic links. It must be there, and not everybody may write to it. Required.
	Dir string `json:"dir,omitempty"`

	// How long files stay that the service keeps. Default: 24h.
	Keep caddy.Duration `json:"keep,omitempty"`
}

// Subject is who may call a service. Exactly one of its fields is set.
type Subject struct {
	// The identifier of a client.
	Client string `json:"client,omitempty"`

	// The code of a group in the configuration of the X-Road instance.
	GlobalGroup string `json:"global_group,omitempty"`

	// The code of a group in the configuration of this server.
	LocalGroup string `json:"local_group,omitempty"`
}

// To is where requests of a service go.
type To struct {
	// An http or https URL. Required.
	URL string `json:"url,omitempty"`

	// PEM files of certificates one of which the service must show over https, whatever its name and its issuer.
	// Default: none, it must have its host name in a certificate of an authority that this machine trusts.
	Certificates []string `json:"certificates,omitempty"`

	// Whether the service may show any certificate over https. Default: false.
	InsecureAny bool `json:"insecure_any,omitempty"`
}

// String names the server for messages.
func (s *Server) String() string {
	if s.name == "" {
		return "xroad"
	}
	return "xroad " + s.name
}

// provision loads the guests and makes the transports. The digest begins with the configuration as it was written:
// loading a guest empties its raw field.
func (s *Server) provision(ctx caddy.Context, app *App, name string) error {
	s.name = name
	s.storage = ctx.Storage()
	s.neighbours = func() []*Server {
		all := make([]*Server, 0, len(app.Servers))
		for _, n := range app.names() {
			all = append(all, app.Servers[n])
		}
		return all
	}
	written, err := json.Marshal(s)
	if err != nil {
		return err
	}
	s.digest = sha256.New()
	fmt.Fprintf(s.digest, "%q %s\n", name, written)
	s.key = sync.OnceValues(s.makeKey)

	if s.SpoolRaw == nil {
		s.SpoolRaw = json.RawMessage(`{"module":"disk"}`)
	}
	if s.EvidenceRaw == nil {
		s.EvidenceRaw = json.RawMessage(`{"module":"disk"}`)
	}
	if s.TimestamperRaw == nil {
		s.TimestamperRaw = json.RawMessage(`{"module":"none"}`)
	}
	if err := errors.Join(
		loadGuest(ctx, s, "SignerRaw", s.SignerRaw, &s.signer),
		loadGuest(ctx, s, "TrustRaw", s.TrustRaw, &s.trust),
		loadGuest(ctx, s, "SpoolRaw", s.SpoolRaw, &s.spool),
		loadGuest(ctx, s, "EvidenceRaw", s.EvidenceRaw, &s.evidence),
		loadGuest(ctx, s, "TimestamperRaw", s.TimestamperRaw, &s.timestamper),
	); err != nil {
		return err
	}
	for i := range s.transports {
		if s.transports[i], err = newTransport(ctx); err != nil {
			return err
		}
	}
	return nil
}

// loadGuest loads the module of a raw field. An absent one leaves guest as it is: validate says what is missing.
func loadGuest[T any](ctx caddy.Context, s *Server, field string, raw json.RawMessage, guest *T) error {
	if raw == nil {
		return nil
	}
	loaded, err := ctx.LoadModule(s, field)
	if err != nil {
		return err
	}
	g, ok := loaded.(T)
	if !ok {
		return fmt.Errorf("module %s cannot stand here: it is no %T", caddy.GetModuleID(loaded), guest)
	}
	*guest = g
	return nil
}

// development lists the guests of the server that are for development only.
func (s *Server) development() (modules []string) {
	for _, guest := range s.guests() {
		if _, ok := guest.(developer); ok {
			modules = append(modules, caddy.GetModuleID(guest))
		}
	}
	return modules
}

func (s *Server) guests() []any { return []any{s.signer, s.trust, s.spool, s.evidence, s.timestamper} }
