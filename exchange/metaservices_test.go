// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto/c14n"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestMetaservices asks for the services of a provider: no right is needed, and allowedMethods tells what one may call.
func TestMetaservices(t *testing.T) {
	other := func(code string, allow ...exchange.Subject) exchange.Service {
		id := header().Service
		id.Code = code
		return exchange.Service{ID: id, Allow: allow}
	}
	foreign := other("foreign")
	foreign.ID.Subsystem = "another"
	bed := testbed.New(t, testbed.Options{More: []exchange.Service{other("closed"), foreign}})
	for code, want := range map[string][]string{"listMethods": {"closed", "echo"}, "allowedMethods": {"echo"}} {
		t.Run(code, func(t *testing.T) {
			_, answer := post(t, bed, "text/xml", bytes.NewReader(testbed.Envelope(with(code), code, "")))
			if got := faultOf(t, answer); got != "" {
				t.Fatalf("%s\n%s", got, answer)
			}
			root, err := c14n.Parse(answer, c14n.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			response := root.Children()[1].Children()[0]
			if response.Space != "http://x-road.eu/xsd/xroad.xsd" || response.Local != code+"Response" {
				t.Fatalf("the body holds %s", response.Local)
			}
			var got []string
			for _, service := range response.Children() {
				for _, field := range service.Children() {
					if field.Local == "serviceCode" {
						got = append(got, field.Text())
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("services %q, want %q", got, want)
			}
		})
	}
	bed.CheckClean()
}

func TestListClients(t *testing.T) {
	bed := testbed.New(t, testbed.Options{})
	get := func(query, accept string) (string, []byte) {
		req, _ := http.NewRequest(http.MethodGet, bed.URL+"listClients"+query, nil)
		req.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, err)
		}
		return response.Header.Get("Content-Type"), body
	}
	contentType, body := get("", "")
	root, err := c14n.Parse(body, c14n.Limits{})
	if err != nil || !strings.HasPrefix(contentType, "text/xml") || root.Local != "clientList" || len(root.Children()) == 0 {
		t.Errorf("%s, %v\n%s", contentType, err, body)
	}
	contentType, body = get("?xRoadInstance=DEV", "application/json")
	var list struct {
		Member []struct {
			ID struct {
				Member    string `json:"member_code"`
				Subsystem string `json:"subsystem_code"`
				Type      string `json:"object_type"`
			}
		}
	}
	if err := json.Unmarshal(body, &list); err != nil || !strings.HasPrefix(contentType, "application/json") {
		t.Fatalf("%s, %v\n%s", contentType, err, body)
	}
	found := false
	for _, m := range list.Member {
		if m.ID.Member == "0000" && m.ID.Subsystem == "registry" {
			found = true
			if m.ID.Type != "SUBSYSTEM" {
				t.Error("type", m.ID.Type)
			}
		}
	}
	if !found {
		t.Errorf("%s", body)
	}
	if _, body = get("?xRoadInstance=XX", ""); !strings.HasPrefix(faultCode(t, body), "server.clientproxy.") {
		t.Errorf("an unknown instance gives %s", body)
	}
}
