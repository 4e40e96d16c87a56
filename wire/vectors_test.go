// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/spool"
)

const vectors = "../../shared/vectors/xroad-messages"

type vectorCase struct {
	File   string
	SHA256 string
	Uses   []struct {
		Role        string
		ContentType string `json:"content_type"`
		Expected    string
	}
}

func vectorCases(t *testing.T) []vectorCase {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(vectors, "cases.json"))
	if err != nil {
		t.Skip("vectors are not beside the repository")
	}
	var cases struct{ Cases []vectorCase }
	if err := json.Unmarshal(list, &cases); err != nil {
		t.Fatal(err)
	}
	return cases.Cases
}

// TestDecoderVectors reads every transport body of the vectors (roles T and R) as the server that gets it.
func TestDecoderVectors(t *testing.T) {
	n := 0
	for _, c := range vectorCases(t) {
		for _, use := range c.Uses {
			place := map[string]Place{"T": AtReceiver, "R": AtSender}[use.Role]
			if place == "" {
				continue
			}
			n++
			t.Run(use.Role+"/"+c.File, func(t *testing.T) {
				body, err := os.ReadFile(filepath.Join(vectors, c.File))
				if err != nil {
					t.Fatal(err)
				}
				if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != c.SHA256 {
					t.Fatal("the vector's file is not the one that the list describes")
				}
				store := spool.NewMemory(1 << 20)
				d := Decoder{Place: place, Digest: crypto.SHA512, Spool: store}
				in := Incoming{ContentType: use.ContentType, Original: "multipart/related; boundary=fairway", Body: bytes.NewReader(body)}
				m, err := d.Decode(t.Context(), in, func(*Message) error { return nil })
				got := ""
				switch {
				case err != nil:
					got = Code(err)
				case m.FaultCode != "":
					got = m.FaultCode
				default:
					got = "accept"
				}
				want, _, _ := strings.Cut(use.Expected, " ")
				want = strings.TrimSuffix(want, ":")
				switch {
				case want == "invalid_content_type": // told without its place
					want = string(place.NextHop()) + ".invalid_content_type"
				case strings.Contains(use.Expected, "fault reported"):
					want = faultOfVector[filepath.Base(c.File)+" "+use.Role]
				}
				if other, ok := onPurpose[c.File+" "+use.Role]; ok {
					want = other
				}
				if got != want {
					t.Errorf("got %s (%v), want %s", got, err, want)
				}
				if m != nil {
					m.Discard()
				}
				if store.Size() != 0 {
					t.Errorf("%d octets stay in the spool", store.Size())
				}
			})
		}
	}
	if n != 14 {
		t.Errorf("%d uses of the roles T and R, want 14", n)
	}
}

// faultOfVector is what a receiving server makes of a body in which a fault is reported: in the SOAP slot it has no
// SOAP part then (message-and-transport 5.5), in the signature slot the fault is reported.
var faultOfVector = map[string]string{
	"normal-soapfault.request T": "server.serverproxy.missing_soap",
	"fault-signature.request T":  "CODE",
}

// onPurpose has the outcomes that differ from the vectors' list; docs/compatibility.md gives the reasons.
var onPurpose = map[string]string{
	// Its header is that of protocol version 3: an identifier without objectType (message-and-transport 3.3).
	"transport/normal.response R": "server.clientproxy.service_failed.invalid_xml",
}
