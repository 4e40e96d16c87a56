// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/exchange"
)

func init() {
	caddy.RegisterModule(adminAPI{})
}

// adminAPI lists and cancels message exchanges in progress, those of earlier configurations too, and says how time-stamping
// goes:
//
//	GET    /xroad/exchanges[?server=SERVER]
//	DELETE /xroad/exchanges/ID[?server=SERVER]
//	GET    /xroad/timestamps[?server=SERVER]
//
// SERVER is the name or the identifier of a security server.
type adminAPI struct{}

// CaddyModule returns the Caddy module information.
func (adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.xroad",
		New: func() caddy.Module { return new(adminAPI) },
	}
}

// Routes implements caddy.AdminRouter.
func (a *adminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/xroad/exchanges", Handler: caddy.AdminHandlerFunc(a.list)},
		{Pattern: "/xroad/exchanges/{id}", Handler: caddy.AdminHandlerFunc(a.cancel)},
		{Pattern: "/xroad/timestamps", Handler: caddy.AdminHandlerFunc(a.stamps)},
	}
}

// transfer is an exchange in progress as JSON.
type transfer struct {
	Server      string    `json:"server"`         // its identifier
	Name        string    `json:"name,omitempty"` // in the configuration
	ID          string    `json:"id"`             // to cancel it
	Role        string    `json:"role"`
	Client      string    `json:"client,omitempty"`
	Service     string    `json:"service,omitempty"`
	Peer        string    `json:"peer,omitempty"`
	MessageID   string    `json:"message_id,omitempty"`
	RequestID   string    `json:"request_id,omitempty"`
	Phase       string    `json:"phase"`
	Octets      int64     `json:"octets"`
	Total       *int64    `json:"total,omitempty"`        // where it is known
	Rate        float64   `json:"rate"`                   // octets per second, of the last seconds
	SecondsLeft *float64  `json:"seconds_left,omitempty"` // of the phase, where that can be estimated
	Begun       time.Time `json:"begun"`
	Cancelled   bool      `json:"cancelled,omitempty"` // it is about to end
}

func (a *adminAPI) list(w http.ResponseWriter, r *http.Request) error {
	selected, err := asked(r, http.MethodGet)
	if err != nil {
		return err
	}
	all := []transfer{}
	for _, s := range selected {
		for _, t := range s.Transfers() {
			all = append(all, newTransfer(s, t))
		}
	}
	slices.SortFunc(all, func(a, b transfer) int {
		return cmp.Or(a.Begun.Compare(b.Begun), strings.Compare(a.ID, b.ID))
	})
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(all)
}

func newTransfer(s *openServer, t exchange.Transfer) transfer {
	j := transfer{
		Server: s.ID.String(), Name: s.name,
		ID: t.ID, Role: t.Role, RequestID: t.RequestID, MessageID: brief(t.MessageID),
		Client: brief(clientText(t.Client)), Service: brief(serviceText(t.Service)), Peer: brief(t.Peer),
		Phase: t.Phase, Octets: t.Octets, Rate: t.Rate, Begun: t.Begun, Cancelled: t.Cancelled,
	}
	if t.Total >= 0 {
		j.Total = &t.Total
	}
	if left, ok := t.Left(); ok {
		seconds := left.Seconds()
		j.SecondsLeft = &seconds
	}
	return j
}

func (a *adminAPI) cancel(w http.ResponseWriter, r *http.Request) error {
	selected, err := asked(r, http.MethodDelete)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	var having []*openServer
	for _, s := range selected {
		if slices.ContainsFunc(s.Transfers(), func(t exchange.Transfer) bool { return t.ID == id }) {
			having = append(having, s)
		}
	}
	if len(having) > 1 { // a peer has chosen the same request id for both
		return caddy.APIError{HTTPStatus: http.StatusConflict, Err: fmt.Errorf("security servers %s and %s both have an exchange %q: say which by ?server=", having[0].ID, having[1].ID, id)}
	}
	if len(having) == 0 || !having[0].Cancel(id) {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("there is no exchange %q in progress", brief(id))}
	}
	caddy.Log().Named("xroad").Info("exchange cancelled", zap.Stringer("server", having[0].ID), zap.String("id", id), zap.String("remote", r.RemoteAddr))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// asked returns the security servers that a request of that method is about.
func asked(r *http.Request, method string) ([]*openServer, error) {
	if r.Method != method {
		return nil, caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not for %s", r.Method, r.URL.Path)}
	}
	return opened.selected(r)
}

// opened are the security servers that are open, those of earlier configurations too while their exchanges go on.
var opened openServers

type openServers struct {
	mu  sync.Mutex
	all map[*openServer]bool
}

func (o *openServers) add(s *openServer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[*openServer]bool)
	}
	o.all[s] = true
}

func (o *openServers) remove(s *openServer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, s)
}

// selected returns those that a request names, or all.
func (o *openServers) selected(r *http.Request) (selected []*openServer, err error) {
	want, named := r.URL.Query()["server"]
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.all {
		if !named || slices.Contains(want, s.name) || slices.Contains(want, s.ID.String()) {
			selected = append(selected, s)
		}
	}
	if named && selected == nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("there is no security server %q", brief(strings.Join(want, ", ")))}
	}
	return selected, nil
}

// Interface guards
var _ caddy.AdminRouter = (*adminAPI)(nil)
