// SPDX-License-Identifier: Apache-2.0

package soap

import "fmt"

// What Header.empty holds: children that are there without content, which differs from their absence.
const (
	emptySubsystem = 1 << iota // of the service
	emptyVersion               // of the service
	emptyParty                 // partyCode
)

// Consistent returns nil if response answers request (message-and-transport 3.9), else an *Error with cause
// "inconsistent_response" that names the block.
func Consistent(request, response *Header) error {
	const emptyParts = emptySubsystem | emptyVersion
	asked, answered := request, response
	switch {
	case asked.Client != answered.Client:
		return inconsistent("client", asked.Client.String(), answered.Client.String())
	case asked.Service != answered.Service, asked.empty&emptyParts != answered.empty&emptyParts:
		return inconsistent("service", asked.Service.String(), answered.Service.String())
	case !same(asked.UserID, answered.UserID):
		return differs("userId")
	case !same(asked.Issue, answered.Issue):
		return differs("issue")
	case asked.ID != answered.ID:
		return inconsistent("id", quote(asked.ID), quote(answered.ID))
	}
	a, b := asked.Represented, answered.Represented
	if (a == nil) != (b == nil) {
		return &Error{inconsistentResponse, 0, "the block representedParty is not in both the request and the response"}
	}
	if a != nil && (!same(a.Class, b.Class) || a.Code != b.Code || asked.empty&emptyParty != answered.empty&emptyParty) {
		return differs("representedParty")
	}
	return nil
}

func inconsistent(block, asked, answered string) error {
	return &Error{inconsistentResponse, 0, fmt.Sprintf(
		"the response answers another request: its block %s is %s, that of the request was %s", block, answered, asked)}
}

// differs is inconsistent of a block that may name a person: what it says belongs into no log.
func differs(block string) error {
	return &Error{inconsistentResponse, 0, fmt.Sprintf("the response answers another request: its block %s is not that of the request", block)}
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
