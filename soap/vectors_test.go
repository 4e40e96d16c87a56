// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectors is the folder of X-Road's own messages.
const vectors = "../../shared/vectors/xroad-messages"

type vector struct {
	File string
	Uses []struct {
		Role        string
		ContentType string `json:"content_type"`
		Expected    string
		Hashed      struct{ SOAP struct{ SHA512 string } }
		Rewritten   struct{ Length int }
	}
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, "cases.json"))
	if os.IsNotExist(err) {
		t.Skip("vectors are not beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []vector }
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

func readVector(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, file))
	if os.IsNotExist(err) {
		t.Skip("vectors are not beside the repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// causeOf is the cause that an envelope alone must have for what the exchange is expected to say.
func causeOf(expected string) string {
	if strings.HasPrefix(expected, "accept") {
		return ""
	}
	code, _, _ := strings.Cut(expected, " ")
	for _, place := range []string{"client.", "server.serverproxy.service_failed."} {
		code = strings.TrimPrefix(code, place)
	}
	switch code {
	case "invalid_soap", "duplicate_header_field", "invalid_xml", "internal_error", "missing_header", "missing_body",
		"missing_header_field", "invalid_protocol_version", "invalid_body", "inconsistent_headers":
		return code
	}
	return "" // another part of the exchange decides, or a fault is passed on
}

func TestVectors(t *testing.T) {
	n := 0
	for _, v := range readVectors(t) {
		for _, use := range v.Uses {
			media, params, err := mime.ParseMediaType(use.ContentType)
			if err != nil || use.Role != "Q" && use.Role != "P" || strings.HasPrefix(media, "multipart/") {
				continue
			}
			n++
			t.Run(use.Role+"/"+v.File, func(t *testing.T) {
				data := readVector(t, v.File)
				got := openAll(t, data, params["charset"])
				if want := causeOf(use.Expected); got.cause != want {
					t.Fatalf("cause %q (%v), want %q", got.cause, got.err, want)
				}
				if got.err == nil && !bytes.Equal(got.octets, data) {
					t.Error("the octets read are not those of the file")
				}
				sum := sha512.Sum512(got.octets)
				if want := use.Hashed.SOAP.SHA512; want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
					t.Error("SHA-512 of the octets read is not the expected one")
				}
			})
		}
	}
	if n < 50 {
		t.Errorf("only %d vectors", n)
	}
}
