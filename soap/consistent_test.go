// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"errors"
	"strings"
	"testing"
)

func TestConsistent(t *testing.T) {
	const party = `<r:representedParty xmlns:r="http://x-road.eu/xsd/representation.xsd"><r:partyClass>COM</r:partyClass><r:partyCode>7</r:partyCode></r:representedParty>`
	represented := []string{"<x:id>", party + "<x:id>"}
	for _, c := range []struct {
		name             string
		request, respond []string
		block            string // that differs; "" if none
	}{
		{"same", nil, nil, ""},
		{"written otherwise", nil, []string{"msg-0001", "m<![CDATA[sg-]]>&#48;001", "x:userId>EX123</x:userId", "y:userId xmlns:y='http://x-road.eu/xsd/xroad.xsd'>EX123</y:userId"}, ""},
		{"MEMBER and SUBSYSTEM", nil, []string{`"SUBSYSTEM"`, `"MEMBER"`}, ""},
		{"not compared", nil, []string{"4.0", "4.1", "<x:id>", "<y/><x:requestHash/><x:id>", "t:getThing", "t:getThingResponse"}, ""},
		{"client", nil, []string{">asker<", ">other<"}, "client"},
		{"client a member", nil, []string{"<i:subsystemCode>asker</i:subsystemCode>", ""}, "client"},
		{"service", nil, []string{"<i:memberCode>2002", "<i:memberCode>2003"}, "service"},
		{"service code", nil, []string{">getThing<", ">getThin<"}, "service"},
		{"version absent", nil, []string{"<i:serviceVersion>v1</i:serviceVersion>", ""}, "service"},
		{"version absent and empty", []string{"<i:serviceVersion>v1</i:serviceVersion>", ""}, []string{">v1<", "><"}, "service"},
		{"version empty in both", []string{">v1<", "><"}, []string{"<i:serviceVersion>v1</i:serviceVersion>", "<i:serviceVersion/>"}, ""},
		{"subsystem absent and empty", []string{"<i:subsystemCode>answerer</i:subsystemCode>", ""}, []string{">answerer<", "><"}, "service"},
		{"userId", nil, []string{"EX123", "EX124"}, "userId"},
		{"userId absent", nil, []string{"<x:userId>EX123</x:userId>", ""}, "userId"},
		{"userId absent and empty", []string{"<x:userId>EX123</x:userId>", ""}, []string{"EX123", ""}, "userId"},
		{"issue", []string{"<x:id>", "<x:issue>1</x:issue><x:id>"}, []string{"<x:id>", "<x:issue>2</x:issue><x:id>"}, "issue"},
		{"issue absent and empty", nil, []string{"<x:id>", "<x:issue/><x:id>"}, "issue"},
		{"id", nil, []string{"msg-0001", "msg-0002"}, "id"},
		{"id with white space", nil, []string{"msg-0001", "msg-0001 "}, "id"},
		{"long ids that differ at their end", []string{"msg-0001", strings.Repeat("x", 1000) + "1"}, []string{"msg-0001", strings.Repeat("x", 1000) + "2"}, "id"},
		{"party in both", represented, represented, ""},
		{"party in the request", represented, nil, "representedParty"},
		{"party in the response", nil, represented, "representedParty"},
		{"party's class", represented, []string{"<x:id>", strings.Replace(party, "COM", "GOV", 1) + "<x:id>"}, "representedParty"},
		{"party's class absent", represented, []string{"<x:id>", strings.Replace(party, "<r:partyClass>COM</r:partyClass>", "", 1) + "<x:id>"}, "representedParty"},
		{"party's code", represented, []string{"<x:id>", strings.Replace(party, "7", "8", 1) + "<x:id>"}, "representedParty"},
		{"party's code absent and empty", []string{"<x:id>", strings.Replace(party, "<r:partyCode>7</r:partyCode>", "", 1) + "<x:id>"}, []string{"<x:id>", strings.Replace(party, "7", "", 1) + "<x:id>"}, "representedParty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, response := mustOpen(t, edited(t, c.request...), ""), mustOpen(t, edited(t, c.respond...), "")
			err := Consistent(&request.Header, &response.Header)
			var bad *Error
			switch {
			case c.block == "" && err != nil:
				t.Error(err)
			case c.block != "" && (!errors.As(err, &bad) || bad.Cause() != "inconsistent_response" || !strings.Contains(err.Error(), "block "+c.block)):
				t.Errorf("%v, want %s", err, c.block)
			}
		})
	}
}

// TestConsistentNamesNobody: what may be the number of a person stays out of the error, which is logged.
func TestConsistentNamesNobody(t *testing.T) {
	const person, other = "38001085718", "38001085719"
	party := func(code string) string {
		return `<r:representedParty xmlns:r="http://x-road.eu/xsd/representation.xsd"><r:partyCode>` + code + "</r:partyCode></r:representedParty><x:id>"
	}
	for block, edit := range map[string]func(string) []string{
		"userId":           func(p string) []string { return []string{"EX123", p} },
		"issue":            func(p string) []string { return []string{"<x:id>", "<x:issue>" + p + "</x:issue><x:id>"} },
		"representedParty": func(p string) []string { return []string{"<x:id>", party(p)} },
	} {
		request, response := mustOpen(t, edited(t, edit(person)...), ""), mustOpen(t, edited(t, edit(other)...), "")
		err := Consistent(&request.Header, &response.Header)
		if err == nil || !strings.Contains(err.Error(), block) {
			t.Errorf("%s: %v", block, err)
		} else if strings.Contains(err.Error(), person) || strings.Contains(err.Error(), other) {
			t.Errorf("%s: the error says who: %v", block, err)
		}
	}
}
