// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddy-fairway/fairway/evidence"
)

// checkEvidence finds what both security servers kept of the exchange, verifies each signature again, and fills in what
// the table says of it.
func (x *exchange) checkEvidence(ctx context.Context, p *pair) error {
	var requests, responses []string // servers that hold a verified record
	var errs []error
	for _, server := range pairServers {
		o := evidenceOptions{whose: whose{p.evidence(server)}, id: x.id}
		err := o.each(ctx, func(r found) error {
			p.records++
			if len(r.Signature.XML) == 0 {
				if r.Fault == "" {
					return fmt.Errorf("record %d has no signature and no fault", r.Number)
				}
				return nil
			}
			if err := x.checkRecord(r.Record); err != nil {
				return fmt.Errorf("record %d: %w", r.Number, err)
			}
			if r.Response {
				responses = append(responses, server)
				return nil
			}
			requests = append(requests, server)
			x.signature = r.Signature.Form().String()
			return nil
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("evidence of %s: %w", server, err))
		}
	}
	x.verified = verifiedBy(requests, responses)
	if x.signature == "" {
		x.signature = "-"
	}
	if want := x.kept; !slices.Equal(requests, want.requests) || !slices.Equal(responses, want.responses) {
		errs = append(errs, fmt.Errorf("evidence of the request is with %q, want %q; of the response with %q, want %q",
			requests, want.requests, responses, want.responses))
	}
	return errors.Join(errs...)
}

// checkRecord verifies the signature, and compares what it covers with what was sent.
func (x *exchange) checkRecord(r *evidence.Record) error {
	if _, err := verifyRecord(r); err != nil {
		return err
	}
	if len(r.Parts) != 1+len(x.files) {
		return fmt.Errorf("it has %d parts, want %d", len(r.Parts), 1+len(x.files))
	}
	for i, f := range x.files {
		p := r.Parts[1+i]
		if p.Size != f.size || !bytes.Equal(p.Sum, f.sumOf(p.Digest)) {
			return fmt.Errorf("%s is not the attachment that was sent", p.Name)
		}
	}
	return nil
}

// kept is which security servers hold evidence of the request, and which of the response.
type kept struct{ requests, responses []string }

var (
	keptByBoth     = kept{[]string{"ss1", "ss2"}, []string{"ss1", "ss2"}}
	keptOfRequest  = kept{[]string{"ss1", "ss2"}, nil}      // the answer was a fault, and faults are not signed
	keptByReceiver = kept{[]string{"ss2"}, []string{"ss2"}} // the demo played the part of ss1
	keptByNobody   = kept{}
)

// verifiedBy says who verified: the receiver its request, the sender its response.
func verifiedBy(requests, responses []string) string {
	var who []string
	if slices.Contains(requests, "ss2") {
		who = append(who, "ss2 (request)")
	}
	if slices.Contains(responses, "ss1") {
		who = append(who, "ss1 (response)")
	}
	if len(who) == 0 {
		return "nobody"
	}
	return strings.Join(who, ", ")
}
