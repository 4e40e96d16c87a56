// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/tsp"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
)

// stampHost is a host whose instance has approved the development authority, at that address.
func stampHost(t *testing.T, url string) (Host, trust.TSA) {
	t.Helper()
	h := Host{
		ID:      ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: "ss2"},
		Storage: &certmagic.FileStorage{Path: t.TempDir()},
		Clock:   time.Now,
	}
	authority, err := dev.Open(t.Context(), h.Storage, "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := authority.Parameters(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.TSAs[0].URL = url
	if h.Trust, err = trust.New(p, nil); err != nil {
		t.Fatal(err)
	}
	return h, p.TSAs[0]
}

// outdatedTrust is a trust store whose time is over.
type outdatedTrust struct{ trust.Store }

func (outdatedTrust) Valid(time.Time) error { return outdatedError{} }

type outdatedError struct{}

func (outdatedError) Error() string { return "the configuration is outdated" }
func (outdatedError) Cause() string { return "global_conf_outdated" }

func TestTimestampers(t *testing.T) {
	imprint := crypto.SHA512.Sum([]byte("what was signed"))
	authority := httptest.NewServer(nil)
	defer authority.Close()
	h, tsa := stampHost(t, authority.URL)
	key, err := dev.Open(t.Context(), h.Storage, "DEV", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	authority.Config.Handler = key.TimestampHandler()
	elsewhere, _ := stampHost(t, authority.URL) // another instance of that name, with another authority
	outdated := h
	outdated.Trust = outdatedTrust{h.Trust}
	tests := []struct {
		name  string
		guest Timestamper
		host  Host
		want  string // cause, or "" for a token
		limit time.Duration
	}{
		{"dev", &DevTimestamper{}, h, "", 0},
		{"tsp, the authority of the instance", &TSPTimestamper{}, h, "", 0},
		{"tsp, an address that answers nothing and one that does", &TSPTimestamper{URLs: []string{"http://127.0.0.1:1", authority.URL}, Limit: caddy.Duration(time.Hour)}, h, "", time.Hour},
		{"tsp, under an outdated configuration", &TSPTimestamper{}, outdated, "global_conf_outdated", 0},
		{"tsp, an authority that the instance has not approved", &TSPTimestamper{}, elsewhere, "mlog.tsp_certificate_not_found", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stamper, limit, err := tt.guest.OpenTimestamper(t.Context(), tt.host)
			if err != nil || limit != tt.limit {
				t.Fatal(limit, err)
			}
			der, err := stamper.Stamp(t.Context(), imprint)
			var caused interface{ Cause() string }
			if tt.want != "" {
				if !errors.As(err, &caused) || caused.Cause() != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			token, err := tsp.ParseToken(der)
			if err == nil {
				_, err = token.VerifySum(crypto.SHA512, imprint, []*x509.Certificate{tsa.Certificate}, tsp.Present)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	if stamper, _, err := (NoTimestamper{}).OpenTimestamper(t.Context(), h); stamper != nil || err != nil {
		t.Error("none stamps", err)
	}
}
