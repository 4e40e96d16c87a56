// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"reflect"
	"testing"
)

func TestWriteHeader(t *testing.T) {
	const more = `<x:issue> &lt;1&gt;
2</x:issue><x:securityServer i:objectType="SERVER"><i:xRoadInstance>EX</i:xRoadInstance><i:memberClass>COM</i:memberClass><i:memberCode>2002</i:memberCode><i:serverCode>ss2</i:serverCode></x:securityServer>` +
		`<r:representedParty xmlns:r="http://x-road.eu/xsd/representation.xsd"><r:partyClass>COM</r:partyClass><r:partyCode/></r:representedParty><x:id>`
	for name, edits := range map[string][]string{
		"small":                   nil,
		"with all blocks":         {"<x:id>", more},
		"with empty children":     {">answerer<", "><", ">v1<", "><"},
		"with absent children":    {"<i:subsystemCode>answerer</i:subsystemCode>", "", "<i:serviceVersion>v1</i:serviceVersion>", ""},
		"with a member as client": {"<i:subsystemCode>asker</i:subsystemCode>", "", "<x:userId>EX123</x:userId>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := mustOpen(t, edited(t, edits...), "").Header
			var b bytes.Buffer
			b.WriteString("<soap:Envelope " + Namespaces + "><soap:Header>")
			if err := WriteHeader(&b, &want); err != nil {
				t.Fatal(err)
			}
			b.WriteString("</soap:Header><soap:Body><getThingResponse/></soap:Body></soap:Envelope>")
			if got := mustOpen(t, b.Bytes(), "").Header; !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
