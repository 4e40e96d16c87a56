// SPDX-License-Identifier: Apache-2.0

package tsp

import (
	"bytes"
	"crypto/x509"
	"testing"
)

// TestAttack28Vector has the time-stamp of the vectors over changed data, and by authorities that did not make it.
func TestAttack28Vector(t *testing.T) {
	token := parsed(t, vector(t, "timestamps/valid.tst"))
	data := vector(t, "timestamps/stamped-data")
	own := approved(t, "globalconf/good_v2/EE/shared-params.xml")
	changed := bytes.Clone(data)
	changed[42] = 1
	others := []*x509.Certificate{certificateOf(t, vector(t, "testca/ocsp.cert.pem")), certificateOf(t, vector(t, "testca/tsa.cert.pem"))}
	for _, c := range []struct {
		name        string
		data        []byte
		authorities []*x509.Certificate
		want        string
	}{
		{"as it is", data, own, ""},
		{"other data", changed, own, malformed},
		{"no data", nil, own, malformed},
		{"responders as authorities", data, others, certificateMissing},
		{"authorities of another instance", data, approved(t, "globalconf/good2_v3/DEV/shared-params.xml"), certificateMissing},
		{"no authorities", data, nil, noProvider},
	} {
		_, err := token.Verify(c.data, c.authorities, Past)
		mustBe(t, err, c.want, "")
	}
}
