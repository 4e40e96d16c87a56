// SPDX-License-Identifier: Apache-2.0

// Package tsp makes, fetches and judges RFC 3161 time-stamps the way X-Road does. (signature-and-evidence section 9)
//
// A token is a CMS SignedData over a TSTInfo. It is trusted because an authority of the configuration signed it: the
// certificates inside are for others.
package tsp

import "fmt"

// Era is the measure by which tokens are judged.
type Era uint8

const (
	// Present is for new evidence: SHA-256 or stronger, RSA keys of at least 2048 bits.
	Present Era = iota
	// Past is for evidence that was made long ago: SHA-1 and RSA keys of 1024 bits were good enough then (section 15).
	Past
)

// Error says why a time-stamp was not got, or was refused.
type Error struct {
	cause string
	err   error
}

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.err }

// Cause returns X-Road's cause, such as "mlog.tsp_certificate_not_found" (sections 9.2 and 9.3).
func (e *Error) Cause() string { return e.cause }

// Causes of sections 9.2 and 9.3. The dot is part of each.
const (
	malformed          = "malformed_signature"
	notOK              = "mlog.timestamping_non_ok_response"
	notGranted         = "mlog.timestamp_non_granted_response"
	responseInvalid    = "mlog.timestamp_response_validation_failed"
	noProvider         = "mlog.no_timestamping_provider_found"
	certificateMissing = "mlog.tsp_certificate_not_found"
	signerMissing      = "mlog.timestamp_token_signer_info_not_found"
	signerFailed       = "mlog.timestamp_signer_verification_failed"
)

func failf(cause, format string, args ...any) error {
	return &Error{cause, fmt.Errorf(format, args...)}
}
