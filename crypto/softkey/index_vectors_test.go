// SPDX-License-Identifier: Apache-2.0

package softkey

import (
	"path"
	"strings"
	"testing"
)

// TestVectorKeys reads every pair of a key and a certificate in PEM that the vectors have.
func TestVectorKeys(t *testing.T) {
	for key, cert := range map[string]string{
		"certs/consumer.key": "certs/consumer.pem", "certs/producer.key": "certs/producer.pem", "certs/client.key": "certs/client.pem",
		"certs/internal.key": "certs/internal.pem", "certs/int-ca.key": "certs/int-ca.pem",
		"certs/test_chain/ca_1.key": "certs/test_chain/ca_1.pem",
		"certs/test_chain/ca_2.key": "certs/test_chain/ca_2.pem", "certs/test_chain/ca_3.key": "certs/test_chain/ca_3.pem",
		"testca/ca.key.pem": "testca/ca.cert.pem", "testca/ocsp.key.pem": "testca/ocsp.cert.pem", "testca/tsa.key.pem": "testca/tsa.cert.pem",
		"globalconf-download/anchor/sign-internal.key": "globalconf-download/anchor/sign-internal.crt",
	} {
		k, err := ParsePEM(append(append(vector(t, key), '\n'), vector(t, cert)...))
		if err != nil || len(k.Chain) == 0 {
			t.Errorf("%s with %s: %v", key, cert, err)
		}
	}
	// openssl's own form for certificates with a purpose beside them; no security server has its key in it.
	for _, name := range []string{"certs/root-ca", "certs/test_chain/root_ca"} {
		if _, err := ParsePEM(append(append(vector(t, name+".key"), '\n'), vector(t, name+".pem")...)); err == nil || !strings.Contains(err.Error(), "TRUSTED CERTIFICATE") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := append(append(vector(t, "certs/consumer.key"), '\n'), vector(t, "certs/producer.pem")...)
	if _, err := ParsePEM(other); err == nil {
		t.Error("a key with the certificate of another is accepted")
	}
}

// TestVectorPKCS12 opens the key files that the other tests do not.
func TestVectorPKCS12(t *testing.T) {
	for name, want := range map[string]string{
		"certs/ocspsigner.p12": "",
		"certs/ca2testorg.p12": "it is BER",
	} {
		_, err := parsePKCS12(vector(t, name), "test")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path.Base(name), err, want)
		}
	}
}
