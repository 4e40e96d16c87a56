// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/caddy-fairway/fairway/crypto/ocsp"
	"github.com/caddy-fairway/fairway/ident"
)

// TestWhatWasProvedEnds: a security server that was found good, so that its proofs are kept, is refused as soon as one
// thing is otherwise that the verdict rests on.
func TestWhatWasProvedEnds(t *testing.T) {
	stranger := ident.Client{Instance: "DEV", Class: "GOV", Member: "2222"}
	ca2 := issue(t, named("another CA"), nil, certifying)
	for _, c := range []struct {
		name   string
		change map[string]func(dev *land) string // of files of the configuration; nil: none
		newer  func(dev *land) []byte            // the OCSP response that comes now; nil: the one that was proved
		client *ident.Client                     // who asks now; nil: who asked before
		after  time.Duration
		cause  string
		words  string
	}{
		{name: "nothing is otherwise"},
		{name: "the configuration is as it was", change: map[string]func(*land) string{
			"DEV/shared-params.xml": func(dev *land) string { return dev.shared("127.0.0.1:6500", "127.0.0.9:6500") }}},
		{name: "the certificate is no longer registered", change: map[string]func(*land) string{
			"DEV/shared-params.xml": func(dev *land) string {
				dev.auth = issue(t, named("the next one"), dev.ca, authentication)
				return dev.shared()
			}}, cause: authFailed, words: "not registered"},
		{name: "the CA is no longer approved", change: map[string]func(*land) string{
			"DEV/shared-params.xml": func(dev *land) string {
				other := *dev
				other.ca = ca2
				return other.shared()
			}}, cause: authFailed + ".cannot_create_cert_path.internal_error", words: "no approved CA"},
		{name: "OCSP responses may be less old", after: 10 * time.Minute, change: map[string]func(*land) string{
			"DEV/shared-params.xml.metadata": func(*land) string { return until(now.Add(time.Hour)) },
			"DEV/shared-params.xml": func(dev *land) string {
				return dev.shared("<ocspFreshnessSeconds>3600", "<ocspFreshnessSeconds>300")
			}}, cause: authFailed + ".invalid_cert_path.incorrect_validation_info", words: "10m0s old"},
		{name: "the OCSP response has grown old", after: time.Hour + time.Second,
			cause: authFailed + ".invalid_cert_path.incorrect_validation_info", words: "1h0m1s old"},
		{name: "a newer response says revoked", newer: func(dev *land) []byte {
			der, err := ocsp.Respond(dev.auth.Certificate, dev.ca.Certificate, dev.ca.Certificate, dev.ca.key, now, time.Time{}, now.Add(-time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			return der
		}, cause: authFailed + ".invalid_cert_path.cert_validation", words: "revoked since"},
		{name: "another response is by nobody who may give it", newer: func(dev *land) []byte {
			return good(t, dev.auth, dev.ca, ca2, now)
		}, cause: authFailed + ".invalid_cert_path.incorrect_validation_info"},
		{name: "no response comes", newer: func(*land) []byte { return nil },
			cause: authFailed + ".invalid_cert_path.cert_validation", words: "no OCSP response"},
		{name: "another client asks", client: &stranger, cause: authFailed, words: "does not serve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFederation(t)
			g := f.open(t)
			chain, client := []*x509.Certificate{f.dev.auth.Certificate}, f.dev.app
			responses := [][]byte{good(t, f.dev.auth, f.dev.ca, f.dev.ca, now)}
			for range 2 {
				check(t, g.VerifyAuth(chain, responses, client, now), "", "")
			}
			if g.own().proved.Len() == 0 {
				t.Error("nothing is kept of what was proved")
			}
			if c.newer != nil {
				responses = [][]byte{c.newer(f.dev)}
			}
			if c.client != nil {
				client = *c.client
			}
			files := make(map[string]string)
			for name, text := range c.change {
				files[name] = text(f.dev)
			}
			lay(t, f.dir, files)
			if err := g.read(true); err != nil || len(f.reports()) > 0 {
				t.Fatal(err, f.reports())
			}
			for range 2 {
				check(t, g.VerifyAuth(chain, responses, client, now.Add(c.after)), c.cause, c.words)
			}
		})
	}
}
