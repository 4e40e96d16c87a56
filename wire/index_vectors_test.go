// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestVectorOCSP carries the stored OCSP response of the vectors as a part of a message, octet for octet.
func TestVectorOCSP(t *testing.T) {
	der, err := os.ReadFile("../../shared/vectors/xroad/ocsp/test.ocsp")
	if err != nil {
		t.Skip("vectors are not beside the repository")
	}
	body := "--T\r\nContent-Type: application/ocsp-response\r\n\r\n" + string(der) + "\r\n--T\r\nContent-Type: text/xml\r\n\r\n" + envelope +
		"\r\n--T\r\nContent-Type: signature/bdoc-1.0/ts\r\n\r\n<s/>\r\n--T--\r\n"
	m, err := decode(t, "multipart/mixed; boundary=T", original, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Discard()
	if len(m.OCSP) != 1 || !bytes.Equal(m.OCSP[0], der) {
		t.Errorf("%d responses came", len(m.OCSP))
	}
}
