// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/evidence"
)

// stamping is how the time-stamping of a security server goes, as JSON.
type stamping struct {
	Server       string     `json:"server"`         // its identifier
	Name         string     `json:"name,omitempty"` // in the configuration
	Signed       int        `json:"signed"`         // records
	Unstamped    int        `json:"unstamped"`
	Oldest       *time.Time `json:"oldest,omitempty"` // of those without time-stamp
	Stamped      *time.Time `json:"stamped,omitempty"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
	Reason       string     `json:"reason,omitempty"`
	RefusingFrom *time.Time `json:"refusing_from,omitempty"`
	SecondsLeft  *float64   `json:"seconds_left,omitempty"` // until messages are refused; 0: they are
}

func newStamping(s *openServer, st evidence.Status, now time.Time) stamping {
	j := stamping{
		Server: s.ID.String(), Name: s.name, Signed: st.Signed, Unstamped: st.Unstamped,
		Oldest: known(st.Oldest), Stamped: known(st.Stamped), FailingSince: known(st.Failing), RefusingFrom: known(st.Refusing),
	}
	if st.Reason != nil {
		j.Reason = brief(st.Reason.Error())
	}
	if j.RefusingFrom != nil {
		left := max(0, st.Refusing.Sub(now).Seconds())
		j.SecondsLeft = &left
	}
	return j
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *adminAPI) stamps(w http.ResponseWriter, r *http.Request) error {
	selected, err := asked(r, http.MethodGet)
	if err != nil {
		return err
	}
	all := []stamping{}
	for _, s := range selected {
		st, err := s.Evidence.Status()
		if err != nil {
			return err
		}
		all = append(all, newStamping(s, st, time.Now()))
	}
	slices.SortFunc(all, func(a, b stamping) int { return strings.Compare(a.Server, b.Server) })
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(all)
}
